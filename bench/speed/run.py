#!/usr/bin/env python3
"""Times the examples against PyTorch, paired: short blocks of Echelon and of PyTorch take turns in one run.

    bench/speed/run.py [NAME...] [--ranks 1,2] [--rounds 12] [--seconds 2] [--forms eager,compiled,…]

A block's time is the median of its steps' times; a round has one block of each, and the ratio of a row is the median
over the rounds of Echelon's time by PyTorch's, where PyTorch is that of its forms (eager, compiled, for convolutions
also channels last) whose median is best. What waits is stopped by SIGSTOP, so that both never run at once.
"cpu" is the same ratio in processor time of rank 0, which other load on the machine disturbs less.
"""
import argparse
import pathlib
import re
import statistics
import tempfile

from turns import ROOT, SHARED, Echelon, Torch, ratio

SPECS = {n: SHARED / f"specs/{n}.ech" for n in ("mlp_mnist", "gpt_shakespeare", "resnet20_cifar", "translate_digits")}
SPECS.update((p.stem, p) for p in sorted((ROOT / "examples").glob("*.ech")))


def echelon(name, ranks, folder):
    """The example without end, without evaluations; on two ranks, data-parallel."""
    text = SPECS[name].read_text()
    text = text.replace('"../', f'"{SPECS[name].parent}/../')
    text = re.sub(r"layout mesh\([^)]*\) *\{[^}]*\}", "layout mesh(dp = 2) { split batch over dp }", text)
    text = re.sub(r"local\(ranks = \d+\)", "local(ranks = 2)", text)
    text = re.sub(r"(?m)^  (evaluate|checkpoint) .*\n", "", text)
    text = re.sub(r"(?m)^  steps .*$", "  steps 100000000", text)
    text = re.sub(r"steps_at\(0.1, .*\)\),", "constant(0.1),", text)
    spec = folder / f"{name}.ech"
    spec.write_text(text)
    return Echelon(f"{name}.{ranks}", [str(spec)] + (["--ranks", "1"] if ranks == 1 else []), folder)


def forms_of(name, wanted):
    convolves = "conv" in name or "resnet" in name
    return [form for form in wanted if convolves or "channels_last" not in form]


def row(name, ranks, options, folder):
    forms = forms_of(name, options.forms)
    workers = {"echelon": echelon(name, ranks, folder), **{f: Torch(name, f, ranks, folder) for f in forms}}
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
    (wall_ratio, low, high), (cpu_ratio, *_) = (ratio([b[i] for b in blocks["echelon"]], [b[i] for b in blocks[best]])
                                              for i in (0, 1))
    print(f"| {name} | {ranks} | {wall['echelon'] * 1e3:.2f} | " +
          ", ".join(f"{f} {wall[f] * 1e3:.2f}" for f in forms) +
          f" | **{wall_ratio:.2f}** ({low:.2f} to {high:.2f}) | {cpu_ratio:.2f} |",
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
