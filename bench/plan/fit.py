#!/usr/bin/env python3
"""Finds the constants of bench/plan/machines.ech: those by which the model's step times are nearest to the measured ones.

    bench/plan/fit.py [--rows FOLDER] [--every N] [--folds K] [--write]

Each row's program is compiled once (bench_plan_times write, kept under build/plan-steps); then Gauss-Newton (solve.py)
moves the constants, asking the model itself. Prints errors where constants were fitted and where they were not: K folds
of each table by turns, nanotron's rows of 64 GPUs by those of 8 to 32, Korthikanti's by the other tables. --write puts
the constants into machines.ech. --every N takes each Nth row of vTrain alone, whose table is large and regular.
"""
import argparse
import hashlib
import math
import pathlib
import re
import subprocess
import sys

import judged
import rows
import solve
import spec

ROOT = rows.ROOT
TIMES = ROOT / "build/bin/bench_plan_times"
STEPS = ROOT / "build/plan-steps"
MACHINES = ROOT / "bench/plan/machines.ech"

US, TERA, GIGA, MIB = 1e-6, 1e12, 1e9, 2.0**20

# What is not fitted here: data sheets, and what was read in frameworks' sources. NCCL's protocols: fitted on its own table.
DATA_SHEET = {
    "a100_80gb": {"bandwidth": 2039 * GIGA, "peak": 312 * TERA, "peak_fp32": 19.5 * TERA},
    "a100_40gb": {"bandwidth": 1555 * GIGA, "peak": 312 * TERA, "peak_fp32": 19.5 * TERA},
    "h100_80gb": {"bandwidth": 3350 * GIGA, "peak": 989.5 * TERA, "peak_fp32": 67 * TERA},
}
PROTOCOLS = {"floor": 20.04 * US, "floor_rank": 10.45 * US, "rate": 0.7, "overlap": 0,
             "ll128.start": 35.22 * US, "ll128.rate": 0.498, "ll128.limit": 2.419 * MIB,
             "simple.start": 36.69 * US, "simple.rank": 6.229 * US}
LINK = {"a100": {"bandwidth": 300 * GIGA, "latency": 3 * US, **PROTOCOLS, "simple.rate": 0.829, "simple.few": 0.615},
        "h100": {"bandwidth": 450 * GIGA, "latency": 3 * US, **PROTOCOLS, "simple.rate": 0.811,
                 "nvls.start": 36.69 * US, "nvls.rate": 0.68, "nvls.in_switch": 1}}
NETWORK = {"a100": {"bandwidth": 200 * GIGA, "lanes": 8, "latency": 5 * US, "overlap": 0},
           "h100": {"bandwidth": 400 * GIGA, "lanes": 8, "latency": 5 * US, "overlap": 0}}
SUMS = {"megatron": (0.5, 0.5, 0.5), "vtrain": (0.5, 0.5, 0.5), "aleph": (0.5, 0.5, 0.5), "composer": (1, 1, 1),
        "nanotron": (0.5, 1, 2)}  # of values, of gradients, of gradients where the program scatters them


class Constant:
    """One unknown. `of`: which machines have it, as (generation, framework, kernel), None for any; `keys`: its places."""

    def __init__(self, name, start, low, high, of, *keys):
        self.name, self.start, self.low, self.high, self.of, self.keys = name, start, low, high, of, keys

    def holds(self, machine):
        return all(mine is None or mine == its for mine, its in zip(self.of, machine))


def constants():
    a100, h100 = ("a100", None, None), ("h100", None, None)
    made = [
        Constant("a100 product", 0.82, 0.5, 0.97, a100, "device.efficiency.product"),
        Constant("a100 memory", 0.72, 0.4, 0.95, a100, "device.efficiency.memory"),
        Constant("a100 k_half", 60, 1, 500, a100, "device.k_half"),
        Constant("a100 network rate", 0.6, 0.1, 1, a100, "network.rate"),
        Constant("a100 hop", 8 * US, 0.2 * US, 200 * US, a100, "network.hop"),
        Constant("flash1 attention", 0.284, 0.05, 0.9, ("a100", None, "flash1"), "device.efficiency.attention"),
        Constant("flash2 attention", 0.55, 0.05, 0.9, ("a100", None, "flash2"), "device.efficiency.attention"),
        Constant("triton attention", 0.37, 0.05, 0.9, ("a100", None, "triton"), "device.efficiency.attention"),
        Constant("h100 product", 0.8, 0.5, 0.97, h100, "device.efficiency.product"),
        Constant("h100 memory", 0.7, 0.3, 0.95, h100, "device.efficiency.memory"),
        Constant("h100 network rate", 0.52, 0.1, 1, h100, "network.rate"),
        Constant("h100 hop", 41 * US, 1 * US, 400 * US, h100, "network.hop"),
        Constant("h100 beside_stages", 270 * US, 1 * US, 2000 * US, h100, "network.beside_stages"),
        Constant("h100 flash2 attention", 0.25, 0.05, 0.9, ("h100", None, None), "device.efficiency.attention"),
    ]
    for framework, host in (("megatron", 4), ("vtrain", 30), ("nanotron", 30), ("aleph", 60), ("composer", 4)):
        made.append(Constant(f"{framework} host", host * US, 0.1 * US, 300 * US, (None, framework, None), "device.host"))
    loops = "device.passes.loop", "device.passes.copy_strided"
    norms = "device.passes.normalize", "device.passes.normalize_grad"
    for name, framework, kernel in (("megatron", "megatron", None), ("vtrain", "vtrain", None),
                                    ("nanotron", "nanotron", None), ("composer", "composer", None),
                                    ("aleph flash1", "aleph", "flash1"), ("aleph flash2", "aleph", "flash2"),
                                    ("aleph torch", "aleph", "torch"), ("aleph fused", "aleph", "fused")):
        made.append(Constant(f"{name} loop", 1, 0.1, 8, (None, framework, kernel), *loops))
    for framework in ("composer", "nanotron", "vtrain"):
        made.append(Constant(f"{framework} cross_entropy", 3, 0.1, 30, (None, framework, None),
                             "device.passes.cross_entropy"))
    for framework in ("vtrain", "nanotron"):
        made.append(Constant(f"{framework} accumulate", 1.5, 0.1, 8, (None, framework, None),
                             "device.passes.accumulate"))
    made.append(Constant("aleph norm", 7, 0.5, 40, (None, "aleph", None), *norms))
    made.append(Constant("nanotron norm", 2, 0.5, 20, (None, "nanotron", None), *norms))
    made.append(Constant("torch softmax", 1, 0.05, 10, ("a100", None, "torch"), "device.passes.softmax"))
    made.append(Constant("a100 late", 3, 0.05, 30, a100, "device.late"))
    made.append(Constant("a100 send_calls", 30, 0.2, 400, a100, "device.send_calls"))
    return made


def machine_of(run):
    kernel = "flash2" if run.kernel == "flash2rms" else run.kernel
    return run.device, run.framework, run.kernel, (run.device.split("_")[0], run.framework, kernel)


class Model:
    """The compiler's own model, of the programs of some rows: seconds under constants."""

    def __init__(self, all_rows):
        STEPS.mkdir(parents=True, exist_ok=True)
        lines, todo = [], {}
        self.machines = {}
        for row in all_rows:
            text = spec.text(row.run)
            file = STEPS / (hashlib.sha256(text.encode()).hexdigest()[:24] + ".step")
            if not file.exists():
                todo[file] = text
            device, framework, kernel, of = machine_of(row.run)
            name = f"{device}_{framework}_{kernel}" + ("_norms" if kernel == "flash2rms" else "")
            self.machines[name] = (device, framework, kernel, of)
            a_node = min(row.run.a_node, row.run.gpus)
            lines.append(f"{file} {name} {math.ceil(row.run.gpus / a_node)} {a_node}")
        self.compile(todo)
        listed = STEPS / f"rows-{hashlib.sha256(''.join(lines).encode()).hexdigest()[:12]}"
        listed.write_text("\n".join(lines) + "\n")
        self.process = subprocess.Popen([TIMES, "ask", listed], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    @staticmethod
    def compile(todo):
        halves = [list(todo.items())[k::2] for k in range(2)]
        running = []
        for half in halves:
            for file, text in half:
                file.with_suffix(".ech").write_text(text)
            process = subprocess.Popen([TIMES, "write"], stdin=subprocess.PIPE, text=True)
            running.append((process, "".join(f"{file.with_suffix('.ech')} {file}\n" for file, _ in half)))
        for process, text in running:
            process.stdin.write(text)
            process.stdin.close()
        if any(process.wait() for process, _ in running):
            sys.exit("a row's spec does not compile")

    def seconds(self, known, values):
        """`known`: Constants; `values`: by name."""
        said = []
        for name, (device, framework, kernel, of) in self.machines.items():
            keys = {f"device.{k}": v for k, v in DATA_SHEET[device].items()}
            keys.update({"device.alignment": 8, "device.misaligned": 2.4})
            keys.update({f"link.{k}": v for k, v in LINK[of[0]].items()})
            keys.update({f"network.{k}": v for k, v in NETWORK[of[0]].items()})
            keys.update(zip(("link.sum", "link.gradient_sum", "link.gradient_scatter"), SUMS[framework]))
            for constant in known:
                if constant.holds(of):
                    keys.update((key, values[constant.name]) for key in constant.keys)
            if kernel == "flash2rms":
                keys.update({"device.passes.normalize": 1, "device.passes.normalize_grad": 1})
            said.append(f"clear {name}")
            said += [f"set {name} {key} {value!r}" for key, value in keys.items()]
        self.process.stdin.write("\n".join(said) + "\ngo\n")
        self.process.stdin.flush()
        return [float(x) for x in self.process.stdout.readline().split()]


def fitted(all_rows, known, start, weights_of, own=None, told=None, rounds=30):
    """Values of the constants that these rows say something about, or of those of one framework (`own`); others stay."""
    model = Model(all_rows)
    about = [c for c in known if any(c.holds(m[3]) for m in model.machines.values()) and own in (None, c.of[1])]

    def errors(values):
        times = model.seconds(known, {**start, **values})
        return [math.log(t / row.seconds) for t, row in zip(times, all_rows)]
    found = solve.fit(errors, {c.name: start[c.name] for c in about}, {c.name: (c.low, c.high) for c in about},
                      [weights_of[row.table] for row in all_rows], rounds=rounds, told=told)
    model.process.stdin.close()
    return {**start, **found}


def errors_of(all_rows, known, values):
    model = Model(all_rows)
    times = model.seconds(known, values)
    model.process.stdin.close()
    return [math.log(t / row.seconds) for t, row in zip(times, all_rows)]
