"""The rows of other people's measurements as runs: what was trained, how and where. No result enters a run."""
import csv
import os
import pathlib
import re
from dataclasses import dataclass, replace

ROOT = pathlib.Path(__file__).resolve().parents[2]
VALIDATION = pathlib.Path(os.environ.get("ECHELON_SHARED", ROOT.parent / "shared")) / "validation"
TABLES = ("korthikanti_recompute", "llmfoundry_a100", "aleph_alpha", "vtrain_single_node", "nanotron")


@dataclass(frozen=True)
class Run:
    """One configuration. Sizes are of the whole model; `micro` is in samples of one data-parallel rank."""
    framework: str      # megatron, vtrain, nanotron, aleph, composer
    device: str         # of std/devices.ech: a100_80gb, …
    kernel: str         # of attention and norms: written, torch, fused, flash1, flash2, flash2rms, triton
    gpus: int
    a_node: int
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ff: int
    vocab: int
    seq: int
    tied: bool          # input and output embedding are one
    tp: int
    pp: int
    dp: int
    chunks: int         # of a stage: 2 and more interleave
    zero: int
    micro: int
    micros: int
    recompute: str      # none, selective, full
    sequence: bool      # between products, activations are split over tp along the sequence
    half_gradients: bool  # gradients travel, and are added up, in two bytes
    full_params: bool   # parameters are kept, and gathered, in four bytes

    @property
    def batch(self):
        return self.micro * self.micros * self.dp

    @property
    def partition(self):
        """(layers, the head is here) of every stage."""
        return nanotron_stages(self) if self.framework == "nanotron" else even_stages(self)

    @property
    def runnable(self):
        """Every stage has a parameter, heads divide, and 1F1B has as many micro batches as it starts with."""
        stages = self.partition
        whole = all(k or head or i == 0 for i, (k, head) in enumerate(stages)) and any(head for _, head in stages)
        return whole and self.heads % self.tp == 0 and (self.framework != "nanotron" or self.micros >= self.pp - 1)


def even_stages(run):
    """As many layers each; what is left over goes to the stages after the first."""
    least, more = divmod(run.layers, run.pp)
    return [(least + (0 < i <= more), i == run.pp - 1) for i in range(run.pp)]


def nanotron_stages(run):
    """A walk over the blocks, each of which costs its products; one that exceeds the stages' share so far goes on the next."""
    h = run.hidden
    costs = [4 * h * h + 3 * run.ff * h] * run.layers + [run.vocab * h]
    stages, stage, sum_ = [[0, False] for _ in range(run.pp)], 0, 0
    for block, cost in enumerate(costs):
        sum_ += cost
        if sum_ > sum(costs) * (stage + 1) / run.pp and stage + 1 < run.pp:
            stage += 1
        if block < run.layers:
            stages[stage][0] += 1
        else:
            stages[stage][1] = True
    return [tuple(s) for s in stages]


@dataclass
class Row:
    """A run with what was measured of it. `seconds` is None where there is none, or the row contradicts itself."""
    table: str
    name: str           # where in its table
    group: tuple        # runs that a planner would choose among
    run: Run
    ran: bool           # it had room, and did not crash
    seconds: float

    @property
    def slow(self):
        """nanotron's slow state: 0.55 s and more for each micro batch of a pipeline, whatever the layout."""
        r = self.run
        return (r.framework == "nanotron" and r.pp > 1 and self.seconds is not None
                and self.seconds / (r.micros + r.pp - 1) >= 0.55)


def number(fields, key, other=0):
    try:
        return int(float(fields[key]))
    except ValueError:
        return other


def kernel_of(fields):
    software = fields["software"]
    if "kernel=" not in software:
        return ""
    name = software.split("kernel=")[1]
    if name.startswith(("torch", "fused")):
        return name
    return "flash1" if "v1" in name else "flash2rms" if "RMS" in name else "flash2"


def framework_of(source):
    for start, name in (("nanotron", "nanotron"), ("vtrain", "vtrain"), ("llmfoundry", "composer"), ("aleph", "aleph")):
        if source.startswith(start):
            return name
    return "megatron"


def tied(fields, framework):
    """Megatron's and MPT's are one; of Llamas the printed count of parameters says it, where there is one."""
    if framework in ("megatron", "vtrain", "composer"):
        return True
    if not fields["params_b"]:
        return False
    layers, h, ff, vocab = (number(fields, k) for k in ("layers", "hidden", "ffn", "vocab"))
    return layers * (4 * h * h + 3 * h * ff) + vocab * h > 0.97e9 * float(fields["params_b"])


def run_of(f):
    framework = framework_of(f["source_id"])
    gpu, zero = f["gpu"].lower(), f["zero_or_fsdp"]
    memory = "40gb" if "a100" in gpu and "40" in gpu else "80gb"
    again = f["recompute"]
    dp, micro, tp = (number(f, k, 1) or 1 for k in ("dp", "micro_batch", "tp"))
    kernel = {"aleph": kernel_of(f), "nanotron": "flash2", "composer": "triton"}.get(framework, "written")
    return Run(
        framework=framework, device=("h100_" if "h100" in gpu else "a100_") + memory, kernel=kernel,
        gpus=number(f, "n_gpus"), a_node=number(f, "gpus_per_node", 8), layers=number(f, "layers"),
        hidden=number(f, "hidden"), heads=number(f, "heads"), kv_heads=number(f, "kv_heads"), ff=number(f, "ffn"),
        vocab=number(f, "vocab", 128000), seq=number(f, "seq_len"), tied=tied(f, framework),
        tp=tp, pp=number(f, "pp", 1), dp=dp, chunks=number(f, "vpp", 1) or 1,
        zero=3 if "FULL_SHARD" in zero or "ZeRO-3" in zero else 1 if "ZeRO-1" in zero else 0,
        micro=micro, micros=number(f, "grad_accum") or max(1, number(f, "global_batch_seqs", 1) // (dp * micro)),
        recompute="selective" if again.startswith("sel") else "full" if again.startswith(("full", "every")) else "none",
        sequence=f["seq_parallel"].startswith("on") and tp > 1,
        half_gradients=framework in ("megatron", "vtrain", "aleph") or "mp=PURE" in zero,
        full_params="mp=DEFAULT" in zero)


def load(table, folder=VALIDATION):
    """The rows of one table, but those that are no configuration of their own batch (nanotron: 12) or have no time."""
    with open(pathlib.Path(folder) / f"{table}.csv") as file:
        rows = []
        for f in csv.DictReader(file):
            run, ran = run_of(f), f["status"].startswith("ok")
            if run.framework == "nanotron" and run.batch != number(f, "global_batch_seqs"):
                continue
            if run.framework == "megatron" and not f["iter_time_s"]:
                continue
            seconds = float(f["iter_time_s"]) if f["iter_time_s"] and not f["status"].startswith("ok_but") else None
            group = (f["table"],) if run.framework == "aleph" else (f["model"], run.gpus)
            rows.append(Row(table, f"{table}:{f['row_id']}", group, run, ran, seconds if ran else None))
        return rows
