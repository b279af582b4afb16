"""history.py data FOLDER: 2,000 samples of 100 numbers, and logs as runs write them, whose losses follow a law. local: what
`plan --json` says of the workers that train by themselves."""
import json
import math
import pathlib
import subprocess
import sys


def write(path, batch, loss, last=300, workers=None):
    rows = []
    for step in range(1, last + 1):
        row = {"step": step, "loss": 1.0, "step_time_s": 1e-4, "samples_per_s": batch / 1e-4}
        rows.append(row | ({"workers": [step % workers]} if workers else {}))
        if step % 10 == 0:
            rows.append({"step": step, "eval": "held", "eval_loss": loss(step), "eval_time_s": 0.1})
            rows.append({"step": step, "eval": "other", "eval_loss": 0.0, "eval_time_s": 0.1})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


if sys.argv[1] == "data":
    folder = pathlib.Path(sys.argv[2])
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (2000, 100), }".ljust(117) + "\n"
    (folder / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + bytes(800000))
    for m in (1, 2, 8):
        write(folder / f"l{m}.jsonl", 2000, lambda step: 0.2 + 2 * math.exp(-step / (20 + 8 * m)))
    for b in (500, 1000):
        write(folder / f"b{b}.jsonl", b, lambda step: 0.2 + 2 * math.exp(-step / (20 + 10000 / b)))
    write(folder / "short.jsonl", 500, lambda step: 1 / step, last=29)
    write(folder / "flat.jsonl", 500, lambda step: 0.5)
    # what others may write: rows that are none, and fields of another kind, are as if they were not there
    rows = (folder / "l1.jsonl").read_text().splitlines(keepends=True)
    (folder / "strange.jsonl").write_text("[]\n{\n\"step\"\n" + json.dumps({"step": 1e300, "eval_time_s": 1}) + "\n" +
        json.dumps({"step": "one", "samples_per_s": []}) + "\n" + rows[0] +
        json.dumps({"step": 2, "eval": 7, "eval_loss": "low", "eval_time_s": 1, "workers": {}}) + "\n" +
        json.dumps({"step": 2, "step_time_s": -1, "samples_per_s": 1e300}) + "\n" + "".join(rows[1:]))
    write(folder / "arrive.jsonl", 500, lambda step: 1 / step, workers=4)
    sys.exit()
made = subprocess.run(["echelon", "plan", "history.ech", "--train", "local", "--json", "--history", "1=l1.jsonl",
                       "2=l2.jsonl", "8=l8.jsonl"], check=True, capture_output=True)
plan = json.loads(made.stdout)
history = plan["history"]
assert history["axis"] == "dp" and history["degree"] == "workers", history
assert [row["size"] for row in history["rows"]] == [1, 2, 4, 8]
assert [row["measured"] for row in history["rows"]] == [True, True, False, True]
wanted = 52 * math.log(20)  # of four workers, which nobody has run
four = history["rows"][2]
assert abs(four["steps"] - wanted) <= 0.1 * wanted and four["least_steps"] <= four["steps"] <= four["most_steps"], four
for row in history["rows"]:
    assert abs(row["time_s"] - row["steps"] * row["step_time_s"]) <= 1e-9 * row["time_s"], row
    assert not row["extrapolated"], row
best = min(history["rows"], key=lambda row: row["time_s"])
assert history["chosen"] == best and plan["mesh"] == {"dp": best["size"]}
assert plan["step_time_s"] == best["step_time_s"]
print("fine")
