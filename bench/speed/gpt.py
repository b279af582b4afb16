#!/usr/bin/env python3
"""Times GPTs against what libraries' matrix products cost and against PyTorch: blocks of each take turns in one run.

    bench/speed/gpt.py [SIZE...] [--ranks 1,2] [--layouts dp,zero1,tp,tp_seq] [--rounds 5] [--seconds 3]
                       [--forms eager,compiled,…] [--floors openblas,…]

Every row trains bench/speed/gpt.ech in fp32 with AdamW and clipping, one rank on one core or two ranks on two (dp: the
batch is split; zero1: the optimizer's work and state too, of which the floor's ranks do half each; tp: heads,
feed-forward columns and vocabulary; tp_seq: the positions too). It stands against
- the floor, build/bin/bench_floor: every forward and backward matrix product of the step by OpenBLAS or oneDNN
  (attention's over the whole score matrix), softmax cross-entropy and a fused AdamW over all parameters, nothing else;
  on two cores with two threads, or two processes that each do half of all that and exchange nothing;
- PyTorch: eager or compiled, one thread; on two cores two threads, or two processes under DistributedDataParallel.

First every form of floor and PyTorch runs two blocks, and the fastest of each stay. Then a round has one block of each
that stays. A block's time is the median of its steps'; the ratio of a row, to the form with the best median, is the
median over the rounds, in brackets the middle half. Memory is the peak resident size (VmHWM) of a rank, of what
processes share its part, times the number of processes.
Limits: 1.1 of the floor; 0.8 of PyTorch in the geometric mean, and below 1 in each row; memory at most PyTorch's.
"""
import argparse
import pathlib
import statistics
import tempfile

from sizes import SIZES
from turns import HERE, ROOT, Echelon, Told, Torch, ratio, threads

FLOOR = ROOT / "build/bin/bench_floor"
LIBRARIES = ("openblas", "onednn")
FLOORS = {1: LIBRARIES, 2: tuple(f"{l} {f}" for f in ("threads", "batch", "columns") for l in LIBRARIES)}
FORMS = {1: ("eager", "compiled"), 2: ("eager_2_threads", "compiled_2_threads", "eager", "compiled")}
LAYOUTS = {1: ("one",), 2: ("dp", "zero1", "tp", "tp_seq")}


def echelon(name, layout, folder):
    size = SIZES[name]
    settings = [f"model.{k}={getattr(size, k)}" for k in ("layers", "heads", "width", "length", "words")]
    arguments = [str(HERE / "gpt.ech"), "--train", layout]
    for setting in settings + [f"batch={size.batch}"]:
        arguments += ["--set", setting]
    return Echelon(f"{name}.{layout}", arguments, folder)


def floor(name, form):
    s = SIZES[name]
    sizes = [str(n) for n in (s.layers, s.heads, s.width, s.length, s.words, s.batch)]
    return Told(f"{name}: the floor ({form})", [[str(FLOOR), *sizes, *form.split()]],
                threads(2 if "threads" in form else 1))


def fastest(make, forms, seconds):
    """(workers by form, every form's time): those stay that are within a tenth of the fastest and 4 GB in all."""
    times, kept = {}, {}
    for form in forms:
        kept[form] = make(form)
        times[form] = min(kept[form].block(seconds)[0] for _ in range(2))
        for other in sorted(kept, key=times.get)[:0:-1]:
            if times[other] > 1.1 * min(times.values()) or sum(p for w in kept.values() for p in w.peaks()) > 4e9:
                kept.pop(other).end()
    return kept, times


def megabytes(peaks):
    return f"{len(peaks)} x {max(peaks) / 1e6:.0f}" if len(peaks) > 1 else f"{peaks[0] / 1e6:.0f}"


def listed(wall, first):
    """Each form with its time: in the rounds, fastest first, then of those that did not stay, in the first block."""
    stayed = sorted((f for f in wall if f in first), key=wall.get)
    return ", ".join(f"{f} {wall.get(f, first[f]) * 1e3:.1f}" for f in stayed + [f for f in first if f not in wall])


def rows(name, ranks, options, folder):
    """Prints a row for each layout; gives their ratios to the floor and to PyTorch."""
    layouts = [l for l in LAYOUTS[ranks] if ranks == 1 or l in options.layouts]
    workers, first = {}, {}
    try:
        for who, make, forms, wanted in (
                ("torch", lambda form: Torch(name, form, ranks, folder), FORMS[ranks], options.forms),
                ("floor", lambda form: floor(name, form), FLOORS[ranks], options.floors)):
            kept, first[who] = fastest(make, [f for f in forms if not wanted or f in wanted], options.seconds)
            workers.update(kept)
        workers.update((layout, echelon(name, layout, folder)) for layout in layouts)
        for layout in layouts:
            workers[layout].block(0.1)
        blocks = {who: [] for who in workers}
        for _ in range(options.rounds):
            for who, worker in workers.items():
                blocks[who].append(worker.block(options.seconds)[0])
        peaks = {who: worker.peaks() for who, worker in workers.items()}
    finally:
        for worker in workers.values():
            worker.end()
    wall = {who: statistics.median(times) for who, times in blocks.items()}
    best = {kind: min((f for f in first[kind] if f in wall), key=wall.get) for kind in first}
    found = []
    for layout in layouts:
        shares = {kind: ratio(blocks[layout], blocks[best[kind]]) for kind in ("floor", "torch")}
        found.append([middle for middle, *_ in shares.values()])
        cells = [name, layout, f"{wall[layout] * 1e3:.1f}"]
        for kind, (middle, low, high) in shares.items():
            cells += [listed(wall, first[kind]), f"**{middle:.2f}** ({low:.2f} to {high:.2f})"]
        print("| " + " | ".join(cells + [megabytes(peaks[layout]), megabytes(peaks[best["torch"]])]) + " |", flush=True)
    return found


def main():
    def words(text):
        return text.split(",")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", nargs="*", metavar="SIZE", choices=[[], *SIZES], help=", ".join(SIZES))
    parser.add_argument("--ranks", default=[1, 2], type=lambda text: [int(x) for x in words(text)])
    parser.add_argument("--layouts", default=LAYOUTS[2], type=words, help="of two ranks")
    parser.add_argument("--rounds", default=5, type=int)
    parser.add_argument("--seconds", default=3.0, type=float, help="of a block, which has one step at least")
    parser.add_argument("--forms", type=words, help="of PyTorch: " + ", ".join(FORMS[2]))
    parser.add_argument("--floors", type=words, help=", ".join(FLOORS[1] + FLOORS[2]))
    options = parser.parse_args()
    print("| size | layout | Echelon, ms a step | floor, ms | by the floor | PyTorch, ms | by PyTorch | "
          "Echelon, peak MB | PyTorch |\n|" + " --- |" * 9, flush=True)
    found = []
    with tempfile.TemporaryDirectory(prefix="echelon-speed-") as folder:
        for name in options.sizes or SIZES:
            for ranks in options.ranks:
                found += rows(name, ranks, options, pathlib.Path(folder))
    means = [statistics.geometric_mean(column) for column in zip(*found)]
    print(f"\nOf these rows: highest by the floor {max(f for f, _ in found):.2f} (limit 1.1), geometric mean "
          f"{means[0]:.2f}; highest by PyTorch {max(t for _, t in found):.2f} (limit 1), geometric mean {means[1]:.2f} "
          "(limit 0.8)")


if __name__ == "__main__":
    main()
