#!/usr/bin/env python3
"""Kills ranks at random moments and counts how the launcher takes it.

    test/faults/kill.py [--trials 200] [--transport shm | mpi] [--ranks 4] [--seed 1]

Each trial trains test/faults/step.ech without end and, at a random moment of its first second, sends one rank SIGKILL,
SIGSEGV or SIGABRT. It counts: the launcher ended by itself with a code that is not 0; it named the rank, its last step
and the source line of what the others wait in; no process of the run was left. Prints the times from the signal to the
launcher's end. Limits: 0.5 s in 99 of 100 (shm), 2 s (mpi).
"""
import argparse
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

from processes import descendants

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("ECHELON_BUILD", HERE.parent.parent / "build"))
NAMED = re.compile(r"rank \d+ (died \(signal \d+.*\)|is gone,) at step \d+, .*; the others wait in .*\(step\.ech:\d+\)")


def ranks_of(launcher, program):
    found = []
    for pid in descendants(launcher):
        try:
            if os.path.samefile(f"/proc/{pid}/exe", program):
                found.append(pid)
        except OSError:
            pass
    return found


def trial(command, program, ranks, folder, chance):
    """(what went wrong or "", seconds to the end)"""
    log = pathlib.Path(folder, "log.jsonl")
    log.unlink(missing_ok=True)
    run = subprocess.Popen([*command, "--log", str(log)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not log.exists() or log.stat().st_size < 500:
        if run.poll() is not None:
            return f"it ended before the trial: {run.communicate()[1]}", 0
        time.sleep(2e-3)
    time.sleep(chance.random())
    pids = ranks_of(run.pid, program)
    everyone = descendants(run.pid)
    if len(pids) != ranks:
        run.kill()
        return f"{len(pids)} ranks run, not {ranks}", 0
    os.kill(chance.choice(pids), chance.choice([signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT]))
    began = time.monotonic()
    try:
        error = run.communicate(timeout=30)[1]
    except subprocess.TimeoutExpired:
        run.kill()
        return "it hung", 30
    seconds = time.monotonic() - began
    left = [pid for pid in everyone if os.path.exists(f"/proc/{pid}/exe")]
    if run.returncode == 0:
        return "it ended with 0", seconds
    if left:
        return f"{len(left)} processes are left", seconds
    if not NAMED.search(error):
        return f"it said: {error.strip()}", seconds
    return "", seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--transport", choices=["shm", "mpi"], default="shm")
    parser.add_argument("--ranks", type=int, choices=[2, 4], default=4)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/step"
        subprocess.run([BUILD / "bin/echelon", "build", HERE / "step.ech", "--train", f"on{options.ranks}", "-o",
                        program], check=True, stdout=subprocess.DEVNULL)
        command = [program, "--transport", options.transport]
        if options.transport == "mpi":
            command = ["mpirun", "-n", str(options.ranks), "--oversubscribe"] + \
                ["--allow-run-as-root"] * (os.geteuid() == 0) + command
        wrong, times = [], []
        for number in range(options.trials):
            what, seconds = trial(command, program, options.ranks, folder, chance)
            times.append(seconds)
            if what:
                wrong.append(f"trial {number}: {what}")
    times.sort()
    limit = 0.5 if options.transport == "shm" else 2
    last = times[min(len(times) - 1, int(len(times) * 0.99))]
    print(f"{options.trials} trials, {options.ranks} ranks over {options.transport}: {len(wrong)} wrong; to the end "
          f"median {times[len(times) // 2]:.3f} s, 99 % {last:.3f} s (limit {limit}), most {times[-1]:.3f} s")
    print("\n".join(wrong))
    sys.exit(bool(wrong) or last > limit)


main()
