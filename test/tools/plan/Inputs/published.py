"""What a plan has of what papers state: published.py SPEC."""
import json
import subprocess
import sys


def plan(train):
    ask = ["echelon", "plan", sys.argv[1], "--train", train, "--json"]
    return json.loads(subprocess.run(ask, check=True, capture_output=True, text=True).stdout)


parameters = 8 * 2 * 512 * 512
plans = {name: plan(name) for name in ["one", "dp", "zero1", "zero2", "zero3"]}
for name, said in plans.items():
    held = " + ".join(f"{said['memory_bytes'][part] / parameters:.4g}" for part in ["params", "gradients", "optimizer"])
    passes = {"all_reduce": 2, "reduce_scatter": 1, "all_gather": 1}  # of a ring: (n - 1) / n of the bytes each
    sent = sum(passes[c["op"]] * c["bytes"] * c["count"] for c in said["collectives"] if c["axis"] == "dp")
    sent = f", {sent / 4 / parameters:.2f} times the parameters are sent" if name != "one" else ""
    print(f"{name}: {held} bytes a parameter{sent}")
for name in ["gpipe", "one_f_one_b", "chunks"]:
    print(f"{name}: waits {plan(name)['pipeline']['bubble']:.4g} of its work")
print(f"recomputed: {plan('recomputed')['recompute']['operations_again']:.2g} more operations")
