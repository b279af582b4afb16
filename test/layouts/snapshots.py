"""A snapshot of any layout goes on under any other: each ordered pair of LAYOUTS, on a mixture of experts in fp64.

    snapshots.py ECHELON [--sample] [--jobs N]

The first layout trains three steps and saves; the second one loads that, trains to step six and saves. What the second
has loaded is the snapshot, what each has saved is what its ranks have, gathered, all to the last bit: parameters and
moments. The losses are those of a run that never stopped, to 1e-9. --sample: each layout writes once and reads once.
"""
import argparse
import concurrent.futures
import json
import pathlib
import shutil
import sys
import tempfile

from base import Case, echelon

MODEL, BATCH, STOP, END = "moe", 24, 3, 6
LAYOUTS = (("dp",), ("tp",), ("zero1", "tp_seq"), ("zero2",), ("zero3",), ("hsdp", "tp_seq"), ("1f1b",),
           ("zero3", "1f1b"), ("zero_bubble", "tp_seq"), ("zigzag",), ("zero3", "zigzag"), ("zero1", "ep"), ("uneven",),
           ("zero1", "uneven"))
APART = 5  # of the two layouts of a pair, in the sample


def saved(folder, step):
    """The bytes of each tensor of a snapshot, by path."""
    tensors = {}
    for name in "model", "optimizer":
        data = (folder / f"ck/step-{step:08d}/{name}.safetensors").read_bytes()
        long = int.from_bytes(data[:8], "little")
        for path, facts in json.loads(data[8:8 + long]).items():
            if path != "__metadata__":
                begin, end = facts["data_offsets"]
                tensors[path] = data[8 + long + begin:8 + long + end]
    return tensors


def dumped(folder):
    """The bytes of each parameter and moment that the ranks of a run had, gathered."""
    arrays = {}
    for file in folder.glob("*.npy"):
        if not file.name.startswith("gradient."):
            data = file.read_bytes()
            arrays[file.stem] = data[10 + int.from_bytes(data[8:10], "little"):]
    return arrays


def differing(one, other):
    names = [path for path in {*one, *other} if one.get(path) != other.get(path)]
    return f" {len(names)} of {len(one)}, as {min(names)}" if names or not one else ""


def losses(log):
    return {row["step"]: row["loss"] for row in map(json.loads, log.read_text().splitlines()) if "loss" in row}


class Trial:
    def __init__(self, program, work):
        self.program, self.work = program, work
        for number, bases in enumerate(LAYOUTS):
            text = Case(MODEL, bases).spec(BATCH, ["precision fp64", f'checkpoint every {STOP} steps to "ck"'])
            (work / f"{number}").mkdir()
            (work / f"{number}/{MODEL}.ech").write_text(text.replace("steps    3", f"steps    {END}"))

    def train(self, number, out, *options):
        """Empty, or what went wrong."""
        said, status = echelon(self.program, self.work, "run", f"{number}/{MODEL}.ech", "--out", str(out), "--log",
                               f"{out}.jsonl", "--dump", f"{out}.dump", "--dump-state", "--deadline", "100", *options)
        return "" if status == 0 else said

    def write(self, number):
        """Trains a layout to where it stops."""
        out = self.work / f"from-{number}"
        return self.train(number, out, "--steps", str(STOP)) or self.judge_saved(out, STOP)

    def judge_saved(self, out, step):
        other = differing(saved(out, step), dumped(pathlib.Path(f"{out}.dump/step-{step:06d}/after")))
        return f"saved at step {step} is not what the ranks have:{other}" if other else ""

    def go_on(self, whole, pair):
        """A line about a pair, and whether all is as it should be."""
        first, second = pair
        out = self.work / f"{first}-{second}"
        shutil.copytree(self.work / f"from-{first}", out)
        wrong = self.train(second, out, "--resume") or self.judge_saved(out, END)
        worst = 0
        if not wrong:
            other = differing(saved(self.work / f"from-{first}", STOP), dumped(pathlib.Path(f"{out}.dump/start")))
            wrong = f"loaded is not what was saved:{other}" if other else ""
            now = losses(pathlib.Path(f"{out}.jsonl"))
            worst = max((abs(now.get(step, 9e9) / whole[step] - 1) for step in range(STOP + 1, END + 1)))
            wrong = wrong or (f"losses {now}, not {whole}" if worst > 1e-9 else "")
        shutil.rmtree(out, ignore_errors=True)
        shutil.rmtree(f"{out}.dump", ignore_errors=True)
        name = f"{' + '.join(LAYOUTS[first])} -> {' + '.join(LAYOUTS[second])}"
        if wrong:
            return False, f"WRONG {name}: {wrong}"
        return True, f"ok    {name}: the same bits; losses {worst:.1e} apart"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("echelon")
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    everyone = range(len(LAYOUTS))
    pairs = [(a, b) for a in everyone for b in everyone if not asked.sample or b == (a + APART) % len(LAYOUTS)]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        trial = Trial(str(pathlib.Path(asked.echelon).resolve()), pathlib.Path(folder))
        trouble = trial.train(0, trial.work / "whole") or "\n".join(filter(None, pool.map(trial.write, everyone)))
        if trouble:
            print(trouble)
            return 1
        whole = losses(trial.work / "whole.jsonl")
        for fine, line in pool.map(lambda pair: trial.go_on(whole, pair), pairs):
            wrong += not fine
            print(line, flush=True)
    print(f"{len(pairs)} pairs, {wrong} wrong")
    return 1 if wrong or not pairs else 0


if __name__ == "__main__":
    sys.exit(main())
