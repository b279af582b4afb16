# ends.py same A B: two logs row by row, but for times; near A B: numbers to 1e-9; with `averages`, where A has no average, the rows of A are those of
# B's average and of its last parameters alike. ends.py cost LOG: the last row's cost is its time's at 3600 $ an hour.
# ends.py skipped LOG: the steps that were skipped.
import json
import sys


def rows(path):
    with open(path) as file:
        parsed = [json.loads(line) for line in file]
    for row in parsed:
        for name in [name for name in row if name.endswith("_s") or name == "cost"]:
            row.pop(name)
    return parsed


def without(row, name):
    return {key: value for key, value in row.items() if key != name}


what = sys.argv[1]
if what == "same":
    first, second = rows(sys.argv[2]), rows(sys.argv[3])
    assert first == second, (first, second)
elif what == "near":
    first, second = rows(sys.argv[2]), rows(sys.argv[3])
    assert len(first) == len(second) and first
    for one, other in zip(first, second):
        assert one.keys() == other.keys(), (one, other)
        for name in one:
            assert abs(one[name] - other[name]) <= 1e-9 * abs(one[name]), (name, one, other)
elif what == "averages":
    first, second = rows(sys.argv[2]), rows(sys.argv[3])
    last = [without(row, "eval") for row in second if row.get("eval") == "last"]
    assert first == [row for row in second if "eval" not in row]
    assert last == [row for row in first if "eval_loss" in row] and last
elif what == "cost":
    with open(sys.argv[2]) as file:
        row = json.loads(file.readlines()[-1])
    assert abs(row["cost"] - row["time_s"]) < 1e-9 * row["time_s"], row
    assert 0 < row["time_without_evaluations_s"] < row["time_s"], row
else:
    print(what, *[row["step"] for row in rows(sys.argv[2]) if row.get("skipped")])
