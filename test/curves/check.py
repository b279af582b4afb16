"""First losses of `echelon run` against PyTorch's, stored beside this file by bench/torch/losses.py --store.

    check.py ECHELON SPEC FIGURES PRECISION STEPS [CASE]

CASE: one of those that bench/torch/clauses.py --store wrote into FIGURES, evaluations, loss scale and order of arrival
with it. Needs no PyTorch. The environment's ECHELON_CURVE_STEPS, where set, replaces STEPS (at most as many as are
stored). Ends with 77, which ctest takes for skipped, where the spec is not there.
"""
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile


def apart(what, ours, theirs, allowed):
    """Prints a row of what is compared; whether it is too far."""
    distance = abs(ours - theirs) / abs(theirs)
    fine = distance <= allowed
    print(f"{what}: {ours:.15g}, PyTorch {theirs:.15g}, apart {distance:.1e} of {allowed:.1e}"
          + ("" if fine else "  too far"))
    return not fine


def differs(figures, rows, precision, steps):
    """Whether anything of a case but the losses is not as in the log's rows."""
    wrong = False
    for key in ("loss_scale", "skipped"):
        if key in figures:
            ours = [row.get(key, False) for row in rows if "loss" in row]
            wrong |= ours != figures[key][precision][:steps]
    ours = [row for row in rows if "eval_loss" in row]
    theirs = figures.get("evaluations", {}).get(precision, [])
    if theirs and steps == figures["steps"]:
        wrong |= [[row["step"], row.get("eval", "")] for row in ours] != [each[:2] for each in theirs]
        for row, (step, name, loss) in zip(ours, theirs, strict=False):
            wrong |= apart(f"evaluation {name or 'after'} {step}", row["eval_loss"], loss, figures["allowed"][precision])
    return wrong


def main(echelon, spec, figures, precision, steps, case=None):
    if not os.path.exists(spec):
        print(f"{spec} is not there")
        return 77
    figures = json.loads(pathlib.Path(figures).read_text())
    if case:
        figures |= figures["cases"][case]
    text = pathlib.Path(spec).read_bytes()
    if hashlib.sha256(text).hexdigest() != figures["spec_sha256"]:
        print(f"{spec} has changed; PyTorch's losses of it come from: {figures['command']}")
        return 1
    steps = min(int(os.environ.get("ECHELON_CURVE_STEPS", steps)), figures["steps"])
    settings = ["--set", f"precision={precision}", *figures.get("arguments", [])]
    if b" batches" in text and not case:  # the evaluation after the last step is not looked at
        settings += ["--set", "evaluate.batches=1"]
    with tempfile.TemporaryDirectory() as folder:
        if "order" in figures:
            rows = figures["order"][precision]
            pathlib.Path(folder + "/order.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
            settings += ["--replay", folder + "/order.jsonl"]
        subprocess.run([echelon, "run", spec, "--steps", str(steps), *settings, "--out", folder, "--deadline", "120",
                        "--log", folder + "/log.jsonl"], check=True, stdout=subprocess.DEVNULL)
        with open(folder + "/log.jsonl") as log:
            rows = [json.loads(line) for line in log]
    losses = [row["loss"] for row in rows if "loss" in row]
    allowed = figures["allowed"][precision]
    allowed = allowed if isinstance(allowed, list) else [allowed] * steps
    wrong = len(losses) != steps or differs(figures, rows, precision, steps)
    for step, each in enumerate(zip(losses, figures["loss"][precision], allowed), 1):
        wrong |= apart(f"step {step:2d}", *each)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
