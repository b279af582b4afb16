#!/usr/bin/env python3
"""First losses of Echelon and of PyTorch under the clauses that change the mathematics.

    bench/torch/clauses.py [--store test/curves/clauses.json] [CASE...]

A case is a train block of test/curves/clauses.ech, or an example in another precision. Start values, batches, draws and
a log's order of arrival are Echelon's; PyTorch's losses come from torch's own autocast, GradScaler and powerSGD_hook, or
from what docs/language.md defines, written by hand in packings.py, policies.py and spec.py. Demands agreement at every
step within the case's bound (relative), and says how far the clause takes the losses from those without it. `--store`
writes PyTorch's figures, which test/curves compares with without PyTorch. Ends with 1 where anything disagrees.
"""
import argparse
import functools
import json
import pathlib
import platform
import subprocess
import sys
import tempfile

import numpy
import torch

import data
import losses
import packings
import policies
import precisions
from spec import Spec

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLAUSES = ROOT / "test/curves/clauses.ech"
DTYPES = {"fp64": torch.float64}  # of a precision; float32 of the others
STEPS = 20


class Run:
    """What Echelon left of the steps of a train block in one precision: rows of the log, start values and draws."""

    def __init__(self, options, spec, train, precision, steps=STEPS, arguments=()):
        self.spec, self.dtype = Spec(spec, train), DTYPES.get(precision, torch.float32)
        self.folder = pathlib.Path(options.folder) / f"{self.spec.name}-{train}-{precision}-{steps}"
        self.log = self.folder / "log.jsonl"
        if not self.folder.exists():
            self.folder.mkdir()
            command = [options.echelon, "run", str(spec), "--steps", str(steps), "--set", f"precision={precision}",
                       "--deadline", "300", "--dump", str(self.folder), "--out", str(self.folder), "--log",
                       str(self.log), *(["--train", train] if train else []), *arguments]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        rows = [json.loads(line) for line in open(self.log)]
        self.rows = [row for row in rows if "loss" in row]
        self.evaluations = [[row["step"], row.get("eval", ""), row["eval_loss"]] for row in rows if "eval_loss" in row]

    def start(self):
        """(parameters, what the optimizer and packing start from)"""
        values = losses.load(self.folder / "start", self.dtype)
        kept = {k: v for k, v in values.items() if k.startswith("optimizer.")}
        return {k: v.requires_grad_() for k, v in values.items() if k not in kept and "average." not in k}, kept

    def batch(self, s):
        return losses.load(self.folder / f"step-{s + 1:06d}" / "batch", self.dtype)

    def draws(self, s):
        return losses.load(self.folder / f"step-{s + 1:06d}" / "random", self.dtype)


class Case:
    """One comparison. train: a block of `spec`; stream: the block whose dump holds the samples, in order; bounds: the
    relative distance that is allowed, by precision."""

    def __init__(self, figures, train, spec=CLAUSES, stream="clothes", bounds=None, steps=STEPS):
        self.figures, self.train, self.spec, self.stream, self.steps = figures, train, pathlib.Path(spec), stream, steps
        self.bounds = bounds or {"fp32": 1e-4, "fp64": 1e-9}


#===- What cases are made of -------------------------------------------------------------------------------------===//


def gradient(spec, parameters, batch):
    """(loss, gradients by name) of samples as a batch of their own."""
    leaves = {k: v.detach().clone().requires_grad_() for k, v in parameters.items()}
    loss, _ = spec.model(leaves, {}, batch, {})
    loss.backward()
    return loss.item(), {k: v.grad for k, v in leaves.items()}


def update(optimizer, parameters, gradients, s):
    for k, v in parameters.items():
        v.grad = gradients[k]
    optimizer.step(s)


def part(batch, i, count):
    return {k: v.chunk(count)[i] for k, v in batch.items()}


@functools.cache
def held_out(spec):
    return data.of(spec)[1]


def evaluation(spec, parameters, step, which=""):
    first = {k: v[:spec.evaluated[1] * spec.batch] for k, v in held_out(spec).items()}
    with torch.no_grad():
        return [step, which, spec.model(parameters, {}, first, None)[0].item()]


def is_due(spec, step, steps=STEPS):
    return hasattr(spec, "evaluated") and (step % spec.evaluated[0] == 0 or step == steps)


#===- Cases ------------------------------------------------------------------------------------------------------===//


def compressed(pack, workers=4, feedback=True):
    """`pack()` makes a packing; hops outside or inside of the workers sum exactly."""
    def figures(run, stream):
        parameters, kept = run.start()
        optimizer = run.spec.optimizer(parameters)
        hop = packings.Workers(pack(), feedback, kept)
        result = []
        for s in range(STEPS):
            batch = run.batch(s)
            each = [gradient(run.spec, parameters, part(batch, w, workers)) for w in range(workers)]
            result.append(sum(loss for loss, _ in each) / workers)
            update(optimizer, parameters, hop.mean([g for _, g in each], run.draws(s)), s)
        return {"loss": result}
    return figures


def hooked(rank, workers):
    """PyTorch's own PowerSGD, a process for each worker."""
    def figures(run, stream):
        return {"loss": packings.processes(workers, hook_losses, run, rank, workers)}
    return figures


def hook_losses(worker, run, rank, workers):
    parameters, kept = run.start()
    optimizer, hook = run.spec.optimizer(parameters), packings.Hook(rank, kept)
    result = []
    for s in range(STEPS):
        loss, gradients = gradient(run.spec, parameters, part(run.batch(s), worker, workers))
        loss = torch.tensor(loss, dtype=torch.float64)
        torch.distributed.all_reduce(loss)
        result.append(loss.item() / workers)
        update(optimizer, parameters, hook.mean(gradients), s)
    return result


def in_turns(kind, k, damp=False, workers=4):
    def figures(run, stream):
        spec = run.spec
        parameters, _ = run.start()
        optimizer, turns = spec.optimizer(parameters), policies.Turns(kind, k, workers, damp)
        result, evaluations = [], []

        def gradient_of(ticket, at):
            return gradient(spec, at, part(stream.batch(ticket // workers), ticket % workers, workers))

        for s, row in enumerate(run.rows):
            loss, gradients = turns.step(s, parameters, row, gradient_of)
            result.append(loss)
            update(optimizer, parameters, gradients, s)
            if is_due(spec, s + 1):
                turns.meet()
                evaluations.append(evaluation(spec, parameters, s + 1))
        return {"loss": result, "evaluations": evaluations}
    return figures


def local(every, workers, **outer):
    def figures(run, stream):
        own = [run.start()[0] for _ in range(workers)]
        optimizers = [run.spec.optimizer(parameters) for parameters in own]
        anchor = policies.Anchor(own[0], **outer)
        result = []
        for s in range(STEPS):
            batch = stream.batch(s)
            each = [gradient(run.spec, own[w], part(batch, w, workers)) for w in range(workers)]
            result.append(sum(loss for loss, _ in each) / workers)
            for optimizer, parameters, (_, gradients) in zip(optimizers, own, each, strict=True):
                update(optimizer, parameters, gradients, s)
            if (s + 1) % every == 0 or s + 1 == STEPS:
                anchor.meet(own)
        return {"loss": result}
    return figures


def averaged(decay):
    """The spec as it stands, with evaluations of a running average of its parameters."""
    def figures(run, stream):
        spec = run.spec
        parameters, _ = run.start()
        optimizer, average = spec.optimizer(parameters), policies.copy(parameters)
        result, evaluations = [], []
        for s in range(STEPS):
            loss, gradients = gradient(spec, parameters, run.batch(s))
            result.append(loss)
            update(optimizer, parameters, gradients, s)
            d = min(decay, (2 + s) / (11 + s))
            average = {k: d * a + (1 - d) * parameters[k].detach() for k, a in average.items()}
            if is_due(spec, s + 1):
                evaluations += [evaluation(spec, average, s + 1), evaluation(spec, parameters, s + 1, "last")]
        return {"loss": result, "evaluations": evaluations}
    return figures


def narrow(context, scales=False, weight=1.0):
    """Under `context`; weight: of the spec's loss."""
    def figures(run, stream):
        parameters, state = losses.start(run.folder, torch.float32)
        stepper = precisions.Scaled(run.spec.optimizer(parameters), scales)
        result = {"loss": []} | ({"loss_scale": [], "skipped": []} if scales else {})
        for s in range(len(run.rows)):
            with context(forward=True):
                loss = weight * run.spec.model(parameters, state, run.batch(s), run.draws(s))[0]
            with context(forward=False):
                scale, skipped = stepper.step(loss, s)
            result["loss"].append(loss.item())
            if scales:
                result["loss_scale"].append(scale)
                result["skipped"].append(skipped)
        return result
    return figures


GPT = {"stream": "sayings"}
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def in_precisions(name, train, spec, most=2e-4, steps=STEPS):
    """A spec in each precision, as PyTorch has it, and with operands rounded by hand; most: the bound of autocast."""
    def case(context, precision, bound):
        return Case(narrow(context, precision == "fp16"), train, spec, None, {precision: bound}, steps)
    cases = {f"{name}_tf32": case(precisions.rounded(precisions.tf32), "tf32", 5e-5)}
    for precision, kind in TYPES.items():
        cases[f"{name}_{precision}"] = case(precisions.autocast(kind), precision, most)
        by_hand = precisions.rounded(precisions.narrowed(kind))
        cases[f"{name}_{precision}_by_hand"] = case(by_hand, precision, 2e-4)
    return cases


CASES = {
    "fp16": Case(compressed(lambda: packings.fp16, feedback=False), "fp16"),
    "fp16_feedback": Case(compressed(lambda: packings.fp16), "fp16_feedback"),
    "int8": Case(compressed(lambda: packings.int8), "int8"),
    "onebit": Case(compressed(lambda: packings.onebit), "onebit"),
    "topk": Case(compressed(lambda: packings.topk(5)), "topk"),
    "topk_outside": Case(compressed(lambda: packings.topk(5), 2), "topk_outside"),
    "randomk": Case(compressed(lambda: packings.RandomK(20)), "randomk"),
    "randomk_alone": Case(compressed(lambda: packings.RandomK(20), feedback=False), "randomk_alone"),
    "powersgd": Case(compressed(lambda: packings.PowerSgd(2)), "powersgd"),
    "powersgd_gpt": Case(compressed(lambda: packings.PowerSgd(4), 2), "powersgd_gpt", **GPT),
    "powersgd_hook": Case(hooked(2, 4), "powersgd"),
    "powersgd_gpt_hook": Case(hooked(4, 2), "powersgd_gpt", **GPT),
    "int8_gpt": Case(compressed(lambda: packings.int8, 2), "int8_gpt", **GPT),
    "k_sync": Case(in_turns("k_sync", 3), "k_sync"),
    "k_batch_sync": Case(in_turns("k_batch_sync", 5), "k_batch_sync"),
    "async": Case(in_turns("k_async", 1), "async"),
    "async_damped": Case(in_turns("k_async", 1, damp=True), "async_damped"),
    "async_outside": Case(in_turns("k_async", 1, workers=2), "async_outside"),
    "k_async": Case(in_turns("k_async", 2), "k_async", **GPT),
    "k_batch_async": Case(in_turns("k_batch_async", 3, damp=True), "k_batch_async"),
    "replayed": Case(in_turns("k_batch_async", 2), "replayed"),
    "local": Case(local(4, 2), "local", **GPT),
    "local_sgd": Case(local(3, 4, lr=0.8, momentum=0.6), "local_sgd"),
    "local_nesterov": Case(local(5, 2, lr=0.7, momentum=0.9, nesterov=True), "local_nesterov", **GPT),
    "lamb": Case(averaged(0.9), "lamb", **GPT),
    "steep": Case(narrow(precisions.rounded(precisions.narrowed(torch.float16)), True, 1000.0), "steep", stream=None,
                  bounds={"fp16": 2e-4}),
    **in_precisions("clothes", "clothes", CLAUSES, 1e-3),
    **in_precisions("sayings", "sayings", CLAUSES),
    **in_precisions("mlp_fashion", None, ROOT / "examples/mlp_fashion.ech", 1e-3),
    **in_precisions("sort_digits", None, ROOT / "examples/sort_digits.ech"),
    **in_precisions("conv_fashion", None, ROOT / "examples/conv_fashion.ech", steps=10),
    **in_precisions("gpt_fortunes", None, ROOT / "examples/gpt_fortunes.ech"),
}


def most(a, b):
    return max(losses.apart(a, b))


def compare(options, name, case):
    """(PyTorch's figures, whether Echelon's agree)"""
    figures, fine = {"spec": case.spec.name, "arguments": ["--train", case.train] if case.train else []}, True
    for precision, bound in case.bounds.items():
        run = Run(options, case.spec, case.train, precision, case.steps)
        stream = case.stream and Run(options, case.spec, case.stream, precision, 2 * STEPS)
        plain = stream or Run(options, case.spec, case.train, "fp32", case.steps)
        theirs = case.figures(run, stream)
        ours = {"loss": [row["loss"] for row in run.rows]}
        pairs = list(zip(ours["loss"], theirs["loss"], strict=True))
        if "evaluations" in theirs:
            assert [e[:2] for e in run.evaluations] == [e[:2] for e in theirs["evaluations"]], run.evaluations
            pairs += [(a[2], b[2]) for a, b in zip(run.evaluations, theirs["evaluations"], strict=True)]
        agrees = all(abs(a - b) <= bound * abs(b) for a, b in pairs)
        for key in ("loss_scale", "skipped"):
            if key in theirs:
                agrees &= [row.get(key, False) for row in run.rows] == theirs[key]
        distance, without = most(*zip(*pairs)), most(theirs["loss"], [row["loss"] for row in plain.rows[:case.steps]])
        print(f"  {name:24s} {precision}  {distance:8.1e} of {bound:.0e}   without {without:8.1e}"
              + ("" if agrees else "  disagree"), flush=True)
        fine &= agrees
        for key, value in theirs.items():
            figures.setdefault(key, {})[precision] = value
        if case.train == "replayed":
            figures.setdefault("order", {})[precision] = [
                {key: row[key] for key in ("step", "loss", "workers", "tickets", "reads")} for row in run.rows]
    return figures | {"spec_sha256": run.spec.hash, "steps": case.steps, "allowed": case.bounds}, fine


def store(path, cases):
    """A line a case; those that are not given stay as they are."""
    path = pathlib.Path(path)
    known = json.loads(path.read_text())["cases"] if path.exists() else {}
    about = {"command": f"bench/torch/clauses.py --store {path}", "torch": torch.__version__,
             "numpy": numpy.__version__, "python": platform.python_version()}
    lines = [f"  {json.dumps(name)}: {json.dumps(case)}" for name, case in sorted((known | cases).items())]
    head = "".join(f" {json.dumps(key)}: {json.dumps(value)},\n" for key, value in about.items())
    path.write_text("{\n" + head + ' "cases": {\n' + ",\n".join(lines) + "\n }\n}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="all unless told")
    parser.add_argument("--echelon", default=str(ROOT / "build/bin/echelon"))
    parser.add_argument("--store", metavar="FILE", help="write PyTorch's figures there")
    parser.add_argument("--folder", help="where dumps are left, and taken from where they are there")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        options.folder = options.folder or folder
        results = {name: compare(options, name, CASES[name]) for name in options.cases or CASES}
    if options.store:
        store(options.store, {name: figures for name, (figures, agrees) in results.items() if agrees})
    return 0 if all(agrees for _, agrees in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
