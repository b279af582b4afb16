"""What run.py and gpt.py share: Echelon and PyTorch as workers that train for a block of seconds when told, and the
statistics of blocks. What waits does not run: Echelon is stopped by SIGSTOP, others wait for their standard input.

A worker has block(seconds), which gives (a step's time: the median, processor seconds of rank 0 a step); peaks(), the
peak resident bytes of each of its ranks; end().
"""
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SHARED = pathlib.Path(os.environ.get("ECHELON_SHARED", ROOT.parent / "shared"))
ECHELON = os.environ.get("ECHELON", ROOT / "build/bin/echelon")
PYTHON = os.environ.get("TORCH_PYTHON", "/opt/venv/bin/python")
TICK = os.sysconf("SC_CLK_TCK")
LONG = 0.3 # seconds; of longer steps the one that a stop interrupted counts, less the time that it was stopped


def threads(count):
    return dict(os.environ, OMP_NUM_THREADS=str(count), OPENBLAS_NUM_THREADS=str(count), MKL_NUM_THREADS=str(count))


def peak(pid):
    """Its peak resident bytes; a page that ranks share, as messages do, counts once among them."""
    def kilobytes(file, key):
        return int(pathlib.Path(f"/proc/{pid}/{file}").read_text().split(f"\n{key}:")[1].split()[0])
    elsewhere = kilobytes("smaps_rollup", "Rss") - kilobytes("smaps_rollup", "Pss")
    return (kilobytes("status", "VmHWM") - elsewhere) * 1024


class Echelon:
    """A run without end, `echelon run` with these arguments, that is stopped between blocks."""

    def __init__(self, name, arguments, folder):
        self.log = folder / f"{name}.jsonl"
        self.log.write_text("")
        command = [str(ECHELON), "run", *arguments, "--threads", "1", "--deadline", "100000", "--log", str(self.log)]
        self.process = subprocess.Popen(command, env=threads(1), stdout=subprocess.DEVNULL, preexec_fn=os.setpgrp)
        self.place = 0
        while not self.new(2):
            if self.process.poll() is not None:
                sys.exit(f"{name}: echelon run ended")
            time.sleep(0.05)
        self.pause()

    def new(self, at_least=1):
        """The times of the steps since the last call, once there are so many."""
        text = self.log.read_text()[self.place:]
        text = text[:text.rfind("\n") + 1]
        if text.count("\n") < at_least:
            return []
        self.place += len(text)
        return [json.loads(line)["step_time_s"] for line in text.splitlines()]

    def pause(self):
        os.killpg(self.process.pid, signal.SIGSTOP)
        self.paused = time.monotonic()
        self.new()

    def ranks(self):
        """The processes of the ranks: the children, or the process itself where it has none."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return children or [self.process.pid]

    def used(self):
        """Processor seconds of rank 0."""
        fields = pathlib.Path(f"/proc/{self.ranks()[0]}/stat").read_text().rsplit(")")[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def block(self, seconds):
        used = self.used()
        began = time.monotonic()
        stopped = began - self.paused
        os.killpg(self.process.pid, signal.SIGCONT)
        time.sleep(seconds)
        times = []
        while True: # stops as a step begins
            new = self.new()
            times += new
            if new and len(times) >= (1 if times[0] - stopped > LONG else 3):
                break
            time.sleep(0.001)
        self.pause()
        cpu = (self.used() - used) / len(times)
        times[0] -= stopped
        return statistics.median(times if times[0] > LONG else times[1:]), cpu

    def peaks(self):
        return [peak(rank) for rank in self.ranks()]

    def end(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Told:
    """Processes that say "ready" and then, for each line of seconds, what the first one's steps took."""

    def __init__(self, name, commands, environment):
        self.processes = [subprocess.Popen(command, env=environment, text=True, stdin=subprocess.PIPE,
                                           stdout=subprocess.PIPE) for command in commands]
        for process in self.processes:
            if process.stdout.readline().strip() != "ready":
                sys.exit(f"{name} ended")

    def block(self, seconds):
        for process in self.processes:
            process.stdin.write(f"{seconds}\n")
            process.stdin.flush()
        cpu, *times = [[float(x) for x in process.stdout.readline().split()] for process in self.processes][0]
        return statistics.median(times), cpu

    def peaks(self):
        return [peak(process.pid) for process in self.processes]

    def end(self):
        for process in self.processes:
            process.stdin.close()
            process.wait()


class Torch(Told):
    """FORM of worker.py; as `ranks` processes, but for forms of two threads, which are one."""

    def __init__(self, name, form, ranks, folder):
        meet = folder / f"{name}.{form}.meet"
        meet.unlink(missing_ok=True)
        inside = 2 if "2_threads" in form else 1
        super().__init__(f"{name}: PyTorch ({form})",
                         [[PYTHON, str(HERE / "worker.py"), name, form, str(r), str(ranks // inside), str(meet)]
                          for r in range(ranks // inside)], threads(inside))


def ratio(ours, theirs):
    """Median, and bounds of the middle half, of the ratios of the blocks that stood in one round."""
    ratios = sorted(a / b for a, b in zip(ours, theirs))
    return statistics.median(ratios), ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
