"""Runs a spec with --profile over one rank and each transport; reads the table and checks that it adds up. With a machine's
file: reads what stands beside it of that machine."""
import json
import os
import re
import subprocess
import sys

spec = sys.argv[1]
lines = len(open(spec).read().splitlines())


def check(name, *options):
    command = ["echelon", "run", spec, "--profile", *options]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    head, _, table = out.partition("profile of ")
    assert table.startswith("36 steps, the first 4 left out"), out
    operations, _, kinds = table.partition("   share  ms a step of limit  kind\n")
    row = re.compile(r"^ *([0-9.]+) % +([0-9.]+) (.*)$", re.M)
    rows = row.findall(operations)
    # per row: share, time; all of it, but for rounding
    shares = sum(float(share) for share, _, _ in rows)
    step = float(re.search(r"([0-9.]+) ms a step\n", table).group(1))
    assert 90 < shares < 101, table
    assert abs(shares - 100 * sum(float(ms) for _, ms, _ in rows) / step) < 1, table
    accounted = float(re.search(r"accounted for: ([0-9.]+) %", table).group(1))
    assert 90 < accounted < 101, table
    times = [float(ms) for _, ms, what in rows if "more, each below" not in what]
    assert times == sorted(times, reverse=True), table
    # the products of a layer: of three layers, in two micro batches; whether arithmetic or memory limits them is measured
    products = [what.split() for _, _, what in rows if " gemm " in what]
    assert sum(what[0] == "6" and any(rate.strip("0.-") for rate in what[1:3]) for what in products) >= 4, table
    for place in re.findall(r"profile\.ech:([0-9]+)", operations):
        assert 1 <= int(place) <= lines, table
    sums = {what.split()[-1]: float(share) for share, _, what in row.findall(kinds)}
    assert abs(sum(sums.values()) - 2 * sums["all"]) < 0.2 and abs(sums["all"] - shares) < 0.5, table
    known = ["products", "data", "loops", "kernels", "log", "messages", "waiting"]
    alone = [] if options[0] != "--ranks" else known[5:]  # one rank decides to go on without a message
    print(f"{name}:", *(kind for kind in known if kind in sums and kind not in alone))


def predicted(machine, *options):
    """Measured beside predicted, and the step that `plan` predicts."""
    environment = {**os.environ, "ECHELON_MACHINE": machine}
    command = ["echelon", "run", spec, "--profile", *options]
    out = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    plan = json.loads(subprocess.run(["echelon", "plan", spec, "--json", *options[:2 * (options[0] == "--ranks")]],
                                     capture_output=True, check=True, env=environment).stdout)
    head, _, table = out.partition("\npredicted: ")
    assert f"; by this machine as measured 2026-11-29 on desk, in {machine}\n" in table, table
    step, measured, times = re.match(r"([0-9.]+) ms a step; measured: ([0-9.]+) ms, ([0-9.]+) times that; by ", table).groups()
    assert abs(float(step) - 1e3 * plan["step_time_s"]) < 1e-3 * float(step), (step, plan["step_time_s"])
    assert abs(float(times) - float(measured) / float(step)) < 0.01
    assert f": {measured} ms a step\n" in head, head
    cell = r" +(-?[0-9.]+|-)"
    rows = re.findall(rf"^{4 * cell}  (.*)$", table, re.M)
    *rows, everything = rows
    assert everything[4] == "all that is predicted", everything
    known = [row for row in rows if row[1] != "-"]
    lost = [float(row[0]) for row in known if " more, each" not in row[4]]
    assert lost == sorted(lost, reverse=True) and len(lost) > 5, table
    for cells in [*known, everything]:
        was, took = float(cells[1]), float(cells[2])
        assert abs(float(cells[0]) - (took - was)) < 2e-4, cells
        assert was == 0 or cells[3] == "-" or abs(float(cells[3]) - took / was) < 0.01 + 1e-4 * took / was**2, cells
    assert abs(sum(float(row[1]) for row in known) - float(everything[1])) < 1e-2, table
    # all that the step is predicted to take is some operation's
    assert abs(float(everything[1]) - float(step)) < 0.02 * float(step), (everything, step)
    assert all(row[0] == row[3] == "-" for row in rows if row[1] == "-"), table
    assert any(row[4].endswith("log") or "more, each below" in row[4] for row in rows if row[1] == "-"), table
    print(f"{options[1]}: predicted", *sorted({row[4].split()[1] for row in known if row[4].startswith("profile.ech")}))


if sys.argv[2:3] == ["machine"]:
    predicted(sys.argv[3], "--ranks", "1")
    predicted(sys.argv[3], "--transport", "threads")
    sys.exit()
if sys.argv[2:]:  # a target
    check("emulated", "--ranks", "1", *sys.argv[2:])
    sys.exit()
check("one rank", "--ranks", "1")
check("threads", "--transport", "threads")
check("shm", "--transport", "shm")
check("mpi", "--transport", "mpi")
