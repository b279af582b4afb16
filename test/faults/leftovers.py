#!/usr/bin/env python3
"""Starts runs, ends them by a signal at a random moment, and looks what is left of them.

    test/faults/leftovers.py [--launches 1000] [--transport shm | threads | mpi] [--compiles 20] [--seed 1]

Each launch runs test/faults/step.ech with 4 ranks by `echelon run`, or (every other time) the program itself. At a
random moment of its first half second it gets Ctrl-C (SIGINT to its process group), SIGTERM or kill -9, or one of its
ranks (or what compiles it) gets kill -9. Every --compiles-th launch begins with an empty build cache, and the moment is
one of the compilation's. Counted are processes of the run that are there two seconds after its end (over mpi ten: a
guard gives mpirun four, and mpirun its ranks two; a minute where it is the host compiler, which nobody stops when the
launcher gets kill -9 and which ends with its file, or what has got SIGKILL and waits for a core), names in /dev/shm,
files in TMPDIR, and what a launch that was asked to end (not killed) leaves in the build cache beside programs. Names in
/dev/shm are everybody's: nothing that kills mpirun, as snapshots.py --transport mpi does, may run beside it.
"""
import argparse
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from processes import descendants, dies, mapped, stat

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("ECHELON_BUILD", HERE.parent.parent / "build"))

COMPILER = {"c++", "g++", "clang++", "cc1plus", "clang", "as", "collect2", "ld", "lld", "ld.lld"}
GONE = "?"


def identity(pid):
    """A process's number and when it began: numbers come again."""
    seen = stat(pid)
    return pid, seen and seen.began


def lives(process):
    pid, began = process
    seen = stat(pid)
    return seen is not None and seen.began == began and seen.state not in "ZX"


def name_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return GONE


def still_there(run, processes):
    """(pid, name) of those of `processes`, and of what is in the run's session, that live."""
    left = {(pid, name_of(pid)) for pid, begin in processes if lives((pid, begin))}
    for path in pathlib.Path("/proc").iterdir():
        if path.name.isdigit() and (seen := stat(path)) and seen.session == run.pid and seen.state not in "ZX":
            left.add((int(path.name), name_of(path.name)))
    return left


def shared_memory():
    """Files in /dev/shm that nobody uses: what runs elsewhere is mapped, others' scratch space lies in folders."""
    names = {entry.name for entry in os.scandir("/dev/shm") if entry.is_file(follow_symlinks=False)}
    used = mapped(path.name for path in pathlib.Path("/proc").iterdir() if path.name.isdigit())
    return names - {pathlib.Path(path).name for path in used}


def ended(run):
    """Its code; None where it is still there after 30 s."""
    try:
        return run.wait(timeout=30)
    except subprocess.TimeoutExpired:
        return None


def trains(launcher):
    """Whether what was compiled runs."""
    names = [name_of(pid) for pid in [launcher, *descendants(launcher)]]
    return any(name not in COMPILER | {GONE} and not name.startswith("echelon") for name in names)


def launch(command, environment, longest, seconds, chance):
    """(how it was ended, its code, seconds until what had got SIGKILL was gone, processes of it that are left)"""
    run = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           start_new_session=True)
    time.sleep(chance.random() * longest)
    processes = [identity(pid) for pid in [run.pid, *descendants(run.pid)]]
    how = chance.choice(["Ctrl-C", "SIGTERM", "kill -9", "kill -9 of a rank"])
    late = False
    try:
        if how == "Ctrl-C":
            os.killpg(run.pid, signal.SIGINT)
        elif how == "SIGTERM":
            os.kill(run.pid, signal.SIGTERM)
        else:
            # One that is called like the launcher has not become a rank yet, or waits for the launcher's end alone.
            ranks = [p for p in processes[1:] if lives(p) and not name_of(p[0]).startswith("echelon")]
            victim = chance.choice(ranks)[0] if ranks and how != "kill -9" else run.pid
            late = victim != run.pid and name_of(victim) in COMPILER | {GONE}  # perhaps: it may have done its work
            os.kill(victim, signal.SIGKILL)
    except ProcessLookupError:
        pass
    code = ended(run)
    if code is None and late and trains(run.pid):
        how += ", too late, then SIGTERM"
        run.terminate()
        code = ended(run)
    begin = time.monotonic()
    dying = False
    while left := still_there(run, processes):
        compiles = how == "kill -9" and all(name in COMPILER for _, name in left)
        dying = all(dies(pid) for pid, _ in left)
        if time.monotonic() > begin + (60 if compiles or dying else seconds):
            break
        time.sleep(20e-3)
    lasted = time.monotonic() - begin
    told = sorted((pid, name, seen.state if (seen := stat(pid)) else "ended by now") for pid, name in left)
    for pid, _ in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return how, code, lasted if dying else 0, told


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launches", type=int, default=1000)
    parser.add_argument("--transport", choices=["shm", "threads", "mpi"], default="shm")
    parser.add_argument("--compiles", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in a shell's background it is ignored, by children too
    wrong = []
    seconds = 10 if options.transport == "mpi" else 2
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        temporary, cache, empty = folder / "tmp", folder / "cache", folder / "empty"
        temporary.mkdir()
        environment = {**os.environ, "TMPDIR": str(temporary), "ECHELON_CACHE": str(cache)}
        program = folder / "step"
        # The build says where the runtime is; spec and log lie beside what is written.
        spec = shutil.copy(HERE / "step.ech", folder)
        run = [str(BUILD / "bin/echelon"), "run", str(spec), "--train", "on4", "--transport", options.transport]
        subprocess.run([BUILD / "bin/echelon", "build", spec, "--train", "on4", "-o", program], check=True,
                       env=environment, stdout=subprocess.DEVNULL)
        subprocess.run([*run, "--steps", "1"], check=True, env=environment, stdout=subprocess.DEVNULL)
        programs = {p.name for p in cache.rglob("*")}
        before = shared_memory()
        slowest = 0
        for number in range(options.launches):
            command, place, longest = [str(program), "--transport", options.transport], environment, 0.5
            if options.transport == "mpi" or number % 2:
                command = list(run)
            if options.compiles and number % options.compiles == options.compiles - 1:
                command, longest = list(run), 3
                shutil.rmtree(empty, ignore_errors=True)
                place = {**environment, "ECHELON_CACHE": str(empty)}
            how, code, lasted, left = launch([*command, "--log", str(folder / "log.jsonl")], place, longest, seconds, chance)
            slowest = max(slowest, lasted)
            said = f"launch {number}, {' '.join(command[-4:])}, {how}: "
            if code is None:
                wrong.append(said + "it did not end within 30 s")
            if left:
                wrong.append(said + f"processes {left}")
            shared = shared_memory() - before
            if shared:  # others may be about to use or to remove theirs
                time.sleep(1)
                shared &= shared_memory()
            files = [p.name for p in temporary.rglob("*")]
            if shared or files:
                wrong.append(said + f"files {sorted(shared)} {files}")
                for name in shared:
                    os.unlink(f"/dev/shm/{name}")
                shutil.rmtree(temporary)
                temporary.mkdir()
            cached = {p.name for p in cache.rglob("*")} - programs
            if cached:
                wrong.append(said + f"in the build cache {sorted(cached)}")
                programs |= cached
            if not how.startswith("kill") and place is not environment:
                unfinished = [p.name for p in empty.glob("build-*")]
                if unfinished:
                    wrong.append(said + f"in the build cache {unfinished}")
    print(f"{options.launches} launches over {options.transport}: {len(wrong)} left something; "
          f"what had got SIGKILL was gone after {slowest:.2f} s at most" +
          "".join(f"\n{line}" for line in wrong))
    sys.exit(bool(wrong))


main()
