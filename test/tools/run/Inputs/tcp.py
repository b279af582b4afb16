# tcp.py PROGRAM FOLDER: a program of four ranks over TCP, as torchrun, srun and mpirun start its processes. Prints the
# codes of each run, and what was said on standard error.
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time

program, folder = sys.argv[1:]
RANKS = 4
NAMES = {
    "mpirun": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    "srun": ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
    "torchrun": ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
}


def free_port():
    """A port that is free, as is the one after it; below those that connections of other programs are given."""
    while True:
        port = random.randrange(20000, 30000)
        with socket.socket() as first, socket.socket() as second:
            try:
                first.bind(("127.0.0.1", port))
                second.bind(("127.0.0.1", port + 1))
                return port
            except OSError:
                continue


def start(launcher, arguments=(), size=RANKS, ranks=range(RANKS), port=None, more={}):
    """The processes of a run, with what they say in files."""
    port, run = str(port or free_port()), []
    for rank in ranks:
        environment = dict(os.environ, MASTER_ADDR="localhost", MASTER_PORT=port, **more)
        for name, value in zip(NAMES[launcher], (rank, size, rank)):
            environment[name] = str(value)
        with open(f"{folder}/out-{rank}", "w") as out, open(f"{folder}/err-{rank}", "w") as err:
            run.append(subprocess.Popen([program, "--transport", "tcp", *arguments], env=environment,
                                        stdin=subprocess.DEVNULL, stdout=out, stderr=err))
    return run


def finish(title, run):
    print(f"{title}: codes {[rank.wait(timeout=120) for rank in run]}")
    for rank in range(len(run)):
        with open(f"{folder}/err-{rank}") as said:
            for line in said:
                print(f"{title}: {re.sub('localhost:[0-9]+', 'localhost:PORT', line)}", end="")


def await_steps(log):
    while not os.path.exists(log) or os.path.getsize(log) < 2000:
        time.sleep(0.05)


for launcher in NAMES:
    finish(launcher, start(launcher, ["--steps", "20", "--log", f"{folder}/{launcher}.jsonl"]))

# torchrun's agent holds MASTER_PORT itself. An srun that has started it is further out.
with socket.socket() as agent:
    port = free_port()
    agent.bind(("127.0.0.1", port))
    agent.listen()
    srun = {"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_LOCALID": "0"}
    finish("agent", start("torchrun", ["--steps", "2"], port=port,
                          more={"TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_USE_AGENT_STORE": "True", **srun}))
    finish("taken", start("torchrun", ranks=[0], port=port))

finish("size", start("srun", size=3, ranks=[0]))

# A rank that is killed, and one that is stopped.
for title, number in (("killed", signal.SIGKILL), ("stopped", signal.SIGSTOP)):
    log = f"{folder}/{title}.jsonl"
    run = start("torchrun", ["--log", log, "--deadline", "3"])
    await_steps(log)
    run[2].send_signal(number)
    for rank in (0, 1, 3):
        run[rank].wait(timeout=120)
    run[2].kill()
    finish(title, run)

# Batch systems ask each process to stop, torchrun the same; rank 0 decides for all.
log = f"{folder}/asked.jsonl"
run = start("torchrun", ["--log", log])
await_steps(log)
for rank in run:
    rank.send_signal(signal.SIGTERM)
finish("asked", run)
with open(f"{folder}/out-0") as said:
    print("asked:", said.readlines()[-2].split(" after")[0].strip())
