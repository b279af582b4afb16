#!/usr/bin/env python3
"""Predicted by measured step of the examples on this machine, under several layouts over several transports.

    bench/plan/here.py [--machine shm=FILE threads=FILE mpi=FILE] [--specs NAME…] [--repeat 3] [--seconds 1] [--build]

Without --machine each transport is calibrated first. Programs are built before anything is measured; --build ends
there. Runs take turns: all layouts once, then all again; a run's figure is the median of its log's step_time_s behind
the first steps, and a layout's the median of its runs. Prints a table, the mean and median of the errors, the bias, and
in how many groups (a spec over a transport) the layout that was measured as the fastest is one of the model's first
three, and in how many one of these is within 2 % of it: stores of a small model cost nothing, and then several layouts are
as fast as each other.
"""
import argparse
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from specs import ECHELON, ROOT, SHARED  # noqa: E402

DP = {
    "one rank": "mesh(dp = 1) { split batch over dp }",
    "dp": "mesh(dp = 2) { split batch over dp }",
    "dp, optimizer": "mesh(dp = 2) { split batch over dp; store optimizer over dp }",
    "dp, gradients": "mesh(dp = 2) { split batch over dp; store optimizer, gradients over dp }",
    "dp, params": "mesh(dp = 2) { split batch over dp; store optimizer, gradients, params over dp }",
    "dp 4": "mesh(dp = 4) { split batch over dp }",
}
GPT = DP | {
    "tp, seq": "mesh(tp = 2) { split head, ff, vocab, seq over tp }",
    "tp": "mesh(tp = 2) { split head, ff, vocab over tp }",
    "heads": "mesh(tp = 2) { split head over tp }",
    "ff": "mesh(tp = 2) { split ff over tp }",
}
LAYOUTS = {
    "mlp_fashion": DP | {"hidden": "mesh(tp = 2) { split hidden over tp }"},
    "conv_fashion": DP,
    "gpt_fortunes": GPT,
    "sort_digits": DP | {"tp": "mesh(tp = 2) { split head, ff over tp }", "ff": "mesh(tp = 2) { split ff over tp }"},
}
MICRO = {"gpt_fortunes": 8}  # under dp, in micro batches of so many samples


def text_of(name, layout, micro):
    path = ROOT / f"examples/{name}.ech"
    path = path if path.exists() else SHARED / f"specs/{name}.ech"
    text = path.read_text().replace('"../', f'"{path.parent}/../')
    text = re.sub(r"layout mesh\([^)]*\) *\{[^}]*\}", f"layout {layout}", text)
    text = re.sub(r"local\(ranks = \d+\)", "local(ranks = 4)", text)
    text = re.sub(r"(?m)^  (evaluate|checkpoint|restart) .*\n", "", text)
    if micro:
        text = re.sub(r"(?m)^(  batch +\d+).*$", rf"\1 in micro batches of {micro}", text)
    return re.sub(r"(?m)^  (epochs|steps|samples|until) .*$", "  steps 1000000", text)


class Case:
    def __init__(self, folder, spec, layout, text, transport):
        self.spec, self.layout, self.transport = spec, layout, transport
        self.file = folder / f"{spec}_{re.sub('[^a-z0-9]+', '_', layout)}.ech"
        self.file.write_text(text)
        self.runs, self.predicted, self.terms = [], None, {}

    def plan(self, machine):
        done = subprocess.run([ECHELON, "plan", self.file, "--json", "--machine", machine], capture_output=True, text=True)
        if done.returncode:
            return done.stderr
        told = json.loads(done.stdout)
        self.predicted, self.terms = told["step_time_s"], told["time"]
        return ""

    def run(self, seconds):
        steps = max(12, min(2000, int(seconds / self.predicted)))
        log = self.file.with_suffix(f".{self.transport}.jsonl")
        log.unlink(missing_ok=True)
        done = subprocess.run([ECHELON, "run", self.file, "--transport", self.transport, "--steps", str(steps), "--log",
                               log], capture_output=True, text=True, cwd=self.file.parent)
        if done.returncode:
            return done.stderr
        rows = [json.loads(row) for row in log.read_text().splitlines()]
        times = [row["step_time_s"] for row in rows if "step_time_s" in row]
        self.runs.append(statistics.median(times[max(2, len(times) // 10):]))
        return ""

    @property
    def measured(self):
        return statistics.median(self.runs)


def table(cases):
    print("| spec | transport | layout | predicted, ms | measured, ms | off |\n|" + " --- |" * 6)
    errors = []
    for case in cases:
        off = case.predicted / case.measured - 1
        errors.append(off)
        print(f"| {case.spec} | {case.transport} | {case.layout} | {1e3 * case.predicted:.3f} | {1e3 * case.measured:.3f} "
              f"| {100 * off:+.0f} % |")
    groups, right, near = {}, 0, 0
    for case in cases:
        groups.setdefault((case.spec, case.transport), []).append(case)
    for group in groups.values():
        best = min(group, key=lambda case: case.measured)
        first = sorted(group, key=lambda case: case.predicted)[:3]
        right += best in first
        near += any(case.measured <= 1.02 * best.measured for case in first)
    sizes = [abs(e) for e in errors]
    print(f"\n{len(cases)} steps: mean {100 * statistics.mean(sizes):.1f} %, median {100 * statistics.median(sizes):.1f} %, "
          f"bias {100 * math.expm1(statistics.mean(map(math.log1p, errors))):+.1f} %; the fastest is one of the first three in "
          f"{right} of {len(groups)} groups, and one within 2 % of it in {near}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machine", nargs="*", default=[], metavar="TRANSPORT=FILE")
    parser.add_argument("--specs", nargs="*", default=list(LAYOUTS))
    parser.add_argument("--transports", nargs="*", default=["shm", "threads", "mpi"])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--folder", help="where specs and programs stay, so that another call builds nothing")
    parser.add_argument("--build", action="store_true")
    parser.add_argument("--json", help="a file for what was predicted and measured")
    options = parser.parse_args()
    machines = dict(word.split("=", 1) for word in options.machine)
    with tempfile.TemporaryDirectory(prefix="echelon-here-") as made:
        folder = pathlib.Path(options.folder or made)
        folder.mkdir(exist_ok=True)
        for transport in options.transports:
            if transport not in machines and not options.build:
                machines[transport] = str(folder / f"{transport}.ech")
                subprocess.run([ECHELON, "calibrate", "--transport", transport, "-o", machines[transport]], check=True)
        cases = []
        for spec in options.specs:
            layouts = {name: (layout, 0) for name, layout in LAYOUTS[spec].items()}
            if spec in MICRO:
                layouts["dp, micro"] = (DP["dp"], MICRO[spec])
            for layout, (text, micro) in layouts.items():
                cases += [Case(folder, spec, layout, text_of(spec, text, micro), t) for t in options.transports]
        for case in cases:
            what = ""
            if options.build:
                case.predicted = 1
                what = case.run(0) if case.transport == options.transports[0] else ""
            else:
                what = case.plan(machines[case.transport])
            if what:
                print(f"{case.file.name}: {what}", file=sys.stderr)
                case.predicted = None
        cases = [case for case in cases if case.predicted]
        if options.build:
            return
        for _ in range(options.repeat):
            for case in cases:
                if what := case.run(options.seconds):
                    sys.exit(f"{case.file.name}: {what}")
        if options.json:
            pathlib.Path(options.json).write_text(json.dumps(
                [{"spec": c.spec, "layout": c.layout, "transport": c.transport, "predicted": c.predicted,
                  "measured": c.measured, "runs": c.runs, "time": c.terms, "file": str(c.file)} for c in cases], indent=1))
        table(cases)


if __name__ == "__main__":
    main()
