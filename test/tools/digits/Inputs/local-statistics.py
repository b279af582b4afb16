"""local-statistics.py data DIR N: x.npy, z.npy of N samples; check DIR N LOG AFTER: running statistics after one step"""
import os
import random
import sys

import npy

FEATURES, MICRO = 3, 4  # samples of a micro batch on both ranks
command, folder, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
random.seed(7)
x = [npy.fp32(random.gauss(0, 1)) for _ in range(n * FEATURES)]
if command == "data":
    npy.write(os.path.join(folder, "x.npy"), "<f4", (n, FEATURES), x)
    npy.write(os.path.join(folder, "z.npy"), "<f4", (n,), [1.0] * n)
    sys.exit()

after = sys.argv[5]
batch = npy.read(os.path.join(after, "..", "batch", "x.npy"))
mean, variance = [0.0] * FEATURES, [0.0] * FEATURES
passes = len(batch) // FEATURES // MICRO
for m in range(passes):
    for f in range(FEATURES):
        part = batch[m * MICRO * FEATURES + f : (m + 1) * MICRO * FEATURES : FEATURES]
        center = sum(part) / MICRO
        mean[f] += center / passes
        variance[f] += sum((v - center) ** 2 for v in part) / (MICRO - 1) / passes
found = npy.read(os.path.join(after, "bn.running_mean.npy")) + npy.read(os.path.join(after, "bn.running_var.npy"))
wanted = [0.1 * m for m in mean] + [0.9 + 0.1 * v for v in variance]
fine = all(abs(a - b) <= 4 * 2.0**-24 * max(1, abs(b)) for a, b in zip(found, wanted))
print("equal" if fine else f"{found} is {wanted}")
