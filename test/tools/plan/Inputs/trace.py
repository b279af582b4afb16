"""The predicted step's trace of a train block: SPEC TRAIN FILE. Checks that it fills the step, and says what is in it."""
import json
import os
import re
import subprocess
import sys

spec, train, path = sys.argv[1:]
command = ["echelon", "plan", spec, "--train", train]
said = subprocess.run([*command, "--trace", path], check=True, capture_output=True, text=True).stdout
assert said.endswith(f"trace of the step in {path}: ui.perfetto.dev opens it\n"), said[-200:]
plan = json.loads(subprocess.run([*command, "--json"], check=True, capture_output=True, text=True).stdout)
whole = 1e6 * plan["step_time_s"]  # microseconds, as in the file
trace = json.load(open(path, encoding="utf-8"))
assert trace["displayTimeUnit"] == "ms"
lines = len(open(spec).read().splitlines())
processes, rows, events = {}, {}, {}
for event in trace["traceEvents"]:
    if event["ph"] == "M":
        if event["name"] in ("process_name", "thread_name"):
            known = processes if event["name"] == "process_name" else rows
            known[event["pid"], event["tid"]] = event["args"]["name"]
        continue
    assert event["ph"] == "X" and event["ts"] >= 0 and event["dur"] > 0 and event["name"], event
    assert event["ts"] + event["dur"] <= whole + 1e-3, event
    if line := event["args"].get("line"):
        file, number = re.fullmatch(r"(.*?):([0-9]+)(?: \+[0-9]+)?", line).groups()
        assert file != os.path.basename(spec) or 1 <= int(number) <= lines, event
    events.setdefault((event["pid"], event["tid"]), []).append(event)
assert set(events) == set(rows), (set(events) ^ set(rows))


def outermost(of):
    """Events that are in no other one of their row; the others lie in one of these."""
    found = []
    for event in sorted(of, key=lambda e: (e["ts"], -e["dur"])):
        if found and event["ts"] < found[-1]["ts"] + found[-1]["dur"] - 1e-4:
            assert event["ts"] + event["dur"] <= found[-1]["ts"] + found[-1]["dur"] + 1e-4, (found[-1], event)
        else:
            found.append(event)
    return found


for (pid, tid), name in sorted(rows.items()):
    own = events[pid, tid]
    top = outermost(own)
    text = f"{processes[pid, 0]}, {name}: {len(own)} event{'s' * (len(own) > 1)}"
    if name in ("steps", "operations", "device"):  # the step, without a gap
        at = 0
        for event in top:
            assert abs(event["ts"] - at) < 1e-4, (at, event)
            at = event["ts"] + event["dur"]
        assert abs(at - whole) < 1e-3, (at, whole)
        assert abs(sum(e["dur"] for e in top) - whole) < 1e-3
        if bubbles := sum(e["name"] == "bubble" for e in top):
            text += f", {bubbles} bubbles"
        if turns := len({e["name"] for e in top if e["cat"] == "turn"}):
            text += f", {turns} turns"
    for event in own:
        if event["cat"] == "repeated":
            assert event["args"]["repeated"] > 0
            assert abs(event["args"]["each_s"] * event["args"]["repeated"] * 1e6 - event["dur"]) < 1e-4 * event["dur"] + 1 \
                or name.startswith("messages") or name == "host", event
        if name.startswith("messages") and event["cat"] != "repeated":
            assert event["args"]["bytes"] > 0 and event["args"]["ranks"] > 1 and event["args"]["op"], event
    print(text)
print("of", os.path.getsize(path) // 1000, "KB" if os.path.getsize(path) < 10_000_000 else "KB, too many")
