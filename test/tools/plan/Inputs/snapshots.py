"""What `plan --json` says of the snapshots of the train blocks of snapshots.ech."""
import json
import math
import sys

name, file = sys.argv[1:]
plan = json.load(sys.stdin if file == "-" else open(file))
if name == "none":
    assert plan["checkpoint_interval_s"] is None and "checkpoint" not in plan
    sys.exit()
snapshots, step = plan["checkpoint"], plan["step_time_s"]


def near(a, b, part=0.01):
    assert abs(a - b) <= part * abs(b), (a, b)


near(plan["checkpoint_interval_s"], snapshots["every_steps"] * step, 1e-9)
near(snapshots["goodput"] + snapshots["lost_to_snapshots"] + snapshots["lost_to_failures"], 1, 1e-9)
near(snapshots["between_failures_s"], 1800)
assert snapshots["auto"] is (name != "pinned")
interval = plan["checkpoint_interval_s"]
if name in ("pair", "pinned"):
    assert snapshots["bytes"] == 40000
    near(snapshots["wait_s"], 0.08)
    near(snapshots["write_s"], 0.04)
    near(snapshots["restart_s"], 300.004, 1e-6)
    near(snapshots["failure_probability"], 1 - math.exp(-2000 * step / 1800), 1e-6)
    near(snapshots["lost_to_snapshots"], snapshots["goodput"] * 0.08 / interval)
    # half an interval, the write and the restart, of 1,800 s
    near(snapshots["lost_to_failures"], (interval / 2 + 0.04 + 300) / 1800, 0.1)
if name == "pair":
    assert abs(interval - 16.91) <= step, interval
if name == "pinned":
    assert snapshots["every_steps"] == 7
if name == "workers":
    assert snapshots["every_steps"] % 4 == 0, snapshots
