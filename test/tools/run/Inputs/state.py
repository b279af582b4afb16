# state.py FILE NAME: the numbers of a tensor of fp32 in a file of safetensors.
import json
import struct
import sys

with open(sys.argv[1], "rb") as file:
    length = struct.unpack("<Q", file.read(8))[0]
    begin, end = json.loads(file.read(length))[sys.argv[2]]["data_offsets"]
    file.seek(8 + length + begin)
    print(list(struct.unpack(f"<{(end - begin) // 4}f", file.read(end - begin))))
