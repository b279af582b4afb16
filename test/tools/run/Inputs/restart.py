"""restart.py PROGRAM FOLDER: trains, kills a rank of the program each time that it has gone on from where it was, and
prints how it ended."""
import os
import pathlib
import signal
import subprocess
import sys
import time

program, folder = sys.argv[1:]


def ranks(launcher):
    text = pathlib.Path(f"/proc/{launcher}/task/{launcher}/children").read_text()
    return [int(pid) for pid in text.split()]


def trained(name, signals):
    """Sends a rank each signal in turn, each time once 2000 more steps are in snapshots."""
    log = pathlib.Path(folder, f"{name}.jsonl")
    run = subprocess.Popen([program, "--out", f"{folder}/{name}", "--log", str(log)], stderr=subprocess.PIPE,
                           stdout=subprocess.DEVNULL, text=True)
    for i, number in enumerate(signals):
        snapshots = pathlib.Path(folder, name, "ckpt")
        deadline = time.monotonic() + 60
        while run.poll() is None and time.monotonic() < deadline:
            done = [int(path.name[5:]) for path in snapshots.glob("step-*")]
            if len(ranks(run.pid)) == 2 and done and max(done) >= 2000 * (i + 1):
                break
            time.sleep(1e-3)
        children = ranks(run.pid)
        os.kill(children[i % len(children)], number)
        while run.poll() is None and children[0] in ranks(run.pid):
            time.sleep(1e-3)
    errors = run.communicate()[1]
    print(f"{name}: code {run.returncode}")
    for line in errors.splitlines():
        print(f"{name}: {line}")


trained("whole", [])
trained("restarted", [signal.SIGKILL, signal.SIGSEGV])
trained("given-up", [signal.SIGKILL, signal.SIGABRT, signal.SIGKILL])
