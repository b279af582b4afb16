"""First losses of `echelon run` against PyTorch's, stored beside this file by bench/torch/losses.py --store.

    check.py ECHELON SPEC FIGURES PRECISION STEPS

Needs no PyTorch. The environment's ECHELON_CURVE_STEPS, where set, replaces STEPS (at most as many as are stored).
Ends with 77, which ctest takes for skipped, where the spec is not there.
"""
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile


def main(echelon, spec, figures, precision, steps):
    if not os.path.exists(spec):
        print(f"{spec} is not there")
        return 77
    figures = json.loads(pathlib.Path(figures).read_text())
    text = pathlib.Path(spec).read_bytes()
    if hashlib.sha256(text).hexdigest() != figures["spec_sha256"]:
        print(f"{spec} has changed; PyTorch's losses of it come from: {figures['command']}")
        return 1
    steps = min(int(os.environ.get("ECHELON_CURVE_STEPS", steps)), figures["steps"])
    settings = ["--set", f"precision={precision}"]
    if b" batches" in text:  # the evaluation after the last step is not looked at
        settings += ["--set", "evaluate.batches=1"]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([echelon, "run", spec, "--steps", str(steps), *settings, "--out", folder, "--deadline", "120",
                        "--log", folder + "/log.jsonl"], check=True, stdout=subprocess.DEVNULL)
        with open(folder + "/log.jsonl") as log:
            losses = [row["loss"] for row in map(json.loads, log) if "loss" in row]
    wrong = len(losses) != steps
    for step, (ours, theirs, allowed) in enumerate(zip(losses, figures["loss"][precision],
                                                       figures["allowed"][precision]), 1):
        distance = abs(ours - theirs) / abs(theirs)
        fine = distance <= allowed
        wrong = wrong or not fine
        print(f"step {step:2d}: {ours:.15g}, PyTorch {theirs:.15g}, apart {distance:.1e} of {allowed:.1e}"
              + ("" if fine else "  too far"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
