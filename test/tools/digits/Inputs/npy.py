"""npy files without numpy: write(path, kind, shape, values), read(path)."""
import array
import struct

KINDS = {"<f4": "f", "<f8": "d", "<i4": "i", "|u1": "B"}


def write(path, kind, shape, values):
    size = "(" + "".join(f"{n}, " for n in shape) + ")"
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {size}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        array.array(KINDS[kind], values).tofile(out)


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    start = 10 + struct.unpack("<H", data[8:10])[0]
    values = array.array(KINDS[eval(data[10:start])["descr"]])
    values.frombytes(data[start:])
    return list(values)


def fp32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]
