# peak.py WHOLE AWAY: runs two programs of one training, on a thread, and compares the most memory that each had.
import os
import re
import subprocess
import sys

MOMENTS = 2 * 4 * 25_001_000 // 1_000_000
losses, peaks = [], []
for program in sys.argv[1:]:
    child = subprocess.Popen([program, "--transport", "threads"], stdout=subprocess.PIPE, text=True)
    text = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    assert status == 0, text
    losses.append(re.findall(r"step \d+/3 +loss ([^ ]+)", text))
    peaks.append(usage.ru_maxrss / 1000)
assert len(losses[0]) == 3 and losses[0] == losses[1], losses
least = int(0.75 * MOMENTS)
assert peaks[0] - peaks[1] > least, peaks
print(f"the same losses; of {MOMENTS} MB of moments, at least {least} MB are not in memory")
