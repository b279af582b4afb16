#!/usr/bin/env python3
"""How long a snapshot stops training, and how soon a run of which a rank died is back in training.

    bench/snapshot.py [--rounds 9] [--restarts 10] [--folder DIR]

Stop: parameters and the two moments of an optimizer, 3 times --megabytes a rank, held by all ranks or split between two,
over shm, and over mpi, where they come to rank 0 as messages.
"memcpy" copies that state to memory that is there, shared between ranks as the state is; "stop" is what a step with a
snapshot waits; "first stop" that of the first, begun as soon as the run has, when pages for the copy are yet to be found;
"on disk" the time from there until the snapshot is; "within" the same snapshot written within the step. Medians of --rounds
turns in one run; ratios are medians of a round's. Limit: stop at most 1.1 times memcpy.
Restart: specs on two ranks over shm with `restart`; a rank gets kill -9 at a random moment behind a snapshot. Seconds from
there until the row of the first step after the restart is in the log. Limit: 3 s.
DIR is where the snapshots lie: a folder on the disk that is meant.
"""
import argparse
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from specs import ECHELON, two_ranks

SAVE = pathlib.Path(ECHELON).parent / "bench_save"
# ranks, how the state lies, the transport
STATES = [(1, "whole", "shm"), (2, "whole", "shm"), (2, "split", "shm"), (2, "split", "mpi")]
# spec, settings, steps between two snapshots
RESTARTED = [("mlp_fashion", [], 500), ("gpt_shakespeare", [], 4), ("mlp_mnist", ["model.width=8192"], 4)]


def stop(ranks, lies, transport, megabytes, rounds, folder):
    command = [SAVE, str(ranks), str(megabytes), folder, str(rounds + 1)] + ["split", transport] * (lies == "split")
    if transport == "mpi":
        command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks), *command]
    out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    rank_bytes, all_bytes = map(int, out[0].split())
    turns = [tuple(map(float, line.split())) for line in out[1:]]
    memcpy, stopped, disk, within = (statistics.median(turn[i] for turn in turns[1:]) for i in range(4))
    by_memcpy = statistics.median(turn[1] / turn[0] for turn in turns[1:])
    by_within = statistics.median(turn[1] / turn[3] for turn in turns[1:])
    print(f"| {ranks} | {lies}, {transport} | {rank_bytes / 1e6:.0f} | {all_bytes / 1e6:.0f} | {memcpy:.1f} | {stopped:.1f} | "
          f"**{by_memcpy:.2f}** | {turns[0][1]:.1f} | {disk:.0f} | {within:.0f} | {by_within:.3f} |", flush=True)


def children(pid):
    return set(map(int, pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def build(name, settings, every, folder):
    """The program of a spec on two ranks that writes snapshots and restarts."""
    text = two_ranks(name, without="evaluate|checkpoint|restart|until|steps")
    text = re.sub(r"(?m)^  batch ", f'  steps 1_000_000\n  checkpoint every {every} steps to "ckpt" keep 2\n'
                                    "  restart up to 1_000 times\n  batch ", text, count=1)
    spec = folder / f"{name}.ech"
    spec.write_text(text)
    program = folder / name
    subprocess.run([ECHELON, "build", spec, "-o", program] + [w for s in settings for w in ("--set", s)], check=True,
                   stdout=subprocess.DEVNULL)
    return program


def restarts(name, settings, every, count, folder):
    program = build(name, settings, every, folder)
    log, chance = folder / f"{name}.jsonl", random.Random(1)
    run = subprocess.Popen([program, "--log", log, "--out", folder / f"{name}-out"], stdout=subprocess.DEVNULL,
                           stderr=subprocess.PIPE, text=True)
    times, snapshots = [], folder / f"{name}-out/ckpt"
    for _ in range(count):
        before = {p.name for p in snapshots.glob("step-*")}
        while not {p.name for p in snapshots.glob("step-*")} - before:
            if run.poll() is not None:
                sys.exit(f"{name}: {run.communicate()[1]}")
            time.sleep(1e-3)
        time.sleep(chance.random() / 2)
        ranks = children(run.pid)
        os.kill(chance.choice(sorted(ranks)), signal.SIGKILL)
        began = time.perf_counter()
        while not (now := children(run.pid)) or now & ranks:
            time.sleep(1e-3)
        size = log.stat().st_size
        while (grown := log.stat().st_size) <= size:
            size = grown
            time.sleep(1e-3)
        times.append(time.perf_counter() - began)
    size = sum(p.stat().st_size for p in sorted(snapshots.glob("step-*"))[-1].iterdir())
    run.kill()
    run.wait()
    print(f"| {name}{', ' * bool(settings)}{', '.join(settings)} | {size / 1e6:.1f} | {statistics.median(times):.2f} | "
          f"{max(times):.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--restarts", type=int, default=10)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        if options.rounds:
            print("| ranks | state | MB a rank | snapshot, MB | memcpy, ms | stop, ms | by memcpy | first stop, ms | on disk, "
                  "ms | within, ms | stop by within |\n|" + " --- |" * 11)
            for ranks, lies, transport in STATES:
                stop(ranks, lies, transport, options.megabytes, options.rounds, folder)
        if options.restarts:
            print("\n| spec | snapshot, MB | back in training, s | most |\n|" + " --- |" * 4)
            for name, settings, every in RESTARTED:
                restarts(name, settings, every, options.restarts, pathlib.Path(folder))


if __name__ == "__main__":
    main()
