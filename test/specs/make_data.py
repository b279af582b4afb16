"""Small data for the specs of this folder. usage: make_data.py FOLDER"""
import gzip
import math
import os
import random
import struct
import sys


def npy(name, shape, letter, kind, values):
    """Writes one array; a name that ends in .gz is packed."""
    header = "{'descr': '%s', 'fortran_order': False, 'shape': (%s,), }" % (kind, ", ".join(map(str, shape)))
    header += " " * (-(len(header) + 11) % 64) + "\n"
    packed = gzip.open if name.endswith(".gz") else open
    with packed(name, "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        out.write(struct.pack("<%d%s" % (len(values), letter), *values))


def sequences(n, long=9):
    """A sequence of 2 to 13, padded by 0, and itself backwards behind a start token 1."""
    source, length, target, answer, weight = [], [], [], [], []
    for _ in range(n):
        m = random.randrange(3, long + 1)
        s = [random.randrange(2, 14) for _ in range(m)]
        rest = [0] * (long - m)
        source += s + rest
        length.append(m - 1)
        target += [1] + s[:0:-1] + rest
        answer += s[::-1] + rest
        weight += [1.0] * m + [0.0] * (long - m)
    npy("source.npy", (n, long), "i", "<i4", source)
    npy("length.npy", (n,), "B", "|u1", length)
    npy("target.npy", (n, long), "i", "<i4", target)
    npy("answer.npy", (n, long), "i", "<i4", answer)
    npy("weight.npy.gz", (n, long), "f", "<f4", weight)


def tokens(n, long=11):
    npy("ids.npy", (n, long), "i", "<i4", [random.randrange(13) for _ in range(n * long)])
    npy("keep.npy", (n, long), "?", "|b1", [i % long == 0 or random.random() < 0.7 for i in range(n * long)])
    npy("label.npy", (n,), "B", "|u1", [random.randrange(3) for _ in range(n)])


def moves(n):
    with open("moves.csv", "w") as out:
        print("s0,s1,s2,s3,move,reward,t0,t1,t2,t3,done", file=out)
        for _ in range(n):
            s = [random.gauss(0, 1) for _ in range(4)]
            move = random.randrange(3)
            t = [v + 0.1 * (move - 1) for v in s]
            row = ["%.4f" % v for v in s] + [str(move), "%.3f" % -abs(t[0])] + ["%.4f" % v for v in t]
            print(",".join(row + [str(int(random.random() < 0.1))]), file=out)


def cifar():
    os.makedirs("cifar", exist_ok=True)
    for name, n in (("data_batch_1.bin", 64), ("test_batch.bin", 20)):
        with open("cifar/" + name, "wb") as out:
            for _ in range(n):
                label = random.randrange(10)
                pixels = (min(255, max(0, int(random.gauss(20 * label + 20, 30)))) for _ in range(3072))
                out.write(bytes([label]) + bytes(pixels))


def rows(n):
    for name, shape in (("start", (n, 32)), ("wanted", (n, 32)), ("sequence", (n, 8, 16)), ("mirrored", (n, 8, 16))):
        count = math.prod(shape)
        npy(name + ".npy", shape, "f", "<f4", [random.gauss(0, 1) for _ in range(count)])


os.makedirs(sys.argv[1], exist_ok=True)
os.chdir(sys.argv[1])
random.seed(1)
sequences(96)
tokens(96)
moves(96)
cifar()
rows(192)
