#!/usr/bin/env python3
"""Steps to a target of runs that `plan --history` has not seen, told from the logs of others, and the time to it.

    bench/plan/history.py [--steps 1500] [--short 600] [--logs FOLDER]

The first program of the README on fashion-mnist, with a constant rate: under `sync every step` with batches of 32 to 1,024,
and with 1 to 8 workers that meet every 20 steps. Each run is left out in turn; how many steps `plan` says it takes to each
target, from the others, is held against how many it took. Then all logs are cut off after --short steps, and what they say
is held against the whole ones. --logs: where logs are kept, and taken from if they are there.
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

SPEC = """import nn
model MLP(width = 128) {{
  axis batch; axis row = 28; axis column = 28; axis hidden = width; axis class = 10
  input image[batch, row, column] : float
  input label[batch] : int below class
  param w1[row, column, hidden] ~ kaiming(over = (row, column))
  param b1[hidden] ~ zeros
  h = relu(dot(image, w1, over = (row, column)) + b1)
  logits = nn.linear(h, hidden, class) as head
  loss mean(cross_entropy(logits, label, over = class))
  metric accuracy = mean(argmax(logits, over = class) == label)
}}
train clothes {{
  model MLP(); data mnist("/usr/share/datasets/fashion-mnist") -> image, label
  on local(ranks = 8)
  batch {batch}; steps {steps}; optimize sgd(lr = constant(peak = 0.02), momentum = 0.9)
  evaluate every 20 steps
  until {until}
  layout mesh(dp = {size}) {{ split batch over dp }}
  {sync}
}}
"""
TARGETS = ["eval_loss < 0.5", "eval_loss < 0.45", "eval_loss < 0.42", "accuracy > 82%", "accuracy > 84%"]
NEVER = "eval_loss < 0"


def spec(folder, **values):
    path = folder / "clothes.ech"
    path.write_text(SPEC.format(**values))
    return path


def train(log, folder, steps, batch, workers):
    sync = "sync local(steps = 20)" if workers else ""
    path = spec(folder, batch=batch, steps=steps, until=NEVER, size=workers or 1, sync=sync)
    subprocess.run([ECHELON, "run", path, "--transport", "threads", "--log", log], check=True, capture_output=True)


def reached(log, until):
    name, comparison, value = until.split()
    value = float(value.rstrip("%")) / (100 if value.endswith("%") else 1)
    for row in map(json.loads, log.read_text().splitlines()):
        if "eval_time_s" in row and (row[name] < value if comparison == "<" else row[name] > value):
            return row["step"]
    return None


def told(folder, until, degree, by_workers, logs, steps):
    """Steps that `plan` says a degree takes, of logs by degree."""
    batch, sync = (128, "sync local(steps = 20)") if by_workers else (degree, "")
    path = spec(folder, batch=batch, steps=steps, until=until, size="auto" if by_workers else 1, sync=sync)
    names = [f"{other}={log}" if by_workers else str(log) for other, log in logs.items()]
    done = subprocess.run([ECHELON, "plan", path, "--json", "--history", *names], capture_output=True, text=True)
    if done.returncode:
        return None, None, done.stderr
    rows = json.loads(done.stdout)["history"]["rows"]
    row = next(row for row in rows if (row["size"] if by_workers else row["batch"]) == degree)
    return row["steps"], (row["least_steps"], row["most_steps"]), ""


def cut(log, steps, folder):
    short = folder / ("short_" + log.name)
    rows = [line for line in log.read_text().splitlines() if json.loads(line)["step"] <= steps]
    short.write_text("\n".join(rows) + "\n")
    return short


def judge(folder, kind, logs, steps, short):
    by_workers = kind == "workers"
    errors, inside, late = [], 0, []
    print(f"| {kind}, target | " + " | ".join(str(degree) for degree in logs) + " |\n" + "| --- " * (1 + len(logs)) + "|")
    for until in TARGETS:
        cells = []
        for degree, log in logs.items():
            took = reached(log, until)
            others = {other: path for other, path in logs.items() if other != degree}
            said, spread, why = told(folder, until, degree, by_workers, others, steps)
            cells.append(f"{took or '-'}, {said or '-':.0f}" if said else f"{took or '-'}, {why or '-'}")
            if took and said:
                errors.append(abs(said / took - 1))
                inside += (spread[0] or 0) <= took <= (spread[1] or took)
            if took and took > short:
                cuts = {other: cut(path, short, folder) for other, path in logs.items()}
                far = told(folder, until, degree, by_workers, cuts, steps)[0]
                late += [far / took - 1] if far else []
        print(f"| {until} | " + " | ".join(cells) + " |", flush=True)
    print(f"{len(errors)} held out: {100 * statistics.mean(errors):.1f} % off in the mean, "
          f"{100 * statistics.median(errors):.1f} % median, {100 * max(errors):.0f} % at most; "
          f"{inside} within the range that was told")
    if late:
        print(f"from the first {short} steps of all, {len(late)} that came later: {100 * statistics.mean(late):+.0f} % in "
              f"the mean, from {100 * min(late):+.0f} to {100 * max(late):+.0f} %")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--short", type=int, default=600)
    parser.add_argument("--logs", type=pathlib.Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        kept = (args.logs or folder).resolve()
        for kind, degrees in (("samples", (32, 64, 128, 256, 512, 1024)), ("workers", (1, 2, 4, 8))):
            logs = {degree: kept / f"{kind}_{degree}.jsonl" for degree in degrees}
            for degree, log in logs.items():
                if not log.exists():
                    train(log, folder, args.steps, *((128, degree) if kind == "workers" else (degree, 0)))
            judge(folder, kind, logs, args.steps, args.short)


if __name__ == "__main__":
    main()
