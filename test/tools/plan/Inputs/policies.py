"""policies.py data FILE: 2,000 samples of 100 numbers, and traces beside it. check SPEC: what `plan --json` says of the train blocks of
policies.ech. With mini-batches of c seconds, updates of u and four workers."""
import json
import pathlib
import subprocess
import sys

if sys.argv[1] == "data":
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (2000, 100), }".ljust(117) + "\n"
    with open(sys.argv[2], "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + bytes(800000))
    folder = pathlib.Path(sys.argv[2]).parent

    def trace(name, seconds):
        """Of four ranks and ten steps: what each computes, in two operations; a wait and an evaluation do not count."""
        events = [{"name": "rank", "ph": "M", "pid": 0, "tid": 0, "args": {"name": "rank 0"}}]
        for rank in range(4):
            for step in range(10):
                for kind, part in (("data", 0.25), ("products", 0.75), ("messages", 9), ("step", 10), ("between steps", 50)):
                    events.append({"name": "a", "cat": kind, "ph": "X", "ts": 0, "dur": part * 1e6 * seconds(rank, step),
                                   "pid": rank, "tid": 1, "args": {"step": step + 5}})
        (folder / name).write_text(json.dumps({"traceEvents": events}))

    trace("slow.json", lambda rank, step: [0.5, 0.5, 0.5, 2.5][rank])
    trace("still.json", lambda rank, step: 0)
    trace("idle.json", lambda rank, step: rank)
    trace("noise.json", lambda rank, step: 0.75 if (rank + step) % 2 else 1.25)
    events = [1, {"ph": 5}, {"ph": "X", "cat": [], "pid": "one", "args": 7}, {"ph": "X", "pid": 0, "dur": 1e300, "args": {}}]
    strange = json.loads((folder / "slow.json").read_text())
    (folder / "strange.json").write_text(json.dumps({"traceEvents": events + strange["traceEvents"]}))
    (folder / "empty.json").write_text('{"traceEvents": []}')
    sys.exit()


def plan(train):
    made = subprocess.run(["echelon", "plan", sys.argv[2], "--train", train, "--json"], check=True, capture_output=True)
    return json.loads(made.stdout)


def near(a, b, part=0.01):
    assert abs(a - b) <= part * abs(b), (a, b)


every = plan("every")["step_time_s"]
near(every, 0.040, 0.02)


def check(train, in_turn, expected, slowest, samples):
    """Mini-batches that the program takes in turn, that an update takes in the mean, and that the slowest worker takes."""
    made = plan(train)
    sync, time = made["sync"], made["time"]
    c, u = sync["mini_batch_s"], sync["update_s"]
    near(c, 0.010, 0.02)
    near(u, 0.030, 0.02)
    near(sum(time.values()), made["step_time_s"], 1e-9)
    near(made["step_time_s"], in_turn * c + u)
    near(time["products"], in_turn * 0.010)
    near(made["mfu"], samples * 2e4 / (made["step_time_s"] * 4e9))
    near(sync["expected"]["mini_batches"], expected, 0.02)
    near(sync["expected"]["step_time_s"], sync["expected"]["mini_batches"] * c + u, 1e-9)
    near(sync["expected"]["samples_per_s"] * sync["expected"]["step_time_s"], samples, 1e-9)
    near(sync["every_step"]["step_time_s"], every + (slowest - 1) * c)
    return sync


harmonic = 1 + 1 / 2 + 1 / 3 + 1 / 4
# three workers are in, one mini-batch each, at one time; delays are of a mean of two mini-batches
check("k_sync", 1, 2 * (harmonic - 1), 2 * harmonic, 1500)
# at time 2 three workers have handed in two each, of which four are taken: two of the first worker
check("k_batch_sync", 2, 2, 3, 2000)
# real arrivals of equal workers: each hands in every fourth update
assert check("live", 1 / 4, 1 / 4, 1, 500)["staleness"] == 3
# at the least limit workers take turns, whatever the delays: an update waits for the one whose turn it is
limited = check("limited", 1, plan("limited")["sync"]["expected"]["mini_batches"], harmonic, 500)
assert limited["staleness"] <= 3 and 0.25 < limited["expected"]["mini_batches"] < harmonic, limited
# workers that train by themselves send 20,000 bytes every five steps, and a loss and a norm in each
made = plan("local")
near(made["sync"]["meeting_s"], 0.030 / 5, 0.02)
near(made["step_time_s"], 0.010 + 0.030 / 5, 0.02)
near(made["mfu"], 2000 * 2e4 / (made["step_time_s"] * 4e9))
near(made["time"]["meetings"], made["sync"]["meeting_s"], 1e-9)
near(sum(made["time"].values()), made["step_time_s"], 1e-9)
near(made["sync"]["every_step"]["step_time_s"], every)
print("fine")
