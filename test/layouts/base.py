"""Base layouts, models that they are tried on, and specs made of both. Each spec of this folder is a model; its lines
`batch` and `layout` are replaced, and `recompute` follows these."""
import dataclasses
import itertools
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "mistakes"))
from make_data import npy  # noqa: E402

# Of each family a layout has one base at most.
FAMILIES = {
    "data": ("dp", "zero1", "zero2", "zero3", "hsdp", "hierarchical"),
    "tensor": ("tp", "tp_seq"),
    "pipeline": ("1f1b", "gpipe", "zero_bubble", "interleaved", "uneven", "balanced", "chain"),
    "context": ("cp", "zigzag", "ring"),
    "expert": ("ep",),
    "recompute": ("full", "every", "keep"),
}
FAMILY_OF = {base: family for family, bases in FAMILIES.items() for base in bases}
STORES = {"zero1": "optimizer", "zero2": "optimizer, gradients", "zero3": "optimizer, gradients, params",
          "hsdp": "optimizer, gradients, params"}
MESH = ("pod", "dp", "pp", "ep", "cp", "tp")  # slow links to fast ones


@dataclasses.dataclass(frozen=True)
class Model:
    """What the bases split of a model, empty: it has nothing of the kind."""
    tensor: str          # over tp
    seq: str = ""        # over tp, besides
    context: str = ""    # over cp
    expert: str = ""     # over ep
    row: str = ""        # repeats behind each other, of six layers in all
    keep: str = ""       # a name for `recompute keep`
    micro: bool = True   # whether it takes micro batches
    attends: bool = True # whether what is over cp attends to it

    def has(self, base):
        splits = {"tp_seq": self.seq, "ep": self.expert, "cp": self.context, "zigzag": self.context,
                  "ring": self.context and self.attends, "chain": self.row}
        return bool(splits.get(base, "what all have"))


MODELS = {
    "mlp": Model("ff, class", keep="u"),
    "gpt": Model("head, ff, vocab", "seq", "seq, past", keep="attn.q"),
    "llama": Model("group, ff, vocab", "seq", "seq, past", keep="attn.q"),
    "translate": Model("head, ff, vocab", "src, dst", "src, src2, dst, dst2", row="encoder then layer",
                       keep="cross.q"),
    "moe": Model("head, ff, vocab", "seq", "seq, past", "expert", keep="attn.q"),
    "resnet": Model("channel, mid", "height", keep="part.h", micro=False, attends=False),
}


@dataclasses.dataclass(frozen=True)
class Case:
    """A model under bases."""
    model: str
    bases: tuple

    def __str__(self):
        return f"{self.model}: {' + '.join(self.bases)}"

    def of(self, family):
        return next((base for base in self.bases if FAMILY_OF[base] == family), "")

    @property
    def mesh(self):
        """The mesh axes with their sizes. A base alone has four stages or parts, with others two."""
        sizes = {"dp": 2} if self.of("data") else {}
        if self.of("data") in ("hsdp", "hierarchical"):
            sizes["pod"] = 2
        for family, axis in ("tensor", "tp"), ("pipeline", "pp"), ("context", "cp"), ("expert", "ep"):
            if self.of(family):
                has_parts = axis in ("pp", "ep") and self.bases != ("interleaved",)  # that has parts of stages
                sizes[axis] = 4 if len(self.bases) == 1 and has_parts else 2
        if self.bases in (("uneven",), ("balanced",)):  # of four layers
            sizes["pp"] = 3
        return {axis: sizes[axis] for axis in MESH if axis in sizes} or {"dp": 2}

    @property
    def ranks(self):
        ranks = 1
        for size in self.mesh.values():
            ranks *= size
        return ranks

    @property
    def micro(self):
        """Micro batches a step: of a pipeline not as many as stages, nor a multiple."""
        if not MODELS[self.model].micro:
            return 1
        return (6 if len(self.bases) == 1 else 3) if self.of("pipeline") else 2

    @property
    def layout(self):
        model, mesh, data = MODELS[self.model], self.mesh, self.of("data")
        lines = []
        samples = [axis for axis in ("pod", "dp") if axis in mesh]
        if samples:
            lines.append(f"split batch over {among(samples)}")
        if self.of("expert"):
            lines.append(f"split {model.expert}, batch over ep")
        if self.of("pipeline"):
            way = {"interleaved": "with interleaved(2)", "balanced": "as balanced",
                   "uneven": f"with zero_bubble as ({'1, 2, 1' if mesh['pp'] == 3 else '1, 3'})"}
            if self.of("pipeline") == "chain":
                lines.append(f"split {model.row} over pp as ({'1, 2, 2, 1' if mesh['pp'] == 4 else '3, 3'})")
            else:
                lines.append(f"split layer over pp {way.get(self.of('pipeline'), 'with ' + self.of('pipeline'))}")
        if self.of("context"):
            ways = {"cp": "", "zigzag": " with zigzag", "ring": " with zigzag with ring"}
            lines.append(f"split {model.context} over cp{ways[self.of('context')]}")
        if self.of("tensor"):
            lines.append(f"split {model.tensor}{', ' + model.seq if self.of('tensor') == 'tp_seq' else ''} over tp")
        if data in STORES:  # what whole parameters are alike on, but for the pods of HSDP
            lines.append(f"store {STORES[data]} over {among(axis for axis in mesh if axis in ('dp', 'ep', 'cp'))}")
        if data == "hierarchical":
            lines.append(f"collective all_reduce over {among(axis for axis in mesh if axis in ('pod', 'dp', 'cp'))} "
                         "with hierarchical")
        return f"mesh({', '.join(f'{axis} = {size}' for axis, size in mesh.items())}) {{ {'; '.join(lines)} }}"

    @property
    def recompute(self):
        policy = self.of("recompute")
        return {"every": "every 2 layer", "keep": f"keep ({MODELS[self.model].keep})"}.get(policy, policy)

    def spec(self, batch=0, more=()):
        """The text; `batch`: its samples, 0: one for each rank and micro batch; `more`: lines of the train block."""
        passes = self.micro
        for axis in ("pod", "dp", "ep"):
            passes *= self.mesh.get(axis, 1)
        batch = batch or passes
        said = f"{batch}" + (f" in micro batches of {batch // passes}" if self.micro > 1 else "")
        return spec_of(self.model, said, self.layout,
                       [*([f"recompute {self.recompute}"] if self.recompute else []), *more])


def spec_of(model, batch, layout, more=()):
    """The text of a model's spec with these two clauses and further lines of the train block."""
    text = (HERE / f"{model}.ech").read_text()
    for word, said in ("batch", batch), ("layout", layout):
        text, found = re.subn(rf"(?m)^  {word} .*", f"  {word} {said}", text)
        assert found == 1, (model, word)
    return text[:text.rindex("}")] + "".join(f"  {line}\n" for line in more) + "}\n"


def among(axes):
    axes = list(axes)
    return axes[0] if len(axes) == 1 else f"({', '.join(axes)})"


def combinations(model, count, bases=None):
    """The cases of a model with so many bases, of families of their own, on at most 8 ranks."""
    fitting = [base for base in bases or FAMILY_OF if MODELS[model].has(base)]
    for chosen in itertools.combinations(fitting, count):
        case = Case(model, chosen)
        if len({FAMILY_OF[base] for base in chosen}) == count and case.ranks <= 8:
            yield case


def make_data(folder):
    """96 samples of the inputs that are not made as the run goes."""
    npy(folder / "x.npy", "<f4", (96, 6), [(i * 37 % 101) / 50 - 1 for i in range(96 * 6)])
    npy(folder / "image.npy", "<f4", (96, 3, 4, 4), [(i * 53 % 211) / 105 - 1 for i in range(96 * 48)])
    npy(folder / "class.npy", "<i4", (96,), [i * 7 % 4 for i in range(96)])


def environment(work):
    """What Echelon is started with: programs are built in the quick way, and kept in the work folder unless told."""
    cache = pathlib.Path(os.environ.get("ECHELON_CACHE", work / "cache"))
    cache.mkdir(exist_ok=True)
    return {**os.environ, "CXX": str(HERE.parent / "quick-c++"), "CXXFLAGS": "", "ECHELON_CACHE": str(cache), "NO_COLOR": "1"}


def echelon(program, work, *arguments, folder=None):
    """What it prints, and its exit code; no run takes longer than a quarter of an hour, however busy the machine."""
    try:
        done = subprocess.run([program, *arguments], cwd=folder or work, env=environment(work), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=900)
    except subprocess.TimeoutExpired as late:
        return f"no end after {late.timeout:g} s", -1
    return done.stdout, done.returncode
