#!/usr/bin/env python3
"""How good the choice of algorithms is that the compiler makes from what `echelon calibrate` has measured.

    bench/collectives/choose.py MACHINE.ech [--ranks 2,4] [--rounds 5] [--transport shm] [--sizes BYTES,...]

Times each collective by each algorithm and as the transport does it, one right after the other, over sizes of which
calibrate measures none. A figure is the median over rounds of the time by that of the transport's own way in the same
round, since how near two cores are may change between rounds. The choice of (collective, size, ranks) is good if it is
within 10 % of the fastest. Prints what is not, and the part that is. Goal: 95 %.
"""
import argparse
import collections
import os
import pathlib
import statistics
import subprocess
import sys

BIN = pathlib.Path(os.environ.get("ECHELON_BIN", pathlib.Path(__file__).resolve().parents[2] / "build/bin"))
KINDS = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast")
ALGORITHMS = ("ring", "tree", "butterfly", "one_to_all")


def names():
    for kind in KINDS:
        for algorithm in ALGORITHMS:
            if (kind, algorithm) != ("all_to_all", "tree"):
                yield f"{kind}_{algorithm}"


def figures(command):
    """[((name, bytes), microseconds)] that the command prints, without floors."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=300, check=True)
    lines = (line.split() for line in done.stdout.splitlines())
    return [((line[0], int(line[1])), float(line[2])) for line in lines if not line[0].startswith("floor_")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("machine")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--transport", default="shm")
    parser.add_argument("--sizes", default="768,3072,24576,196608,1572864,12582912")
    options = parser.parse_args()
    good = total = 0
    worst = []
    for ranks in (int(n) for n in options.ranks.split(",")):
        times = collections.defaultdict(list)
        for _ in range(options.rounds):
            one = dict(figures([BIN / "bench_collectives", str(ranks), options.transport, options.sizes, *names()]))
            for (name, size), time in one.items():
                kind = next(k for k in KINDS if name == k or name.removeprefix(k + "_") in ALGORITHMS)
                times[name, size].append(time / one[kind, size])
        asked = sorted({(kind, size) for kind, size in times if kind in KINDS})
        told = subprocess.run([BIN / "bench_choices", options.machine], stdout=subprocess.PIPE, text=True, check=True,
                              input="".join(f"{kind} {size} {ranks}\n" for kind, size in asked)).stdout.split()
        for (kind, size), choice in zip(asked, told, strict=True):
            of = {name.removeprefix(kind).removeprefix("_") or "automatic": statistics.median(all)
                  for (name, bytes), all in times.items()
                  if bytes == size and (name == kind or name.removeprefix(kind + "_") in ALGORITHMS)}
            best = min(of, key=of.get)
            total += 1
            good += of[choice] <= 1.1 * of[best]
            if of[choice] > 1.1 * of[best]:
                worst.append((of[choice] / of[best], f"{kind} of {size} bytes over {ranks}: {choice} {of[choice]:.3g}, {best} {of[best]:.3g} "
                                                     "of the transport's own"))
    for _, line in sorted(worst, reverse=True):
        print(line)
    print(f"{good} of {total} choices within 10 % of the fastest: {100 * good / total:.1f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
