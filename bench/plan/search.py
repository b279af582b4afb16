#!/usr/bin/env python3
"""How long `layout auto` takes to choose a layout of a large model, and out of how many.

    bench/plan/search.py [--repeat 3]

The spec is gpt3_175b.ech of $ECHELON_SHARED/specs, train `planned`, as it stands; with 24 of its 96 layers; and a model of
a trillion parameters on 16,384 devices. Seconds are the wall's and the processor's, medians. Goals: 1 s; depth costs
nothing; 5 s.
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
ECHELON = os.environ.get("ECHELON", str(ROOT / "build/bin/echelon"))
SHARED = pathlib.Path(os.environ.get("ECHELON_SHARED", ROOT.parent / "shared"))
SPECS = {
    "175 billion, 1,024 devices": {},
    "the same, 24 of 96 layers": {"layers = 96": "layers = 24"},
    "a trillion, 16,384 devices": {"layers = 96, heads = 96, width = 12288": "layers = 128, heads = 160, width = 25600",
                                   "128 of 8 x": "2048 of 8 x", "batch     1536\n": "batch     3072\n"},
}


def timed(command):
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    said = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, said


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    repeat = parser.parse_args().repeat
    print("| model | candidates | compiled | wall s | processor s | step |\n|" + " --- |" * 6)
    for name, changes in SPECS.items():
        text = (SHARED / "specs/gpt3_175b.ech").read_text()
        for old, new in changes.items():
            assert old in text, old
            text = text.replace(old, new)
        with tempfile.TemporaryDirectory() as folder:
            spec = pathlib.Path(folder, "large.ech")
            spec.write_text(text)
            runs = [timed([ECHELON, "plan", str(spec), "--train", "planned", "--json"]) for _ in range(repeat)]
        wall, processor = (statistics.median(run[i] for run in runs) for i in (0, 1))
        chosen = runs[0][2]["alternatives"]
        print(f"| {name} | {chosen['candidates']:,} | {chosen['compiled']} | {wall:.2f} | {processor:.2f} | "
              f"{runs[0][2]['step_time_s']:.3g} s |", flush=True)


if __name__ == "__main__":
    main()
