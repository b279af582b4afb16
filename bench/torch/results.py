#!/usr/bin/env python3
"""Whole runs in PyTorch: the evaluations of a spec for some seeds, from Echelon's start values.

    bench/torch/results.py ../shared/specs/mlp_mnist.ech --seeds 1 2 3

Start values are those that Echelon draws for the seed, with --own-start values of the same spread that PyTorch draws;
order, augmentation, survival and synthetic digits are PyTorch's own. Prints one JSON object an evaluation.
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import tempfile

import torch

import data
from losses import ROOT, start
from spec import Spec


def kept(batch):
    """Survival of ResNet's residual branches: kept with the chance of its depth."""
    return {f"stage{s}.residual.survive":
            torch.stack([torch.rand(batch) < 1 - (i + 1 + (s - 1) * 3) / 9 * 0.5 for i in range(3)])
            for s in (1, 2, 3)}


@torch.no_grad()
def evaluate(spec, parameters, state, held):
    """Loss and accuracy over the held-out samples as one batch (the first M batches where the spec says so)."""
    count = len(next(iter(held.values())))
    if spec.evaluated[1]:
        count = min(count, spec.evaluated[1] * spec.batch)
    total = [0.0, 0.0]
    for first in range(0, count, spec.batch):
        batch = {k: v[first:min(first + spec.batch, count)] for k, v in held.items()}
        size = len(next(iter(batch.values())))
        for i, value in enumerate(spec.model(parameters, state, batch, None)):
            total[i] += value.item() * size
    return {"eval_loss": total[0] / count, "accuracy": total[1] / count}


def run(spec, echelon, seed, steps, own):
    folder = pathlib.Path(tempfile.mkdtemp())
    subprocess.run([echelon, "run", str(spec.path), "--steps", "1", "--set", f"seed={seed}", "--out", str(folder),
                    "--dump", str(folder)], check=True, stdout=subprocess.DEVNULL)
    parameters, state = start(folder, torch.float32)
    shutil.rmtree(folder)
    torch.manual_seed(seed)
    if own:
        with torch.no_grad():
            for parameter in parameters.values():
                if parameter.numel() > 1 and parameter.std() > 0:
                    parameter.copy_(torch.randn_like(parameter) * parameter.std())
    training, held, change = data.of(spec)
    optimizer = spec.optimizer(parameters)
    stream = data.batches(training, spec.batch)
    for s in range(steps):
        batch = next(stream)
        if change:
            batch = change(batch)
        loss, _ = spec.model(parameters, state, batch, kept(spec.batch))
        loss.backward()
        optimizer.step(s)
        if (s + 1) % spec.evaluated[0] == 0 or s + 1 == steps:
            row = {"spec": spec.name, "seed": seed, "step": s + 1, "loss": loss.item()}
            print(json.dumps({**row, **evaluate(spec, parameters, state, held)}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spec")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--own-start", action="store_true", help="PyTorch draws the start values, too")
    parser.add_argument("--steps", type=int, help="stop after this step; the schedule stays that of the whole run")
    parser.add_argument("--echelon", default=str(ROOT / "build/bin/echelon"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    spec = Spec(options.spec)
    for seed in options.seeds:
        run(spec, options.echelon, seed, options.steps or spec.steps, options.own_start)


if __name__ == "__main__":
    main()
