# table.py N [SEED]: a table of N lines for inputs x (5 columns) and y, as csv.
import random
import sys

numbers = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
print("x0,x1,x2,x3,x4,y")
for _ in range(int(sys.argv[1])):
    print(",".join(f"{numbers.gauss(0, 1):.4f}" for _ in range(6)))
