#!/usr/bin/env python3
"""Kills runs while they save, and looks whether the newest whole snapshot loads and leads where the run would have led.

    test/faults/snapshots.py [--calls-step N] [--trials 200] [--transport shm | threads | mpi] [--seed 1]

Trains test/faults/snapshot.ech once to its end. Then
- calls: kill -9 of everything at each system call of the thread that writes one snapshot in the midst of the run, while
  training goes on, on one rank and on two (--calls-step N: at every N-th only; 0: not at all);
- random: kill -9 of the launcher, or of a rank, at random moments of a run that saves nearly all the time.
After each, the run goes on with --resume (or, where no snapshot is there yet, begins again), and must end with the same
parameters and optimizer, bit for bit; nothing unfinished may be left. Then, in a directory that cannot be written, on a
disk that is full, and where another run writes, a run must say so, and the snapshots that were there must be there yet.
Needs kill_at_call, which the build makes.
"""
import argparse
import filecmp
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from processes import descendants, mpirun, stat

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("ECHELON_BUILD", HERE.parent.parent / "build"))
FILES = ("model.safetensors", "optimizer.safetensors")
NOTHING = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


class Trial:
    """Runs of one program, held against one that was never disturbed."""

    def __init__(self, folder, train, ends=True, transport="shm"):
        self.folder = pathlib.Path(folder)
        self.transport = transport
        self.program = self.folder / train
        subprocess.run([BUILD / "bin/echelon", "build", HERE / "snapshot.ech", "--train", train, "-o", self.program],
                       check=True, stdout=subprocess.DEVNULL)
        self.wrong = []
        if not ends:
            return
        self.whole = self.folder / f"{train}-whole"
        subprocess.run(self.command(self.whole), check=True, **NOTHING)
        self.last = sorted((self.whole / "ckpt").iterdir())[-1].name

    def command(self, out):
        return [self.program, "--out", out, "--log", out / "log.jsonl"]

    def disturbed(self, out):
        """The command of a run that gets killed."""
        command = [*self.command(out), "--transport", self.transport]
        if self.transport == "mpi":
            command = mpirun(2) + command
        return command

    def fresh(self):
        out = self.folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        return out

    def goes_on(self, out, what):
        """Resumes, and compares the end with the undisturbed run's."""
        some = any(p.name.startswith("step-") for p in (out / "ckpt").glob("*"))
        run = subprocess.run(self.command(out) + (["--resume"] if some else []), stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, text=True)
        if run.returncode != 0:
            self.wrong.append(f"{what}: --resume ended with {run.returncode}: {run.stderr.strip()}")
            return
        if "damaged" in run.stderr:
            self.wrong.append(f"{what}: {run.stderr.strip()}")
        for name in FILES:
            if not filecmp.cmp(out / "ckpt" / self.last / name, self.whole / "ckpt" / self.last / name, shallow=False):
                self.wrong.append(f"{what}: {name} differs")
        left = [p.name for p in (out / "ckpt").iterdir() if not p.name.startswith("step-")]
        if left:
            self.wrong.append(f"{what}: left behind {left}")


def at_calls(trial, step):
    count, number, seen = 0, 0, set()
    while True:
        out = trial.fresh()
        traced = subprocess.run([BUILD / "bin/kill_at_call", ".step-00000006.writing", str(number),
                                 *map(str, trial.command(out))], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                text=True)
        lines = traced.stdout.splitlines()
        if traced.returncode not in (0, 3) or not lines:
            sys.exit(f"kill_at_call failed: {traced.stdout}")
        if traced.returncode == 3:
            if lines[-1] == "ended after 0":
                sys.exit("the save whose calls are counted was not seen")
            break
        # Once the next save has begun, this one's calls are through.
        if (out / "ckpt" / "step-00000008").exists() or (out / "ckpt/.step-00000008.writing").exists():
            break
        seen.add(lines[-1])
        trial.goes_on(out, f"call {number} ({lines[-1]})")
        count += 1
        number += step
    print(f"{trial.program.name}: killed at {count} system calls ({len(seen)} kinds): {len(trial.wrong)} wrong",
          flush=True)


def at_random(trial, trials, chance):
    saving = 0
    began = time.monotonic()
    subprocess.run(trial.disturbed(trial.fresh()), check=True, **NOTHING)
    length = time.monotonic() - began
    for number in range(trials):
        out = trial.fresh()
        run = subprocess.Popen(trial.disturbed(out), **NOTHING)
        moment = chance.random() * length
        time.sleep(moment)
        ranks = descendants(run.pid)
        whom = chance.choice([run.pid, *ranks])
        try:
            os.kill(whom, signal.SIGKILL)
        except ProcessLookupError:
            pass
        run.wait()
        for pid in ranks:  # ranks follow their launcher a moment later
            while os.path.exists(f"/proc/{pid}/exe"):
                time.sleep(1e-3)
        saving += any(p.name.startswith(".step-") for p in (out / "ckpt").glob(".*"))
        trial.goes_on(out, f"random {number}, after {moment:.3f} s")
    print(f"{trial.program.name} over {trial.transport}: killed at {trials} random moments, {saving} of them in a save: "
          f"{len(trial.wrong)} wrong", flush=True)


def refused(trial, what, out, wanted, limit=None):
    """A run on from snapshots must fail with `wanted`, and lose none of them."""
    before = sorted(p.name for p in (out / "ckpt").iterdir())
    run = subprocess.run(trial.command(out)[:3] + ["--log", trial.folder / "log.jsonl", "--resume"],
                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=limit)
    after = sorted(p.name for p in (out / "ckpt").iterdir())
    if run.returncode not in (2, 4) or wanted not in run.stderr:
        trial.wrong.append(f"{what}: ended with {run.returncode}: {run.stderr.strip()}")
    if before != after:
        trial.wrong.append(f"{what}: {before} became {after}")
    print(f"{what}: {run.stderr.strip()}", flush=True)


def full_and_shut(trial):
    import resource
    out = trial.fresh()
    subprocess.run(trial.command(out) + ["--steps", "4"], check=True, **NOTHING)

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    refused(trial, "a file may not be that large", out, "cannot write", small_files)
    mounted = subprocess.run(["unshare", "-m", "true"], stderr=subprocess.DEVNULL).returncode == 0
    if not mounted or os.geteuid() != 0:
        print("disk full: skipped; it takes root, who may mount", flush=True)
    else:
        disk = trial.folder / "disk"
        disk.mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", disk], check=True)
        try:
            shutil.copytree(out / "ckpt", disk / "out/ckpt")
            refused(trial, "disk full", disk / "out", "No space left on device")
        finally:
            subprocess.run(["umount", disk], check=True)
    # Root may write everywhere but where nobody may.
    if os.geteuid() == 0 and mounted:
        shut = trial.folder / "shut"
        shut.mkdir(exist_ok=True)
        subprocess.run(["mount", "--bind", out, shut], check=True)
        try:
            subprocess.run(["mount", "-o", "remount,ro,bind", shut], check=True)
            refused(trial, "read-only", shut, "Read-only file system")
        finally:
            subprocess.run(["umount", shut], check=True)
    elif os.geteuid() == 0:
        print("read-only: skipped; root may write everywhere, and may not mount", flush=True)
    else:
        (out / "ckpt").chmod(0o555)
        refused(trial, "read-only", out, "cannot write")
        (out / "ckpt").chmod(0o755)
    trial.goes_on(out, "after all that")


def is_stopped(pid):
    """Whether all threads of a process are."""
    return all((seen := stat(task)) and seen.state == "T" for task in pathlib.Path(f"/proc/{pid}/task").iterdir())


def two_runs(trial):
    out = trial.fresh()
    other = subprocess.Popen(trial.command(out), **NOTHING)
    while other.poll() is None and not list((out / "ckpt").glob("step-*")):
        time.sleep(1e-3)
    both = [other.pid, *map(int, pathlib.Path(f"/proc/{other.pid}/task/{other.pid}/children").read_text().split())]
    for pid in both:  # it holds the directory, and changes nothing in it
        os.kill(pid, signal.SIGSTOP)
    while not all(map(is_stopped, both)):  # each thread ends its system call first
        time.sleep(1e-3)
    refused(trial, "two runs", out, "another run is writing its snapshots")
    for pid in both:
        os.kill(pid, signal.SIGKILL)
    other.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls-step", type=int, default=1)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--transport", choices=["shm", "threads", "mpi"], default="shm")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        for train in ("one", "two"):
            trial = Trial(folder, train)
            if options.calls_step:
                at_calls(trial, options.calls_step)
            wrong += trial.wrong
        trial.wrong = []
        full_and_shut(trial)
        wrong += trial.wrong
        trial = Trial(folder, "held", ends=False)
        two_runs(trial)
        wrong += trial.wrong
        if options.trials:
            trial = Trial(folder, "random", transport=options.transport)
            at_random(trial, options.trials, random.Random(options.seed))
            wrong += trial.wrong
    print(f"{len(wrong)} wrong" + "".join(f"\n{line}" for line in wrong))
    sys.exit(bool(wrong))


main()
