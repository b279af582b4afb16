#!/usr/bin/env python3
"""What `plan` says of sync policies, held against runs whose delays are drawn.

    bench/plan/policies.py [--steps 2000] [--ranks 4] [--wall]

For each policy and each kind of delay: the time of an update on the clock of arrivals, how stale gradients are, and the
most mini-batches that one worker has in an update (which is what the wall clock sees), as `plan` has them, and as the log
of a run has them. --wall: seconds of a step, too; for a machine with a core a rank, and nothing else to do.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from specs import ECHELON  # noqa: E402

SPEC = """model MLP() {{
  axis batch
  axis in = 64
  axis hidden = 64
  axis class = 16
  input x[batch, in] : float
  input label[batch] : int below class
  param w[in, hidden] ~ normal(0.1)
  param v[hidden, class] ~ normal(0.1)
  loss mean(cross_entropy(dot(relu(dot(x, w, over = in)), v, over = hidden), label, over = class))
}}
train one {{
  model MLP()
  data npy("x.npy", "label.npy") -> x, label
  batch 256
  steps {steps}
  optimize sgd(lr = 0.01)
  layout mesh(dp = {ranks}) {{ split batch over dp }}
  sync {policy}
}}
"""
POLICIES = ["k_sync({half}", "k_sync({all}", "k_batch_sync({all}", "async(", "k_async({half}", "k_batch_async({half}",
            "k_batch_async({all}", "k_async({half}, staleness = 2"]
DELAYS = ["exponential(1)", "shifted(0.5, 0.5)", "each"]


def write(path, kind, shape, data):
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + data)


def measure(folder, policy, args):
    spec, log = folder / "one.ech", folder / "log.jsonl"
    spec.write_text(SPEC.format(steps=args.steps, ranks=args.ranks, policy=policy))
    plan = json.loads(subprocess.run([ECHELON, "plan", spec, "--json"], check=True, capture_output=True).stdout)
    subprocess.run([ECHELON, "run", spec, "--transport", "threads", "--log", log], check=True, capture_output=True)
    rows = [row for row in map(json.loads, log.read_text().splitlines()) if "loss" in row]
    most = statistics.mean(max(row["workers"].count(worker) for worker in row["workers"]) for row in rows)
    sync = plan["sync"]
    seconds = statistics.median(row["step_time_s"] for row in rows[len(rows) // 4:])
    return [(sync["expected"]["mini_batches"], rows[-1]["time"] / len(rows)),
            (sync["staleness"], statistics.mean(row["staleness"] for row in rows[len(rows) // 10:])),
            (sync["mini_batches_in_turn"], most)] + ([(plan["step_time_s"], seconds)] if args.wall else [])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--wall", action="store_true")
    args = parser.parse_args()
    figures = ["update", "staleness", "in turn"] + (["seconds"] if args.wall else [])
    print("| policy | " + " | ".join(f"{name}: plan, run" for name in figures) + " |\n" + "| --- " * (1 + len(figures)) + "|")
    worst = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write(folder / "x.npy", "<f4", (2560, 64), bytes(4 * 2560 * 64))
        write(folder / "label.npy", "<i4", (2560,), bytes(4 * 2560))
        for policy in POLICIES:
            for delay in DELAYS:
                constants = ", ".join(["1"] * (args.ranks - 1) + ["3"])
                drawn = f"each({constants})" if delay == "each" else delay
                begin = policy.format(half=args.ranks // 2, all=args.ranks)
                text = begin + ("" if begin.endswith("(") else ", ") + f"delay = {drawn})"
                pairs = measure(folder, text, args)
                worst = max(worst, abs(pairs[0][0] / pairs[0][1] - 1))
                print(f"| `{text}` | " + " | ".join(f"{plan:.3g}, {run:.3g}" for plan, run in pairs) + " |", flush=True)
    print(f"updates differ by {100 * worst:.2g} % at most")


if __name__ == "__main__":
    main()
