"""long-rows.py data DIR N: x.npy of N equal samples; check DIR N LOG AFTER: the losses, and what a step made"""
import json
import os
import sys

import npy

ROW = [npy.fp32(value) for value in (0.1, 0.7, 3.3)]

command, folder, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
if command == "data":
    npy.write(os.path.join(folder, "x.npy"), "<f4", (n, 3), ROW * n)
    sys.exit()

with open(sys.argv[4]) as log:
    row = next(map(json.loads, log))
wanted = {"shares": sum(x * x for x in ROW), "scaled": sum(x * x for x in ROW) / 3}
found = {name: row[name] for name in wanted}
for name, start, slope in (("scale", 1, lambda x: x * x), ("shift", 0, lambda x: x)):
    made = npy.read(os.path.join(sys.argv[5], name + ".npy"))
    for i, x in enumerate(ROW):
        wanted[f"{name} {i}"] = start - 0.5 * slope(x) / 3
        found[f"{name} {i}"] = made[i]
wrong = {name: (found[name], value) for name, value in wanted.items() if abs(found[name] - value) > 1e-6 * abs(value)}
print(wrong or "equal")
