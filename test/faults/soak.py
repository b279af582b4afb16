#!/usr/bin/env python3
"""Trains with twice as many ranks as cores beside other load, and counts false alarms.

    test/faults/soak.py [--minutes 60] [--transport shm | mpi]

The load is one process a core that computes, stops for random times, and computes again. Every alarm is false: no rank
dies or hangs. Prints the steps done, the longest of them, and what the run told on stderr.
"""
import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from processes import mpirun

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("ECHELON_BUILD", HERE.parent.parent / "build"))
LOAD = """
import random, time
while True:
    end = time.monotonic() + random.expovariate(1 / 3)
    while time.monotonic() < end:
        pass
    time.sleep(random.expovariate(1 / 2))
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--transport", choices=["shm", "mpi"], default="shm")
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    ranks = 2 * cores
    text = (HERE / "step.ech").read_text()
    for written, wanted in [("mesh(dp = 2, tp = 2)", f"mesh(dp = {cores}, tp = 2)"), ("batch    8", f"batch    {8 * cores}")]:
        assert written in text
        text = text.replace(written, wanted)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "step.ech").write_text(text)
        log = folder / "log.jsonl"
        subprocess.run([BUILD / "bin/echelon", "build", folder / "step.ech", "--train", "on4", "-o", folder / "step"],
                       check=True, stdout=subprocess.DEVNULL)
        command = [folder / "step", "--transport", options.transport, "--log", log]
        if options.transport == "mpi":
            command = mpirun(ranks) + command
        load = [subprocess.Popen([sys.executable, "-c", LOAD]) for _ in range(cores)]
        run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + 60 * options.minutes
        try:
            while run.poll() is None and time.monotonic() < end:
                time.sleep(0.2)
            ended_early = run.poll() is not None
            if not ended_early:
                run.send_signal(signal.SIGUSR1)
            error = run.communicate(timeout=60)[1]
            alarmed = ended_early or run.returncode != 0
        finally:
            for process in load:
                process.kill()
            run.kill()
        told = [line for line in error.splitlines() if line.strip()]
        with open(log) as file:
            times = [json.loads(line)["step_time_s"] for line in file if line.endswith("}\n")]
    print(f"{ranks} ranks over {options.transport} on {cores} cores with load, {options.minutes:g} min: {len(times)} "
          f"steps, the longest {max(times):.2f} s, {'ALARM' if alarmed else 'no alarm'}, {len(told)} lines told" +
          "".join(f"\n  {line}" for line in told))
    sys.exit(alarmed)


main()
