"""Runs a spec with --profile over one rank and each transport; reads the table and checks that it adds up."""
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


if sys.argv[2:]:  # a target
    check("emulated", "--ranks", "1", *sys.argv[2:])
    sys.exit()
check("one rank", "--ranks", "1")
check("threads", "--transport", "threads")
check("shm", "--transport", "shm")
check("mpi", "--transport", "mpi")
