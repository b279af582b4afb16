"""What `plan --json` says of the train blocks of time.ech, and their data."""
import json
import sys

name = sys.argv[1]
if name == "data":  # 1,000 samples of 100 numbers
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (1000, 100), }".ljust(117) + "\n"
    with open(sys.argv[2], "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + bytes(400000))
    sys.exit()
plan = json.load(open(sys.argv[2]))
work, time = plan["work"], plan["time"]


def near(a, b, part=0.01):
    assert abs(a - b) <= part * abs(b), (a, b)


near(sum(time.values()), plan["step_time_s"], 1e-9)
near(plan["samples_per_s"], plan["batch"] / plan["step_time_s"], 1e-9)
assert plan["fits"] is True
if name == "flat":
    near(plan["step_time_s"], 0.030)
    near(plan["mfu"], 1 / 3)
    near(time["products"], 0.010)
    near(time["messages over dp"], 0.020)
    assert plan["bubble_fraction"] == 0
    products = [k for k in work["kernels"] if k["kind"] == "product"]
    assert sorted((k["m"], k["n"], k["k"], k["flops"]) for k in products) == [(100, 50, 500, 5e6), (500, 50, 100, 5e6)]
    gradient = [c for c in plan["collectives"] if c["bytes"] == 20000]
    assert len(gradient) == 1
    near(gradient[0]["time_s"], 0.020)
    assert [m["ranks"] for m in work["messages"] if m["bytes"] == 20000] == [2]
if name == "row":
    # a micro batch's pass forward takes 2 ms, a backward one 4 ms
    near(plan["bubble_fraction"], 3 / 8)
    near(plan["step_time_s"], 0.006 * 11)
    near(plan["pipeline"]["busy_s"][1], 0.048)
    near(time["bubble"], 0.018, 0.02)
    assert len(work["stages"]) == 4
    for stage in work["stages"]:
        assert [turn["times"] for turn in stage["turns"]] == [8, 8]
        flops = [sum(work["kernels"][i]["flops"] * n for i, n in turn["kernels"] if work["kernels"][i]["kind"] == "product")
                 for turn in stage["turns"]]
        assert flops == [2e6, 4e6], flops
if name == "gpus":
    # calls take longer than all kernels together: a millisecond each
    calls = work["stages"][0]["step"]["calls"]
    near(plan["step_time_s"], calls * 1e-3)
    near(time["host"], plan["step_time_s"])
