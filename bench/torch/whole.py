#!/usr/bin/env python3
"""A whole run of a spec in Echelon, and PyTorch from its start values over its batches: the losses, in fp32.

    bench/torch/whole.py ../shared/specs/gpt_shakespeare.ech

Prints every 20th step and the largest relative distance over all. Batches of all steps are left in a temporary folder
while it runs.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

import torch

from losses import ROOT, apart, train
from spec import Spec


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spec", type=pathlib.Path)
    parser.add_argument("--echelon", default=ROOT / "build/bin/echelon")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        dump = pathlib.Path(folder) / "dump"
        log = pathlib.Path(folder) / "log.jsonl"
        subprocess.run([options.echelon, "run", options.spec, "--dump", dump, "--out", folder, "--log", log], check=True,
                       stdout=subprocess.DEVNULL)
        ours = [row["loss"] for row in map(json.loads, open(log)) if "loss" in row]
        theirs = train(Spec(options.spec), dump, len(ours), torch.float32)
    far = apart(ours, theirs)
    for s in [*range(0, len(ours), 20), len(ours) - 1]:
        print(f"{s + 1:6d} {ours[s]:.7f} {theirs[s]:.7f} {far[s]:.1e}")
    print(f"largest relative distance over {len(ours)} steps: {max(far):.1e}")


if __name__ == "__main__":
    main()
