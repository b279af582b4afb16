#!/usr/bin/env python3
"""How long `echelon run` takes to the program's `main` and to its first step when nothing has changed since the last run.

    bench/start.py [SPEC...]        unless told: those of examples/ and of $ECHELON_SHARED/specs that build

The first run builds. To main: runs with --dump-state alone, which the program itself refuses in the first lines of its
main: their whole time is an upper bound. To the first step: until the line of step 1 is there, less
what that step took (in the log); data is loaded in it, so `bench_load` of the spec's data is beside it. A last row
starts examples/mlp_fashion.ech on 8 ranks. Limits: 0.3 s to main, and to the first step beyond the data; MNIST loaded
in 0.3 s; 8 ranks in 0.5 s beyond the data. Medians of --repeat runs.
"""
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

from specs import ECHELON, ROOT, arguments

LOAD = pathlib.Path(ECHELON).parent / "bench_load"


def to_main(spec):
    """Wall seconds of a run that the program refuses."""
    began = time.perf_counter()
    done = subprocess.run([ECHELON, "run", str(spec), "--dump-state"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True)
    seconds = time.perf_counter() - began
    if f"{spec.stem}: --dump-state goes with --dump" not in done.stderr:
        sys.exit(f"{spec}: the program did not say what was expected, but\n{done.stderr}")
    return seconds


def to_first_step(spec, folder):
    """Wall seconds of a run until its first step begins."""
    log = pathlib.Path(folder) / "log.jsonl"
    log.unlink(missing_ok=True)
    began = time.perf_counter()
    run = subprocess.Popen([ECHELON, "run", str(spec), "--steps", "1", "--log", str(log), "--out", folder],
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    seconds = None
    for line in run.stdout:
        if line.startswith("step 1/"):
            seconds = time.perf_counter() - began
            break
    run.kill()  # the evaluation after the last step is of no interest
    run.wait()
    if seconds is None:
        sys.exit(f"{spec}: no first step")
    return seconds - json.loads(log.read_text().splitlines()[0])["step_time_s"]


def load_seconds(spec):
    """Of the data that the spec names, by itself; None where it names no such files."""
    text = re.sub(r"#.*", "", spec.read_text())
    data = re.search(r'\bdata\b.*?\b(mnist|cifar10)\s*\("([^"]*)"', text, re.S)
    if not data:
        return None
    done = subprocess.run([LOAD, data[1], data[2], str(spec.parent)], stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout)


def row(name, *columns):
    print(f"| {name} | " + " | ".join("–" if c is None else f"{c:.3f}" for c in columns) + " |", flush=True)


def medians(spec, folder, repeat):
    to_main(spec), to_first_step(spec, folder)
    loads = [load_seconds(spec) for _ in range(min(repeat, 5))]
    load = statistics.median(loads) if None not in loads else None
    first = statistics.median(to_first_step(spec, folder) for _ in range(repeat))
    row(spec.stem, statistics.median(to_main(spec) for _ in range(repeat)), first, load,
        first - load if load is not None else None)


def main():
    specs, repeat = arguments(__doc__, 9)
    print("| spec | to main, s | to the first step | loading its data | the first step beyond it |\n|" + " --- |" * 5)
    with tempfile.TemporaryDirectory() as folder:
        for spec in specs:
            medians(spec, folder, repeat)
        eight = pathlib.Path(folder) / "mlp_fashion_8_ranks.ech"
        text = (ROOT / "examples/mlp_fashion.ech").read_text()
        eight.write_text(re.sub(r"mesh\(dp = \d+\)", "mesh(dp = 8)", re.sub(r"ranks = \d+", "ranks = 8", text)))
        medians(eight, folder, repeat)


if __name__ == "__main__":
    main()
