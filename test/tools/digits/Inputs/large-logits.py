"""large-logits.py data DIR OFFSET: logits l.npy that share the offset, and labels y.npy
large-logits.py check DIR OFFSET LOG AFTER: what was computed beside the same numbers in double"""
import json
import math
import os
import random
import sys

import npy

ROWS, CLASSES = 8, 6
command, folder, offset = sys.argv[1], sys.argv[2], float(sys.argv[3])
random.seed(5)
logits = [npy.fp32(offset + random.gauss(0, 2)) for _ in range(ROWS * CLASSES)]
labels = [random.randrange(CLASSES) for _ in range(ROWS)]
if command == "data":
    npy.write(os.path.join(folder, "l.npy"), "<f4", (ROWS, CLASSES), logits)
    npy.write(os.path.join(folder, "y.npy"), "<i4", (ROWS,), labels)
    sys.exit()

loss, gradient = 0, [0.0] * CLASSES
for r in range(ROWS):
    row = logits[r * CLASSES : (r + 1) * CLASSES]
    top = max(row)
    total = sum(math.exp(x - top) for x in row)
    loss += (math.log(total) - (row[labels[r]] - top)) / ROWS
    for c in range(CLASSES):
        gradient[c] += (math.exp(row[c] - top) / total - (c == labels[r])) / ROWS
with open(sys.argv[4]) as log:
    row = next(row for row in map(json.loads, log) if "loss" in row)
found = {c: -x for c, x in enumerate(npy.read(os.path.join(sys.argv[5], "s.npy")))}
# A few roundings of numbers of the size of the loss, and of probabilities.
u = 2.0**-24
fine = abs(row["loss"] - loss) <= 32 * u * loss
fine &= all(abs(found[c] - gradient[c]) <= 16 * u for c in range(CLASSES))
print("equal" if fine else f"loss {row['loss']} is {loss}; gradient {found} is {gradient}")
