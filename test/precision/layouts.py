"""A spec in a precision: one rank against its layout, and both against fp32, over the first losses.

    layouts.py ECHELON SPEC PRECISION STEPS [--set PATH=VALUE] [--shallow]

Bounds: docs/language.md, "Precision". Losses of two layouts are apart by at most 2e-4 of the loss, or by twice of what
the precision has moved that of one rank by then; those of the precision are not those of fp32, and apart from them by
at most 2e-3, in fp8 by 5e-2. Where values are kept in two bytes, what is kept
for the backward pass takes less memory, but in a shallow model, which keeps less than the rounded copy of its inputs.
"""
import argparse
import json
import subprocess
import sys
import tempfile

BETWEEN_LAYOUTS, FROM_FP32 = 2e-4, {"fp8": 5e-2}


def losses(echelon, spec, steps, arguments):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([echelon, "run", spec, "--steps", steps, *arguments, "--out", folder, "--deadline", "120",
                        "--log", folder + "/log.jsonl"], check=True, stdout=subprocess.DEVNULL)
        with open(folder + "/log.jsonl") as log:
            return [row["loss"] for row in map(json.loads, log) if "loss" in row]


def kept(echelon, spec, precision):
    plan = subprocess.run([echelon, "plan", spec, "--json", "--set", f"precision={precision}"], check=True,
                          capture_output=True, text=True)
    return json.loads(plan.stdout)["memory_bytes"]["activations"]


def keeps_less(echelon, spec, precision):
    narrow, wide = kept(echelon, spec, precision), kept(echelon, spec, "fp32")
    print(f"activations: {narrow} bytes in {precision}, {wide} in fp32")
    return narrow < wide


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("echelon")
    parser.add_argument("spec")
    parser.add_argument("precision")
    parser.add_argument("steps")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--shallow", action="store_true")
    asked = parser.parse_args()
    with open(asked.spec, encoding="utf-8") as text:
        more = [f"--set={each}" for each in asked.set]
        if any(line.split()[:1] == ["evaluate"] and " batches" in line for line in text):
            more.append("--set=evaluate.batches=1")

    def run(precision, *ranks):
        return losses(asked.echelon, asked.spec, asked.steps, [f"--set=precision={precision}", *more, *ranks])

    one, many, wide = run(asked.precision, "--ranks", "1"), run(asked.precision), run("fp32")
    wrong = not len(one) == len(many) == len(wide) == int(asked.steps) or many == wide
    allowed = BETWEEN_LAYOUTS
    for step, (a, b, c) in enumerate(zip(one, many, wide), 1):
        between, from_fp32 = abs(a - b) / abs(a), abs(b - c) / abs(c)
        allowed = max(allowed, 2 * abs(a - c) / abs(c))
        fine = between <= allowed and from_fp32 <= FROM_FP32.get(asked.precision, 2e-3)
        wrong |= not fine
        print(f"step {step:2d}: one rank {a:.7g}, layout {b:.7g}, fp32 {c:.7g}; apart {between:.1e}, {from_fp32:.1e}"
              + ("" if fine else "  too far"))
    if asked.precision != "tf32" and not keeps_less(asked.echelon, asked.spec, asked.precision):
        wrong |= not asked.shallow
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
