"""Runs a spec with --trace over one rank and each transport, or on emulated GPUs; reads the file and checks that what it says can be."""
import json
import os
import re
import shutil
import subprocess
import sys

folder, target = sys.argv[2], sys.argv[3:]
spec = os.path.join(os.fsencode(folder), b'quo"te\\\xff.ech')
shutil.copy(sys.argv[1], spec)
lines = len(open(spec, "rb").read().splitlines())
path = os.path.join(folder, "trace.json")


def operations(*options):
    """What the program's table of operations names."""
    out = subprocess.run(["echelon", "build", spec, "--profile", "--emit", "cpp", *options], capture_output=True, check=True).stdout
    table = out.decode(errors="replace").partition("profiled = {\n")[2].partition("\n};")[0]
    return [json.loads(row)[0] for row in ("[" + line.strip()[1:-2].replace("\\377", "?") + "]" for line in table.split("\n"))]


def check(name, ranks, *options):
    shutil.rmtree(os.path.join(folder, "ckpt"), ignore_errors=True)
    command = ["echelon", "run", spec, "--trace", path, *options]
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    out = ran.stdout
    assert ran.returncode == 0, out
    assert b"trace of steps 3 to 12 in " in out and b"accounted for: " in out, out
    trace = json.load(open(path, encoding="utf-8"))
    rows, names, spans = {}, set(), {}
    for event in trace["traceEvents"]:
        if event["ph"] == "M":
            if event["name"] == "thread_name":
                rows[event["pid"], event["tid"]] = event["args"]["name"]
            continue
        assert event["ph"] == "X", event
        assert isinstance(event["name"], str) and event["name"], event
        assert event["ts"] >= 0 and event["dur"] >= 0, event
        assert (event["pid"], event["tid"]) in rows, event
        spans.setdefault((event["pid"], event["tid"]), []).append(event)
        names.add(event["name"])
        if "line" in event["args"]:
            file, line = re.fullmatch(r"(.*):([0-9]+)(?: \+[0-9]+)?", event["args"]["line"]).groups()
            assert file.endswith('quo"te\\\\xff.ech') or file.endswith('quo"te\\xff.ech'), event
            assert 1 <= int(line) <= lines, event
    assert sorted({pid for pid, _ in rows}) == list(range(ranks)), rows
    steps = range(3, 13)
    for (pid, tid), row in rows.items():
        assert (pid, tid) in spans, f"nothing on row {row} of rank {pid}"
        own = sorted(spans[pid, tid], key=lambda e: (e["ts"], e["ts"] + e["dur"]))
        for one, next in zip(own, own[1:]):
            assert one["ts"] + one["dur"] <= next["ts"] + 5e-4, (row, one, next)  # half a nanosecond
        assert {e["args"]["step"] for e in own if e["name"].split()[0] != "snapshot"} == set(steps), row
    for pid in range(ranks):
        whole = {e["name"]: (e["ts"], e["ts"] + e["dur"]) for e in spans[pid, 0]}
        assert [n for n in whole if n.startswith("step ")] == [f"step {n}" for n in steps], whole
        assert [n for n in whole if not n.startswith("step ")] == [
            "snapshot after step 4", "evaluation after step 5", "snapshot after step 8", "evaluation after step 10"], whole
        for event in spans[pid, 1]:  # what the loop does in a step lies in it
            begin, end = whole[f"step {event['args']['step']}"]
            assert begin <= event["ts"] + 5e-4 and event["ts"] + event["dur"] <= end + 5e-4, event
    assert {"the batch is read and put in place", "log"} <= names, names
    if target:  # the samples of the next step are read while a step runs, but where an evaluation comes first
        for step in steps:
            own = [e["name"] for e in sorted(spans[0, 1], key=lambda e: e["ts"]) if e["args"]["step"] == step]
            launched = "the step is launched and waited for"
            ahead = [launched, "the batch is read and put in place", launched] if step % 5 else [launched]
            assert own[: len(ahead) + 1] == ["the batch is read and put in place", *ahead], own
    known = operations(*options[:2] if options[0] == "--ranks" else [], *["--target", "cuda"] if target else [])
    assert len(known) > 10 and set(known) <= names, set(known) - names
    print(f"{name}: {ranks} process{'es' * (ranks > 1)}, steps 3 to 12 of 20; rows",
          ", ".join(rows[0, tid] for pid, tid in rows if pid == 0))


if target:
    check("one rank", 1, "--ranks", "1", *target)
    check("seed 0", 2, *target, "--seed", "0")
    check("seed 3", 2, *target, "--seed", "3")
    check("through the host", 2, *target, "--transport", "shm")
else:
    check("one rank", 1, "--ranks", "1")
    check("threads", 2, "--transport", "threads")
    check("shm", 2, "--transport", "shm")
    check("mpi", 2, "--transport", "mpi")
