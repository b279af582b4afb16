"""A spec in bf16: one rank against its layout, and both against fp32, over the first losses.

    layouts.py ECHELON SPEC STEPS [--shallow]

Bounds: docs/language.md, "Precision". Losses of two layouts are apart by at most 2e-4 of the loss; those of bf16 are
not those of fp32, and apart from them by at most 2e-3. What is kept for the backward pass takes less memory, but in a
shallow model, which keeps less than the rounded copy of its inputs.
"""
import json
import subprocess
import sys
import tempfile

BETWEEN_LAYOUTS, FROM_FP32 = 2e-4, 2e-3


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


def main(echelon, spec, steps, shallow=None):
    with open(spec, encoding="utf-8") as text:
        short = ["--set", "evaluate.batches=1"] if " batches" in text.read() else []
    narrow = ["--set", "precision=bf16", *short]
    one = losses(echelon, spec, steps, [*narrow, "--ranks", "1"])
    many = losses(echelon, spec, steps, narrow)
    wide = losses(echelon, spec, steps, ["--set", "precision=fp32", *short])
    wrong = not len(one) == len(many) == len(wide) == int(steps) or many == wide
    for step, (a, b, c) in enumerate(zip(one, many, wide), 1):
        between, from_fp32 = abs(a - b) / abs(a), abs(b - c) / abs(c)
        fine = between <= BETWEEN_LAYOUTS and from_fp32 <= FROM_FP32
        wrong |= not fine
        print(f"step {step:2d}: one rank {a:.7g}, layout {b:.7g}, fp32 {c:.7g}; apart {between:.1e}, {from_fp32:.1e}"
              + ("" if fine else "  too far"))
    bytes_narrow, bytes_wide = kept(echelon, spec, "bf16"), kept(echelon, spec, "fp32")
    print(f"activations: {bytes_narrow} bytes in bf16, {bytes_wide} in fp32")
    return 1 if wrong or (bytes_narrow >= bytes_wide and not shallow) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
