#!/usr/bin/env python3
"""How long it takes from a spec to C++ and from there to a program; and that depth costs nothing.

    bench/compile.py [SPEC...]        unless told: those of examples/ and of $ECHELON_SHARED/specs that build

Times are the processor's (user and system, which other load on the machine disturbs less) and the wall's, medians of
--repeat runs. Limits: spec to C++ 0.5 s, host compiler 15 s, and for a spec whose model has `layers`: 96 layers at
most 1.1 times the time of 4, with the same text but for numerals (and the line breaks that follow from their width).
"""
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from specs import ECHELON, arguments, emit


def timed(command):
    """(processor seconds, wall seconds, output)"""
    def used():
        u = resource.getrusage(resource.RUSAGE_CHILDREN)
        return u.ru_utime + u.ru_stime
    before, began = used(), time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit("failed: " + " ".join(command))
    return used() - before, time.perf_counter() - began, done.stdout


def numerals(text):
    return re.sub(r"\s+", " ", re.sub(r"[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?", "#", text))


def main():
    specs, repeat = arguments(__doc__, 9)
    print("| spec | to C++, cpu s (wall) | host compiler, cpu s (wall) | 96 layers by 4 | same text |\n|" + " --- |" * 5)
    for spec in specs:
        front = [timed(emit(spec)) for _ in range(repeat)]
        with tempfile.TemporaryDirectory() as folder:
            whole = timed([ECHELON, "build", str(spec), "-o", folder + "/program"])
        to_cpp = [statistics.median(t[i] for t in front) for i in (0, 1)]
        depth = same = "–"
        if re.search(r"model +\w+\([^)]*\blayers\b", spec.read_text()):
            pairs = [[timed(emit(spec) + ["--set", f"model.layers={n}"]) for n in (4, 96)] for _ in range(2 * repeat)]
            depth = f"{statistics.median(b[0] for a, b in pairs) / statistics.median(a[0] for a, b in pairs):.2f}"
            same = "yes" if numerals(pairs[0][0][2]) == numerals(pairs[0][1][2]) else "no"
        print(f"| {spec.stem} | {to_cpp[0]:.2f} ({to_cpp[1]:.2f}) | {whole[0] - to_cpp[0]:.1f} "
              f"({whole[1] - to_cpp[1]:.1f}) | {depth} | {same} |", flush=True)


if __name__ == "__main__":
    main()
