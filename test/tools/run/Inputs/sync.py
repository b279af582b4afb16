# sync.py same A B: what two runs' logs say of steps and evaluations, but for the workers and times. same-order A B: of the
# workers, too. members LOG k P: each step applied k gradients, no sample twice, of P workers. newest LOG: all gradients
# are of the newest parameters. staleness LOG x [most]: the mean over all steps but the first tenth is x within 5 %, and no
# gradient is older than `most`. times A B ...: runs, from the one whose steps take least time on the drawn clock on; `=`
# before a log: as long as the one before. planned LOG PLAN: an update takes what the text of `plan` says, within 5 %.
import json
import sys

WORKERS = ["workers", "tickets", "reads", "staleness", "time"]


def rows(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def steps(path):
    return [row for row in rows(path) if "loss" in row]


def without(row, names):
    return {name: value for name, value in row.items() if name not in names and not name.endswith("_s")}


what, log = sys.argv[1], sys.argv[2]
if what in ("same", "same-order"):
    names = WORKERS if what == "same" else []
    first, second = ([without(row, names) for row in rows(path)] for path in sys.argv[2:4])
    assert len(first) == len(second), (len(first), len(second))
    for one, other in zip(first, second):
        assert one == other, (one, other)
elif what == "near":
    limit = float(sys.argv[4])
    for one, other in zip(steps(log), steps(sys.argv[3]), strict=True):
        assert abs(one["loss"] - other["loss"]) <= limit * abs(one["loss"]), (one, other)
elif what == "replayed":
    first, second = ([without(row, []) for row in rows(path)] for path in sys.argv[2:4])
    assert first == second, [pair for pair in zip(first, second) if pair[0] != pair[1]][:1]
elif what == "members":
    k, workers, seen, time = int(sys.argv[3]), int(sys.argv[4]), set(), 0
    for row in steps(log):
        assert len(row["workers"]) == len(row["tickets"]) == len(row["reads"]) == k, row
        assert all(0 <= worker < workers for worker in row["workers"]), row
        ages = [row["step"] - 1 - read for read in row["reads"]]
        assert min(ages) >= 0 and abs(row["staleness"] - sum(ages) / k) < 1e-9, row
        assert not seen & set(row["tickets"]) and len(set(row["tickets"])) == k, row
        assert row["time"] >= time, row
        seen, time = seen | set(row["tickets"]), row["time"]
    print("samples of", len(seen), "mini-batches")
elif what == "newest":
    assert all(read == row["step"] - 1 for row in steps(log) for read in row["reads"])
elif what == "staleness":
    counted = steps(log)
    if len(sys.argv) > 4:
        assert max(row["step"] - 1 - read for row in counted for read in row["reads"]) == int(sys.argv[4])
    counted = counted[len(counted) // 10 :]
    mean, expected = sum(row["staleness"] for row in counted) / len(counted), float(sys.argv[3])
    assert abs(mean - expected) <= 0.05 * expected, mean
elif what == "planned":
    # what plan says of an update's time, over all steps
    import re

    said = re.search(r"in units of the delay: ([0-9.e+-]+) an update", open(sys.argv[3]).read())
    took = steps(log)[-1]["time"] / len(steps(log))
    assert abs(took - float(said[1])) <= 0.05 * took, (took, said[1])
elif what == "times":
    before = None
    for path in sys.argv[2:]:
        time = steps(path.lstrip("="))[-1]["time"]
        print(path, time)
        assert before is None or (time == before if path[0] == "=" else time > before), (path, time, before)
        before = time
else:
    sys.exit("sync.py: unknown " + what)
