#!/usr/bin/env python3
"""How much of the communication of gradients is hidden behind the backward pass, with dp = 2.

    bench/overlap.py [--width 512] [--layers 6] [--batch 8] [--steps 240]

Takes examples/gpt_fortunes.ech, wider and data-parallel, as it is compiled for two machines, and makes one program of
three ways to sum the gradients, which take turns of three steps each in one run, forth and back:

    left out    not at all, the ranks meet for one number instead: what a step takes without
    by layer    as echelon emits it for two machines: each large gradient of a layer starts where it has come to be
    at the end  as for one machine: all after the backward pass, none started before

Prints medians over the rounds: of the steps, of what they take beyond those left out in the same round, and of the time
that rank 0 spends in starts and waits. By layer hides the share 1 - beyond / (beyond, at the end). Limit: 0.7.
"""
import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

from specs import ECHELON, ROOT, emit

WAYS = ("left out", "by layer", "at the end")
FLAGS = ["-std=c++17", "-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd", f"-I{ROOT}"]
LIBRARIES = [str(pathlib.Path(ECHELON).parents[1] / "lib/libechelon_runtime.a"), "-lopenblas", "-ldnnl", "-lgomp",
             "-lz", "-ldeflate", "-lpthread", "-ldl", "-lrt"]

MACHINES = """device core { memory 64 GB at 25 GB/s; peak fp32 100 GFLOP/s }
cluster here { nodes 2 of 1 x core; network 10 Gb/s, 5 us }
"""
HEAD = """#include <chrono>
#include <cstdio>
"""
STATE = """
int way;
double spent;
double secondsNow() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
struct Spent {
  double begin = secondsNow();
  ~Spent() { spent += secondsNow() - begin; }
};
"""
TURN = """
  static double begin;
  static long count;
  const double here = secondsNow();
  if (count > 18 && r.rank() == 0)
    std::printf("way %d %f %f\\n", way, (here - begin) * 1e3, spent * 1e3);
  spent = 0;
  begin = here;
  const int turn = count / 3 % 3;
  way = count++ / 9 % 2 ? 2 - turn : turn; // so that none always follows the same
"""


def spec(options):
    text = (ROOT / "examples/gpt_fortunes.ech").read_text()
    for old, new in ((r"layers = 4, heads = 4, width = 128",
                      f"layers = {options.layers}, heads = {options.width // 64}, width = {options.width}"),
                     (r"mesh\(tp = 2\) \{.*?\}", "mesh(dp = 2) { split batch over dp }"),
                     (r"batch    32", f"batch    {options.batch}"), (r"steps    300", f"steps    {options.steps}"),
                     (r"evaluate every.*", ""),
                     (r"cluster here = .*", MACHINES)):
        text, changed = re.subn(old, new, text)
        if changed != 1:
            sys.exit(f"examples/gpt_fortunes.ech has changed: no {old}")
    return text


def rewrite(text):
    """The program with all three ways in it."""
    first, second = text.index("\nvoid backward("), text.index("\nvoid update(")
    head, backward, update = text[:first], text[first:second], text[second:]
    starts = re.compile(r"messages\.(\w+)\[(\w+)\] = all_reduce_start\(r, (r\.group\(\d+\)), (\w+), (\d+),[^;]*;")
    at_the_end = []
    for tickets, position, group, part, count in starts.findall(backward):
        stack = re.search(rf"float \*{part} = (\w+) \+ {position} \* {count};", backward)[1]
        memory = re.search(rf"float \*{stack} /\*.*?\*/ =\s*(r\.work<float>\(\d+\));", text)[1]
        iterations = int(re.search(rf"Ticket {tickets}\[(\d+)\];", head)[1])
        at_the_end.append(f"all_reduce(r, {group}, {memory}, {int(count) * iterations}, Sum);")
    rest = re.search(r"all_reduce\(r, r\.group\(\d+\), \w+, \d+, Sum, Algorithm::automatic,[^;]*;", update)
    groups = {start[2] for start in starts.findall(backward)}
    calls, waits = (len(re.findall(call, backward + update)) for call in (r"\ball_reduce\w*\(", r"\bwait\(messages"))
    if not at_the_end or not rest or len(groups) != 1 or calls != waits + 1 or waits != len(at_the_end):
        sys.exit("the program's messages are not those that this measurement knows")
    backward = starts.sub(lambda m: f"if (way == 1) {{ Spent here; {m[0]} }}", backward)
    update = re.sub(r"wait\(messages\.\w+\);", lambda m: f"if (way == 1) {{ Spent here; {m[0]} }}", update)
    ways = ("{ Spent here; static float number;\n"
            f"if (way == 0) all_reduce(r, {group}, &(number = 0), 1, Sum); else {rest[0]}\n"
            f"if (way == 2) {{ {' '.join(at_the_end)} }} }}")
    update = update.replace(rest[0], ways, 1)
    update = re.sub(r"(\nvoid step\(Rank &r[^{]*\{)", lambda m: m[1] + TURN, update)
    return HEAD + head.replace("namespace {", "namespace {" + STATE, 1) + backward + update


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("width", 512), ("layers", 6), ("batch", 8), ("steps", 240)):
        parser.add_argument("--" + name, type=int, default=value)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "gpt.ech"
        source.write_text(spec(options))
        text = subprocess.run(emit(source), stdout=subprocess.PIPE, text=True, check=True).stdout
        program = pathlib.Path(folder) / "gpt"
        program.with_suffix(".cpp").write_text(rewrite(text))
        subprocess.run([os.environ.get("CXX", "c++"), *FLAGS, f"{program}.cpp", "-o", program, *LIBRARIES], check=True)
        done = subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True).stdout
    lines = [(int(a), float(b), float(c)) for a, b, c in re.findall(r"way (\d) ([\d.]+) ([\d.]+)", done)]
    rounds = [lines[i:i + 18] for i in range(0, len(lines) - 17, 18)]

    def median(column, way):
        return statistics.median(sum(line[column] for line in r if line[0] == way) / 6 for r in rounds)

    def beyond(way):  # of the same round's steps without
        return statistics.median(sum(line[1] * (line[0] == way) - line[1] * (line[0] == 0) for line in r) / 6
                                 for r in rounds)
    print(f"{options.layers} layers, {options.width} wide, batch {options.batch} x 64\n\n"
          "| gradients | step, ms | beyond left out | in starts and waits | hidden |\n|" + " --- |" * 5)
    for way, name in enumerate(WAYS):
        hidden = f"{1 - beyond(way) / beyond(2):.2f}" if way == 1 else "–"
        print(f"| {name} | {median(1, way):.1f} | {beyond(way):.2f} | {median(2, way):.2f} | {hidden} |")


if __name__ == "__main__":
    main()
