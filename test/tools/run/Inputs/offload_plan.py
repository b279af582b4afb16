# offload_plan.py FOLDER: what `plan` counts of the train block `stored` on a GPU, of FOLDER/whole, FOLDER/host and
# FOLDER/file, where the table is large.
import json
import subprocess
import sys


def plan(name):
    folder = f"{sys.argv[1]}/{name}"
    with open(f"{folder}/spec.ech") as spec, open(f"{folder}/large.ech", "w") as large:
        large.write(spec.read().replace("words = 4_000", "words = 4_000_000"))
    command = ["echelon", "plan", f"{folder}/large.ech", "--train", "stored", "--target", "cuda", "--json"]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


whole, host, file = plan("whole"), plan("host"), plan("file")
offload = host["offload"]
pieces = 2 * offload["piece_bytes"]
assert offload["to"] == "host" and offload["piece_bytes"] == 16 << 20, offload
assert offload["resident_bytes"] == pieces == host["memory_bytes"]["optimizer"], offload
assert offload["host_bytes"] == offload["bytes"] == file["offload"]["bytes"] > 3 * 64_000_000, offload
assert file["offload"]["host_bytes"] == 2 * pieces, file["offload"]
saved = whole["memory_bytes"]["optimizer"] - host["memory_bytes"]["optimizer"]
padding = offload["bytes"] - pieces - saved  # between tensors, and to whole pages
assert 0 <= padding < 1 << 17, padding
print("on the device the moments less two pieces are saved; the host has all of them, or four pieces")
