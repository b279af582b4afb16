# moved.py A B RATE: between two snapshots every parameter moved by RATE.
import json
import struct
import sys


def numbers(folder):
    with open(folder + "/model.safetensors", "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
        data = file.read()
    values = {}
    for name, tensor in header.items():
        if name != "__metadata__":
            begin, end = tensor["data_offsets"]
            values[name] = struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])
    return values


before, after, rate = numbers(sys.argv[1]), numbers(sys.argv[2]), float(sys.argv[3])
for name in before:
    for a, b in zip(before[name], after[name]):
        if abs(abs(a - b) - rate) > 1e-4 * rate:
            sys.exit(f"{name} moved by {abs(a - b)}, not {rate}")
