"""zeros.py FILE ROWS COLUMNS: a file of numpy's, all zeros in fp32."""
import sys

file, rows, columns = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {columns}), }}".encode().ljust(117) + b"\n"
with open(file, "wb") as out:
    out.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(4 * rows * columns))
