#!/usr/bin/env python3
"""Finds the constants of bench/plan/machines.ech: those by which the model's step times are nearest to the measured ones.

    bench/plan/fit.py [--rows FOLDER] [--every N] [--folds K] [--write]

Each row's program is compiled once (bench_plan_times write, kept under build/plan-steps); then Gauss-Newton (solve.py)
moves the constants, asking the model itself. Prints errors where constants were fitted and where they were not: K folds
of each table by turns, nanotron's rows of 64 GPUs by those of 8 to 32. Korthikanti's are never fitted. --write puts
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


# Part of the memory, and GiB that no tensor has; what a framework holds beside what the program would. Fitted on what ran
# and what did not (aleph, nanotron), else typical: a fused norm keeps its input alone, scores are kept in two bytes.
ROOM = {"megatron": (0.95, 1.5), "vtrain": (0.95, 1.5), "composer": (0.95, 1.5), "aleph": (1, 1),
        "nanotron": (0.88, 1.5)}
HELD = {"megatron": {"held_values": 1, "held_norms": 0.6, "held_scores": 0.6, "held_split": 1.1},
        "vtrain": {"held_values": 1, "held_norms": 0.6, "held_scores": 0.6, "held_split": 1.1},
        "composer": {"held_norms": 0.5},
        "aleph": {"held_gradients": 0.5, "held_values": 1.03, "held_norms": 1.6, "held_scores": 0.55, "held_logits": 21,
                  "held_split": 1.3},
        "nanotron": {"held_values": 1.2, "held_norms": 0.75, "held_logits": 16, "held_split": 1.2}}
HELD_RMS = 0.3  # of norms in one kernel


class Constant:
    """One unknown. `of`: which machines have it, as (generation, framework, kernel), None for any; `keys`: its places.
    Where its bounds are one, it is said rather than fitted."""

    def __init__(self, name, start, low, high, of, *keys):
        self.name, self.start, self.low, self.high, self.of, self.keys = name, start, low, high, of, keys

    def holds(self, machine):
        return all(mine is None or mine == its for mine, its in zip(self.of, machine))

    def is_fitted(self):
        return self.low < self.high

    def is_at_bound(self, value):
        return self.is_fitted() and not self.low * 1.02 < value < self.high * 0.98


def said(name, value, of, *keys):
    return Constant(name, value, value, value, of, *keys)


def constants():
    a100, h100 = ("a100", None, None), ("h100", None, None)
    aleph, vtrain, nanotron, megatron, composer = ((None, name, None) for name in (
        "aleph", "vtrain", "nanotron", "megatron", "composer"))
    loops = "device.passes.loop", "device.passes.copy_strided"
    norms = "device.passes.normalize", "device.passes.normalize_grad"
    host, attention, losses = "device.host", "device.efficiency.attention", "device.passes.cross_entropy"
    made = [
        Constant("a100 product", 0.8, 0.78, 0.88, a100, "device.efficiency.product"),
        Constant("a100 memory", 0.85, 0.8, 0.93, a100, "device.efficiency.memory"),
        Constant("a100 network rate", 0.7, 0.3, 0.9, a100, "network.rate"),
        said("a100 hop", 1.5 * US, a100, "network.hop"),  # of InfiniBand: two adapters and a switch
        Constant("flash1 attention", 0.3, 0.15, 0.6, ("a100", None, "flash1"), attention),
        said("flash2 attention", 0.65, ("a100", None, "flash2"), attention),  # Dao 2023: up to 0.72, causal less
        Constant("triton attention", 0.37, 0.15, 0.6, ("a100", None, "triton"), attention),
        Constant("torch softmax", 1.2, 0.5, 4, ("a100", None, "torch"), "device.passes.softmax"),
        Constant("h100 product", 0.72, 0.5, 0.9, h100, "device.efficiency.product"),
        Constant("h100 memory", 0.87, 0.5, 0.93, h100, "device.efficiency.memory"),
        Constant("h100 network rate", 0.5, 0.1, 0.95, h100, "network.rate"),
        Constant("h100 rate_alone", 0.8, 0.1, 1, h100, "network.rate_alone"),
        Constant("h100 hop", 41 * US, 1 * US, 400 * US, h100, "network.hop"),
        Constant("h100 beside_stages", 210 * US, 1 * US, 2000 * US, h100, "network.beside_stages"),
        said("nanotron rings", 0.9, ("h100", "nanotron", None), "link.simple.rate"),
        Constant("nanotron attention", 0.5, 0.2, 0.6, ("h100", "nanotron", None), attention),
        Constant("nanotron norm", 16, 1, 30, nanotron, *norms),
        Constant("nanotron accumulate", 2.5, 1, 8, nanotron, "device.passes.accumulate"),
        Constant("nanotron host", 50 * US, 5 * US, 100 * US, nanotron, host),
        Constant("nanotron loop", 0.3, 0.2, 4, nanotron, *loops),
        Constant("nanotron cross_entropy", 14, 2, 40, nanotron, losses),
        Constant("nanotron send_calls", 5, 1, 60, nanotron, "device.send_calls"),
        Constant("aleph norm", 10, 1, 40, aleph, *norms),
        Constant("aleph host", 40 * US, 10 * US, 75 * US, aleph, host),
        Constant("aleph send_calls", 100, 1, 400, aleph, "device.send_calls"),
        # Nothing of Megatron's is fitted: products leave two bytes where the program's leave four, and the rest is fused
        said("megatron host", 4 * US, megatron, host),
        said("megatron loop", 0.5, megatron, *loops),
        said("composer host", 4 * US, composer, host),  # nothing waits for it
        Constant("composer loop", 1.2, 0.8, 4, composer, *loops),
        Constant("composer cross_entropy", 18, 2, 40, composer, losses),
        Constant("vtrain product", 0.85, 0.6, 0.95, vtrain, "device.efficiency.product"),
        Constant("vtrain k_half", 200, 1, 800, vtrain, "device.k_half"),
        Constant("vtrain launch", 10 * US, 1 * US, 60 * US, vtrain, "device.launch"),
        Constant("vtrain late", 1, 0.1, 10, vtrain, "device.late"),
        Constant("vtrain send_calls", 14, 1, 100, vtrain, "device.send_calls"),
        Constant("vtrain host", 35 * US, 5 * US, 100 * US, vtrain, host),
        Constant("vtrain loop", 0.5, 0.15, 4, vtrain, *loops),
    ]
    for kernel, passes in (("flash1", 1.5), ("flash2", 1.5), ("torch", 1.7), ("fused", 1.2)):
        made.append(Constant(f"aleph {kernel} loop", passes, 0.8, 6, (None, "aleph", kernel), *loops))
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
    about = [c for c in known if c.is_fitted() and any(c.holds(m[3]) for m in model.machines.values()) and own in (None, c.of[1])]

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


# ---- bench/plan/machines.ech

HEADER = """# Machines of other people's measurements: a device with the framework that computes on it, a link with the library that
# sends on it. Written by bench/plan/fit.py, held against the public tables by bench/plan/judge.py.
#
#   device DEVICE_FRAMEWORK, DEVICE_FRAMEWORK_KERNEL      link nvlink3_FRAMEWORK, nvlink4_FRAMEWORK, net_FRAMEWORK
#
# Frameworks: megatron vtrain nanotron aleph composer nccl. Kernels are those of attention: written (products and a
# softmax), fused (mask, softmax and dropout in one kernel), torch (each its own), flash1, flash2, flash2rms (flash2,
# and norms in one kernel), triton. Nothing is said for a model or a row of a table.
#
# Fitted: a line of `fit` tells on which table, and where a constant ended at a bound of its search, so that it is not
# known. Other constants come from the source that is named, or are typical.
import devices
"""


def figure(value):
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def us(value):
    return f"{value / US:.3g} us"


def settings(values, of, skip=()):
    """The clauses of the constants whose machines are just `of`."""
    groups, notes = {}, []
    for c in constants():
        if c.of != of:
            continue
        value = values[c.name]
        if c.is_at_bound(value):
            notes.append(f"{c.name} at its bound")
        for key in c.keys:
            place, _, rest = key.partition(".")
            if place != "device":
                continue
            kind, _, name = rest.rpartition(".")
            groups.setdefault(kind or "response", []).append(
                f"{name} {us(value) if name in ('host', 'launch') else figure(value)}")
            if key == "device.efficiency.attention":
                groups[kind].append(f"attention_grad {figure(0.8 * value)}")
    return groups, notes


# The kernel that a framework is meant to have where none is said; passes over scores; what H100 is said to reach.
USUAL = {"megatron": "written", "vtrain": "written", "nanotron": "flash2", "aleph": "flash2", "composer": "triton"}
SCORES = {"written": "attention 4, attention_grad 6", "fused": "attention 4.5, attention_grad 6",
          "torch": "attention 14, attention_grad 12"}
TYPICAL = {"flash1": 0.17, "flash2": 0.35, "triton": 0.22}


def clauses(groups):
    return "; ".join(f"{kind} {', '.join(said)}" for kind, said in groups.items())


def text(values):
    """The file."""
    lines = [HEADER]

    def device(name, base, groups, *more):
        said = "; ".join([clauses(groups)] * bool(groups) + list(more))
        lines.append(f"device {name} = {base} {{ {said} }}")

    def kernel_of(framework, kernel):
        generation = name.split("_")[0]
        groups = {}
        own = [(generation, framework, None)] if kernel == USUAL[framework] else []
        for of in [(generation, None, kernel), (None, framework, kernel), *own]:
            for kind, said in settings(values, of)[0].items():
                groups.setdefault(kind, []).extend(said)
        if kernel in SCORES:
            groups.setdefault("passes", []).append(SCORES[kernel])
        elif "efficiency" not in groups:
            groups["efficiency"] = [f"attention {TYPICAL[kernel]}", f"attention_grad {figure(0.8 * TYPICAL[kernel])}"]
        return groups

    shared, notes = settings(values, ("a100", None, None))
    shared_h100, notes_h100 = settings(values, ("h100", None, None))
    lines += ["# ---- Devices. fit: a100 on Aleph Alpha and llm-foundry; h100 on nanotron. "
              + "; ".join(notes + notes_h100),
              "# Misaligned sizes: on vTrain's head of 50,257 words. Memory is in GiB: what programs see of it. Whole tiles"
              " (units) were", "# not identifiable, and are not counted."]
    for name, groups, size, rate in (("a100_80gb", shared, 80, 2039), ("a100_40gb", shared, 40, 1555),
                                     ("h100_80gb", shared_h100, 80, 3350)):
        response = groups.pop("response", [])
        device(f"{name}_kernels", name, groups, f"memory {size} GiB at {rate} GB/s",
               "response " + ", ".join(response + ["units 0", "alignment 8", "misaligned 2.4"]))
        if response:
            groups["response"] = response
    frameworks = ("megatron", "vtrain", "nanotron", "aleph", "composer")
    lines.append("\n# ---- Frameworks. fit: each on its own table; room (usable, reserve) on what ran and what did not.")
    for name in ("a100_80gb", "a100_40gb", "h100_80gb"):
        for framework in frameworks:
            groups, notes = settings(values, (None, framework, None))
            notes += [note for generation in ("a100", "h100") for note in settings(values, (generation, framework, None))[1]]
            if notes and name == "a100_80gb":
                lines.append(f"# {framework}: {'; '.join(notes)}")
            usable, reserve = ROOM[framework]
            held = [f"{key} {value}" for key, value in HELD[framework].items()]
            for kind, said in kernel_of(framework, USUAL[framework]).items():
                groups.setdefault(kind, []).extend(said)
            groups.setdefault("response", []).extend([f"usable {usable}", f"reserve {reserve} GiB", *held])
            device(f"{name}_{framework}", f"{name}_kernels", groups)
        device(f"{name}_nccl", f"{name}_kernels", {"response": ["host 4 us"]})
    lines.append("\n# ---- Kernels of attention. fit: on Aleph Alpha (flash1, flash2, torch, fused) and llm-foundry (triton); "
                 "on H100 under\n# nanotron. Not fitted: on H100 flash 2 reaches 35% of the peak (Shah et al. 2024), others "
                 "lose as much as on A100. A\n# backward kernel is at 0.8 of the forward's rate. Passes over scores that are "
                 "written out: counted in sources.")
    for name in ("a100_80gb", "a100_40gb", "h100_80gb"):
        for framework in frameworks:
            for kernel in ("written", "fused", "torch", "flash1", "flash2", "triton"):
                groups = kernel_of(framework, kernel)
                if USUAL[framework] in SCORES and kernel not in SCORES:
                    groups.setdefault("passes", []).extend(["attention 0", "attention_grad 0"])
                device(f"{name}_{framework}_{kernel}", f"{name}_{framework}", groups)
            device(f"{name}_{framework}_flash2rms", f"{name}_{framework}_flash2",
                   {"passes": ["normalize 1", "normalize_grad 1"], "response": [f"held_norms {HELD_RMS}"]})
    lines.append("""
# ---- Links within a node. NCCL's protocols on NVLink 3: fitted on 60 all-reduces of 2, 4 and 8 A100 (2.2% mean); on
# NVLink 4: ring and switch from 8 H200 at 8 GiB, the rest as on NVLink 3. Frameworks call the same library.
link nvlink3_nccl = nvlink3 {
  response floor 20.04 us, floor_rank 10.45 us, rate 0.7
  protocol ll128 start 35.22 us, rate 0.498, limit 2.419 MiB
  protocol simple start 36.69 us, rank 6.229 us, rate 0.829, few 0.615
}
link nvlink4_nccl = nvlink4 {
  response floor 20.04 us, floor_rank 10.45 us, rate 0.7
  protocol ll128 start 35.22 us, rate 0.498, limit 2.419 MiB
  protocol simple start 36.69 us, rank 6.229 us, rate 0.811
  protocol nvls start 36.69 us, rate 0.68, in_switch 1
}
# NVLink 5: fitted on 21 all-reduces of 8 B200, 32 KiB to 16 GiB (4.1% mean).
link nvlink5_nccl = nvlink5 {
  response floor 20 us, floor_rank 4.13 us, rate 0.7
  protocol ll128 start 20.36 us, rate 0.108, limit 787 KiB
  protocol simple start 93.96 us, rate 0.757
  protocol nvls start 112.7 us, rate 0.546, in_switch 1
}

# What a framework starts does not run beside its compute (fitted by a prototype: the share was 0.01). From their
# sources: what they sum in two bytes where the program sums in four, and that nanotron's ZeRO-1 all-reduces gradients.""")
    for framework in frameworks:
        sums = ", ".join(f"{key} {value}" for key, value in zip(("sum", "gradient_sum", "gradient_scatter"),
                                                                SUMS[framework]) if value != 1)
        for generation in (3, 4):
            rings = "; protocol simple rate 0.9" if framework == "nanotron" and generation == 4 else ""
            lines.append(f"link nvlink{generation}_{framework} = nvlink{generation}_nccl {{ response "
                         f"{sums}{', ' if sums else ''}overlap 0{rings} }}")
    v = values
    lines.append(f"""
# ---- Networks, 8 cards a node: Selene and the A100 clusters (200 Gb/s a card), nanotron's cluster (400 Gb/s). fit: their
# rates, that of a group that is the whole cluster apart; the hop of nanotron's; what each message within a stage waits for
# each of its ranks where stages send between nodes. Not fitted: a hop of InfiniBand, two adapters and a switch.
link net_nccl = 8 x 200 Gb/s, 5 us {{ response rate {figure(v['a100 network rate'])}, hop {us(v['a100 hop'])}, overlap 0 }}
link net_megatron = net_nccl
link net_vtrain = net_nccl
link net_aleph = net_nccl
link net_composer = net_nccl
link net_nanotron = 8 x 400 Gb/s, 5 us {{
  response rate {figure(v['h100 network rate'])}, rate_alone {figure(v['h100 rate_alone'])}, hop {us(v['h100 hop'])}
  response beside_stages {us(v['h100 beside_stages'])}, overlap 0
}}""")
    return "\n".join(lines) + "\n"


def weights(all_rows):
    """A table counts by a power of its rows: the small ones are not drowned."""
    count = {}
    for row in all_rows:
        count[row.table] = count.get(row.table, 0) + 1
    return {table: 1 / n**0.7 for table, n in count.items()}


def usual(table, folder, every=1):
    return [r for r in rows.load(table, folder) if r.run.runnable and r.seconds and not r.slow][::every]


A100 = "llmfoundry_a100", "aleph_alpha"


def all_fitted(known, start, rows_of):
    """The shared constants of A100 on two tables, then vTrain's own, and nanotron's."""
    together = [r for table in A100 for r in rows_of[table]]
    values = fitted(together, known, start, weights(together)) if together else start
    if rows_of["vtrain_single_node"]:
        of = rows_of["vtrain_single_node"]
        values = fitted(of, known, values, weights(of), own="vtrain")
    if rows_of["nanotron"]:
        values = fitted(rows_of["nanotron"], known, values, weights(rows_of["nanotron"]))
    return values


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=rows.VALIDATION)
    parser.add_argument("--every", default=4, type=int)
    parser.add_argument("--folds", default=0, type=int)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    known = constants()
    start = {c.name: c.start for c in known}
    rows_of = {table: usual(table, options.rows, options.every if table.startswith("vtrain") else 1)
               for table in rows.TABLES}
    values = all_fitted(known, start, rows_of)
    for c in known:
        value = values[c.name]
        print(f"{c.name:24} {value:10.4g}" + ("   at its bound" if c.is_at_bound(value) else "" if c.is_fitted() else "   said"))
    print(judged.HEAD)
    for table, of in rows_of.items():
        fitted_on = "not fitted" if table.startswith("korthikanti") else "fitted"
        print(judged.line(f"{table}, {fitted_on}", errors_of(of, known, values)), flush=True)
    if options.write:
        MACHINES.write_text(text(values))
    if options.folds:
        held = {table: [] for table in rows_of}
        for k in range(options.folds):
            found = all_fitted(known, values, {t: [r for i, r in enumerate(of) if i % options.folds != k]
                                               for t, of in rows_of.items()})
            for table, of in rows_of.items():
                held[table] += errors_of(of[k::options.folds], known, found)
        for table, errors in held.items():
            print(judged.line(f"{table}, {options.folds} folds", errors), flush=True)
        small = [r for r in rows_of["nanotron"] if r.run.gpus < 64]
        found = all_fitted(known, start, {**{t: [] for t in rows_of}, "nanotron": small})
        large = [r for r in rows_of["nanotron"] if r.run.gpus == 64]
        print(judged.line("nanotron of 64 GPUs, by those of 8 to 32", errors_of(large, known, found)))


if __name__ == "__main__":
    main()
