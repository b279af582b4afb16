#!/usr/bin/env python3
"""What two ranks gain on GPT-2 124M: as stages of a pipeline, and with parameters stored in pieces.

    bench/layouts.py [--samples 8] [--micro 8] [--steps 4] [--repeat 3]

One rank on one core and the layouts on two take turns, over the same samples a step: one rank and the stages in micro
batches, the others at once. A run's figure is the median of
its log's step_time_s. Prints medians over the repeats, one rank's by theirs and theirs by plain `split batch over dp`'s,
what a rank keeps by the plan, and what a run had beyond its arenas. Goals: a pipeline at least 1.6 times one rank; ZeRO-3
at most 1.15 of plain.
"""
import argparse
import pathlib
import re
import statistics
import subprocess
import tempfile

import steps
from specs import ECHELON

MODEL = pathlib.Path(__file__).with_name("speed") / "gpt.ech"
LAYOUTS = {
    "one rank": (1, "mesh(dp = 1) { split batch over dp }", "micro"),
    "dp": (2, "mesh(dp = 2) { split batch over dp }", "one"),
    "ZeRO-1": (2, "mesh(dp = 2) { split batch over dp; store optimizer over dp }", "one"),
    "ZeRO-2": (2, "mesh(dp = 2) { split batch over dp; store optimizer, gradients over dp }", "one"),
    "ZeRO-3": (2, "mesh(dp = 2) { split batch over dp; store optimizer, gradients, params over dp }", "one"),
    "1f1b": (2, "mesh(pp = 2) { split layer over pp }", "micro"),
    "1f1b as balanced": (2, "mesh(pp = 2) { split layer over pp as balanced }", "micro"),
    "zero_bubble as balanced": (2, "mesh(pp = 2) { split layer over pp with zero_bubble as balanced }", "micro"),
    "interleaved(2) as balanced": (2, "mesh(pp = 2) { split layer over pp with interleaved(2) as balanced }", "micro"),
}


def spec_of(layout, samples, micro):
    """`train one` of MODEL under the layout."""
    text = MODEL.read_text()
    train = text[text.index("train one"):text.index("train dp")]
    train = re.sub(r"(?m)^  on .*\n", "", train)
    batch = f"batch {samples}" + (f" in micro batches of {samples // micro}" if micro > 1 else "")
    train = re.sub(r"(?m)^  batch .*$", f"  {batch}\n  layout {layout}", train)
    return text[:text.index("train one")] + train


def beyond(spec, folder):
    """Megabytes that a rank has beside its arenas."""
    done = subprocess.run([ECHELON, "run", str(spec), "--steps", "2", "--threads", "1"], check=True, cwd=folder,
                          capture_output=True, text=True)
    return float(re.search(r"beyond them ([0-9.]+) MB", done.stdout)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("samples", 8), ("micro", 8), ("steps", 4), ("repeat", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--only", nargs="*", default=list(LAYOUTS), help="some layouts, beside one rank and dp")
    options = parser.parse_args()
    chosen = {name: each for name, each in LAYOUTS.items() if name in options.only or name in ("one rank", "dp")}
    with tempfile.TemporaryDirectory(prefix="echelon-layouts-") as made:
        folder = pathlib.Path(made)
        specs, outside = {}, {}
        for i, (name, (ranks, layout, kind)) in enumerate(chosen.items()):
            specs[name] = folder / f"layout{i}.ech"
            specs[name].write_text(spec_of(layout, options.samples, options.micro if kind == "micro" else 1))
            outside[name] = beyond(specs[name], folder)
        times = {name: [] for name in specs}
        for _ in range(options.repeat):
            for name, spec in specs.items():
                times[name].append(steps.seconds(spec, chosen[name][0], folder, "--steps", str(options.steps)))
        print("| layout | ms a step | one rank's by it | by dp's | plan, MB a rank | beyond, MB |\n|" + " --- |" * 6)
        for name, spec in specs.items():
            ratios = [[a / b for a, b in zip(*pair)] for pair in ((times["one rank"], times[name]),
                                                                  (times[name], times["dp"]))]
            arenas = sum(steps.plan(spec)["arena_bytes"].values()) / 1e6
            print(f"| {name} | {1e3 * statistics.median(times[name]):.0f} | {statistics.median(ratios[0]):.2f} | "
                  f"{statistics.median(ratios[1]):.2f} | {arenas:.1f} | {outside[name]:.1f} |", flush=True)


if __name__ == "__main__":
    main()
