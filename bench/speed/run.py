#!/usr/bin/env python3
"""Times the examples against PyTorch, paired: short blocks of Echelon and of PyTorch take turns in one run.

    bench/speed/run.py [NAME...] [--ranks 1,2] [--rounds 12] [--seconds 2] [--forms eager,compiled,…]

A block's time is the median of its steps' times; a round has one block of each, and the ratio of a row is the median
over the rounds of Echelon's time by PyTorch's, where PyTorch is that of its forms (eager, compiled, for convolutions
also channels last) whose median is best. What waits is stopped by SIGSTOP, so that both never run at once.
"cpu" is the same ratio in processor time of rank 0, which other load on the machine disturbs less.
"""
import argparse
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SHARED = pathlib.Path(os.environ.get("ECHELON_SHARED", ROOT.parent / "shared"))
ECHELON = os.environ.get("ECHELON", ROOT / "build/bin/echelon")
PYTHON = os.environ.get("TORCH_PYTHON", "/opt/venv/bin/python")
SPECS = {n: SHARED / f"specs/{n}.ech" for n in ("mlp_mnist", "gpt_shakespeare", "resnet20_cifar", "translate_digits")}
SPECS.update((p.stem, p) for p in sorted((ROOT / "examples").glob("*.ech")))
TICK = os.sysconf("SC_CLK_TCK")
ALONE = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")


class Echelon:
    """A run without end that is stopped between blocks. The step that a stop interrupts is not counted."""

    def __init__(self, name, ranks, folder):
        text = SPECS[name].read_text()
        text = text.replace('"../', f'"{SPECS[name].parent}/../')
        text = re.sub(r"layout mesh\([^)]*\) *\{[^}]*\}", "layout mesh(dp = 2) { split batch over dp }", text)
        text = re.sub(r"local\(ranks = \d+\)", "local(ranks = 2)", text)
        text = re.sub(r"(?m)^  (evaluate|checkpoint) .*\n", "", text)
        text = re.sub(r"(?m)^  steps .*$", "  steps 100000000", text)
        text = re.sub(r"steps_at\(0.1, .*\)\),", "constant(0.1),", text)
        spec = folder / f"{name}.ech"
        spec.write_text(text)
        self.log = folder / f"{name}.{ranks}.jsonl"
        self.log.touch()
        command = [str(ECHELON), "run", str(spec), "--threads", "1", "--deadline", "100000", "--log", str(self.log)]
        self.process = subprocess.Popen(command + (["--ranks", "1"] if ranks == 1 else []), env=ALONE,
                                        stdout=subprocess.DEVNULL, preexec_fn=os.setpgrp)
        self.ranks, self.place = ranks, 0
        while not self.new(2):
            if self.process.poll() is not None:
                sys.exit(f"{name}: echelon run ended")
            time.sleep(0.1)
        self.pause()

    def new(self, atLeast=0):
        """The times of the steps since the last call, once there are so many."""
        text = self.log.read_text()[self.place:]
        text = text[:text.rfind("\n") + 1]
        if text.count("\n") <= atLeast:
            return []
        self.place += len(text)
        return [json.loads(line)["step_time_s"] for line in text.splitlines()]

    def pause(self):
        os.killpg(self.process.pid, signal.SIGSTOP)
        self.new()

    def used(self):
        """Processor seconds of rank 0: the process, or its first child where ranks are processes."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        fields = pathlib.Path(f"/proc/{(children or [self.process.pid])[0]}/stat").read_text().rsplit(")")[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def block(self, seconds):
        used = self.used()
        os.killpg(self.process.pid, signal.SIGCONT)
        time.sleep(seconds)
        times = self.new()
        while len(times) < 3:
            time.sleep(0.02)
            times += self.new()
        os.killpg(self.process.pid, signal.SIGSTOP)
        cpu = (self.used() - used) / len(times)
        self.new()
        return statistics.median(times[1:]), cpu # the first was interrupted

    def end(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Torch:
    def __init__(self, name, form, ranks, folder):
        meet = folder / f"{name}.{form}.meet"
        self.ranks = [subprocess.Popen([PYTHON, str(HERE / "worker.py"), name, form, str(r), str(ranks), str(meet)],
                                       env=ALONE, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                      for r in range(ranks)]
        for rank in self.ranks:
            if rank.stdout.readline().strip() != "ready":
                sys.exit(f"{name}: PyTorch ({form}) ended")

    def block(self, seconds):
        for rank in self.ranks:
            rank.stdin.write(f"{seconds}\n")
            rank.stdin.flush()
        cpu, *times = [[float(x) for x in rank.stdout.readline().split()] for rank in self.ranks][0]
        return statistics.median(times), cpu

    def end(self):
        for rank in self.ranks:
            rank.stdin.close()
            rank.wait()


def formsOf(name, wanted):
    convolves = "conv" in name or "resnet" in name
    return [form for form in wanted if convolves or "channels_last" not in form]


def row(name, ranks, options, folder):
    forms = formsOf(name, options.forms)
    workers = {"echelon": Echelon(name, ranks, folder), **{f: Torch(name, f, ranks, folder) for f in forms}}
    blocks = {who: [] for who in workers}
    try:
        for worker in workers.values():
            worker.block(0.5)
        for _ in range(options.rounds):
            for who, worker in workers.items():
                blocks[who].append(worker.block(options.seconds))
    finally:
        for worker in workers.values():
            worker.end()
    wall = {who: statistics.median(b[0] for b in each) for who, each in blocks.items()}
    best = min(forms, key=wall.get)
    ratios = [sorted(e[i] / t[i] for e, t in zip(blocks["echelon"], blocks[best])) for i in (0, 1)]
    low, high = ratios[0][len(ratios[0]) // 4], ratios[0][-1 - len(ratios[0]) // 4]
    print(f"| {name} | {ranks} | {wall['echelon'] * 1e3:.2f} | " +
          ", ".join(f"{f} {wall[f] * 1e3:.2f}" for f in forms) +
          f" | **{statistics.median(ratios[0]):.2f}** ({low:.2f} to {high:.2f}) | {statistics.median(ratios[1]):.2f} |",
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SPECS))
    parser.add_argument("--ranks", default="1,2", type=lambda s: [int(x) for x in s.split(",")])
    parser.add_argument("--rounds", default=12, type=int)
    parser.add_argument("--seconds", default=2.0, type=float)
    parser.add_argument("--forms", default="eager,compiled,eager_channels_last,compiled_channels_last",
                        type=lambda s: s.split(","))
    options = parser.parse_args()
    print("| example | ranks | Echelon, ms a step | PyTorch, ms a step | ratio (middle half) | cpu |\n| --- " +
          "| --- " * 5 + "|", flush=True)
    with tempfile.TemporaryDirectory(prefix="echelon-speed-") as folder:
        for name in options.names or SPECS:
            for ranks in options.ranks:
                row(name, ranks, options, pathlib.Path(folder))


if __name__ == "__main__":
    main()
