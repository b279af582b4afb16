#!/usr/bin/env python3
"""Collectives over shared memory beside the memory traffic that they cannot do without and the best of Open MPI.

    bench/collectives/run.py [--ranks 2] [--rounds 3] [--sizes BYTES,...] [COLLECTIVE...]

Each round runs Open MPI's once as it chooses itself and once with each of its algorithms (those of its component tuned
by number, and its components sm and han), and Echelon's before every fourth of these, all in the same way (Windows.h).
How near two cores are to each other can change from run to run where the machine is a guest: so 1 KB is taken --short
times more, each time in a run of its own, Echelon's right before that of each way of Open MPI's, and only these runs
count there. A figure is the median over all runs, at 1 KB over those beside the best; Open MPI's is that of the
algorithm with the lowest. "floor" is the traffic at the rate of as many ranks at once in the same run: see
CollectivesBench.cpp. Sizes are those of the whole buffer of a rank. Limits: 1.5 times the floor from 1 MB on, never
slower than Open MPI; 2 us at 1 KB for 2 ranks.
"""
import argparse
import collections
import os
import pathlib
import statistics
import subprocess
import sys

BIN = pathlib.Path(os.environ.get("ECHELON_BIN", pathlib.Path(__file__).resolve().parents[2] / "build/bin"))
NAMES = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "reduce", "gather", "scatter",
         "barrier")
SHORT = 1024  # bytes
# How many algorithms coll_tuned of Open MPI 4.1 has for each.
ALGORITHMS = {"allreduce": 6, "reduce_scatter_block": 4, "allgather": 6, "alltoall": 5, "bcast": 9, "reduce": 7,
              "gather": 3, "scatter": 3, "barrier": 6}
# These stop with an error where there are not just two ranks.
ONLY_FOR_TWO = {"allgather": 6, "alltoall": 5, "barrier": 5}


def variants(ranks):
    """(name, arguments of mpirun) of each way to run Open MPI's collectives."""
    yield "default", []
    yield "sm", ["--mca", "coll_sm_priority", "100"]
    yield "han", ["--mca", "coll_han_priority", "100"]
    for number in range(1, max(ALGORITHMS.values()) + 1):
        choice = ["--mca", "coll_tuned_use_dynamic_rules", "1"]
        for name, count in ALGORITHMS.items():
            if number <= count and (ranks == 2 or ONLY_FOR_TWO.get(name) != number):
                choice += ["--mca", f"coll_tuned_{name}_algorithm", str(number)]
        yield f"tuned {number}", choice


def figures(command):
    """{(what, bytes): microseconds} that the command prints."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        return {}
    lines = (line.split() for line in done.stdout.splitlines())
    return {(line[0], SHORT if line[0] == "barrier" else int(line[1])): float(line[2]) for line in lines if len(line) == 3}


def text(microseconds):
    return f"{microseconds:.2f}" if microseconds < 10 else f"{microseconds:.0f}"


def size(count):
    return f"{count >> 20} MB" if count >= 1 << 20 else f"{count >> 10} KB"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("collectives", nargs="*", help="all, unless told")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", default="65536,1048576,4194304,67108864", help="bytes, in the rounds")
    parser.add_argument("--short", type=int, default=3, help="runs of 1 KB alone")
    parser.add_argument("--only", action="store_true", help="without Open MPI")
    options = parser.parse_args()
    crowded = options.ranks > len(os.sched_getaffinity(0))
    mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(options.ranks), "--mca",
              "mpi_yield_when_idle", "1" if crowded else "0", *(["--bind-to", "none"] if crowded else [])]
    own, peer = collections.defaultdict(list), collections.defaultdict(lambda: collections.defaultdict(list))
    beside = collections.defaultdict(lambda: collections.defaultdict(list))  # Echelon's before those of peer

    def counts(key, sizes):
        return key[1] > SHORT or not options.short or sizes == str(SHORT)

    def take_own(sizes):
        got = figures([BIN / "bench_collectives", str(options.ranks), "shm", sizes, *options.collectives])
        for key, time in got.items():
            if counts(key, sizes):
                own[key].append(time)
        return got

    def take_peer(name, choice, sizes):
        got = figures([*mpirun, *choice, BIN / "mpi_collectives", sizes, *options.collectives])
        if not got:
            print(f"Open MPI, {name}: no figures", file=sys.stderr)
        return got

    for _ in range(options.rounds):
        for turn, (name, choice) in enumerate(variants(options.ranks)):
            if turn % 4 == 0:
                take_own(options.sizes)
            if not options.only:
                for key, time in take_peer(name, choice, options.sizes).items():
                    if counts(key, options.sizes):
                        peer[key][name].append(time)
    for _ in range(options.short):
        for name, choice in variants(options.ranks):
            before = take_own(str(SHORT))
            if not options.only:
                for key, time in take_peer(name, choice, str(SHORT)).items():
                    peer[key][name].append(time)
                    beside[key][name].append(before[key])
    print(f"\n{options.ranks} ranks, us\n\n| collective | size | Echelon | by the floor | Open MPI's best | by it |\n|"
          + " --- |" * 6)
    for name in NAMES:
        for (what, count), times in sorted(own.items()):
            if what != name:
                continue
            time, floor = statistics.median(times), own.get(("floor_" + name, count))
            by_floor = f"{time / statistics.median(floor):.2f}" if floor else "–"
            best, by_best = "–", "–"
            if peer[what, count]:
                algorithm, other = min(((a, statistics.median(t)) for a, t in peer[what, count].items()),
                                       key=lambda pair: pair[1])
                if beside[what, count]:
                    time = statistics.median(beside[what, count][algorithm])
                best, by_best = f"{text(other)} ({algorithm})", f"{time / other:.2f}"
            print(f"| {name} | {size(count) if name != 'barrier' else '–'} | {text(time)} | {by_floor} | {best} |"
                  f" {by_best} |")


if __name__ == "__main__":
    main()
