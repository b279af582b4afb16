#!/usr/bin/env python3
"""How much of the communication of gradients is hidden behind the backward pass, with dp = 2.

    bench/overlap.py [--width 512] [--layers 6] [--batch 8] [--steps 240] [--link 1Gb/s [--mca NAME=VALUE]…]

Takes examples/gpt_fortunes.ech, wider and data-parallel, as it is compiled for two machines, and makes one program of
four ways to sum the gradients, which take turns of three steps each in one run, forth and back:

    left out    not at all, the ranks meet for one number instead: what a step takes without
    by layer    each large gradient of a layer starts where it has come to be, and nothing moves the messages on
    as emitted  for two machines: the same, and progress(r) behind what is computed meanwhile
    at the end  as for one machine: all after the backward pass, none started before

The ranks share memory, or with --link have a machine and a core each and talk over a network of that rate (rig.py).
Prints medians over the rounds: of the steps, of what they take beyond those left out in the same round, and of the time
that rank 0 spends in starts, waits and progress. A way hides the share 1 - beyond / (beyond, at the end). Limit: 0.7.
"""
import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

from rig import Rig, rate
from specs import ECHELON, ROOT, emit

WAYS = ("left out", "by layer", "as emitted", "at the end")
TURN_STEPS = 3
ROUND_STEPS = 2 * TURN_STEPS * len(WAYS)
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
TURN = f"""
  static double begin;
  static long count;
  const double here = secondsNow();
  if (count > {ROUND_STEPS} && r.rank() == 0)
    std::printf("way %d %f %f\\n", way, (here - begin) * 1e3, spent * 1e3);
  spent = 0;
  begin = here;
  const int turn = count / {TURN_STEPS} % {len(WAYS)};
  way = count++ / {ROUND_STEPS // 2} % 2 ? {len(WAYS) - 1} - turn : turn; // so that none always follows the same
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
    """The program with all ways in it."""
    first, second = text.index("\nvoid backward("), text.index("\nvoid update(")
    head, backward, update = text[:first], text[first:second], text[second:]
    starts = re.compile(r"messages\.(\w+)\[\w+\] = all_reduce_start\(r, (r\.group\(\d+\)), (grad\.\w+)\[\w+\], "
                        r"([\w* ]+), Sum,[^;]*;")
    at_the_end = []
    for tickets, group, stack, count in starts.findall(backward):
        iterations = re.search(rf"Ticket {tickets}\[(\d+)\];", head)[1]
        at_the_end.append(f"all_reduce(r, {group}, {stack}[0], {count} * {iterations}, Sum);")
    rest = re.search(r"all_reduce\(r, r\.group\(\d+\), grad\.message, \d+, Sum,[^;]*;", update)
    groups = {start[1] for start in starts.findall(backward)}
    calls, waits = (len(re.findall(call, backward + update)) for call in (r"\ball_reduce\w*\(", r"\bwait\(messages"))
    if not at_the_end or not rest or len(groups) != 1 or calls != waits + 1 or waits != len(at_the_end):
        sys.exit("the program's messages are not those that this measurement knows")
    started = "if (way == 1 || way == 2) { Spent here; "
    backward = starts.sub(lambda m: f"{started}{m[0]} }}", backward)
    backward, moved = re.subn(r"\bprogress\(r\);", "if (way == 2) { Spent here; progress(r); }", backward)
    if not moved:
        sys.exit("the program does not move its messages on")
    update = re.sub(r"wait\(messages\.\w+\);", lambda m: f"{started}{m[0]} }}", update)
    ways = ("{ Spent here; static float number;\n"
            f"if (way == 0) all_reduce(r, {group}, &(number = 0), 1, Sum); else {rest[0]}\n"
            f"if (way == 3) {{ {' '.join(at_the_end)} }} }}")
    update = update.replace(rest[0], ways, 1)
    update = re.sub(r"(\nvoid step\(Rank &r[^{]*\{)", lambda m: m[1] + TURN, update)
    return HEAD + head.replace("namespace {", "namespace {" + STATE, 1) + backward + update


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("width", 512), ("layers", 6), ("batch", 8), ("steps", 240)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--link", type=rate, help="of a network between two machines of one core, as 1Gb/s")
    parser.add_argument("--mca", action="append", default=[], help="a setting of Open MPI, as btl_tcp_links=2")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "gpt.ech"
        source.write_text(spec(options))
        text = subprocess.run(emit(source), stdout=subprocess.PIPE, text=True, check=True).stdout
        program = pathlib.Path(folder) / "gpt"
        program.with_suffix(".cpp").write_text(rewrite(text))
        subprocess.run([os.environ.get("CXX", "c++"), *FLAGS, f"{program}.cpp", "-o", program, *LIBRARIES], check=True)
        if options.link:
            with Rig(options.link, options.mca) as rig:
                done = rig.run([program, "--transport", "mpi"])
        else:
            done = subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True).stdout
    lines = [(int(a), float(b), float(c)) for a, b, c in re.findall(r"way (\d) ([\d.]+) ([\d.]+)", done)]
    rounds = [lines[i:i + ROUND_STEPS] for i in range(0, len(lines) - ROUND_STEPS + 1, ROUND_STEPS)]

    def median(column, way):
        return statistics.median(sum(line[column] for line in r if line[0] == way) / (2 * TURN_STEPS) for r in rounds)

    def beyond(way):  # of the same round's steps without
        return statistics.median(sum(line[1] * (line[0] == way) - line[1] * (line[0] == 0) for line in r)
                                 / (2 * TURN_STEPS) for r in rounds)
    print(f"{options.layers} layers, {options.width} wide, batch {options.batch} x 64\n\n"
          "| gradients | step, ms | beyond left out | in starts and waits | hidden |\n|" + " --- |" * 5)
    for way, name in enumerate(WAYS):
        hidden = f"{1 - beyond(way) / beyond(3):.2f}" if way in (1, 2) else "–"
        print(f"| {name} | {median(1, way):.1f} | {beyond(way):.2f} | {median(2, way):.2f} | {hidden} |")


if __name__ == "__main__":
    main()
