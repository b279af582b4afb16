"""What Echelon and its programs touch, seen by strace: every file opened, changed or removed, every program started,
every connection. A command may read the spec, what it imports and names, and the system's and Echelon's own files; it
may write to its output, the cache and the checkpoint directory; TMPDIR stays empty, but for Open MPI's own. Nobody of
ours starts a shell or opens a connection.

  access.py ECHELON          prints what was seen; --list: each file
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

SPEC = """import nn
import "parts/head.ech"
model M(width = 8) {
  axis batch
  axis feature = 4
  axis klass = 3
  axis wide = width
  input image[batch, feature] : float
  input truth[batch] : int below klass
  param weight[feature, wide] ~ normal(0.1)
  param last[wide, klass] ~ normal(0.1)
  h = nn.layernorm(relu(dot(image, weight, over = feature)), wide)
  y = head(h, last, wide)
  loss mean(cross_entropy(y, truth, over = klass))
  metric accuracy = mean(argmax(y, over = klass) == truth)
}
cluster here = local(ranks = 2)
train first {
  model M(); data csv("data/train.csv") -> image, truth
  batch 4; steps 4; optimize sgd(lr = 0.1)
  evaluate test on csv("data/test.csv") every 2 steps on 1 batches
  checkpoint every 2 steps to "ckpt"
  layout mesh(dp = 2) { split batch over dp }
}
"""
HEAD = "block head(x, w, over: axis) {\n  return dot(x, w, over = over)\n}\n"
TABLE = "a,b,c,d,e\n" + "".join(f"{i},1,0.5,-1,{i % 3}\n" for i in range(16))
# Next to the spec and in the home folder, to be left alone.
DECOYS = ["secret.txt", "other.ech", ".env", "parts/nothing.ech", "data/other.csv", "ckpt.bak", "first", "nn.ech", "model"]
HOME_DECOYS = [".bashrc", ".profile", ".netrc", ".gitconfig", ".ssh/id_rsa", ".config/echelon", ".echelonrc"]

SYSTEM = ("/usr/", "/lib/", "/lib64/", "/etc/ld.so", "/proc/", "/sys/", "/dev/null", "/dev/urandom", "/dev/random", "/etc/localtime",
          "/etc/openmpi", "/etc/nsswitch.conf", "/etc/passwd", "/etc/hosts", "/etc/host.conf", "/etc/resolv.conf",
          "/etc/gai.conf", "/etc/group", "/etc/protocols", "/etc/pmix", "/etc/alternatives/",
          "/etc/locale.alias")
SHELLS = {"sh", "bash", "dash", "zsh", "ksh", "busybox", "csh", "tcsh", "fish"}
COMPILERS = {"g++", "c++", "gcc", "cc1plus", "as", "collect2", "ld", "ld.lld", "lld", "clang++", "clang", "ccache", "lto-wrapper",
             "x86_64-linux-gnu-g++-12", "x86_64-linux-gnu-as", "x86_64-linux-gnu-ld", "x86_64-linux-gnu-ld.bfd", "ld.bfd"}
MPI = {"mpirun", "orterun", "prterun", "orted", "prted", "mpiexec"}

TRACED = "%file,%network,execve,execveat,ftruncate"
READING = {"open", "openat", "openat2", "creat"}
CHANGING = {"mkdir", "mkdirat", "unlink", "unlinkat", "rmdir", "rename", "renameat", "renameat2", "link", "linkat", "symlink",
            "symlinkat", "truncate", "chmod", "fchmodat", "chown", "fchownat", "lchown", "mknod", "mknodat", "utimensat",
            "utime", "utimes", "setxattr", "removexattr", "mount", "umount2", "chroot", "pivot_root"}


class Seen:
    def __init__(self):
        self.reads, self.writes, self.started, self.network = {}, {}, [], []  # path or text: who


def unquoted(text):
    return re.sub(r"\\(?:x([0-9a-f]{2})|([0-7]{1,3})|(.))",
                  lambda m: chr(int(m[1], 16)) if m[1] else chr(int(m[2], 8)) if m[2] else {"n": "\n", "t": "\t"}.get(m[3], m[3]),
                  text)


def read_trace(trace, cwd):
    """All calls of all processes that succeeded, by who made them."""
    seen = Seen()
    lines = {}
    programs, parents = {}, {}
    with open(trace, errors="surrogateescape") as file:
        for line in file:
            pid, rest = line.split(None, 1)
            rest = rest.rstrip("\n")
            if rest.endswith("<unfinished ...>"):
                lines[pid] = rest[:-len("<unfinished ...>")]
                continue
            resumed = re.match(r"<\.\.\. \w+ resumed>", rest)
            if resumed:
                rest = lines.pop(pid, "") + rest[resumed.end():]
            call = re.match(r"(\w+)\((.*)\)\s*= (-?\d+|\?)(.*)$", rest, re.S)
            if not call:
                continue
            name, arguments, result, after = call.groups()
            if name in ("fork", "vfork", "clone", "clone3"):
                parents[result] = pid
                continue
            if name in ("execve", "execveat"):
                target = unquoted(re.search(r'"((?:[^"\\]|\\.)*)"', arguments)[1])
                if result == "0":
                    seen.started.append((who(programs, parents, pid), target))
                    programs[pid] = target
                continue
            if result.startswith("-") or result == "?":
                continue
            by = who(programs, parents, pid)
            if name in ("socket", "connect", "bind", "sendto", "accept", "accept4", "listen"):
                seen.network.append((by, name, arguments[:120]))
                continue
            if name not in READING and name not in CHANGING:
                continue
            base = re.match(r"(?:AT_FDCWD|\d+)<([^>]*)>", arguments)
            paths = [os.path.normpath(os.path.join(base[1] if base else cwd, unquoted(p)))
                     for p in re.findall(r'"((?:[^"\\]|\\.)*)"', arguments)]
            at = re.match(r"<([^>]*)>", after)
            if name in READING:
                path = unquoted(at[1]) if at else paths[0]
                change = name == "creat" or re.search(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND|O_TMPFILE", arguments)
                (seen.writes if change else seen.reads).setdefault(path, set()).add(by)
            else:
                for path in paths[1:] if name.startswith("symlink") else paths:
                    seen.writes.setdefault(path, set()).add(by)
    return seen


def who(programs, parents, pid):
    while pid not in programs and pid in parents:
        pid = parents[pid]
    return programs.get(pid, "?")


class Watch:
    def __init__(self, echelon, folder, show):
        self.echelon, self.folder, self.show = os.path.realpath(echelon), os.path.realpath(folder), show
        self.source = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
        self.build = os.path.dirname(os.path.dirname(self.echelon))
        self.failures, self.commands, self.files = [], 0, 0
        for name, text in [("spec.ech", SPEC), ("parts/head.ech", HEAD), ("data/train.csv", TABLE), ("data/test.csv", TABLE)]:
            self.write("work/" + name, text)
        for name in DECOYS:
            self.write("work/" + name, "decoy")
        for name in HOME_DECOYS:
            self.write("home/" + name, "decoy")
        self.write("work/machines", "localhost slots=4\n")
        for name in ("cache", "tmp", "out"):
            os.mkdir(self.path(name))

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w") as file:
            file.write(text)

    def fail(self, title, what):
        self.failures.append(f"{title}: {what}")
        print(f"FAILED {title}: {what}", flush=True)

    def run(self, title, command, reads=(), writes=(), code=0, mpi=False, env=None):
        """Traces a command. reads, writes: what it may touch beside the system and its own installation; a name that
        ends with / is a folder and all in it."""
        seen = self.trace(title, command, code, env or {})
        rules = Rules(self, [self.path(r) for r in reads], [self.path(w) for w in writes], mpi, (env or {}).get("CXX"))
        for path, whose in sorted(seen.reads.items()):
            for by in whose:
                if not rules.may_read(by, path):
                    self.fail(title, f"{by} read {path}")
        for path, whose in sorted(seen.writes.items()):
            for by in whose:
                if not rules.may_write(by, path):
                    self.fail(title, f"{by} wrote {path}")
        for by, target in seen.started:
            if not rules.may_start(by, target):
                self.fail(title, f"{by} started {target}")
        for by, call, what in seen.network:
            if not (mpi or "AF_UNIX" in what or "AF_NETLINK" in what):
                self.fail(title, f"{by}: {call}({what})")
        self.look_for_leftovers(title, mpi)
        if self.show:
            show_accesses(title, seen)
        return seen

    def trace(self, title, command, code, env):
        trace = self.path("trace")
        environment = {"PATH": os.environ["PATH"], "HOME": self.path("home"), "TMPDIR": self.path("tmp"),
                       "ECHELON_CACHE": self.path("cache"), **env}
        if os.environ.get("LLVM_PROFILE_FILE"):
            environment["LLVM_PROFILE_FILE"] = os.environ["LLVM_PROFILE_FILE"]
        ran = subprocess.run(["strace", "-f", "--seccomp-bpf", "-qq", "-y", "-s", "4096", "-e",
                              f"trace={TRACED},clone,clone3,fork,vfork", "-o", trace, *command],
                             cwd=self.path("work"), env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, timeout=500)
        if ran.returncode != code:
            self.fail(title, f"ended with {ran.returncode}, not {code}: {ran.stdout[-600:]!r}")
        seen = read_trace(trace, self.path("work"))
        self.commands += 1
        self.files += len(seen.reads) + len(seen.writes)
        return seen

    def look_for_leftovers(self, title, mpi):
        left = os.listdir(self.path("tmp"))
        if mpi:  # Open MPI's session folder
            left = [name for name in left if not name.startswith(("ompi.", "pmix", "prte"))]
        if left:
            self.fail(title, f"left in TMPDIR: {left}")
        half = [name for name in os.listdir(self.path("cache")) if name.startswith("build-")]
        if half:
            self.fail(title, f"left in the cache: {half}")


def show_accesses(title, seen):
    print(f"== {title}")
    for path in sorted(seen.reads):
        if not path.startswith(SYSTEM):
            print("  read ", path)
    for path in sorted(seen.writes):
        print("  wrote", path)
    for by, target in seen.started:
        print(f"  {os.path.basename(by)} started {target}")


def within(path, places):
    return any(path == p.rstrip("/") or (p.endswith("/") and path.startswith(p)) for p in places)


def is_compiler(by):
    return os.path.basename(by) in COMPILERS or "/gcc" in by or by.endswith("cc1plus")


def is_mpi(by):
    return os.path.basename(by) in MPI


class Rules:
    """What the processes of one command may do; `by` is the program that does it, "?" where that is not known."""

    def __init__(self, watch, reads, writes, mpi, compiler):
        self.watch, self.writes, self.mpi, self.compiler = watch, writes, mpi, compiler
        self.tmp, self.cache = watch.path("tmp"), watch.path("cache")
        self.headers = os.path.join(watch.source, "runtime")  # the key of the build cache looks at all of them
        self.reads = reads + writes + [watch.echelon, os.path.join(watch.build, "lib") + "/", self.headers,
                                       self.headers + "/"]

    def may_read(self, by, path):
        if not path.startswith("/") or path.startswith(SYSTEM) or within(path, self.reads):  # pipe:[…], memfd
            return True
        if is_compiler(by) and (within(path, [self.cache + "/"]) or path in ("/", self.watch.source)):
            return True
        # hwloc looks for devices
        return self.mpi and (path.startswith(("/dev/shm/", self.tmp + "/", self.watch.path("home") + "/.openmpi"))
                             or path in ("/", "/dev", "/sys", "/dev/shm", "/tmp", self.tmp))

    def may_write(self, by, path):
        if not path.startswith("/") or path in ("/dev/null", "/dev/tty") or within(path, self.writes):
            return True
        if re.match(r"/proc/(self|\d+)/(clear_refs|task/\d+/comm|comm)$", path):
            return True
        if is_compiler(by) and within(path, [self.cache + "/"]):
            return True
        return self.mpi and (path.startswith(("/dev/shm/", self.tmp + "/", "/memfd:"))
                             or path in ("/dev/shm", "/dev/ptmx", self.tmp))

    def may_start(self, by, target):
        is_shell = {os.path.basename(os.path.realpath(target)), os.path.basename(target)} & SHELLS
        if is_shell and not is_compiler(by) and not is_mpi(by):
            return False
        is_ours = by == "?" or by == self.watch.echelon or by.startswith(self.watch.path(""))
        return (not is_ours or target in (self.watch.echelon, self.compiler) or is_compiler(target) or is_mpi(target)
                or target.startswith(tuple(self.writes)))


def watch_all(echelon, folder, show, quick):
    w = Watch(echelon, folder, show)
    sources = ("work/spec.ech", "work/parts/head.ech")
    data = ("work/data/train.csv", "work/data/test.csv")
    e = w.echelon
    w.run("check", [e, "check", "spec.ech"], sources + data)
    w.run("plan", [e, "plan", "spec.ech", "--json"], sources + data)
    w.run("explain", [e, "explain", "E0101"])
    w.run("build --emit cpp", [e, "build", "spec.ech", "--emit", "cpp", "-o", "../out/spec.cpp"], sources + data,
          ("out/spec.cpp",))
    w.run("build --dump-stages", [e, "build", "spec.ech", "--emit", "rt", "--dump-stages", "../out/stages", "-o",
                                  "../out/spec.rt"], sources + data, ("out/stages/", "out/spec.rt"))
    shutil.copy(w.path("work/spec.ech"), w.path("out/formatted.ech"))
    w.run("fmt", [e, "fmt", "../out/formatted.ech"], (), ("out/formatted.ech",))
    # A compiler that fails: nothing is left behind.
    w.run("run, the compiler fails", [e, "run", "spec.ech"], sources + data, ("cache/",), code=3,
          env={"CXX": "/bin/false"})
    if quick:
        return w
    w.run("build", [e, "build", "spec.ech", "-o", "../out/spec"], sources + data, ("out/", "cache/"))
    run = [e, "run", "spec.ech", "--log", "../out/log.jsonl"]
    outputs = ("cache/", "work/ckpt/", "out/log.jsonl")
    w.run("run", [*run, "--steps", "2"], sources + data, outputs)
    w.run("run --resume", [*run, "--resume"], sources + data, outputs)
    w.run("run --out --dump", [e, "run", "spec.ech", "--out", "../out/o", "--dump", "../out/d", "--dump-state"],
          sources + data, ("cache/", "out/o/", "out/d/"))
    w.run("run --trace", [e, "run", "spec.ech", "--trace", "../out/trace.json", "--out", "../out/p"], sources + data,
          ("cache/", "out/trace.json", "out/p/"))
    w.run("run --transport threads", [e, "run", "spec.ech", "--transport", "threads", "--out", "../out/t"], sources + data,
          ("cache/", "out/t/"))
    w.run("evaluate", [e, "evaluate", "spec.ech", "--from", "ckpt"], sources + data + ("work/ckpt/",), ("cache/",))
    w.run("verify", [e, "verify", "spec.ech"], sources + data, ("cache/",))
    if os.listdir(w.path("cache")) and any(len(name) != 32 for name in os.listdir(w.path("cache"))):
        w.fail("verify", f"left in the cache: {os.listdir(w.path('cache'))}")
    if shutil.which("mpirun"):
        w.run("run --transport mpi", [e, "run", "spec.ech", "--transport", "mpi", "--out", "../out/m", "--deadline", "60"],
              sources + data, ("cache/", "out/m/"), mpi=True)
    for name in DECOYS:
        if open(w.path("work/" + name)).read() != "decoy":
            w.fail("all", f"{name} was changed")
    there = sorted(os.listdir(w.path("work")))
    known = {d.split("/")[0] for d in DECOYS} | {"spec.ech", "parts", "data", "machines", "ckpt"}
    if set(there) - known:
        w.fail("all", f"new beside the spec: {set(there) - known}")
    if {d.split('/')[0] for d in HOME_DECOYS} != set(os.listdir(w.path("home"))):
        w.fail("all", f"new in the home folder: {os.listdir(w.path('home'))}")
    return w


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("echelon")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--quick", action="store_true", help="without what compiles a program")
    options = parser.parse_args()
    probe = subprocess.run(["strace", "-f", "-o", "/dev/null", "true"], capture_output=True) if shutil.which("strace") else None
    if not probe or probe.returncode:
        print("skipped: strace is not there, or may not trace here")
        return 77
    with tempfile.TemporaryDirectory(prefix="hostile-access-") as folder:
        w = watch_all(options.echelon, folder, options.list, options.quick)
    print(f"{w.commands} commands, {w.files} files opened, {len(w.failures)} failures")
    return 1 if w.failures else 0


if __name__ == "__main__":
    sys.exit(main())
