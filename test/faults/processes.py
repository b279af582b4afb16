"""What the scripts of this folder ask of processes."""
import collections
import os
import pathlib

Stat = collections.namedtuple("Stat", "state session flags began")


def mpirun(ranks):
    """What comes before a program's words to start it on so many ranks over MPI."""
    return ["mpirun", "-n", str(ranks), "--oversubscribe"] + ["--allow-run-as-root"] * (os.geteuid() == 0)


def descendants(pid):
    """Children of a process, and theirs, as numbers."""
    try:
        text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    found = []
    for child in map(int, text.split()):
        found += [child] + descendants(child)
    return found


def stat(process):
    """State ("R", "T", "Z", ...), session, the kernel's flags and beginning of a process or thread, by its folder in /proc;
    None where it is gone."""
    try:
        fields = (pathlib.Path("/proc") / str(process) / "stat").read_text(errors="replace").rsplit(")", 1)[1].split()
    except OSError:
        return None
    return Stat(fields[0], int(fields[3]), int(fields[6]), fields[19])


def dies(pid):
    """Whether it is ending: SIGKILL is on its way to it, or has come."""
    exiting, killed = 0x4, 1 << 8  # PF_EXITING of the kernel, and the signal's bit
    seen = stat(pid)
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text(errors="replace")
    except OSError:
        return True
    pending = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("SigPnd", "ShdPnd"))]
    return not seen or bool(seen.flags & exiting) or any(signals & killed for signals in pending)


def mapped(pids):
    """Paths in /dev/shm of memory that these processes share."""
    found = set()
    for pid in pids:
        try:
            with open(f"/proc/{pid}/maps", errors="replace") as file:
                found |= {line.split()[5] for line in file if "/dev/shm/" in line}
        except OSError:
            pass
    return found
