"""Whether `recompute auto` chooses as well as trying all sets of names by hand does: data FILE, best SPEC, rows LOG."""
import itertools
import json
import os
import struct
import subprocess
import sys

command = sys.argv[1]
if command == "data":  # 64 samples of 64 numbers
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (64, 64), }".ljust(117) + "\n"
    numbers = struct.pack("<4096f", *[i * 37 % 101 / 101 - 0.5 for i in range(4096)])
    with open(sys.argv[2], "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + numbers)
    sys.exit()
if command == "rows":  # what a step computed, without its time
    for line in open(sys.argv[2]):
        row = json.loads(line)
        print(row["step"], row["loss"], row["grad_norm"])
    sys.exit()
spec = sys.argv[2]
text = open(spec).read()


def plan(policy):
    """What a step takes and a rank needs; None: there is nothing that this policy would keep."""
    file = os.path.join(os.path.dirname(spec), "tried.ech")
    with open(file, "w") as f:
        f.write(text.replace("recompute none", "recompute " + policy))
    made = subprocess.run(["echelon", "plan", file, "--train", "plain", "--json"], capture_output=True, text=True)
    if made.returncode:
        assert "E0410" in made.stderr or "E0314" in made.stderr, made.stderr
        return None
    said = json.loads(made.stdout)
    return said["step_time_s"], said["memory_bytes"]["total"]


names = ["h", "bent", "near", "moved"]
byhand = [plan("none"), plan("full"), plan("every 2 layer"), plan("every 3 layer")]
for count in range(1, len(names) + 1):
    for some in itertools.combinations(names, count):
        byhand.append(plan(f"keep ({', '.join(some)})"))
byhand = [made for made in byhand if made]
assert len(byhand) > 10, byhand
smallest, largest = min(b for _, b in byhand), plan("none")[1]
chosen = set()
for limit in range(smallest, largest + 1, (largest - smallest) // 5):
    seconds, size = plan(f"auto within {limit / 1e6:.6f} MB")
    assert size <= limit, (size, limit)
    best = min(made for made in byhand if made[1] <= limit)
    assert seconds <= best[0] * (1 + 1e-9), (limit, seconds, best)
    chosen.add(size)
assert len(chosen) > 1, chosen
assert plan(f"auto within {(smallest - 1) / 1e6:.6f} MB") is None
