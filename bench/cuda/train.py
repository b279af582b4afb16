#!/usr/bin/env python3
"""Times training steps of a GPT and a Llama on a GPU, in bf16, against PyTorch in the same run.

    bench/cuda/train.py [MODEL...] [--steps 20] [--forms eager_flash,compiled_cudnn,…] [--target cuda]
    bench/cuda/train.py --build FOLDER     compiles the programs alone, where there is no GPU
    bench/cuda/train.py --programs FOLDER  runs these, where there is no compiler

Each trains by itself, one after the other: Echelon, every form of PyTorch (autocast(bfloat16), fused AdamW, no clipping,
random tokens), Echelon again, so that a card that has become warm shows. A step's time is the median of the last --steps;
memory the most that nvidia-smi says the card has in use. MFU: 6 floating-point operations a parameter and token and, of causal
attention, 6 a layer, position, past position and number of a head's width, by the card's dense peak in bf16.
To be reached: 1.1 times the best form's tokens a second; MFU 0.5; memory at most that form's.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ECHELON = os.environ.get("ECHELON", ROOT / "build/bin/echelon")
PYTHON = os.environ.get("TORCH_PYTHON", "python3")
PEAK = {"H100": 989e12, "H200": 989e12, "A100": 312e12} # dense bf16, without structured sparsity
FORMS = ("eager_flash", "eager_cudnn", "compiled_flash", "compiled_cudnn")

MODELS = {
    "gpt2_124M": dict(spec=HERE / "gpt.ech", kind="gpt", layers=12, heads=12, width=768, length=1024,
                      words=50257, batch=64),
    "llama_1.3B": dict(spec=HERE / "llama.ech", kind="llama", layers=24, heads=16, width=2048, length=2048,
                       words=32000, batch=8, hidden=5504),
    "gpt_tiny": dict(spec=HERE / "gpt.ech", kind="gpt", layers=2, heads=2, width=32, length=32, words=257,
                     batch=4),
    "llama_tiny": dict(spec=HERE / "llama.ech", kind="llama", layers=2, heads=2, width=32, length=32, words=64,
                       batch=4, hidden=48),
}


def parameters(m):
    layer = {"gpt": 12 * m["width"] ** 2 + 13 * m["width"],
             "llama": 4 * m["width"] ** 2 + 3 * m["width"] * m.get("hidden", 0) + 2 * m["width"]}[m["kind"]]
    outside = {"gpt": (m["words"] + m["length"] + 2) * m["width"], "llama": (2 * m["words"] + 1) * m["width"]}
    return m["layers"] * layer + outside[m["kind"]]


def operations(m):
    """Of a token, forward and backward."""
    return 6 * parameters(m) + 6 * m["layers"] * m["length"] * m["width"]


def build(name, folder, target):
    m = MODELS[name]
    program = folder / name
    sizes = {"layers": m["layers"], "width": m["width"], "length": m["length"], "words": m["words"]}
    sizes.update({"gpt": {"heads": m["heads"]}, "llama": {"groups": m["heads"], "hidden": m.get("hidden")}}[m["kind"]])
    settings = [f"model.{key}={value}" for key, value in sizes.items()] + [f"batch={m['batch']}", "precision=bf16"]
    command = [str(ECHELON), "build", str(m["spec"]), "--train", "one", "--target", target, "-o", str(program)]
    subprocess.run(command + [x for s in settings for x in ("--set", s)], check=True)
    return program


class Memory(threading.Thread):
    """The largest memory of the card's that a process has had, by nvidia-smi; 0 where that is not there."""

    def __init__(self):
        super().__init__(daemon=True)
        self.most, self.ends = 0, threading.Event()

    def run(self):
        query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
        while not self.ends.wait(0.2):
            try:
                answer = subprocess.run(query, capture_output=True, text=True)
            except FileNotFoundError:
                return
            if answer.returncode == 0 and answer.stdout.strip():
                self.most = max(self.most, int(answer.stdout.split()[0]) * 2 ** 20)


def timed(command, log, steps, environment=None):
    """(median seconds of the last steps, memory) of a command that writes a line with step_time_s for each."""
    memory = Memory()
    memory.start()
    try:
        with open(f"{log}.out", "w") as out:
            subprocess.run(command, check=True, stdout=out, stderr=subprocess.STDOUT, env=environment)
    finally:
        memory.ends.set()
        memory.join()
    times = [json.loads(line)["step_time_s"] for line in open(log) if "step_time_s" in line]
    return statistics.median(times[-steps:]), memory.most


def echelon(name, program, folder, options):
    log = folder / f"{name}.jsonl"
    log.unlink(missing_ok=True)
    command = [str(program), "--steps", str(options.steps + 10), "--log", str(log), "--out", str(folder / f"{name}.out")]
    return timed(command, log, options.steps)


def torch(name, form, folder, options):
    log = folder / f"{name}.{form}.jsonl"
    command = [PYTHON, str(HERE / "peer.py"), json.dumps({k: v for k, v in MODELS[name].items() if k != "spec"}), form,
               str(options.steps + 10), str(log)]
    return timed(command, log, options.steps)


def card():
    try:
        query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        return subprocess.run(query, capture_output=True, text=True).stdout.strip() or "no GPU"
    except FileNotFoundError:
        return "no GPU"


def rows(name, program, folder, options):
    m = MODELS[name]
    tokens = m["batch"] * m["length"]
    found = {"Echelon": echelon(name, program, folder, options)}
    for form in options.forms:
        try:
            found[f"PyTorch {form}"] = torch(name, form, folder, options)
        except subprocess.CalledProcessError:
            print(f"PyTorch {form} failed:", *open(folder / f"{name}.{form}.jsonl.out").readlines()[-3:], file=sys.stderr)
    found["Echelon, again"] = echelon(name, program, folder, options)
    peak = next((value for key, value in PEAK.items() if key in card()), None)
    for who, (seconds, memory) in found.items():
        mfu = f"{operations(m) * tokens / seconds / peak:.3f}" if peak else "-"
        print(f"| {name} | {who} | {seconds * 1e3:.1f} | {tokens / seconds:,.0f} | {mfu} | {memory / 1e9:.1f} |", flush=True)
    theirs = [seconds for who, (seconds, _) in found.items() if who.startswith("PyTorch")]
    if theirs:
        ours = statistics.mean(found[who][0] for who in ("Echelon", "Echelon, again"))
        print(f"{name}: {min(theirs) / ours:.2f} times the best form's tokens a second (limit 1.1)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", choices=[[], *MODELS], help=", ".join(MODELS))
    parser.add_argument("--steps", default=20, type=int)
    parser.add_argument("--forms", default=FORMS, type=lambda text: [f for f in text.split(",") if f],
                        help="of PyTorch: " + ", ".join(FORMS))
    parser.add_argument("--target", default="cuda", choices=["cuda", "cuda-host"])
    parser.add_argument("--build", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--programs", type=pathlib.Path, metavar="FOLDER")
    options = parser.parse_args()
    models = options.models or ["gpt2_124M", "llama_1.3B"]
    if options.build:
        options.build.mkdir(parents=True, exist_ok=True)
        for name in models:
            build(name, options.build.resolve(), options.target)
        return
    with tempfile.TemporaryDirectory(prefix="echelon-cuda-") as place:
        folder = pathlib.Path(place)
        programs = {n: options.programs / n if options.programs else build(n, folder, options.target) for n in models}
        print(f"{card()}; {time.strftime('%Y-%m-%d')}")
        print("| model | | ms a step | tokens/s | MFU | GB |\n| --- | --- | --- | --- | --- | --- |")
        for name in models:
            rows(name, programs[name], folder, options)


if __name__ == "__main__":
    main()
