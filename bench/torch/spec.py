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
        def group(decayed, repeated):
            return {"params": [v for k, v in parameters.items()
                               if models.decayed(k) == decayed and models.repeated(k) == repeated],
                    "weight_decay": self.decay if decayed else 0.0, "decayed": decayed, "repeated": repeated}

        groups = [group(decayed, repeated) for decayed in (True, False) for repeated in (True, False)]
        self.rate = self.schedule(steps)
        self.torch = self.kind([g for g in groups if g["params"]], lr=1.0, **self.others)
        self.parameters = list(parameters.values())
        return self

    def step(self, s, update=lambda optimizer: optimizer.step()):
        if self.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.parameters, self.clip)
        for group in self.torch.param_groups:
            group["lr"] = self.rate(s)
        update(self.torch)
        self.torch.zero_grad(set_to_none=True)


class Lamb(torch.optim.Optimizer):
    """You et al. 2020, which PyTorch has not: Adam's step and the decay, times |w| / |step| of each tensor that decays;
    of what a repeat stacks, each index is a tensor."""

    def __init__(self, groups, lr, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(groups, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for w in group["params"]:
                w -= group["lr"] * self.of_tensor(w, self.state[w], group)

    @staticmethod
    def of_tensor(w, state, group):
        b1, b2 = group["betas"]
        t = state["step"] = state.get("step", 0) + 1
        m = state["m"] = b1 * state.get("m", 0) + (1 - b1) * w.grad
        v = state["v"] = b2 * state.get("v", 0) + (1 - b2) * w.grad ** 2
        r = m / (1 - b1 ** t) / ((v / (1 - b2 ** t)).sqrt() + group["eps"]) + group["weight_decay"] * w
        if not group["decayed"]:
            return r
        axes = tuple(range(1 if group["repeated"] else 0, w.dim()))
        sizes = [(x ** 2).sum(axes, keepdim=True).sqrt() for x in (w, r)]
        return torch.where((sizes[0] > 0) & (sizes[1] > 0), sizes[0] / sizes[1], 1.0) * r


def kinds():
    def of(kind, **defaults):
        return lambda **given: Optimizer(kind, **{**defaults, **given})
    return {"sgd": of(torch.optim.SGD), "adam": of(torch.optim.Adam), "adamw": of(torch.optim.AdamW), "lamb": of(Lamb)}


class Spec:
    def __init__(self, path, name=None):
        """name: of a train block; the first unless told."""
        self.path = pathlib.Path(path).resolve()
        text = self.path.read_text()
        self.name = self.path.stem
        self.hash = hashlib.sha256(text.encode()).hexdigest()
        text = re.sub(r"#.*", "", text)
        train = re.search(rf"^train {name or '[a-z_]+'} {{(.*?)^}}", text, re.M | re.S)[1]
        self.model = models.MODELS[re.search(r"^\s*model\s+(\w+)", train, re.M)[1]]
        self.batch = int(re.search(r"^\s*batch\s+(\d+)", train, re.M)[1])
        self.steps = int(re.search(r"^\s*steps\s+(\d+)", train, re.M)[1])
        self.data = re.search(r"^\s*data\s+(.*)", train, re.M)[1]
        evaluate = re.search(r"^\s*evaluate +every (\d+) steps( on (\d+) batches)?", train, re.M)
        if evaluate:  # every so many steps, on the first batches
            self.evaluated = (int(evaluate[1]), int(evaluate[3]) if evaluate[3] else None)
        self.optimize = re.search(r"^\s*optimize\s+(.*)", train, re.M)[1]

    def optimizer(self, parameters):
        names = {"constant": constant, "cosine": cosine, "steps_at": steps_at, **kinds()}
        return eval(self.optimize, {"__builtins__": {}}, names).over(parameters, self.steps)
