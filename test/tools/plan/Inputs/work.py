"""Compares what `plan --json` says was costed with what `plan` says in all."""
import json
import os
import re
import subprocess
import sys

for spec, train in zip(sys.argv[1::2], sys.argv[2::2]):
    ask = ["echelon", "plan", spec, "--train", train]
    text = subprocess.run(ask, check=True, capture_output=True, text=True).stdout
    plan = json.loads(subprocess.run(ask + ["--json"], check=True, capture_output=True, text=True).stdout)
    told = tuple(int(n) for n in re.search(r"in all.* (\d+) messages, (\d+) bytes", text).groups())
    messages, sums = plan["work"]["messages"], []
    for stage in plan["work"]["stages"]:
        sent = stage["step"]["messages"]
        sums.append((sum(n for _, n in sent), round(sum(n * messages[i]["bytes"] for i, n in sent))))
        if "turns" in stage:  # the step is what is outside, and its turns
            again = dict(map(tuple, stage["outside"]["messages"]))
            for turn in stage["turns"]:
                for i, n in turn["messages"]:
                    again[i] = again.get(i, 0) + n * turn["times"]
            assert again == dict(map(tuple, sent)), (again, sent)
    assert told in sums and told[1] == max(b for _, b in sums), (told, sums)
    assert abs(sum(plan["time"].values()) - plan["step_time_s"]) < 1e-9 * plan["step_time_s"]
    print(os.path.basename(spec), train + ":", told[0], "messages,", told[1], "bytes")
