#!/usr/bin/env python3
"""Any input of 16 MiB ends within 10 s and 512 MiB, with a diagnostic or without, whatever it asks for.

  test/fuzz/large.py ECHELON [--mib N] [NAME...]

Hands every input below, N MiB of it (16), to `echelon check`, `echelon fmt` and `echelon build --emit cpp`, none of which
starts a host compiler, and prints seconds (of the processor, so that other work on the machine does not count) and memory.
Exit code 1: one went over a limit, was ended by a signal, or met an internal error.
"""
import argparse
import os
import random
import resource
import sys
import tempfile

SECONDS, MIB = 10, 512
COMMANDS = [["check"], ["fmt", "--stdout"], ["build", "--emit", "cpp", "-o", os.devnull]]
HEAD = "model M {\n  axis batch; axis a = 8\n  input x[batch, a] : float\n  param w[a] ~ zeros\n"
TAIL = "\n  loss mean(x * w)\n}\n"
TRAIN = "train t {\n  model M(); data npy(\"x.npy\") -> x; batch 8; steps 10; optimize sgd(lr = 0.1)\n%s}\n"


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
    "imports": fill("", 'import "part.ech"\n'),
    "statements": model("  y = x + w\n"),
    "parts-missing": model("  y =\n"),
    "axes": numbered(HEAD, "  axis a# = 2\n", TAIL),
    "inputs": numbered(HEAD, "  input i#[batch] : float\n", TAIL),
    "params": numbered(HEAD, "  param p#[a] ~ zeros\n", TAIL),
    "losses": model("  loss mean(x)\n"),
    "metrics": numbered(HEAD, "  metric m# = mean(x)\n", TAIL),
    "repeats": numbered(HEAD, "  repeat r# = 2 { x = x + 1 }\n", TAIL),
    "clauses": lambda n: HEAD + TAIL + TRAIN % fill("", "  seed 1\n")(max(n - 400, 9)),
    "optimizers": lambda n: HEAD + TAIL + TRAIN % fill("", "  optimize sgd(lr = 0.1) on (w)\n")(max(n - 400, 40)),
    "layout": lambda n: HEAD + TAIL + TRAIN % ("  layout mesh(dp = 2) {" + fill("", " split a over dp\n")(max(n - 400, 20)) + "}"),
    "mesh": lambda n: HEAD + TAIL + TRAIN % ("  layout mesh(m = 2" + numbered("", ", m# = 2")(max(n - 400, 20)) + ")"),
    "huge-axis": lambda n: (HEAD + TAIL).replace("a = 8", "a = 9007199254740992"),
    "huge-mesh": lambda n: HEAD + TAIL + TRAIN % "  layout mesh(dp = 4096, tp = 4096) { split batch over dp; split a over tp }\n",
    "huge-batch": lambda n: HEAD + TAIL + (TRAIN % "").replace("batch 8", "batch 2^53"),
    "huge-repeat": lambda n: HEAD + "  repeat r = 9007199254740992 { param u[a] ~ zeros; x = x + u }\n" + TAIL,
    "repeats-in-repeats": lambda n: HEAD + "".join("  repeat r%d = 1000 {" % i for i in range(100)) + " x = x + 1 " + "}" * 100 + TAIL,
    "many-axes": lambda n: HEAD + "".join("  axis b%d = 1\n" % i for i in range(500)) + "  param p[" + ", ".join("b%d" % i for i in range(500)) + "] ~ zeros\n  y = p * p" + TAIL,
    "doubling": lambda n: HEAD + "  y = x\n" + "  y = y * y + y\n" * 20000 + "  loss mean(y)" + TAIL,
    "doubling-numbers": lambda n: HEAD + "  n = 2\n" + "  n = n * n\n" * 20000 + TAIL,
    "calls-2-60": calls(2, 60),
    "calls-10-10": calls(10, 10),
    "calls-1000-3": calls(1000, 3),
    "chain": chain,
    "short-chain": lambda n: chain(60000),
    "itself": lambda n: "block f(x) { return f(x) }\n" + HEAD + "  y = f(x)" + TAIL,
    "spec-repeated": model("  repeat layer = 4 { param u[a] ~ normal(0.02); x = relu(dot(x, u, over = a) + x) }\n"),
}


def measure(command, path):
    """(exit status as os.wait has it, seconds, MiB, output)"""
    with tempfile.TemporaryFile() as out:
        child = os.fork()
        if child == 0:
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
            resource.setrlimit(resource.RLIMIT_CPU, (2 * SECONDS, 2 * SECONDS))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            os.execv(command[0], command + [path])
        _, status, used = os.wait4(child, 0)
        out.seek(0)
        return status, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, out.read(1 << 20)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("echelon")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(INPUTS))
    parser.add_argument("--mib", type=float, default=16)
    options = parser.parse_intermixed_args()
    failed = 0
    for name in options.names or INPUTS:
        made = INPUTS[name](int(options.mib * 2**20))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "spec.ech")
            with open(path, "wb") as file:
                file.write((made if isinstance(made, bytes) else made.encode())[: 16 << 20])
            for command in COMMANDS:
                status, seconds, mib, out = measure([os.path.abspath(options.echelon)] + command, path)
                wrong = "ended by signal %d" % (status & 127) if status & 127 else ""
                if b"E0799" in out:
                    wrong = "internal error"
                if seconds > SECONDS or mib > MIB:
                    wrong = "over the limit"
                if status >> 8 not in (0, 1) and not wrong:
                    wrong = "exit code %d" % (status >> 8)
                print("%-20s %-6s %6.2f s %5.0f MiB  %s" % (name, command[0], seconds, mib, wrong.upper()), flush=True)
                failed += bool(wrong)
    print("%d inputs, %d over a limit" % (len(options.names or INPUTS), failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
