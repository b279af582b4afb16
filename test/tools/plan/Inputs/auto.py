"""What `plan` chose, against layouts written by hand, and against the spec that it writes."""
import json
import pathlib
import re
import subprocess
import sys


def plan(spec, train):
    return json.loads(subprocess.run(["echelon", "plan", str(spec), "--train", train, "--json"], check=True,
                                     capture_output=True, text=True).stdout)


def best(spec, train, *lists):
    """No hand-written layout of two ranks, in any number of passes, is faster."""
    chosen = plan(spec, train)["step_time_s"]
    path = pathlib.Path(spec)
    head, tail = re.fullmatch(rf"(.*\ntrain {train} \{{)([^\n]*\}}\n.*)", path.read_text(), re.S).groups()
    splits = ["split batch over a" + store for store in
              ("", "; store optimizer over a", "; store optimizer, gradients over a",
               "; store optimizer, gradients, params over a")] + [f"split {axes} over a" for axes in lists]
    times = []
    for split in splits:
        samples = 10 if "batch" in split else 20
        for each in [n for n in range(1, samples + 1) if samples % n == 0]:
            text = tail.replace("layout auto", f"layout mesh(a = 2) {{ {split} }}", 1)
            text = text.replace("batch 20", f"batch 20 in micro batches of {each}", 1)
            other = path.with_name("hand.ech")
            other.write_text(head + text)
            times.append(plan(other, train)["step_time_s"])
    assert len(times) > 20
    assert chosen <= min(times) * (1 + 1e-9), (chosen, min(times))
    assert chosen < 0.9 * max(times)


def same(spec, written, train):
    """The written spec plans to the same figures."""
    one, other = plan(spec, train), plan(written, train)
    alternatives = one.pop("alternatives")
    assert "alternatives" not in other
    assert alternatives["chosen"]["step_time_s"] == one["step_time_s"]
    assert alternatives["candidates"] == sum(alternatives[key] for key in ("no_room", "cut", "refused")) + \
        alternatives["fit"], alternatives
    assert len(alternatives["runners_up"]) == 3
    times = [one["step_time_s"]] + [each["step_time_s"] for each in alternatives["runners_up"]]
    assert times == sorted(times)
    for plan_ in (one, other):  # reasons name lines, which the layout's are others of
        for message in plan_["collectives"]:
            message.pop("reason"), message.pop("place")
        for line in plan_["weight_decay"]:
            line.pop("place")
    one["work"], other["work"] = None, None
    assert one == other, [key for key in one if one[key] != other[key]]


{"best": best, "same": same}[sys.argv[1]](*sys.argv[2:])
