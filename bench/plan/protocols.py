#!/usr/bin/env python3
"""Finds what NCCL's protocols take within a node of A100: the constants of link nvlink3_nccl in bench/plan/machines.ech.

    bench/plan/protocols.py [--rows FOLDER]

The form is that of planner/machine/Collectives.cpp: the least of two protocols, not less than a floor. Prints constants,
errors of the all-reduces that they were fitted on, and of those that were left out: each one, each fifth by turns, and
each number of ranks by the other two.
"""
import argparse
import csv
import math
import pathlib

import judged
import rows
import solve

RATE = 300e9 / 1e6  # bytes a microsecond, each way
MIB = 2**20
START = {"floor": 20, "floor_rank": 10, "ll128.start": 36, "ll128.rate": 0.5, "simple.start": 38, "simple.rank": 5,
         "simple.rate": 0.83, "simple.few": 0.6}
LIMIT = 2.5  # of LL128, MiB a rank: from 2 to 3 the table does not tell it


def load(folder):
    """(ranks, bytes, microseconds) of each all-reduce on A100."""
    with open(pathlib.Path(folder) / "nccl_allreduce.csv") as file:
        return [(int(f["n_gpus"]), float(f["bytes"]), float(f["time_out_of_place_us"])) for f in csv.DictReader(file)
                if f["gpu"] == "A100"]


def microseconds(ranks, size, c):
    moved = 2 * (ranks - 1) / ranks * size
    least = c["simple.start"] + c["simple.rank"] * (ranks - 1)
    least += moved / (RATE * c["simple.rate"] * ranks / (ranks + c["simple.few"]))
    if size / ranks <= LIMIT * MIB:
        least = min(least, c["ll128.start"] + moved / (RATE * c["ll128.rate"]))
    return max(least, c["floor"] + c["floor_rank"] * (ranks - 1))


def errors(of, c):
    return [math.log(microseconds(ranks, size, c) / measured) for ranks, size, measured in of]


def fitted(of):
    bounds = {name: (value / 6, value * 6) for name, value in START.items()}
    return solve.fit(lambda c: errors(of, c), START, bounds, rounds=40)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=rows.VALIDATION)
    all_ = load(parser.parse_args().rows)
    found = fitted(all_)
    print(", ".join(f"{name} {value:.4g}" for name, value in found.items()) + f", ll128.limit {LIMIT} MiB")
    print(judged.HEAD)
    print(judged.line("fitted", errors(all_, found)))
    for name, parts in (("each one left out", [[r] for r in all_]), ("each fifth left out", [all_[k::5] for k in range(5)]),
                        ("each number of ranks left out", [[r for r in all_ if r[0] == n] for n in (2, 4, 8)])):
        held = []
        for part in parts:
            held += errors(part, fitted([r for r in all_ if r not in part]))
        print(judged.line(name, held))


if __name__ == "__main__":
    main()
