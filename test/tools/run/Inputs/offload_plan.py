# offload_plan.py FOLDER: what `plan` counts of the train block `stored` on a GPU, of FOLDER/whole, FOLDER/host and
# FOLDER/file.
import json
import subprocess
import sys


def plan(spec):
    command = ["echelon", "plan", f"{sys.argv[1]}/{spec}/spec.ech", "--train", "stored", "--target", "cuda", "--json"]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


whole, host, file = plan("whole"), plan("host"), plan("file")
offload = host["offload"]
pieces = 2 * offload["piece_bytes"]
assert offload["to"] == "host" and offload["resident_bytes"] == pieces == host["memory_bytes"]["optimizer"], offload
assert offload["bytes"] == offload["host_bytes"] > 3 * offload["piece_bytes"] // 2, offload
assert file["offload"]["host_bytes"] == 2 * pieces and file["offload"]["bytes"] == offload["bytes"], file["offload"]


def state(made):
    return made["memory_bytes"]["params"] + made["memory_bytes"]["optimizer"]


padding = (offload["bytes"] - pieces) - (state(whole) - state(host))  # between tensors, and to whole pages
assert 0 <= padding < 1 << 17, padding
print("whole - host = offloaded - 2 pieces; the host has all, or 4 pieces")
