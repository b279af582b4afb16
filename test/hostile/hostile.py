"""Hostile names, strings, paths and files: hundreds of cases, one by one. A case puts one payload in one place, runs the
commands that meet it there, and holds every output against judge.py.

  hostile.py ECHELON               all cases
  hostile.py ECHELON --sample N    every N-th of each place; --without-programs: none that compiles or runs one
  hostile.py ECHELON --only TEXT   cases whose name has the text; --list: only name them
"""
import argparse
import json
import os
import pty
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zlib

sys.dont_write_bytecode = True  # nothing is written beside the sources

import judge
from payloads import NAMES, PAYLOADS, in_string, is_file_name, outside_paths

SPEC = b"""import nn
@IMPORT@
model @model@(width = 8) {
  axis batch
  axis @axis@ = 4
  axis klass = 3
  axis wide = width
  input @input@[batch, @axis@] : float
  input @label@[batch] : int below klass
  param @param@[@axis@, wide] ~ normal(0.1)
  param last[wide, klass] ~ normal(0.1)
  @value@ = relu(dot(@input@, @param@, over = @axis@)) # @comment@
  h2 = nn.layernorm(@value@, wide) as @call@
  loss mean(cross_entropy(dot(h2, last, over = wide), @label@, over = klass))
  metric @metric@ = mean(argmax(dot(h2, last, over = wide), over = klass) == @label@)
}
cluster @cluster@ = local(ranks = 2)
train @train@ {
  model @model@(); data @data@ -> @input@, @label@
  batch 4; steps 3; optimize sgd(lr = 0.1, momentum = 0.9); on @cluster@
  evaluate @evaluate@ on @data@ every 2 steps on 1 batches
  checkpoint every 1 steps to @checkpoint@
  layout mesh(@mesh@ = 2) { split batch over @mesh@@offload@ }
}
"""
WORDS = dict(model="M", axis="feature", input="image", label="truth", param="weight", value="hidden", call="norm",
             metric="accuracy", train="first", cluster="here", evaluate="test", mesh="dp", comment="", IMPORT="",
             data='csv("data.csv")', checkpoint='"ckpt"', offload="")
TABLE = b"a,b,c,d,e\n" + b"".join(b"%d,1,0.5,-1,%d\n" % (i, i % 3) for i in range(16))


def spec(**changes):
    text = SPEC
    for word, value in {**WORDS, **changes}.items():
        text = text.replace(b"@" + word.encode() + b"@", value if isinstance(value, bytes) else value.encode())
    return text


class Failure(Exception):
    pass


class Case:
    """One payload in one place: a folder of its own, and what has been seen there."""

    def __init__(self, suite, folder):
        self.suite, self.folder = suite, os.fsencode(folder)
        self.write(b"data.csv", TABLE)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
        return path

    def run(self, *arguments, env=None, codes=(0, 1, 2, 3, 4), whole_text=False, program=None):
        """Runs echelon; judges the exit code and what it prints. Returns code, standard output."""
        command = [program or self.suite.echelon, *arguments]
        command = [os.fsencode(a) for a in command]
        environment = {k: v for k, v in self.suite.environment.items() if k not in (env or {})}
        environment.update({k: v for k, v in (env or {}).items() if v is not None})
        ran = subprocess.run(command, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=self.suite.timeout)
        self.judge(command, ran.returncode, ran.stdout, ran.stderr, codes, whole_text)
        return ran.returncode, ran.stdout

    def judge(self, command, code, out, err, codes, whole_text=False):
        self.suite.commands += 1
        shown = b" ".join(command[1:])[:200]
        if code not in codes:
            raise Failure(f"{shown!r} ended with {code}, not one of {codes}: {err[-600:]!r}")
        for name, output in (("standard output", out), ("standard error", err)):
            wrong = judge.terminal(output, whole_text and name == "standard output")
            if wrong:
                raise Failure(f"{name} of {shown!r}: {wrong}")

    def on_terminal(self, *arguments):
        """The same with a terminal as standard output and error, where colours are on."""
        command = [os.fsencode(a) for a in (self.suite.echelon, *arguments)]
        leader, follower = pty.openpty()
        child = subprocess.Popen(command, cwd=self.folder, env=self.suite.environment, stdin=subprocess.DEVNULL,
                                 stdout=follower, stderr=follower)
        os.close(follower)
        output = b""
        while True:
            try:
                part = os.read(leader, 65536)
            except OSError:
                break
            if not part:
                break
            output += part
        os.close(leader)
        self.judge(command, child.wait(), judge.colourless(output), b"", (0, 1, 2, 3, 4))

    def compiled_text(self, file, like=None, holds=None):
        """check, plan and the C++ of a spec, as far as they get."""
        code, _ = self.run("check", file, codes=(0, 1, 2))
        if code:
            return None
        code, plan = self.run("plan", file, "--json", codes=(0, 1))
        wrong = judge.json_text(plan) if code == 0 else None
        if wrong:
            raise Failure("plan --json: " + wrong)
        code, text = self.run("build", file, "--emit", "cpp", codes=(0, 1))
        if code:
            return None
        wrong = judge.cpp(text, like, holds)
        if wrong:
            raise Failure("build --emit cpp: " + wrong)
        return text

    def accepted_by_compiler(self, text):
        source = self.write(b"syntax.cpp", text)
        ran = subprocess.run([b"g++", b"-std=c++17", b"-fsyntax-only", b"-fopenmp-simd", b"-Wall", b"-Wextra", b"-Werror",
                              b"-I" + os.fsencode(self.suite.source), source], capture_output=True)
        if ran.returncode:
            raise Failure(f"g++ refuses the program: {ran.stderr[:800]!r}")

    def logged(self, file):
        if os.path.exists(self.path(file)):
            wrong = judge.json_lines(open(self.path(file), "rb").read())
            if wrong:
                raise Failure("the log: " + wrong)

    def end(self):
        """No payload was executed."""
        found = outside_paths()
        for folder, folders, files in os.walk(self.folder):
            found += [os.path.join(folder, f) for f in files + folders if f == b"PWNED"]
        if found:
            raise Failure(f"a payload was executed or led astray: {found!r}")


class Suite:
    def __init__(self, echelon, folder, timeout):
        self.echelon = os.path.abspath(echelon)
        self.source = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
        self.folder, self.timeout, self.commands = folder, timeout, 0
        self.environment = {k: os.environ[k] for k in ("PATH", "HOME", "TMPDIR") if k in os.environ}
        self.environment["ECHELON_CACHE"] = os.environ.get("ECHELON_CACHE", os.path.join(folder, "cache"))
        self.cases = []  # (place, name, function, whether it compiles or runs a program)
        self._harmless = self._base = None

    def add(self, place, payload, function, program=False):
        self.cases.append((place, f"{place} / {payload}", function, program))

    def case(self, number):
        folder = os.path.join(self.folder, f"case-{number}")
        os.mkdir(folder)
        return Case(self, folder)

    def harmless(self):
        """The program of the harmless spec: what others must be in all but their literals."""
        if self._harmless is None:
            case = self.case("harmless")
            self._harmless = case.compiled_text(case.write(b"spec.ech", spec()))
            assert self._harmless
        return self._harmless

    def base(self):
        """A folder with a spec whose program is built, and a snapshot of it."""
        if self._base is None:
            case = self.case("base")
            case.write(b"spec.ech", spec())
            case.run("run", case.path(b"spec.ech"), codes=(0,))
            self._base = case
        return self._base


# ---- the places ------------------------------------------------------------------------------------------------------

def in_spec(suite):
    """Names, strings and comments of the language."""
    def names(place, name, payload, fine):
        def test(case):
            file = case.write(b"spec.ech", spec(**{place: payload}))
            text = case.compiled_text(file)
            case.run("fmt", "--stdout", file, codes=(0, 1), whole_text=True)
            case.run("build", file, "--emit", "ast", codes=(0, 1))
            if text and fine:
                case.accepted_by_compiler(text)
        suite.add(f"name of {place}", name, test, program=fine)

    places = ("model", "axis", "input", "param", "value", "call", "metric", "train", "cluster", "evaluate", "mesh")
    for place in places:
        for name, payload in PAYLOADS.items():
            names(place, name, payload, False)
    for i, name in enumerate(NAMES):  # each in two of the places
        for k in (0, 5):
            names(places[(i + k) % len(places)], name, name.encode(), i % 4 == 0)

    def strings(place, form, name, payload):
        def test(case):
            held = None
            if place == "data" and is_file_name(payload):
                case.write(payload, TABLE)
            if place in ("checkpoint", "offload") or (place == "data" and is_file_name(payload)):
                held = payload
            for text, value in ((in_string(payload), held), (b'"' + payload + b'"', None)):
                file = case.write(b"spec.ech", spec(**{place: form.replace(b"@", text)}))
                like = suite.harmless() if place in ("data", "checkpoint") else None
                case.compiled_text(file, like, value)
                case.run("build", file, "--emit", "ast", codes=(0, 1))
        suite.add(f"string in {place} {form.decode()}", name, test)

    forms = [("data", b"csv(@)"), ("data", b"mnist(@)"), ("data", b"npy(@)"), ("data", b"next_token(text(@))"),
             ("data", b"cifar10(@)"), ("data", b"tokens(@)"), ("checkpoint", b"@"),
             ("offload", b"; offload optimizer to @"), ("IMPORT", b"import @")]
    for place, form in forms:
        for name, payload in PAYLOADS.items():
            strings(place, form, name, payload)
    for name, payload in PAYLOADS.items():
        def comment(case, payload=payload):
            case.compiled_text(case.write(b"spec.ech", spec(comment=payload)), suite.harmless())
        suite.add("comment", name, comment)
        def library(case, payload=payload):
            case.run("check", case.write(b"spec.ech", spec(IMPORT=b"import " + payload)), codes=(0, 1))
        suite.add("import of the library", name, library)


def names_of_files(suite):
    """Names of specs, of their folders, of what they import and train on."""
    for name, payload in PAYLOADS.items():
        if not is_file_name(payload):
            continue

        def as_spec(case, payload=payload):
            file = case.write(payload + b".ech", spec())
            case.compiled_text(file, suite.harmless())
            case.run("fmt", "--check", file, codes=(0, 1))
            relative = b"./" + payload + b".ech"
            case.run("build", relative, "--emit", "rt", codes=(0, 1))
            case.run("plan", relative, codes=(0, 1))
            case.write(payload + b".ech", b"model M { x = }\n")
            case.run("check", relative, codes=(1,))
            case.on_terminal("check", relative)
        suite.add("name of a spec", name, as_spec)

        def as_folder(case, payload=payload):
            case.write(payload + b"/data.csv", TABLE)
            case.compiled_text(case.write(payload + b"/spec.ech", spec()), suite.harmless())
        suite.add("name of a folder", name, as_folder)

        def as_import(case, payload=payload):
            case.write(payload, b"model Other { x = }\n")
            case.run("check", case.write(b"spec.ech", spec(IMPORT=b"import " + in_string(payload))), codes=(1,))
        suite.add("name of an imported file", name, as_import)

        def as_data(case, payload=payload):
            case.write(b"folder/" + payload, b"nothing")
            case.write(b"folder/train" + payload, b"nothing")
            case.run("check", case.write(b"spec.ech", spec(data=b'mnist("folder")')), codes=(1,))
            case.run("check", case.write(b"spec.ech", spec(data=b'cifar10("folder")')), codes=(1,))
        suite.add("name of a file of data", name, as_data)


def contents_of_files(suite):
    """What data files hold, as errors quote it."""
    for name, payload in PAYLOADS.items():
        def csv(case, payload=payload):
            file = case.write(b"spec.ech", spec())
            for table in (payload + b",b,c,d,e\n1,2,3,4,x\n", b"a,b,c,d,e\n1,2,3,4," + payload + b"\n",
                          b'"' + payload + b'",b,c,d,e\n1,2,3,4,"' + payload + b'"\n', b"a,b,c,d," + payload):
                case.write(b"data.csv", table)
                case.run("check", file, codes=(0, 1))
        suite.add("csv header and field", name, csv)

        def npy(case, payload=payload):
            header = b"{'descr': '" + payload[:300] + b"', 'fortran_order': False, 'shape': (" + payload[:300] + b",), }\n"
            case.write(b"x.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + b"\0" * 64)
            case.run("check", case.write(b"spec.ech", spec(data=b'npy("x.npy", "x.npy")')), codes=(0, 1))
        suite.add("npy header", name, npy)

        def text(case, payload=payload):
            case.write(b"x.txt", payload * 20)
            case.run("check", case.write(b"spec.ech", spec(data=b'next_token(text("x.txt"))')), codes=(0, 1))
            case.write(b"spec.ech", payload)
            case.run("check", "spec.ech", codes=(0, 1))
            case.run("fmt", "--stdout", "spec.ech", codes=(0, 1), whole_text=True)
            case.run("build", "spec.ech", codes=(1,))
        suite.add("text, and a spec that is none", name, text)


def command_line(suite):
    """Arguments of every command."""
    options = [("check", "--train"), ("plan", "--set"), ("build", "--emit"), ("build", "--target"), ("run", "--transport"),
               ("run", "--hosts"), ("run", "--steps"), ("run", "--deadline"), ("verify", "--layout"), ("verify", "--layouts")]
    for name, payload in PAYLOADS.items():
        for command, option in options:
            if command == "verify" and not payload:
                continue  # nothing asked for: it would build programs
            def given(case, payload=payload, command=command, option=option):
                file = case.write(b"spec.ech", spec())
                case.run(command, file, os.fsencode(option) + b"=" + payload, codes=(0, 1, 2))
            suite.add(f"{command} {option}", name, given)

        def setting(case, payload=payload):
            file = case.write(b"spec.ech", spec())
            for path in (b"batch", b"optimize.lr", b"data.path", b"seed", b"layout.dp", payload, b"optimize." + payload):
                case.run("plan", file, "--json", b"--set=" + path + b"=" + payload, codes=(0, 1, 2))
        suite.add("--set path=value", name, setting)

        def words(case, payload=payload):
            case.run(payload, codes=(0, 2))
            case.run("check", payload, codes=(0, 1, 2))
            case.run("check", b"--" + payload, codes=(0, 1, 2))
            case.run("explain", payload, codes=(0, 2))
            case.run("fmt", payload, codes=(0, 1, 2), whole_text=True)
            case.on_terminal("check", payload)
        suite.add("commands, options and files that there are not", name, words)

        def written(case, payload=payload):
            file = case.write(b"spec.ech", spec())
            os.makedirs(case.path(b"out/1/2/3/4/5/6/7"))  # deep enough that ../.. ends in the case's own
            for emit in ("cpp", "ech"):
                case.run("build", file, "--emit", emit, b"-oout/1/2/3/4/5/6/7/" + payload, codes=(0, 2))
            if is_file_name(payload):
                case.run("build", file, "--emit", "cpp", "--dump-stages", b"out/1/2/3/4/5/6/7/" + payload + b"-stages", "-o", "x.cpp",
                         codes=(0, 2))
        suite.add("build -o", name, written)

        def ran(case, payload=payload):
            base = suite.base()
            for option in (b"--log", b"--out", b"--dump"):
                value = b"a/b/c/d/e/f/g/" + payload
                os.makedirs(case.path(b"a/b/c/d/e/f/g"), exist_ok=True)
                case.run("run", base.path(b"spec.ech"), option + b"=" + value, "--steps", "1",
                         *(["--out", "snapshots"] if option != b"--out" else []), codes=(0, 2, 4))
                shutil.rmtree(case.path(b"snapshots"), ignore_errors=True)
                if option == b"--log" and is_file_name(payload):
                    case.logged(value)
            case.run("evaluate", base.path(b"spec.ech"), b"--from=" + payload, codes=(0, 2, 4))
        suite.add("run --log, --out, --dump, --from", name, ran, program=True)


def environment(suite):
    """Variables that Echelon reads."""
    for name, payload in PAYLOADS.items():
        def cache(case, payload=payload):
            file = case.write(b"spec.ech", spec())
            for variable in ("ECHELON_CACHE", "XDG_CACHE_HOME", "HOME"):
                env = {"ECHELON_CACHE": None, "XDG_CACHE_HOME": None, variable: b"c/1/2/3/4/5/6/7/" + payload, "CXX": b"/bin/false"}
                case.run("run", file, env=env, codes=(3,))
            case.run("check", file, env={"NO_COLOR": payload, "PATH": payload, "TMPDIR": payload, "COLUMNS": payload},
                     codes=(0,))
        suite.add("folders in the environment", name, cache)

        def compiler(case, payload=payload):
            file = case.write(b"spec.ech", spec())
            case.run("build", file, env={"CXX": payload}, codes=(0, 3) if not payload else (3,))
        suite.add("CXX", name, compiler, program=not payload)

        def flags(case, payload=payload):
            file = case.write(b"spec.ech", spec())
            # a compiler that says what it was given, and fails
            case.write(b"says", b"#!" + os.fsencode(sys.executable) + b"\nimport os, sys\n"
                       b"sys.stdout.buffer.write(b'\\n'.join(map(os.fsencode, sys.argv[1:])))\nsys.exit(1)\n")
            os.chmod(case.path(b"says"), 0o755)
            if b"FAKED" not in payload:  # what it says has lines of its own
                case.run("build", file, env={"CXX": case.path(b"says"), "CXXFLAGS": payload}, codes=(3,))
        suite.add("CXXFLAGS", name, flags)

    def no_shell(case):
        """A file that is no program is not given to a shell."""
        file = case.write(b"spec.ech", spec())
        script = case.write(b"script", b"touch PWNED\n")
        os.chmod(script, 0o755)
        case.run("build", file, env={"CXX": script}, codes=(3,))
        case.run("build", file, env={"CXX": b"script", "PATH": case.folder + b":/usr/bin"}, codes=(3,))
        case.run("run", file, "--transport", "mpi", env={"CXX": script}, codes=(3,))
    suite.add("CXX", "a script without an interpreter", no_shell)


# ---- snapshots -------------------------------------------------------------------------------------------------------

def with_checksums(folder, manifest):
    """Writes a manifest that a snapshot with these files would have."""
    for row in manifest["files"]:
        path = os.path.join(folder, os.fsencode(row["name"]))
        if os.path.isfile(path):
            content = open(path, "rb").read()
            row["bytes"], row["crc32"] = len(content), f"{zlib.crc32(content):08x}"
    manifest.pop("checksum", None)
    body = json.dumps(manifest, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
    manifest["checksum"] = f"{zlib.crc32(body):08x}"
    with open(os.path.join(folder, b"manifest.json"), "wb") as file:
        file.write((json.dumps(manifest, indent=1, ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass"))


def renamed_tensor(content, name, dtype=None):
    """A safetensors file with its first tensor called something else, or of another type."""
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + length])
    first = next(k for k in header if k != "__metadata__")
    header = {(name if k == first and dtype is None else k): v for k, v in header.items()}
    if dtype is not None:
        header[first]["dtype"] = dtype
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + content[8 + length:]


def snapshots(suite):
    def snapshot(case):
        base = suite.base()
        shutil.copytree(base.path(b"ckpt"), case.path(b"ckpt"))
        step = sorted(os.listdir(case.path(b"ckpt")))[-1]
        for other in os.listdir(case.path(b"ckpt")):
            if other != step:
                shutil.rmtree(case.path(b"ckpt/" + other))
        folder = case.path(b"ckpt/" + step)
        own = open(folder + b"/manifest.json", "rb").read()
        manifest = json.loads(own)
        with_checksums(folder, manifest)
        if open(folder + b"/manifest.json", "rb").read() != own:  # else all that is changed below fails by its checksum
            raise Failure("a manifest written here is not as a program writes it")
        return folder, manifest

    def resume(case, codes=(0, 4)):
        file = suite.base().path(b"spec.ech")
        case.run("run", file, "--out", ".", "--resume", "--log", "log.jsonl", codes=codes)
        case.logged(b"log.jsonl")
        case.run("evaluate", file, "--from", "ckpt", codes=codes)

    for name, payload in PAYLOADS.items():
        text = payload.decode("utf-8", "replace")

        def tensors(case, text=text):
            folder, manifest = snapshot(case)
            for dtype in (None, text):
                for file in (b"model.safetensors", b"optimizer.safetensors"):
                    content = open(folder + b"/" + file, "rb").read()
                    if len(content) > 200:
                        with open(folder + b"/" + file, "wb") as out:
                            out.write(renamed_tensor(content, text, dtype))
                with_checksums(folder, manifest)
                resume(case)
        suite.add("names and types of tensors", name, tensors, program=True)

        def manifests(case, text=text, payload=payload):
            folder, manifest = snapshot(case)
            for key in ("model", "data", "seed"):
                changed = json.loads(json.dumps(manifest))
                changed["fingerprints"][key] = text
                changed["program"] = text
                with_checksums(folder, changed)
                resume(case)
            changed = json.loads(json.dumps(manifest))
            changed["files"][0]["name"] = text
            with_checksums(folder, changed)
            resume(case, codes=(4,))
            with open(folder + b"/manifest.json", "wb") as file:
                file.write(payload)
            resume(case, codes=(4,))
        suite.add("a manifest", name, manifests, program=True)

        if is_file_name(payload):
            def folders(case, payload=payload):
                folder, _ = snapshot(case)
                os.rename(case.path(b"ckpt"), case.path(payload + b"d"))
                case.run("evaluate", suite.base().path(b"spec.ech"), "--from", b"./" + payload + b"d", codes=(0,))
                os.mkdir(case.path(payload + b"d/step-00000009"))
                case.run("evaluate", suite.base().path(b"spec.ech"), "--from", b"./" + payload + b"d", codes=(0,))
                os.mkdir(case.path(payload))
                case.run("run", suite.base().path(b"spec.ech"), "--out", b"./" + payload, "--steps", "1", codes=(0,))
                case.run("run", suite.base().path(b"spec.ech"), "--out", b"./" + payload, "--steps", "1", codes=(4,))
            suite.add("name of a checkpoint directory", name, folders, program=True)

    def links(what):
        def test(case):
            folder, manifest = snapshot(case)
            outside = case.path(b"outside")
            os.mkdir(outside)
            if what == "a snapshot":
                os.rename(folder, outside + b"/s")
                os.symlink(outside + b"/s", folder)
            elif what == "a file of a snapshot":
                os.rename(folder + b"/model.safetensors", outside + b"/m")
                os.symlink(outside + b"/m", folder + b"/model.safetensors")
            elif what == "a manifest that names a file outside":
                shutil.copy(folder + b"/model.safetensors", outside + b"/m")
                manifest["files"][0]["name"] = "../../outside/m"
                with_checksums(folder, manifest)
            elif what == "what is unfinished":
                shutil.rmtree(folder)
                open(outside + b"/kept", "wb").close()
                os.symlink(outside, case.path(b"ckpt/.step-00000001.writing"))
                resume(case, codes=(0,))
                if os.listdir(outside) != [b"kept"]:
                    raise Failure(f"a snapshot was written or removed outside: {os.listdir(outside)}")
                return
            elif what == "a pipe":
                os.unlink(folder + b"/manifest.json")
                os.mkfifo(folder + b"/manifest.json")
            before = sorted(os.listdir(outside))
            resume(case, codes=(4,))
            if sorted(os.listdir(outside)) != before:
                raise Failure("something was written outside of the checkpoint directory")
        suite.add("links out of the checkpoint directory", what, test, program=True)
    for what in ("a snapshot", "a file of a snapshot", "a manifest that names a file outside", "what is unfinished", "a pipe"):
        links(what)


def builds(suite):
    """Programs that are compiled and run, under names that a shell, the compiler or the linker could stumble over."""
    chosen = ("quote", "backslash", "newline", "substitution", "backticks", "semicolon", "colour", "bidi", "invalid UTF-8",
              "option", "options file", "format", "blanks", "comment end", "trigraph backslash", "accents", "percent", "glob")
    for name in chosen:
        def compiled(case, name=name, payload=PAYLOADS[name].replace(b"/", b"|")):  # it is a file's name
            folder = case.path(payload + b"dir")
            os.mkdir(folder)
            text = in_string(payload) if b"\x1b" not in payload and name not in ("bidi", "invalid UTF-8") else b'"ckpt"'
            try:
                payload.decode()
                data = b"csv(" + in_string(payload + b".csv") + b")" if text != b'"ckpt"' else b'csv("data.csv")'
            except UnicodeDecodeError:
                text, data = b'"ckpt"', b'csv("data.csv")'
            case.write(payload + b"dir/data.csv", TABLE)
            case.write(payload + b"dir/" + payload + b".csv", TABLE)
            file = case.write(payload + b"dir/" + payload + b".ech", spec(data=data, checkpoint=text))
            case.run("build", file, b"-o" + payload, codes=(0,))
            case.run("--plan", program=case.path(payload), codes=(0,))
            case.run("--help", program=case.path(payload), codes=(0,))
            case.run("--version", program=case.path(payload), codes=(0,))
            case.run("--steps=x" , program=case.path(payload), codes=(2,))
            case.run("run", file, "--log", b"./" + payload + b".jsonl", codes=(0,))
            case.logged(payload + b".jsonl")
            case.run("run", file, codes=(4,))
            case.run("run", file, "--resume", codes=(0,))
        suite.add("build, run and resume", name, compiled, program=True)


# ---- running ---------------------------------------------------------------------------------------------------------

def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("echelon")
    parser.add_argument("--sample", type=int, default=0, metavar="N")
    parser.add_argument("--without-programs", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--seconds", type=float, default=0, help="stop after so many seconds, with what has been tried")
    parser.add_argument("--timeout", type=float, default=120, help="seconds of one command")
    options = parser.parse_args()
    judge.self_test()
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        suite = Suite(options.echelon, folder, options.timeout)
        for places in (in_spec, names_of_files, contents_of_files, command_line, environment, snapshots, builds):
            places(suite)
        chosen = [c for c in suite.cases if options.only in c[1] and not (options.without_programs and c[3])]
        if options.sample:
            counted = {}
            kept = []
            for case in chosen:
                place = case[0]
                counted[place] = counted.get(place, hash_of(place) % options.sample) + 1
                if counted[place] % options.sample == 0:
                    kept.append(case)
            chosen = kept
        if options.list:
            print("\n".join(c[1] for c in chosen))
            return 0
        if outside_paths():
            sys.exit(f"remove {outside_paths()} first")
        failures, began, tried = [], time.time(), 0
        for number, (place, name, function, slow) in enumerate(chosen):
            if options.seconds and time.time() - began > options.seconds:
                break
            tried += 1
            case = suite.case(number)
            try:
                function(case)
                case.end()
            except (Failure, subprocess.TimeoutExpired) as failure:
                failures.append(name)
                print(f"FAILED {name}: {str(failure)[:1500]}".encode("unicode_escape").decode().replace("\\\\", "\\"),
                      flush=True)
            except OSError as failure:
                failures.append(name)
                print(f"FAILED {name}: the test itself: {failure!r}", flush=True)
            shutil.rmtree(case.folder, ignore_errors=True)
        print(f"{tried - len(failures)} of {tried} cases passed ({len(suite.cases)} there are, {suite.commands} commands, "
              f"{time.time() - began:.0f} s)")
        return 1 if failures or not tried else 0


def hash_of(text):
    return zlib.crc32(text.encode())


if __name__ == "__main__":
    sys.exit(main())
