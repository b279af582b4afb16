#!/usr/bin/env python3
"""What a rank's memory is: planned, allocated, resident.

    bench/memory.py

Examples, made large by --set until a rank has 500 MB or more. "plan" is `plan --json`'s arenas, with "saves" a copy of
the state among them, from which a snapshot is written after each step; "arenas" are those of
the program, as it prints them after a few steps; "beyond" is what is resident besides (libraries, their scratch memory,
code, heap), also as the program prints it, its share of the total; limit: 5 %. What files of data were unpacked to lies
in memory that all ranks of a machine share, and is printed apart.
"""
import argparse
import json
import pathlib
import re
import subprocess
import tempfile

from specs import ECHELON, two_ranks

# spec, settings, ranks, whether it saves
LARGE = [("gpt_shakespeare", ["batch=256"], 1, False),
         ("gpt_shakespeare", ["model.width=1024", "model.heads=8", "model.layers=8", "batch=16"], 2, False),
         ("resnet20_cifar", ["batch=256"], 1, False), ("resnet20_cifar", ["batch=512"], 2, False),
         ("mlp_mnist", ["model.width=65536"], 1, False), ("mlp_mnist", ["model.width=65536"], 2, False),
         ("mlp_mnist", ["model.width=65536"], 1, True), ("mlp_mnist", ["model.width=65536"], 2, True),
         ("translate_digits", ["batch=2048"], 1, False), ("conv_fashion", ["batch=3072"], 1, False)]


def row(name, settings, ranks, saves, folder):
    text = two_ranks(name, without="evaluate|checkpoint")
    if saves:
        text = re.sub(r"(?m)^  batch ", '  checkpoint every 1 steps to "ckpt" keep 1\n  batch ', text, count=1)
    if ranks == 1:
        text = text.replace("layout mesh(dp = 2) { split batch over dp }", "layout mesh(dp = 1) { split batch over dp }")
    spec = folder / f"{name}.ech"
    spec.write_text(text)
    command = [str(spec)] + [word for s in settings for word in ("--set", s)]
    plan = json.loads(subprocess.run([ECHELON, "plan", "--json", *command], check=True, capture_output=True).stdout)
    planned = sum(plan["arena_bytes"].values())
    run = subprocess.run([ECHELON, "run", *command, "--steps", "2", "--threads", "1", "--deadline", "100",
                          "--out", str(folder / f"{ranks}")], check=True, capture_output=True, text=True, cwd=folder)
    line = re.search(r"arenas ([0-9.]+) MB \(.*?\), beyond them ([0-9.]+) MB(?:; unpacked data (.*))?", run.stdout)
    arenas, beyond = float(line[1]), float(line[2])
    print(f"| {name}, {', '.join(settings)}{', saves' * saves} | {ranks} | {planned / 1e6:.1f} | {arenas:.1f} | {beyond:.1f} | "
          f"{100 * beyond / (arenas + beyond):.1f} % | {line[3] or '–'} |", flush=True)


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    print("| example | ranks | plan, MB a rank | arenas, MB | beyond, MB | of the total | unpacked data |\n|" + " --- |" * 7)
    with tempfile.TemporaryDirectory(prefix="echelon-memory-") as folder:
        for name, settings, ranks, saves in LARGE:
            row(name, settings, ranks, saves, pathlib.Path(folder))


if __name__ == "__main__":
    main()
