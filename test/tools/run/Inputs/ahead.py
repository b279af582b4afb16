"""Runs the trains of a spec on emulated GPUs, under each order of work; compares the losses of their steps."""
import json
import os
import shutil
import subprocess
import sys

spec, folder = sys.argv[1:]
device = ["--target", "cuda-host"]


def losses(train, *options, **environment):
    log, out = os.path.join(folder, "log.jsonl"), os.path.join(folder, "out")
    shutil.rmtree(out, ignore_errors=True)
    command = ["echelon", "run", spec, "--train", train, "--log", log, "--out", out, *options]
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, **environment})
    assert ran.returncode == 0 and b"race: " not in ran.stdout, ran.stdout
    return [row["loss"] for row in map(json.loads, open(log)) if "loss" in row]


each = losses("each", *device, "--seed", "0")
cpu = losses("each")
assert len(set(each)) == len(cpu) == 12, each  # no two steps have the same samples
assert all(abs(a - b) < 1e-5 * b for a, b in zip(each, cpu)), (each, cpu)
print("12 steps, each evaluated: near those of the CPU")
seeds = "0 1 2 3 4 5"
for seed in seeds.split():
    assert losses("ahead", *device, "--seed", seed) == each, seed
assert losses("ahead", *device, "--seed", "5", ECHELON_ISOLATE="1") == each
assert losses("ahead", *device, "--seed", "1", ECHELON_GRAPHS="0") == each
print(f"ahead, seeds {seeds}: the same; isolated: the same; no graphs: the same")
