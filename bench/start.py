#!/usr/bin/env python3
"""How long `echelon run` takes to the program's `main` when nothing has changed since the last run.

    bench/start.py [SPEC...]        unless told: those of examples/ and of $ECHELON_SHARED/specs that build

The first run builds. Those that are timed ask for more steps than the spec has, which the program itself refuses in the
first lines of its main: their whole time is an upper bound. Limit: 0.3 s, median of --repeat runs.
"""
import statistics
import subprocess
import sys
import time

from specs import ECHELON, arguments


def refused(spec):
    """Wall seconds of a run that the program refuses."""
    began = time.perf_counter()
    done = subprocess.run([ECHELON, "run", str(spec), "--steps", "1000000000"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True)
    seconds = time.perf_counter() - began
    if f"{spec.stem}: --steps 1000000000 is beyond" not in done.stderr:
        sys.exit(f"{spec}: the program did not say what was expected, but\n{done.stderr}")
    return seconds


def main():
    specs, repeat = arguments(__doc__, 15)
    print("| spec | to main, s: median | best | worst |\n|" + " --- |" * 4)
    for spec in specs:
        refused(spec)
        times = [refused(spec) for _ in range(repeat)]
        print(f"| {spec.stem} | {statistics.median(times):.3f} | {min(times):.3f} | {max(times):.3f} |", flush=True)


if __name__ == "__main__":
    main()
