# one_bad.py FILE: a table of 16 samples, one of which makes the loss infinite. Labels are 0 and 1.
import sys

with open(sys.argv[1], "w") as file:
    file.write("x,y,good,label\n")
    for i in range(16):
        file.write(f"{i / 8 - 1},{(i * 7 % 16) / 8 - 1},{0 if i == 5 else 1},{i % 2}\n")
