#!/usr/bin/env python3
"""Times a GPT in bf16 against the same in fp32 and against PyTorch's autocast(bfloat16): blocks take turns in one run.

    taskset -c 0 bench/speed/bf16.py [SIZE] [--rounds 5] [--seconds 8] [--forms eager_autocast,compiled_autocast]

All train bench/speed/gpt.ech on one core with AdamW and clipping. A block's time is the median of its steps'; a ratio is the
median over the rounds, in brackets the middle half. Limits, on a processor with instructions for products of bf16: fp32 by bf16
at least 1.4; bf16 by PyTorch's fastest form below 1.
"""
import argparse
import pathlib
import statistics
import tempfile

from sizes import SIZES
from turns import HERE, Echelon, Torch, ratio

FORMS = ("eager_autocast", "compiled_autocast")


def echelon(name, precision, folder):
    size = SIZES[name]
    settings = [f"model.{k}={getattr(size, k)}" for k in ("layers", "heads", "width", "length", "words")]
    settings += [f"batch={size.batch}", f"precision={precision}"]
    arguments = [str(HERE / "gpt.ech"), "--train", "one"]
    return Echelon(f"{name}.{precision}", arguments + [x for s in settings for x in ("--set", s)], folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", nargs="?", default="124M_4x256", choices=SIZES)
    parser.add_argument("--rounds", default=5, type=int)
    parser.add_argument("--seconds", default=8.0, type=float, help="of a block, which has one step at least")
    parser.add_argument("--forms", default=FORMS, type=lambda text: text.split(","), help="of PyTorch")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="echelon-speed-") as folder:
        place = pathlib.Path(folder)
        workers = {f"PyTorch {form}": Torch(options.size, form, 1, place) for form in options.forms}
        workers.update((precision, echelon(options.size, precision, place)) for precision in ("fp32", "bf16"))
        try:
            blocks = {who: [] for who in workers}
            for _ in range(options.rounds):
                for who, worker in workers.items():
                    blocks[who].append(worker.block(options.seconds)[0])
        finally:
            for worker in workers.values():
                worker.end()
    for who, times in blocks.items():
        print(f"{who}: {statistics.median(times):.2f} s a step")
    theirs = min((who for who in workers if who.startswith("PyTorch")), key=lambda who: statistics.median(blocks[who]))
    for what, ours, other in (("fp32 by bf16", "fp32", "bf16"), (f"bf16 by {theirs}", "bf16", theirs)):
        middle, low, high = ratio(blocks[ours], blocks[other])
        print(f"{what}: {middle:.2f} ({low:.2f} to {high:.2f})")


if __name__ == "__main__":
    main()
