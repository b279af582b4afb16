# Runs a program and does to its ranks what machines do: faults.py PROGRAM FOLDER. The program trains without end.
import os
import signal
import subprocess
import sys
import time

sys.path.append(f"{os.path.dirname(os.path.realpath(__file__))}/../../../faults")
from processes import descendants, mapped, mpirun, stat

program, folder = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
DEADLINE = 3


def ranks(pid):
    """The processes that run the program itself, oldest first, once there are two of them."""
    while True:
        found = [p for p in descendants(pid) if os.path.realpath(f"/proc/{p}/exe") == os.path.realpath(program)]
        if len(found) >= 2:
            return sorted(found)
        time.sleep(0.02)


def start(name, transport, *extra):
    log = f"{folder}/{name}.jsonl"
    command = [program, "--transport", transport, "--deadline", str(DEADLINE), "--log", log]
    command += ["--out", f"{folder}/{name}", *extra]
    if transport == "mpi":
        command = mpirun(2) + command
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not os.path.exists(log) or os.path.getsize(log) < 2000:  # some steps are done
        if run.poll() is not None:
            sys.exit(f"{name}: ended by itself with {run.returncode}: {run.communicate()}")
        time.sleep(0.02)
    return run


def finish(name, run, all_pids, shared):
    try:
        out, err = run.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        for pid in all_pids:
            if os.path.exists(f"/proc/{pid}"):
                os.kill(pid, signal.SIGKILL)
        sys.exit(f"{name}: did not end")
    for _ in range(500):  # mpirun may end a moment before its ranks are gone
        left = [pid for pid in all_pids if (seen := stat(pid)) and seen.state != "Z"]
        if not left:
            break
        time.sleep(0.02)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    print(f"{name}: code {run.returncode}, {len(left)} processes left")
    for line in (out.splitlines()[-3:] if "stop" in name else []) + err.splitlines():
        if line.startswith("echelon:") or "stopped after" in line:
            print(f"{name}: {line}")
    left = [path for path in shared if os.path.exists(path)]
    if left:
        print(f"{name}: left behind {left}")


for name, transport, sent in [
    ("kill", "shm", signal.SIGKILL),
    ("abort", "shm", signal.SIGABRT),
    ("freeze", "shm", signal.SIGSTOP),
    ("mpi-kill", "mpi", signal.SIGKILL),
    ("mpi-freeze", "mpi", signal.SIGSTOP),
]:
    run = start(name, transport)
    everyone = [run.pid] + descendants(run.pid)
    shared = mapped(everyone)
    os.kill(ranks(run.pid)[1], sent)
    finish(name, run, everyone, shared)
for name, transport in [("stop", "shm"), ("stop-threads", "threads"), ("stop-mpi", "mpi")]:
    run = start(name, transport)
    everyone = [run.pid] + descendants(run.pid)
    shared = mapped(everyone)
    run.send_signal(signal.SIGTERM if transport != "mpi" else signal.SIGUSR1)
    finish(name, run, everyone, shared)
    print(f"{name}: snapshots {len(os.listdir(folder + '/' + name + '/ckpt'))}")

# A job that is suspended and goes on, as by Ctrl-Z and fg: nobody was late.
suspended = [("suspended", "shm"), ("suspended-threads", "threads"), ("suspended-mpi", "mpi")]
runs = [start(name, transport) for name, transport in suspended]
everyone = [[run.pid] + descendants(run.pid) for run in runs]
shared = [mapped(pids) for pids in everyone]
for sent, seconds in [(signal.SIGSTOP, DEADLINE + 1.5), (signal.SIGCONT, 1)]:
    for pid in sum(everyone, []):
        os.kill(pid, sent)
    time.sleep(seconds)
for (name, transport), run, pids, names in zip(suspended, runs, everyone, shared):
    if run.poll() is None:
        run.send_signal(signal.SIGTERM if transport != "mpi" else signal.SIGUSR1)
    finish(name, run, pids, names)

# A rank that is stopped before MPI has started.
command = mpirun(1) + [program, "--transport", "mpi", "--deadline", "0.5", ":", "-n", "1", "sh", "-c", "kill -STOP $$"]
run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
finish("mpi-start", run, [run.pid], set())
