"""16 pictures of 4 rows and 6 columns, and the masks of their positive places. usage: picture_and_mask.py FOLDER"""
import pathlib
import struct
import sys


def npy(path, kind, letter, values):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': (16, 4, 6), }}".ljust(117) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
                     + struct.pack(f"<{len(values)}{letter}", *values))


folder = pathlib.Path(sys.argv[1])
places = [(i * 37 + i * i // 7) % 11 for i in range(16 * 24)]
npy(folder / "image.npy", "<f4", "f", [place if place > 5 else 0 for place in places])
npy(folder / "mask.npy", "<i8", "q", [int(place > 5) for place in places])
