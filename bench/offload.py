#!/usr/bin/env python3
"""What a step costs whose optimizer's state lies in a file, and what it saves in memory.

    bench/offload.py [--width 2048] [--layers 2] [--batch 8] [--steps 8] [--repeat 3] [--folder DIR]

A stack of feed-forward layers of width x 4 width under AdamW, on one rank and one core, with `offload optimizer to
"DIR"` and without, in turns; DIR is a folder on the disk that is meant. A run's figure is the median of its log's
step_time_s behind the first step. Prints the medians over the repeats, their ratio, the bytes that a step reads and
writes, and the most memory that each process had.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from specs import ECHELON

SPEC = """import nn
model Stack() {{
  axis batch; axis seq = 16; axis vocab = 256; axis embed = {width}; axis ff = 4 * {width}
  input tokens[batch, seq] : int below vocab
  input labels[batch, seq] : int below vocab
  param wte[vocab, embed] ~ normal(0.02)
  x = wte[vocab = tokens]
  repeat layer = {layers} {{
    x = x + nn.mlp(nn.layernorm(x, embed), embed, ff)
  }}
  loss mean(cross_entropy(dot(x, wte, over = embed), labels, over = vocab))
}}
train t {{
  model Stack(); data synthetic(tokens) -> tokens, labels
  batch {batch}; steps {steps}; optimize adamw(lr = 1e-3)
  layout mesh(dp = 1) {{ split batch over dp{offload} }}
}}
"""


def run(program, folder):
    """Median seconds of a step behind the first, and the process's most memory in MB."""
    log = folder / "log.jsonl"
    log.unlink(missing_ok=True)
    child = subprocess.Popen(["taskset", "-c", "0", program, "--transport", "threads", "--log", str(log)],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    text = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(text)
    times = [json.loads(row)["step_time_s"] for row in log.read_text().splitlines() if "step_time_s" in row]
    return statistics.median(times[1:]), usage.ru_maxrss / 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("width", 2048), ("layers", 2), ("batch", 8), ("steps", 8), ("repeat", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--folder", type=pathlib.Path, default=".")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as made:
        folder = pathlib.Path(made).resolve()
        (folder / "scratch").mkdir()
        programs = {}
        for name, offload in (("memory", ""), ("file", '; offload optimizer to "scratch"')):
            spec = folder / f"{name}.ech"
            spec.write_text(SPEC.format(offload=offload, **vars(options)))
            programs[name] = folder / name
            subprocess.run([ECHELON, "build", str(spec), "-o", str(programs[name])], check=True, cwd=folder)
        plan = subprocess.run([ECHELON, "plan", str(folder / "file.ech"), "--json"], capture_output=True, check=True)
        moments = json.loads(plan.stdout)["offload"]["bytes"]
        figures = {name: [] for name in programs}
        for _ in range(options.repeat):
            for name, program in programs.items():
                figures[name].append(run(str(program), folder))
    step = {name: statistics.median(time for time, _ in all) for name, all in figures.items()}
    most = {name: max(memory for _, memory in all) for name, all in figures.items()}
    for name in programs:
        print(f"{name:8} {step[name] * 1e3:8.0f} ms a step, {most[name]:7.0f} MB at most")
    print(f"{moments / 1e6:.0f} MB of moments are read and written in a step: {step['file'] / step['memory']:.2f} times, "
          f"{(step['file'] - step['memory']) * 1e3:.0f} ms more, {most['memory'] - most['file']:.0f} MB less")


main()
