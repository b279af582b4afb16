#!/usr/bin/env python3
"""First losses of Echelon and of PyTorch from the same start values, batches and random draws, in fp32 and fp64.

    bench/torch/losses.py ../shared/specs/mlp_mnist.ech examples/conv_fashion.ech
    bench/torch/losses.py --store test/curves examples/*.ech

Runs `echelon run SPEC --steps N --dump DIR` in both precisions, trains the same model in PyTorch from what was dumped,
and demands agreement at every step (all relative): in fp32 1e-4, in fp64 1e-9, or twice PyTorch's own distance, if that
is larger: the largest up to the step, since two trajectories that have parted may cross, between what differs by
roundings alone. In fp32 that is fp64, PyTorch's other kernels (without oneDNN; for convolutions also channels last),
and orders of the samples within each batch; in fp64 another order. Orders alone say too little: a sample goes through a
convolution with the same roundings wherever it is in the batch. `--store` writes PyTorch's figures as
FOLDER/NAME.json, which test/curves compares with without PyTorch. Ends with 1 where anything disagrees.
"""
import argparse
import contextlib
import itertools
import json
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile

import numpy
import torch

import models
from spec import Spec

ROOT = pathlib.Path(__file__).resolve().parents[2]


def load(folder, dtype):
    """Every npy file of a folder by name; reals in `dtype`."""
    values = {f.name.removesuffix(".npy"): torch.from_numpy(numpy.load(f)) for f in sorted(folder.glob("*.npy"))}
    return {k: v.to(dtype) if v.is_floating_point() else v for k, v in values.items()}


def start(dump, dtype):
    """Parameters and states, without the optimizer's, which start at zero in PyTorch too."""
    values = load(dump / "start", dtype)
    assert not any(v.any() for k, v in values.items() if k.startswith("optimizer."))
    values = {k: v.clone() for k, v in values.items() if not k.startswith("optimizer.")}
    state = {k: v for k, v in values.items() if k.split(".")[-1].startswith("running_")}
    return {k: v.requires_grad_() for k, v in values.items() if k not in state}, state


def reordered(values, order):
    """The samples of each tensor in another order. They are its first axis, or the second, after that of a repeat."""
    axes = {k: list(v.shape[:2]).index(len(order)) for k, v in values.items()}
    return {k: v.index_select(axes[k], order) for k, v in values.items()}


@contextlib.contextmanager
def kernels(name):
    """PyTorch with other kernels than those that it takes by itself ("usual")."""
    models.image_format = torch.channels_last if name == "channels last" else torch.contiguous_format
    with torch.backends.mkldnn.flags(enabled=name != "without oneDNN"):
        yield
    models.image_format = torch.contiguous_format


FORMS = {"usual": (0, 1, 2), "without oneDNN": (None, 0), "channels last": (None, 0)}  # and orders of the samples


def other_forms(spec, dump, steps):
    """PyTorch's losses in fp32 under all that differs from the usual by roundings alone."""
    losses = [train(spec, dump, steps, torch.float64)]
    for name, orders in FORMS.items():
        if name == "channels last" and spec.model not in (models.ConvNet, models.ResNet):
            continue
        with kernels(name):
            losses += [train(spec, dump, steps, torch.float32, order) for order in orders]
    return losses


def train(spec, dump, steps, dtype, order=None):
    """PyTorch's losses of the dumped steps; order: the seed of another order of each batch's samples."""
    parameters, state = start(dump, dtype)
    optimizer = spec.optimizer(parameters)
    generator = torch.Generator().manual_seed(order or 0)
    losses = []
    for s in range(steps):
        folder = dump / f"step-{s + 1:06d}"
        batch, random = load(folder / "batch", dtype), load(folder / "random", dtype)
        if order is not None:
            places = torch.randperm(len(next(iter(batch.values()))), generator=generator)
            batch, random = reordered(batch, places), reordered(random, places)
        loss, _, *others = spec.model(parameters, state, batch, random)
        sum(others, loss).backward()
        optimizer.step(s)
        losses.append(loss.item())
    return losses


def echelon(binary, spec, steps, precision, dump):
    """The losses that `echelon run` logs; start values, batches and draws are left in `dump`."""
    command = [binary, "run", str(spec.path), "--steps", str(steps), "--set", f"precision={precision}",
               "--deadline", "300", "--dump", str(dump), "--out", str(dump), "--log", str(dump / "log.jsonl")]
    dump.mkdir(parents=True)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    rows = [json.loads(line) for line in open(dump / "log.jsonl")]
    return [row["loss"] for row in rows if "loss" in row]


def apart(a, b):
    return [abs(x - y) / abs(y) for x, y in zip(a, b, strict=True)]


def compare(binary, spec, steps, folder):
    """(PyTorch's figures, whether Echelon's agree)"""
    ours = {p: echelon(binary, spec, steps, p, folder / p) for p in ("fp32", "fp64")}
    theirs = {"fp32": train(spec, folder / "fp32", steps, torch.float32),
              "fp64": train(spec, folder / "fp64", steps, torch.float64)}
    others = other_forms(spec, folder / "fp32", steps)
    own = {"fp32": [max(each) for each in zip(*(apart(other, theirs["fp32"]) for other in others), strict=True)],
           "fp64": apart(train(spec, folder / "fp64", steps, torch.float64, order=0), theirs["fp64"])}
    assert own["fp64"][0] < 1e-12, "another order of samples is another loss"
    least = {"fp32": 1e-4, "fp64": 1e-9}
    allowed = {p: [max(least[p], 2 * x) for x in itertools.accumulate(own[p], max)] for p in least}
    fine = True
    print(f"\n{spec.name}: relative distance of Echelon's loss from PyTorch's")
    print("  step       loss       fp32   allowed       fp64   allowed")
    distance = {p: apart(ours[p], theirs[p]) for p in ours}
    for s in range(steps):
        row = [(distance[p][s], allowed[p][s]) for p in ("fp32", "fp64")]
        bad = any(not d <= a for d, a in row)
        fine = fine and not bad
        print(f"  {s + 1:4d} {theirs['fp64'][s]:10.6f}" + "".join(f" {d:10.1e} {a:9.1e}" for d, a in row) +
              ("  disagree" if bad else ""))
    return {"spec": spec.path.name, "spec_sha256": spec.hash, "torch": torch.__version__, "numpy": numpy.__version__,
            "python": platform.python_version(), "steps": steps, "loss": theirs, "allowed": allowed}, fine


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("specs", nargs="+")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--echelon", default=str(ROOT / "build/bin/echelon"))
    parser.add_argument("--store", metavar="FOLDER", help="write PyTorch's figures as FOLDER/NAME.json")
    parser.add_argument("--keep", metavar="FOLDER", help="leave the dumps in FOLDER/NAME")
    options = parser.parse_args()
    torch.set_num_threads(1)
    fine = True
    for path in options.specs:
        spec = Spec(path)
        folder = pathlib.Path(options.keep or tempfile.mkdtemp()) / spec.name
        shutil.rmtree(folder, ignore_errors=True)
        figures, agree = compare(options.echelon, spec, options.steps, folder)
        if not options.keep:
            shutil.rmtree(folder.parent)
        fine = fine and agree
        if options.store and agree:
            figures["command"] = f"bench/torch/losses.py --steps {options.steps} --store {options.store} {path}"
            file = pathlib.Path(options.store) / f"{spec.name}.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(figures, indent=1) + "\n")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
