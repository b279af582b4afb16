#!/usr/bin/env python3
"""A snapshot in other hands: read by the stock safetensors library, evaluated by PyTorch, against Echelon's figures.

    bench/torch/snapshot.py ../shared/specs/gpt_shakespeare.ech ckpt/shakespeare/step-00000500

Runs `echelon evaluate SPEC --from SNAPSHOT` and the same evaluation in PyTorch on the tensors of model.safetensors and
the held-out data as data.py reads them. Ends with 1 where a figure differs by more than 1e-5 of itself.
"""
import argparse
import json
import subprocess
import sys
import tempfile

import safetensors.torch
import torch

import data
from losses import ROOT
from results import evaluate
from spec import Spec


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spec")
    parser.add_argument("snapshot")
    parser.add_argument("--echelon", default=str(ROOT / "build/bin/echelon"))
    parser.add_argument("--set", action="append", default=[], help="as echelon's")
    options = parser.parse_args()
    settings = [word for value in options.set for word in ("--set", value)]
    torch.set_num_threads(1)
    spec = Spec(options.spec)
    tensors = safetensors.torch.load_file(options.snapshot + "/model.safetensors")
    theirs = evaluate(spec, tensors, tensors, data.of(spec)[1])
    with tempfile.NamedTemporaryFile() as log:
        subprocess.run([options.echelon, "evaluate", options.spec, *settings, "--from", options.snapshot,
                        "--log", log.name], check=True, stdout=subprocess.DEVNULL)
        figures = json.loads(log.read().splitlines()[-1])
    fine = True
    for name, value in theirs.items():
        ours = figures[name]
        apart = abs(ours - value) / abs(value)
        fine = fine and apart <= 1e-5
        print(f"{name}: Echelon {ours:.6g}, PyTorch {value:.6g}, apart {apart:.1e}")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
