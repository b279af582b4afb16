"""Rows and pictures of which some labels count nothing. usage: marked_labels.py FOLDER

Eight rows of three numbers, labels of them with -100 or 4 at two rows, weights; the same with other numbers in the two
rows; the six rows that count. Eight pictures of 2 rows and 3 columns, masks of 4 classes with 255 at some places."""
import pathlib
import struct
import sys


def npy(name, kind, letter, shape, values):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    path = pathlib.Path(sys.argv[1]) / name
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
                     + struct.pack(f"<{len(values)}{letter}", *values))


rows = [[((i * 3 + j) * 37 % 11) / 11 for j in range(3)] for i in range(8)]
labels = [0, 1, -100, 2, 3, -100, 1, 0]
flat = lambda which: [value for row in which for value in row]
npy("x.npy", "<f4", "f", "(8, 3)", flat(rows))
npy("other.npy", "<f4", "f", "(8, 3)", flat([[7, -5, 3] if y < 0 else x for x, y in zip(rows, labels)]))
npy("minus.npy", "<i8", "q", "(8,)", labels)
npy("four.npy", "<i8", "q", "(8,)", [4 if y < 0 else y for y in labels])
npy("zero.npy", "<i8", "q", "(8,)", [max(y, 0) for y in labels])
npy("weight.npy", "<f4", "f", "(8,)", [float(y >= 0) for y in labels])
npy("x6.npy", "<f4", "f", "(6, 3)", flat([x for x, y in zip(rows, labels) if y >= 0]))
npy("y6.npy", "<i8", "q", "(6,)", [y for y in labels if y >= 0])

mask = [i * 5 % 7 % 4 if i % 4 else 255 for i in range(48)]
npy("image.npy", "<f4", "f", "(8, 2, 3)", [i * 29 % 13 / 13 for i in range(48)])
npy("mask.npy", "|u1", "B", "(8, 2, 3)", mask)
npy("mask0.npy", "|u1", "B", "(8, 2, 3)", [y % 255 for y in mask])
npy("counts.npy", "<f4", "f", "(8, 2, 3)", [float(y != 255) for y in mask])
