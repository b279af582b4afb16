# Runs `echelon run` on a terminal and interrupts it: first-minute.py SPEC FOLDER. FOLDER/log is a pipe.
import atexit
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time

spec, folder = sys.argv[1], sys.argv[2]
signal.signal(signal.SIGINT, signal.default_int_handler)  # lit ignores it, and so would what starts here
started = []


def clean_up():
    for pid in started:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


atexit.register(clean_up)


def until(what, is_so):
    for _ in range(3000):
        if is_so():
            return
        time.sleep(0.02)
    sys.exit(f"{what}: not within a minute")


class Terminal:
    """A command on a terminal of its own, of so many columns."""

    def __init__(self, columns, *words, **environment):
        read, write = os.pipe()
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            os.read(read, 1)  # the terminal has its size
            os.execvpe("echelon", ["echelon", "run", spec, *words], {**os.environ, **environment})
        started.append(self.pid)
        self.resize(columns)
        os.write(write, b"1")
        self.text = ""

    def resize(self, columns):
        fcntl.ioctl(self.file, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def read(self):
        """False: it has ended."""
        try:
            text = os.read(self.file, 4096).decode()
        except OSError:
            text = ""
        self.text += text
        return text != ""

    def read_until(self, is_so):
        while not is_so(self.text):
            if not self.read():
                sys.exit(f"ended early: {self.text!r}")

    def end(self):
        os.write(self.file, b"\x03")  # Ctrl-C
        while self.read():
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def painted(text):
    """Lines of progress, as a terminal has shown them one over the other."""
    return re.findall(r"\r(step [^\r\n]*)\x1b\[K", text)


def fields(line):
    names = re.findall(r"  ([a-z_]+) [-+0-9.e]+(?=  |$)", line)
    return names + re.findall(r"  [-+0-9.e]+ (samples/s)", line) + re.findall(r"  [0-9:]+ (left)", line)


def kept(lines, columns):
    """What all lines of progress have of what matters most, and whether they keep to the terminal."""
    shown = [name for name in ("loss", "left") if all(name in fields(line) for line in lines)]
    further = [line for line in lines if "_of_three" in line]
    fits = "fits" if max(map(len, lines)) < columns and not further else f"does not fit: {lines}"
    return ", ".join(shown) + " and " + fits


def stopped(name, text, code):
    for line in re.findall(r"(?:stopped after|echelon: ended)[^\r\n]*", text):
        print(f"{name}: {re.sub('step [0-9]+', 'step N', line)}")
    print(f"{name}: code {code}")


def opening(name, text):
    for line in text.split("\r\n"):
        if line.startswith("\rstep"):
            return
        print(f"{name}: {line}")


os.mkdir(f"{folder}/fresh")
run = Terminal(250, "--train", "endless", ECHELON_CACHE=f"{folder}/fresh", CXX="c++")
run.resize(110)
run.read_until(lambda text: "data synthetic" in text)
run.resize(250)
before = len(painted(run.text))  # and what was written but not read yet
run.read_until(lambda text: len(painted(text)) >= before + 10)
opening("wide", run.text.replace("\r\x1b[K", "\r\n"))
print("wide: progress has", ", ".join(fields(painted(run.text)[-1])))
run.resize(60)
before = len(painted(run.text))
run.read_until(lambda text: len(painted(text)) >= before + 10)
print("wide: made narrower, progress has", kept(painted(run.text)[-3:], 60))
code = run.end()
stopped("wide", run.text, code)

run = Terminal(40, "--train", "endless", "--transport", "threads")
run.read_until(lambda text: len(painted(text)) >= 3)
opening("narrow", run.text[run.text.index("training"):])
print("narrow: progress has", kept(painted(run.text), 40))
run.end()


def start(*words):
    run = subprocess.Popen(["echelon", "run", spec, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           preexec_fn=os.setpgrp)
    started.append(run.pid)
    return run


for number, transport in ((signal.SIGTERM, "threads"), (signal.SIGUSR1, "mpi")):
    run = start("--train", "endless", "--transport", transport)
    text = ""
    while "step 1/" not in text:
        text += run.stdout.readline().decode()
    run.send_signal(number)
    text += run.communicate()[0].decode()
    stopped(f"{number.name}, {transport}", text, run.returncode)

# A log that nobody reads any more holds the run in the midst of a step.
pipe = os.open(f"{folder}/log", os.O_RDONLY | os.O_NONBLOCK)
filler = os.open(f"{folder}/log", os.O_WRONLY | os.O_NONBLOCK)


def waiting():
    size = bytearray(4)
    fcntl.ioctl(pipe, termios.FIONREAD, size)
    return struct.unpack("i", size)[0]


def fill():
    """Lets nobody write to the pipe any more, and waits until the run is held by that."""
    try:
        while True:
            os.write(filler, b"\n")
    except BlockingIOError:
        time.sleep(1)


def is_pending(pid):
    """Whether it has not taken a signal yet."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as status:
        return int(re.search(r"ShdPnd:\s*(\w+)", status.read())[1], 16) != 0


for name, words in (("shm", ["--train", "endless"]), ("threads", ["--train", "endless", "--transport", "threads"]),
                    ("mpi", ["--train", "endless", "--transport", "mpi"]),
                    ("saving", ["--train", "saving", "--set", "steps=1_000_000", "--set", "evaluate=1_000_000",
                                "--set", "checkpoint=1_000_000", "--out", f"{folder}/other"])):
    run = start(*words, "--log", f"{folder}/log", "--deadline", "600")
    until("a step", lambda: waiting() > 0)
    fill()
    run.send_signal(signal.SIGINT)
    until("a signal that is taken", lambda: not is_pending(run.pid))
    text = ""
    while name == "mpi" and "Forwarding signal" not in text:  # to the ranks
        text = run.stdout.readline().decode()
    time.sleep(1)  # they take it
    run.send_signal(signal.SIGINT)
    text = run.communicate()[0].decode()
    stopped(f"twice, {name}", text, run.returncode)
    while waiting():
        os.read(pipe, 65536)
