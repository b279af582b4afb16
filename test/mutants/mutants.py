"""Takes out one event, barrier or declaration at a time, and expects each to be named.

    mutants.py BUILD [--part kernels|programs|waits ...] [--every N] [--program NAME ...] [--kind KIND ...]

kernels: what the runtime's kernels declare, and where their threads meet, by the kernels' own tests (runtime_cuda_test
--mutants). programs: events, waits and declarations of the programs of programs.ech (of one KIND: the first
word of a site); each runs with one of them cut out
(runtime/cuda/host/Cuts.h), and is to end with a message or with other losses or snapshots. waits: each rt.wait of the
same programs' IR removed, and put off to the end of its block; rt-prove-messages is to refuse.

A mutant that is not named has to be shown to be none: what it lacks is implied by others, as the vector clocks see, or
no two tasks touch the same bytes without it, in which case the bits are the same under eight orders of work. All are
counted. Ends with 1 where one is neither, and with 77, which ctest takes for skipped, without CUDA's headers.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
SPEC = HERE / "programs.ech"
# Further programs whose IR waits for messages: more of them, in loops and beside them.
FURTHER_WAITS = ((HERE.parent / "golden/layouts.ech", "overlap"),)
SECONDS = 600  # and the deadlines of ranks and of the emulation are far from what a loaded machine takes
ORDERS = range(8)
# Files whose launches no kernel's test reaches.
OWN_FILES = ("Collectives.cu", "Rank.cu")
# What names a mutant: whatever ends otherwise, by a signal or a message that points elsewhere, is counted as not named.
SIGNS = tuple((re.compile(sign), name) for sign, name in (
    (r"race: ", "a race"),
    (r"writes where it does not declare", "a write that is not declared"),
    (r"that are not announced", "a product that touches other than it says"),
    (r"a barrier that others do not reach", "a barrier that some do not reach"),
    (r"others do not reach", "a shuffle that some do not reach"),
    (r"leaves its memory|where no memory is", "a touch outside of memory"),
    (r"waits in vain; first in the streams:\n  device ", "a wait in vain, with its stream"),
    (r"no rt\.wait orders them", "rt-prove-messages: a race"),
    (r"never waited for", "rt-prove-messages: no wait"),
    (r"captur(e|ing)", "a capture that CUDA refuses"),
    (r"rank \d+: rank \d+ did not come to .* at step \d+", "a deadline, with rank and place"),
    (r"rank \d+: .* has waited for other ranks for \d+ s", "a deadline, with rank and place"),
    (r"at step \d+; the first tensor that is not finite is", "a result that is not finite"),
))


class Tally:
    """What became of the mutants."""

    def __init__(self):
        self.counts = collections.Counter()
        self.missed = 0

    def add(self, mutant, outcome, is_fine=True):
        print(f"{mutant:<70} {outcome if is_fine else 'NOT NAMED: ' + outcome}", flush=True)
        self.counts[outcome if is_fine else "not named"] += 1
        self.missed += not is_fine


def named_by(text):
    """(By what, whether that names it)."""
    name = next((name for sign, name in SIGNS if sign.search(text)), None)
    return (name, True) if name else ("an end that names nothing: " + text.strip()[-200:], False)


def each(items, every):
    return list(items)[::every]


class Program:
    """A train block, built with what cuts things out of it."""

    def __init__(self, build, name, folder):
        self.name, self.folder, self.runs = name, folder, 0
        self.executable = folder / name
        flags = f"-O1 -include {HERE}/CutByEnvironment.h"
        subprocess.run([build / "bin/echelon", "build", SPEC, "--train", name, "--target", "cuda-host", "-o",
                        self.executable], check=True, stdout=subprocess.DEVNULL, env={**os.environ, "CXXFLAGS": flags})

    def run(self, seed, cut=None, isolates=False, sites=None):
        """(What it leaves, None) or (None, what it said at its end)."""
        self.runs += 1
        out = self.folder / f"{self.name}-{self.runs}"
        out.mkdir()
        settings = {"ECHELON_SEED": str(seed), "ECHELON_ISOLATE": str(int(isolates))}
        settings |= {"ECHELON_CUT": cut} if cut else {}
        settings |= {"ECHELON_SITES": str(sites)} if sites else {}
        try:
            done = subprocess.run([self.executable, "--out", out, "--log", out / "log.jsonl", "--deadline", "120",
                                   "--transport", "threads"],
                                  env={**os.environ, **settings}, capture_output=True, text=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return None, "echelon: a hang"
        if done.returncode:
            return None, done.stderr if done.returncode > 0 else f"{done.stderr}\nechelon: signal {-done.returncode}"
        rows = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
        left = [{key: row[key] for key in ("step", "loss", "grad_norm", "eval_loss", "accuracy") if key in row}
                for row in rows]
        left += [file.read_bytes() for file in sorted(out.rglob("*.safetensors"))]
        return left, None

    def sites(self):
        file = self.folder / "sites"
        left, error = self.run(0, sites=file)
        if error:
            sys.exit(f"{self.name} fails as it is: {error}")
        reached = {}
        for line in file.read_text().splitlines():
            matters, site = line.split(" ", 1)
            launched_in = re.search(r"\((\S+):\d+\)$", site)
            if not launched_in or launched_in[1] in OWN_FILES or not (HERE / "../../runtime/cuda" / launched_in[1]).exists():
                reached[site] = matters == "1"
        return left, reached

    def try_site(self, site, matters, right, tally):
        kind = site.split()[0]
        isolates = kind in ("read", "write", "end")
        for seed in (0, 1) if kind in ("host", "record", "wait") else (1,):
            left, error = self.run(seed, site, isolates)
            if error is not None:
                return tally.add(f"{self.name}: {site}", *named_by(error))
            if left != right:
                return tally.add(f"{self.name}: {site}", "a wrong result")
        if not matters:
            return tally.add(f"{self.name}: {site}", "implied by others")
        if kind in ("read", "write", "end", "barrier", "arrival"):
            return tally.add(f"{self.name}: {site}", "the result is right", False)
        same = all(self.run(seed, site)[0] == right for seed in ORDERS)
        if kind == "host" and same:
            return tally.add(f"{self.name}: {site}", "unseen: clocks know nothing of the host's memory; the same bits")
        return tally.add(f"{self.name}: {site}",
                         "spare: nothing touches the same bytes" if same else "the clocks miss it", same)


def programs(build, names, kinds, every, tally):
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            program = Program(build, name, pathlib.Path(folder))
            right, sites = program.sites()
            chosen = sorted(site for site in sites.items() if not kinds or site[0].split()[0] in kinds)
            for site, matters in each(chosen, every):
                program.try_site(site, matters, right, tally)


def waits(build, names, every, tally):
    def check(lines, mutant):
        done = subprocess.run([build / "bin/echelon-opt", "--rt-prove-messages", "-o", "/dev/null"],
                              input="\n".join(lines), capture_output=True, text=True)
        tally.add(mutant, *(named_by(done.stderr) if done.returncode else ("it is accepted", False)))

    for spec, name in [*((SPEC, name) for name in names), *FURTHER_WAITS]:
        text = subprocess.run([build / "bin/echelon", "build", spec, "--train", name, "--target", "cuda-host", "--emit",
                               "rt"], check=True, capture_output=True, text=True).stdout
        lines = text.split("\n")
        found = [i for i, line in enumerate(lines) if line.lstrip().startswith("rt.wait ")]
        for i in each(found, every):
            check(lines[:i] + lines[i + 1:], f"{spec.stem}, {name}: without line {i + 1}")
            depth = len(lines[i]) - len(lines[i].lstrip())
            end = next(j for j in range(i, len(lines)) if re.match(rf" {{0,{max(depth - 1, 0)}}}}}", lines[j]))
            check(lines[:i] + lines[i + 1:end] + [lines[i]] + lines[end:], f"{spec.stem}, {name}: line {i + 1} put off to {end}")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--part", nargs="+", default=["kernels", "programs", "waits"])
    parser.add_argument("--program", nargs="+", default=re.findall(r"^train (\w+)", SPEC.read_text(), re.MULTILINE))
    parser.add_argument("--kind", nargs="+", choices=["wait", "record", "host", "read", "write", "end", "barrier", "arrival"])
    parser.add_argument("--every", type=int, default=1)
    options = parser.parse_args()
    options.build = options.build.resolve()
    kernels = options.build / "bin/runtime_cuda_test"
    if not kernels.exists():
        print("no CUDA: its headers were not there when Echelon was built")
        return 77
    tally, status = Tally(), 0
    if "kernels" in options.part:
        status = subprocess.run([kernels, "--mutants", str(options.every)]).returncode
    if "programs" in options.part:
        programs(options.build, options.program, options.kind, options.every, tally)
    if "waits" in options.part:
        waits(options.build, options.program, options.every, tally)
    print(f"{sum(tally.counts.values())} mutants of programs")
    for outcome, count in tally.counts.most_common():
        print(f"{count:5} {outcome}")
    return 1 if status or tally.missed else 0


if __name__ == "__main__":
    sys.exit(main())
