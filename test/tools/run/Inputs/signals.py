# Sends signals to `echelon run`: signals.py SPEC FOLDER. The spec trains without end.
import atexit
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.append(f"{os.path.dirname(os.path.realpath(__file__))}/../../../faults")
from processes import descendants, stat

spec, folder = sys.argv[1], sys.argv[2]
log, begun, goal = f"{folder}/log", f"{folder}/begun", f"{folder}/goal"


def await_that(what, is_so):
    for _ in range(3000):
        if is_so():
            print(what)
            return
        time.sleep(0.02)
    sys.exit(f"{what}: not within a minute")


def states(run, name):
    """Of the command itself and of what it has started under this name."""
    found = []
    for pid in [run.pid] + descendants(run.pid):
        try:
            is_meant = pid == run.pid or name in os.readlink(f"/proc/{pid}/exe")
        except OSError:  # it has ended
            continue
        if is_meant and (seen := stat(pid)):
            found.append(seen.state)
    return found


def have_ended(pids):
    return all(not (seen := stat(pid)) or seen.state == "Z" for pid in pids)


def suspend(name, program, run):
    run.send_signal(signal.SIGTSTP)
    await_that(f"{name}: all stopped", lambda: len(seen := states(run, program)) > 1 and set(seen) == {"T"})
    run.send_signal(signal.SIGCONT)
    await_that(f"{name}: goes on", lambda: len(seen := states(run, program)) > 1 and "T" not in seen)


def start(*words, prepare=os.setpgrp, **environment):
    """The command, unless `prepare` says otherwise in a process group of its own, as shells start it: else Ctrl-Z would be
    for nobody."""
    run = subprocess.Popen(["echelon", "run", spec, *words], preexec_fn=prepare, env={**os.environ, **environment})
    atexit.register(end, run)
    return run


def end(run):
    """Where a check has failed."""
    for pid in [run.pid] + descendants(run.pid) if run.poll() is None else []:
        os.kill(pid, signal.SIGKILL)


def fake_mpirun(text):
    with open(f"{folder}/mpirun", "w") as mpirun:
        mpirun.write("#!/bin/sh\n" + text)
    os.chmod(f"{folder}/mpirun", 0o755)
    return f"{folder}:{os.environ['PATH']}"


def has_grown(path):
    size = os.path.getsize(path)
    return lambda: os.path.getsize(path) > size + 1000


run = start("--transport", "mpi", "--deadline", "20", "--log", log)
await_that("mpi: begun", lambda: os.path.exists(log) and os.path.getsize(log) > 2000)
suspend("mpi", f"{folder}/cache", run)
await_that("mpi: steps", has_grown(log))
for _ in range(2):  # the second is a reminder
    run.send_signal(signal.SIGUSR1)
    time.sleep(0.1)
print("mpi: code", run.wait(timeout=60))

# What ignores Ctrl-C when it is started, as scripts have their background do, goes on ignoring it.
for transport in "shm", "mpi":
    os.remove(log)
    run = start("--transport", transport, "--log", log, prepare=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    await_that(f"{transport}: begun", lambda: os.path.exists(log) and os.path.getsize(log) > 2000)
    run.send_signal(signal.SIGINT)
    await_that(f"{transport}: ignores it", has_grown(log))
    await_that(f"{transport}: and goes on", has_grown(log))
    run.send_signal(signal.SIGTERM)
    print(f"{transport}: code", run.wait(timeout=60))

# An mpirun that is killed leaves neither ranks nor its files.
os.mkdir(f"{folder}/tmp")
os.remove(log)
run = start("--transport", "mpi", "--log", log, TMPDIR=f"{folder}/tmp")
await_that("killed: begun", lambda: os.path.exists(log) and os.path.getsize(log) > 2000)
everyone = descendants(run.pid)
os.kill(next(pid for pid in everyone if pathlib.Path(f"/proc/{pid}/comm").read_text() == "mpirun\n"), signal.SIGKILL)
print("killed: code", run.wait(timeout=60))
print("killed: left", [pid for pid in everyone if stat(pid)], os.listdir(f"{folder}/tmp"))

with open(f"{folder}/compiler", "w") as compiler:
    compiler.write(f'#!/bin/sh\ntouch {begun}\nwhile [ ! -e {goal} ]; do sleep 0.05; done\nexit 1\n')
os.chmod(f"{folder}/compiler", 0o755)
shell = os.path.realpath("/bin/sh")
run = start("--ranks", "1", CXX=f"{folder}/compiler")
await_that("compiler: begun", lambda: os.path.exists(begun))
suspend("compiler", shell, run)
open(goal, "w").close()
print("compiler: code", run.wait(timeout=60))

# An mpirun that loses the first two requests.
os.remove(begun)
path = fake_mpirun(f"""exec {sys.executable} -c '
import pathlib, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
signal.signal(signal.SIGUSR1, signal.SIG_DFL)
pathlib.Path("{begun}").touch()
for request in range(3):
    signal.sigwait([signal.SIGUSR1])'
""")
run = start("--transport", "mpi", PATH=path)
await_that("lost: begun", lambda: os.path.exists(begun))
run.send_signal(signal.SIGTERM)
print("lost: code", run.wait(timeout=60))

# An mpirun that does not end with its ranks, here a run of the program over shm.
path = fake_mpirun(f"""while [ ! -x "$1" ]; do shift; done
"$1" --folder "$3" >{folder}/said &
sleep 3
kill $!
exec {sys.executable} -c 'import time; time.sleep(120)'
""")
run = start("--transport", "mpi", PATH=path)
print("stays: code", run.wait(timeout=100))

# An mpirun that does not end, and a command that is killed.
os.remove(begun)
path = fake_mpirun(f"trap '' TERM\nsleep 120 &\ntouch {begun}\nwhile true; do sleep 1; done\n")
run = start("--transport", "mpi", PATH=path)
await_that("orphans: begun", lambda: os.path.exists(begun))
everyone = descendants(run.pid)
run.kill()
run.wait()
await_that("orphans: ended", lambda: have_ended(everyone))

# A command that is killed between the two forks, of mpirun and of what guards it: mpirun has not begun.
os.remove(begun)
path = fake_mpirun(f"touch {begun}\nsleep 120\n")
forks = "clone,clone3,fork,vfork"
run = subprocess.Popen(["strace", "-o", os.devnull, "-e", f"trace={forks}", "-e",
                        f"inject={forks}:delay_enter=60000000:when=2", "echelon", "run", spec, "--transport", "mpi"],
                       env={**os.environ, "PATH": path})
atexit.register(end, run)
await_that("unguarded: forked", lambda: len(descendants(run.pid)) >= 2)
time.sleep(0.5)
everyone = descendants(run.pid)
os.kill(everyone[0], signal.SIGKILL)
await_that("unguarded: ended", lambda: have_ended(everyone))
run.kill()
run.wait()
print("unguarded: begun", os.path.exists(begun))
