"""What PyTorch needs of a spec, read from its text: the model's name, the length, the optimizer and its schedule.

An optimize clause reads as a Python expression, so it is evaluated as one, with these names alone.
"""
import hashlib
import math
import pathlib
import re

import torch

import models


def schedule(warmup, peak, after):
    """The rate of step s (from 0): peak * (s + 1) / warmup, then what `after` makes of the step."""
    return lambda steps: lambda s: peak * (s + 1) / warmup if s < warmup else after(s, steps)


def constant(peak, warmup=0):
    return schedule(warmup, peak, lambda s, steps: peak)


def cosine(peak, warmup=0, floor=0.0):
    def after(s, steps):
        return floor + 0.5 * (peak - floor) * (1 + math.cos(math.pi * (s - warmup) / (steps - warmup)))
    return schedule(warmup, peak, after)


def steps_at(peak, drops, by, warmup=0):
    return schedule(warmup, peak, lambda s, steps: peak * by ** sum(s >= d for d in drops))


class Optimizer:
    """A torch optimizer over Echelon's parameters; `rate` gives the learning rate of a step, `clip` may be None."""

    def __init__(self, kind, lr, decay=0.0, clip=None, **others):
        self.kind, self.decay, self.clip, self.others = kind, decay, clip, others
        self.schedule = lr if callable(lr) else constant(lr)

    def over(self, parameters, steps):
        groups = [{"params": [v for k, v in parameters.items() if models.decayed(k)], "weight_decay": self.decay},
                  {"params": [v for k, v in parameters.items() if not models.decayed(k)], "weight_decay": 0.0}]
        self.rate = self.schedule(steps)
        self.torch = self.kind([g for g in groups if g["params"]], lr=1.0, **self.others)
        self.parameters = list(parameters.values())
        return self

    def step(self, s):
        if self.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.parameters, self.clip)
        for group in self.torch.param_groups:
            group["lr"] = self.rate(s)
        self.torch.step()
        self.torch.zero_grad(set_to_none=True)


def kinds():
    def of(kind, **defaults):
        return lambda **given: Optimizer(kind, **{**defaults, **given})
    return {"sgd": of(torch.optim.SGD), "adam": of(torch.optim.Adam), "adamw": of(torch.optim.AdamW)}


class Spec:
    def __init__(self, path):
        self.path = pathlib.Path(path).resolve()
        text = self.path.read_text()
        self.name = self.path.stem
        self.hash = hashlib.sha256(text.encode()).hexdigest()
        text = re.sub(r"#.*", "", text)
        train = text[text.index("train "):]
        self.model = models.MODELS[re.search(r"^\s*model\s+(\w+)", train, re.M)[1]]
        self.batch = int(re.search(r"^\s*batch\s+(\d+)", train, re.M)[1])
        self.steps = int(re.search(r"^\s*steps\s+(\d+)", train, re.M)[1])
        self.data = re.search(r"^\s*data\s+(.*)", train, re.M)[1]
        every, _, first = re.search(r"^\s*evaluate every (\d+) steps( on (\d+) batches)?", train, re.M).groups()
        self.evaluated = (int(every), int(first) if first else None)  # every so many steps, on the first batches
        self.optimize = re.search(r"^\s*optimize\s+(.*)", train, re.M)[1]

    def optimizer(self, parameters):
        names = {"constant": constant, "cosine": cosine, "steps_at": steps_at, **kinds()}
        return eval(self.optimize, {"__builtins__": {}}, names).over(parameters, self.steps)
