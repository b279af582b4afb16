#!/usr/bin/env python3
"""What `compress gradients` gains where a network of known speed limits a step, on two machines of one core (rig.py).

    bench/link.py [--link 1Gb/s] [--width 2048] [--batch 32] [--steps 24] [--repeat 5] [--mca NAME=VALUE]…

A perceptron with two hidden layers, data-parallel, with a batch so small that a step is mostly its gradients' way. The
same spec without compression and with each kind takes turns, --repeat times. A turn is a run of a few steps and one of
--steps more, with MPI over the cable. What the second sends more, by the devices' counters, is what steps send; beside
it stands what `echelon plan` says, of which one of two ranks sends all of a sum and half of what is gathered. A step's
time is the median of the longer run's log; the figure is the median over the turns, in brackets the middle half of
them. The last column is the same program over shared memory: what computing and packing take without a network.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

from rig import Rig, rate
from specs import ECHELON

KINDS = ("", "fp16", "int8", "onebit", "topk(1%) feedback", "powersgd(rank = 4) feedback")
FIRST = 4  # steps of the short run
SENT = {"all_reduce": 1.0, "all_gather": 0.5}  # of a message's bytes, by one of two ranks
SPEC = """import nn

model Wide(width = 2048) {{
  axis batch
  axis row = 28
  axis column = 28
  axis hidden = width
  axis deep = width
  axis class = 10

  input image[batch, row, column] : float
  input label[batch] : int below class

  param w1[row, column, hidden] ~ kaiming(over = (row, column))
  param b1[hidden] ~ zeros
  h = relu(dot(image, w1, over = (row, column)) + b1)
  logits = nn.linear(relu(nn.linear(h, hidden, deep) as middle), deep, class) as head
  loss mean(cross_entropy(logits, label, over = class))
}}

device core {{ memory 64 GB at 25 GB/s; peak fp32 100 GFLOP/s }}
cluster pair {{ nodes 2 of 1 x core; network 1 Gb/s, 50 us }}

train wide {{
  model    Wide(width = {width})
  on       pair
  data     mnist("/usr/share/datasets/fashion-mnist") -> image, label
  batch    {batch}
  steps    {steps}
  optimize sgd(lr = 0.01, momentum = 0.9)
  {compress}
  layout mesh(dp = 2) {{ split batch over dp }}
}}
"""


class Program:
    def __init__(self, kind, folder, options):
        self.name = kind or "none"
        number = KINDS.index(kind)
        spec, self.path = folder / f"wide{number}.ech", folder / f"wide{number}"
        self.log = folder / f"wide{number}.jsonl"
        spec.write_text(SPEC.format(width=options.width, batch=options.batch, steps=FIRST + options.steps,
                                    compress=f"compress gradients over dp with {kind}" if kind else ""))
        subprocess.run([ECHELON, "build", spec, "-o", self.path], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        plan = json.loads(subprocess.run([ECHELON, "plan", "--json", spec], check=True, capture_output=True).stdout)
        self.planned = sum(each["count"] * each["bytes"] * SENT[each["op"]] for each in plan["collectives"])
        self.times, self.local, self.sent = [], [], []

    def arguments(self, transport, steps):
        return [self.path, "--transport", transport, "--log", self.log, "--steps", str(steps)]

    def logged(self):
        rows = [json.loads(line) for line in self.log.read_text().splitlines()]
        return statistics.median([row["step_time_s"] for row in rows if "step_time_s" in row][FIRST:])

    def turn(self, rig, steps):
        bytes_of = []
        for count in (FIRST, FIRST + steps):
            before = rig.sent()
            rig.run(self.arguments("mpi", count))
            bytes_of.append([after - earlier for after, earlier in zip(rig.sent(), before)])
        self.times.append(self.logged())
        self.sent.append(max(long - short for short, long in zip(*bytes_of)) / steps)
        subprocess.run(self.arguments("shm", FIRST + steps), check=True, stdout=subprocess.DEVNULL)
        self.local.append(self.logged())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--link", type=rate, default="1Gb/s")
    for name, value in (("width", 2048), ("batch", 32), ("steps", 24), ("repeat", 5)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--mca", action="append", default=[], help="a setting of Open MPI, as btl_tcp_links=2")
    options = parser.parse_args()
    with Rig(options.link, options.mca) as rig, tempfile.TemporaryDirectory() as folder:
        programs = [Program(kind, pathlib.Path(folder), options) for kind in KINDS]
        for _ in range(options.repeat):
            for program in programs:
                program.turn(rig, options.steps)
    plain = programs[0]
    print(f"width {options.width}, batch {options.batch}, {options.link / 1e6:.0f} Mb/s\n\n"
          "| with | step, ms (middle half) | by none | sent a step, MB | plan says | by none "
          "| step over shared memory, ms |\n|" + " --- |" * 7)
    for program in programs:
        low, middle, high = statistics.quantiles(program.times, n=4) if options.repeat > 1 else program.times * 3
        time, sent = statistics.median(program.times), statistics.median(program.sent)
        print(f"| {program.name} | {1e3 * time:.1f} ({1e3 * low:.1f} to {1e3 * high:.1f}) "
              f"| {time / statistics.median(plain.times):.2f} | {sent / 1e6:.3f} | {program.planned / 1e6:.3f} "
              f"| {sent / statistics.median(plain.sent):.4f} | {1e3 * statistics.median(program.local):.1f} |")


if __name__ == "__main__":
    main()
