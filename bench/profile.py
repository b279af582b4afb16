#!/usr/bin/env python3
"""What `echelon run --profile` costs, and how much of a step its table accounts for.

    bench/profile.py [SPEC...]      unless told: those of examples/ and of $ECHELON_SHARED/specs that build

Plain and profiled runs on one rank take turns; a run's figure is the median of its log's step_time_s. The cost is the
ratio of the two, median over --repeat pairs; "probes" is what the program says
that its probes took, by the time that one takes. Limits: 1.02; 97 % accounted for.
"""
import json
import re
import statistics
import subprocess
import sys
import tempfile

from specs import ECHELON, arguments

SECONDS = 2  # of steps that a run takes, about


def run(spec, steps, *options):
    """Median seconds of a step, and what the run printed."""
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as log, tempfile.TemporaryDirectory() as out:
        command = [ECHELON, "run", str(spec), "--ranks", "1", "--steps", str(steps), "--log", log.name, "--out", out]
        done = subprocess.run([*command, *options], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{spec}: {done.stderr}")
        rows = [json.loads(line) for line in open(log.name)]
    times = [row["step_time_s"] for row in rows if "step_time_s" in row]
    return statistics.median(times[len(times) // 10:]), done.stdout


def main():
    specs, repeat = arguments(__doc__, 7)
    print("| spec | ms a step | with --profile by without (middle half) | accounted for | probes |\n|" + " --- |" * 5)
    for spec in specs:
        run(spec, 3, "--profile")  # builds
        plain, _ = run(spec, 3)
        steps = min(max(int(SECONDS / plain), 5), 1000)
        ratios, times, shares, probes = [], [], [], []
        for _ in range(repeat):
            plain, _ = run(spec, steps)
            profiled, text = run(spec, steps, "--profile")
            times.append(plain)
            ratios.append(profiled / plain)
            last = re.search(r"accounted for: ([0-9.]+) % of the step; \d+ probes took ([0-9.]+) %", text)
            shares.append(float(last.group(1)))
            probes.append(float(last.group(2)))
        low, middle, high = statistics.quantiles(ratios, n=4) if repeat > 1 else ratios * 3
        print(f"| {spec.stem} | {1e3 * statistics.median(times):.2f} | {middle:.3f} ({low:.3f} to {high:.3f}) | "
              f"{min(shares):.2f} % | {statistics.median(probes):.2f} % |", flush=True)


if __name__ == "__main__":
    main()
