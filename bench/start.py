#!/usr/bin/env python3
"""How long `echelon run` takes to the program's `main` when nothing has changed since the last run.

    bench/start.py [SPEC...]        the examples unless told

The first run builds. Those that are timed ask for more steps than the spec has, which the program itself refuses in the
first lines of its main: their whole time is an upper bound. Limit: 0.3 s, median of --repeat runs.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
SHARED = pathlib.Path(os.environ.get("ECHELON_SHARED", ROOT.parent / "shared"))
ECHELON = str(os.environ.get("ECHELON", ROOT / "build/bin/echelon"))


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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("specs", nargs="*", type=pathlib.Path)
    parser.add_argument("--repeat", default=15, type=int)
    options = parser.parse_args()
    specs = options.specs or [*sorted((SHARED / "specs").glob("*.ech")), *sorted((ROOT / "examples").glob("*.ech"))]
    print("| spec | to main, s: median | best | worst |\n|" + " --- |" * 4)
    for spec in specs:
        emit = [ECHELON, "build", str(spec), "--emit", "cpp"]
        if subprocess.run(emit, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
            continue # a spec that is checked and no more, for now
        refused(spec)
        times = [refused(spec) for _ in range(options.repeat)]
        print(f"| {spec.stem} | {statistics.median(times):.3f} | {min(times):.3f} | {max(times):.3f} |", flush=True)


if __name__ == "__main__":
    main()
