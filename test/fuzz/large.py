#!/usr/bin/env python3
"""Any input of 16 MiB ends within 10 s and 512 MiB, with a diagnostic or without, whatever it asks for.

  test/fuzz/large.py ECHELON [--mib N] [--largest] [--growth] [NAME...]

Hands every input below, N MiB of it (16), to every command that reads a spec and starts no host compiler, and then the
largest of the same kind that is not refused for its size, and prints seconds (of the processor, so that other work on the
machine does not count) and memory. --largest: only the latter. --growth: seconds at half of that size, too: what doubles the
input may not take more than GROWTH times as long, where it takes half a second.
Exit code 1: one went over a limit, was ended by a signal, or met an internal error.
"""
import argparse
import os
import random
import resource
import subprocess
import sys
import tempfile

SECONDS, MIB = 10, 512
GROWTH = 6  # of twice the input: 4 is the square, the rest is what measurements differ by
SHORTEST = 0.5  # seconds from which on growth is looked at
COMMANDS = [["check"], ["fmt", "--stdout"], ["plan", "--json"], ["build", "--emit", "cpp", "-o", os.devnull]]
LIMIT = 1 << 20  # of a spec, in bytes
HEAD = "model M {\n  axis batch; axis a = 8\n  input x[batch, a] : float\n  param w[a] ~ zeros\n"
TRAIN = "train t {\n  model M(); data npy(\"x.npy\") -> x; batch 8; steps 10; optimize sgd(lr = 0.1)\n%s}\n"
END = "\n  loss mean(x * w)\n}\n"
TAIL = END + TRAIN % ""
HEADER = b"{'descr': '<f4', 'fortran_order': False, 'shape': (64, 8), }".ljust(117) + b"\n"
FILES = {"x.npy": b"\x93NUMPY\x01\x00\x76\x00" + HEADER + bytes(64 * 8 * 4), "part.ech": b"# nothing\n"}


def fill(text, part, end=""):
    """`part` as often as it goes between `text` and `end`."""
    return lambda n: text + part * ((n - len(text) - len(end)) // len(part)) + end


def numbered(text, part, end=""):
    """The same, with a number in each part."""

    def make(n):
        parts, left, i = [text], n - len(text) - len(end), 0
        while left > 0:
            parts.append(part.replace("#", str(i)))
            left -= len(parts[-1])
            i += 1
        return "".join(parts[:-1]) + end

    return make


def model(part):
    return fill(HEAD, part, TAIL)


def calls(times, depth):
    """Blocks, each of which calls the next one several times: `times` to the power of `depth` calls."""
    text = "block b0(x) {\n  return x\n}\n"
    for i in range(1, depth):
        body = "".join("  x = b%d(x) as c%d\n" % (i - 1, c) for c in range(times))
        text += "block b%d(x) {\n%s  return x\n}\n" % (i, body)
    return lambda n: text + HEAD + "  y = b%d(x)\n" % (depth - 1) + TAIL


def chain(n):
    """A chain of blocks, as long as it gets."""
    parts, left, i = ["block b0(x) {\n  return x\n}\n"], n - 300, 0
    while left > 0:
        i += 1
        parts.append("block b%d(x) { return b%d(x) }\n" % (i, i - 1))
        left -= len(parts[-1])
    return "".join(parts) + HEAD + "  y = b%d(x)\n" % i + TAIL


def noise(alphabet):
    def make(n):
        return bytes(random.Random(7).choices(alphabet, k=n))

    return make


INPUTS = {
    "empty": lambda n: "",
    "newlines": fill("", "\n"),
    "spaces": fill("", " "),
    "zeros": fill("", "\0"),
    "random-bytes": noise(range(256)),
    "random-ascii": noise(b"(){}[]=+-*/^.,;:~<>\"# \nabcx0123456789"),
    "random-words": lambda n: " ".join(random.Random(7).choices("model block train axis param x = ( ) { } 1 ,".split(), k=n // 4))[:n],
    "wide-characters": fill("", "\u00e9"),
    "wide-comment": fill("# ", "\U0001d6fc"),
    "one-name": fill("", "a"),
    "one-number": fill("model M { x = ", "1", " }"),
    "one-digit-number": fill("model M { x = 0.", "0", "1 }"),
    "underscores": fill("model M { x = 1", "_1", " }"),
    "one-string": fill('import "', "a", '"\n'),
    "escapes": fill('import "', "\\n", '"\n'),
    "open-string": fill('import "', "a"),
    "one-comment": fill("#", "#", "\n"),
    "comments": fill("", "#\n"),
    "parentheses": fill("model M { x = ", "("),
    "braces": fill("model M ", "{"),
    "closing": fill("model M ", "}"),
    "brackets": fill("model M { x = ", "a[b = "),
    "call-depth": fill("model M { x = ", "f("),
    "repeat-depth": fill("model M { ", "repeat a = 2 { "),
    "if-depth": fill("model M { ", "if true { "),
    "else-if": fill("model M { if true { }", " else if true { }", " }"),
    "minus": fill("model M { x = ", "-", "1 }"),
    "not": fill("model M { x = ", "not ", "true }"),
    "power": fill("model M { x = 2", "^2", " }"),
    "sum": model("  y = x" + " + x" * 20000 + "\n"),
    "one-sum": fill(HEAD + "  y = x", " + x", TAIL),
    "one-product": fill(HEAD + "  y = x", "*x", TAIL),
    "one-path": fill("model M { x = a", ".a", " }"),
    "arguments": fill("model M { x = f(a", ", a", ") }"),
    "tuple": fill("model M { x = (a", ", a", ") }"),
    "words": fill("", "a "),
    "signs": fill("", "@"),
    "heads": fill("", "model "),
    "models": fill("", "model M { }\n"),
    "own-models": numbered("", "model M# { }\n"),
    "blocks": numbered("", "block b#(x) { return x }\n"),
    "trains": numbered("", "train t# { }\n"),
    "devices": numbered("", "device d# { memory 80 GB at 2 TB/s }\n"),
    "devices-from-one": numbered("device a { memory 80 GB at 2 TB/s }\n", "device d# = a { response host 1 us }\n"),
    "links-from-one": numbered("link a = 1 GB/s, 1 us\n", "link l# = a { protocol p# start 1 us }\n"),
    "protocols": numbered("link a = 1 GB/s, 1 us {\n", "  protocol p# start 1 us\n", "}\n"),
    "points": fill("device d { memory 8 GB at 1 GB/s; curve memory = 1 KB at 1 GB/s", ", 2 KB at 1 GB/s", " }\n"),
    "imports": fill("", 'import "part.ech"\n'),
    "statements": model("  y = x + w\n"),
    "parts-missing": model("  y =\n"),
    "axes": numbered(HEAD, "  axis a# = 2\n", TAIL),
    "inputs": numbered(HEAD, "  input i#[batch] : float\n", TAIL),
    "params": numbered(HEAD, "  param p#[a] ~ zeros\n", TAIL),
    "losses": model("  loss mean(x)\n"),
    "metrics": numbered(HEAD, "  metric m# = mean(x)\n", TAIL),
    "repeats": numbered(HEAD, "  repeat r# = 2 { x = x + 1 }\n", TAIL),
    "clauses": lambda n: HEAD + END + TRAIN % fill("", "  seed 1\n")(max(n - 400, 9)),
    "optimizers": lambda n: HEAD + END + TRAIN % fill("", "  optimize sgd(lr = 0.1) on (w)\n")(max(n - 400, 40)),
    "layout": lambda n: HEAD + END + TRAIN % ("  layout mesh(dp = 2) {" + fill("", " split a over dp\n")(max(n - 400, 20)) + "}"),
    "mesh": lambda n: HEAD + END + TRAIN % ("  layout mesh(m = 2" + numbered("", ", m# = 2")(max(n - 400, 20)) + ")"),
    "huge-axis": lambda n: (HEAD + TAIL).replace("a = 8", "a = 9007199254740992"),
    "huge-mesh": lambda n: HEAD + END + TRAIN % "  layout mesh(dp = 4096, tp = 4096) { split batch over dp; split a over tp }\n",
    "huge-batch": lambda n: HEAD + END + (TRAIN % "").replace("batch 8", "batch 2^53"),
    "huge-repeat": lambda n: HEAD + "  repeat r = 9007199254740992 { param u[a] ~ zeros; x = x + u }\n" + TAIL,
    "repeats-in-repeats": lambda n: HEAD + "".join("  repeat r%d = 1000 {" % i for i in range(100)) + " x = x + 1 " + "}" * 100 + TAIL,
    "many-axes": lambda n: HEAD + "".join("  axis b%d = 1\n" % i for i in range(500)) + "  param p[" + ", ".join("b%d" % i for i in range(500)) + "] ~ zeros\n  y = p * p" + TAIL,
    "doubling": lambda n: HEAD + "  y = x\n" + "  y = y * y + y\n" * 20000 + "  loss mean(y)" + TAIL,
    "doubling-numbers": lambda n: HEAD + "  n = 2\n" + "  n = n * n\n" * 20000 + TAIL,
    "doubling-positions": lambda n: HEAD + "  repeat r = 4 {\n  p = index(r) / 8\n" + "  p = p * p\n" * 5000 + "  x = dropout(x, p) * p }\n" + TAIL,
    "doubling-means": lambda n: HEAD + "  repeat r = 4 {\n  p = mean(x * w)\n" + "  p = p * p\n" * 2000 + "  x = dropout(x, clamp(p, 0, 0.5)) * p }\n" + TAIL,
    "draws-of-positions": lambda n: HEAD + "  repeat r = 1000 {\n" + "  x = survive(x, 1 - 0.9 * index(r) / 1000)\n" * 600 + "  }\n" + TAIL,
    "draws-of-many-iterations": lambda n: HEAD + "  repeat r = 1000000000 { x = survive(dropout(x, 0.1), 1 - 0.9 * index(r) / 1e9) }\n" + TAIL,
    "calls-2-60": calls(2, 60),
    "calls-10-10": calls(10, 10),
    "calls-1000-3": calls(1000, 3),
    "chain": chain,
    "short-chain": lambda n: chain(60000),
    "itself": lambda n: "block f(x) { return f(x) }\n" + HEAD + "  y = f(x)" + TAIL,
    "spec-repeated": model("  repeat layer = 4 { param u[a] ~ normal(0.02); x = relu(dot(x, u, over = a) + x) }\n"),
    # nested as deep as may be, again and again
    "nested-parentheses": model("  y = " + "(" * 250 + "x" + ")" * 250 + "\n"),
    "nested-calls": model("  y = " + "exp(" * 250 + "x" + ")" * 250 + "\n"),
    "nested-minus": model("  y = " + "- " * 250 + "x\n"),
    "nested-power": model("  y = x" + "^x" * 250 + "\n"),
    "nested-if": model("  " + "if true { " * 250 + "}" * 250 + "\n"),
    "nested-repeats": model("  " + "".join("repeat r%d = 2 { " % i for i in range(250)) + "x = x + 1 " + "}" * 250 + "\n"),
    # names: known, unknown, nearly known, twice
    "calls": lambda n: numbered("", "block b#(x) { return x }\n")(n * 5 // 8) + numbered(HEAD, "  y# = b#(x)\n", TAIL)(n * 3 // 8),
    "unknown-calls": lambda n: numbered("", "block b#(x) { return x }\n")(n * 5 // 8) + numbered(HEAD, "  y# = c#(x)\n", TAIL)(n * 3 // 8),
    "unknown-names": lambda n: numbered(HEAD, "  v# = x\n")(n // 2) + numbered("", "  y = u#\n", TAIL)(n // 2),
    "unknown-axes": lambda n: numbered(HEAD, "  axis b# = 2\n")(n // 2) + numbered("", "  param q#[c#] ~ zeros\n", TAIL)(n // 2),
    "unknown-patterns": lambda n: numbered(HEAD, "  param p#[a] ~ zeros; x = x * p#\n", END)(n // 2) + TRAIN % numbered("", "  optimize sgd(lr = 0.1) on (q#)\n")(n // 2),
    "used-params": numbered(HEAD, "  param p#[a] ~ zeros; x = x * p#\n", TAIL),
    "one-chain": model("  x = x * w + x\n"),
    "dots": model("  x = x + dot(x, w, over = a)\n"),
    "calls-300-66": lambda n: "block f(x) {\n%s  return x\n}\n" % ("  x = x * x\n" * 300) + HEAD + "  x = f(x)\n" * 66 + TAIL,
    "calls-300-600": lambda n: "block f(x) {\n%s  return x\n}\n" % ("  x = x * x\n" * 300) + HEAD + "  x = f(x)\n" * 600 + TAIL,
    "long-path": lambda n: HEAD + END + (TRAIN % "").replace("x.npy", "x" * (min(n, LIMIT) - 400)),
    "long-line-of-errors": fill("model M { ", "x = @ "),
    "comments-on-one-line": fill("", "#\r"),
    "comment-columns": fill("", "model M { }          # text\n"),
    # other files
    "imports-large": lambda n: dict({"part%d.ech" % i: "#" * (LIMIT - 1) + "\n" for i in range(n >> 20)}, **{"spec.ech": numbered("", 'import "part#.ech"\n')(800)}),
    "imports-of-words": lambda n: dict({"part%d.ech" % i: "block b(x) { return x }\n" * 6000 for i in range(n // 150000)}, **{"spec.ech": numbered("", 'import "part#.ech"\n')(n // 1000)}),
    "imports-chain": lambda n: dict({"part%d.ech" % i: 'import "part%d.ech"\n' % (i + 1) for i in range(3000)}, **{"spec.ech": 'import "part0.ech"\n'}),
    "imports-many": lambda n: dict({"part%d.ech" % i: "" for i in range(min(20000, n // 20))}, **{"spec.ech": numbered("", 'import "part#.ech"\n')(min(n, LIMIT))}),
    "npy-claims": lambda n: {"x.npy": FILES["x.npy"].replace(b"(64, 8)", b"(%d, 8)" % (1 << 50)).replace(b" " * 14 + b"\n", b"\n"), "spec.ech": HEAD + TAIL},
}


def measure(command, path):
    """(exit status as os.wait has it, seconds, MiB, output)"""
    def limits():
        resource.setrlimit(resource.RLIMIT_CPU, (2 * SECONDS, 2 * SECONDS))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen(command + [path], stdout=out, stderr=out, preexec_fn=limits)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = status
        out.seek(0)
        return status, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, out.read(1 << 20)


def written(folder, made, n):
    """Writes what is made for a size; the path of the spec."""
    files = dict(FILES, **(made if isinstance(made, dict) else {"spec.ech": made}))
    for name, text in files.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write((text if isinstance(text, bytes) else text.encode())[: n + 4096])
    return os.path.join(folder, "spec.ech")


def largest(echelon, make):
    """The size of about the largest input of a kind that is not refused for its size."""
    size = LIMIT - 4200
    with tempfile.TemporaryDirectory() as folder:
        while size > 2000 and b"E0701" in measure([echelon, "fmt", "--stdout"], written(folder, make(size), size))[3]:
            size = size * 9 // 10
    return size


def run(echelon, name, size, growth):
    """Prints a line for each command; how many went wrong."""
    failed = 0
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as half:
        path = written(folder, INPUTS[name](size), size)
        smaller = written(half, INPUTS[name](size // 2), size // 2) if growth else None
        for command in COMMANDS:
            status, seconds, mib, out = measure([echelon] + command, path)
            wrong = "ended by signal %d" % (status & 127) if status & 127 else ""
            if b"E0799" in out:
                wrong = "internal error"
            if seconds > SECONDS or mib > MIB:
                wrong = "over the limit"
            if status >> 8 not in (0, 1) and not wrong:
                wrong = "exit code %d" % (status >> 8)
            before = ""
            if growth:
                half_seconds = measure([echelon] + command, smaller)[1]
                before = "%6.2f s at half of it" % half_seconds
                if seconds > GROWTH * half_seconds and seconds > SHORTEST and not wrong:
                    wrong = "it grows faster than the square of the input"
            print("%-20s %8d %-6s %6.2f s %5.0f MiB%s  %s" % (name, size, command[0], seconds, mib, before, wrong.upper()), flush=True)
            failed += bool(wrong)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("echelon")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(INPUTS))
    parser.add_argument("--mib", type=float, default=16)
    parser.add_argument("--largest", action="store_true")
    parser.add_argument("--growth", action="store_true")
    options = parser.parse_intermixed_args()
    echelon, failed = os.path.abspath(options.echelon), 0
    for name in options.names or INPUTS:
        if not options.largest:
            failed += run(echelon, name, int(options.mib * 2**20), False)
        failed += run(echelon, name, largest(echelon, INPUTS[name]), options.growth)
    print("%d inputs, %d over a limit" % (len(options.names or INPUTS), failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
