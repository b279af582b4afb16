"""long-evaluation.py data DIR N: held.npy of N labels of which each is 1, y.npy; check DIR N LOG AFTER: the metrics"""
import json
import os
import sys

import npy

command, folder, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
if command == "data":
    npy.write(os.path.join(folder, "held.npy"), "|u1", (n,), [1] * n)
    npy.write(os.path.join(folder, "y.npy"), "|u1", (8,), [1] * 8)
    sys.exit()

with open(sys.argv[4]) as log:
    row = next(row for row in map(json.loads, log) if row.get("eval") == "held")
wanted = {"eval_loss": 1, "ones": 1, "tenths": 0.1 * n, "each": 2.3}
fine = all(abs(row[name] - value) <= 1e-6 * value for name, value in wanted.items())
print("equal" if fine else f"{row} is {wanted}")
