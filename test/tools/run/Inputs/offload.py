# offload.py FOLDER/AWAY [OPTION…] TRAIN[/RANKS]=TRANSPORT…: runs, with these options, each train block of
# FOLDER/whole/spec.ech, and of FOLDER/AWAY/spec.ech, whose optimizer's state is offloaded, and compares their snapshots:
# byte for byte, but for the order in which a file has its tensors; then goes on from the other's.
import json
import os
import shutil
import subprocess
import sys

folder, elsewhere = os.path.split(sys.argv[1])
options = [word for word in sys.argv[2:] if word.startswith("--")]
specs = {"whole": f"{folder}/whole/spec.ech", "away": f"{folder}/{elsewhere}/spec.ech"}


def run(spec, train, transport, out, *more):
    name, *ranks = train.split("/")
    more += tuple(f"--ranks={n}" for n in ranks)
    command = ["echelon", "run", specs[spec], "--train", name, "--transport", transport, "--out", out, *options, *more]
    made = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert made.returncode == 0, (command, made.stdout)


def files(out):
    return sorted(os.path.relpath(os.path.join(at, name), out) for at, _, names in os.walk(out) for name in names)


def content(path):
    """Of a file of a snapshot, apart from the order of tensors."""
    with open(path, "rb") as file:
        data = file.read()
    if path.endswith(".json"):
        manifest = json.loads(data)
        del manifest["checksum"], manifest["files"]  # which have checksums
        return manifest
    begin = 8 + int.from_bytes(data[:8], "little")
    tensors = json.loads(data[8:begin])
    tensors.pop("__metadata__", None)
    for tensor in tensors.values():
        first, end = tensor.pop("data_offsets")
        tensor["data"] = data[begin + first:begin + end]
    return tensors


def same(first, second):
    names = files(first)
    assert names and names == files(second), (names, files(second))
    wrong = [name for name in names if content(f"{first}/{name}") != content(f"{second}/{name}")]
    assert not wrong, (first, second, wrong)
    return len(names)


for number, pair in enumerate(sys.argv[2 + len(options):]):
    train, transport = pair.split("=")
    whole, away = f"{folder}/{number}-whole", f"{folder}/{number}-away"
    for spec, out in (("whole", whole), ("away", away)):
        run(spec, train, transport, out)
    count = same(whole, away)
    for first, second in (("whole", "away"), ("away", "whole")):
        moved = f"{folder}/{number}-moved"
        shutil.rmtree(moved, ignore_errors=True)
        run(first, train, transport, moved, "--steps", "2")
        run(second, train, transport, moved, "--resume")
        same(whole, moved)
    for out in (whole, away, moved):
        shutil.rmtree(out)
    print(f"{train} over {transport}: {count} files are the same, and after a move each way")
