#!/usr/bin/env python3
"""Kills or stops ranks at random moments and counts how the launcher takes it.

    test/faults/kill.py [--trials 200] [--stop] [--transport shm | mpi] [--ranks 4] [--seed 1] [--limit S]

Each trial trains test/faults/step.ech without end and, at a random moment of its first second, sends one rank SIGKILL,
SIGSEGV or SIGABRT, or with --stop SIGSTOP. It counts: the launcher ended by itself with a code that is not 0; it named
the rank, its last step and the source line of what the others wait in; no process of the run was left 2 s later. Prints
the times from the signal until the rank was named and until the launcher's end. Limits: the end in 0.5 s in 99 of 100
(shm), 2 s (mpi); a stopped one named in 2 s, which is longer than five steps. --limit sets another: the tests allow 30,
whatever else runs.
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
import threading
import time

from processes import descendants, mpirun

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("ECHELON_BUILD", HERE.parent.parent / "build"))
# In what the others wait: one of the program's lines, or what every run has.
PLACE = r"(?:step\.ech:\d+|decision to stop or save)"
KILLED = r"rank %d (died \(signal %d.*\)|is gone,) at step \d+, .*; the others wait in .*\(" + PLACE + r"\)"
STOPPED = r"rank %d is stopped \(.*\) and did not come to .*\(" + PLACE + r"\) at step \d+ within"
KILL, STOP = [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT], [signal.SIGSTOP]


def ranks_of(launcher, program):
    """Its ranks in order: they are started in it over shm, and over mpi told which they are."""
    found = []
    for pid in descendants(launcher):
        try:
            if os.path.samefile(f"/proc/{pid}/exe", program):
                found.append((number_over_mpi(pid), pid))
        except OSError:  # it has ended
            pass
    return [pid for _, pid in sorted(found)]


def number_over_mpi(pid):
    told = re.search(rb"OMPI_COMM_WORLD_RANK=(\d+)", pathlib.Path(f"/proc/{pid}/environ").read_bytes())
    return int(told[1]) if told else 0


def still_there(processes):
    return [pid for pid in processes if os.path.exists(f"/proc/{pid}/exe")]


def trial(command, program, ranks, folder, signals, chance):
    """(what went wrong or "", seconds until it was named, to the end)"""
    log = pathlib.Path(folder, "log.jsonl")
    log.unlink(missing_ok=True)
    run = subprocess.Popen([*command, "--log", str(log)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not log.exists() or log.stat().st_size < 500:
        if run.poll() is not None:
            return f"it ended before the trial: {run.communicate()[1]}", 0, 0
        time.sleep(2e-3)
    time.sleep(chance.random())
    pids = ranks_of(run.pid, program)
    everyone = descendants(run.pid)
    if len(pids) != ranks:
        run.kill()
        return f"{len(pids)} ranks run, not {ranks}", 0, 0
    said = []  # lines, each with the time at which it came
    reader = threading.Thread(target=lambda: said.extend((time.monotonic(), line) for line in run.stderr))
    began = time.monotonic()
    rank, how = chance.randrange(ranks), chance.choice(signals)
    os.kill(pids[rank], how)
    reader.start()
    try:
        run.wait(timeout=30)
    except subprocess.TimeoutExpired:
        run.kill()
        return "it hung", 30, 30
    seconds = time.monotonic() - began
    reader.join()
    left = still_there(everyone)
    while left and time.monotonic() < began + seconds + 2:  # on a busy machine mpirun may end before what it has killed
        time.sleep(20e-3)
        left = still_there(everyone)
    sign = re.compile(STOPPED % rank if signals == STOP else KILLED % (rank, how))
    named = next((at - began for at, line in said if sign.search(line)), None)
    what = ""
    if run.returncode == 0:
        what = "it ended with 0"
    elif left:
        what = f"{len(left)} processes are left"
    elif named is None:
        what = "it said: " + "".join(line for _, line in said).strip()
    return what, named or seconds, seconds


def at(times, share):
    return sorted(times)[min(len(times) - 1, int(len(times) * share))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--stop", action="store_true")
    parser.add_argument("--transport", choices=["shm", "mpi"], default="shm")
    parser.add_argument("--ranks", type=int, choices=[2, 4], default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, metavar="S")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/step"
        subprocess.run([BUILD / "bin/echelon", "build", HERE / "step.ech", "--train", f"on{options.ranks}", "-o",
                        program], check=True, stdout=subprocess.DEVNULL)
        command = [program, "--transport", options.transport]
        if options.transport == "mpi":
            command = mpirun(options.ranks) + command
        wrong, named, ended = [], [], []
        for number in range(options.trials):
            what, *seconds = trial(command, program, options.ranks, folder, STOP if options.stop else KILL, chance)
            named.append(seconds[0])
            ended.append(seconds[1])
            if what:
                wrong.append(f"trial {number}: {what}")
    limited, limit = (named, 2) if options.stop else (ended, 0.5 if options.transport == "shm" else 2)
    limit = limit if options.limit is None else options.limit
    last = at(limited, 0.99)
    print(f"{options.trials} trials, {options.ranks} ranks over {options.transport}: {len(wrong)} wrong")
    for what, times in ("named", named), ("ended", ended):
        print(f"{what} after: median {at(times, 0.5):.3f} s, 99 % {at(times, 0.99):.3f} s, most {max(times):.3f} s"
              + (f"; limit {limit} s" if times is limited else ""))
    print("\n".join(wrong))
    sys.exit(bool(wrong) or last > limit)


main()
