"""Whether the difference of two plans has the figures of both: AB A B."""
import json
import sys

ab, a, b = (json.load(open(file)) for file in sys.argv[1:])
for key in ("step_time_s", "tokens_per_s", "samples_per_s", "mfu", "bubble_fraction", "fits", "train"):
    assert ab[key] == [a[key], b[key]], key
for group in ("time", "memory_bytes"):
    assert set(ab[group]) == set(a[group]) | set(b[group])
    for name, pair in ab[group].items():
        assert pair == [a[group].get(name, 0), b[group].get(name, 0)], (group, name)
assert [m["bytes"] for m in ab["collectives"]] == [4, 20000], ab["collectives"]
for m in ab["collectives"]:
    assert m["count"] == [1, 0] and m["time_s"][1] == 0, m
assert abs(ab["collectives"][1]["time_s"][0] - 0.020) < 0.0002
