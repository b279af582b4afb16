# compare.py exact|near A B: two logs step by step, times left out. B may begin later.
import json
import sys


def rows(path):
    with open(path) as file:
        parsed = [json.loads(line) for line in file]
    for row in parsed:
        for name in ("step_time_s", "samples_per_s", "eval_time_s"):
            row.pop(name, None)
    by_step = {(row["step"], "eval_loss" in row): row for row in parsed}
    assert len(by_step) == len(parsed), f"{path} has a row twice"
    return by_step


how, first, second = sys.argv[1], rows(sys.argv[2]), rows(sys.argv[3])
assert second and (how == "near" or len(first) == len(second)), (len(first), len(second))
for key, row in second.items():
    for name, value in row.items():
        other = first[key][name]
        far = value != other if how == "exact" else abs(value - other) > 1e-5 * max(abs(value), abs(other))
        if far:
            sys.exit(f"step {key[0]}: {name} is {other} and {value}")
