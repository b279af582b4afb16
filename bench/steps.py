"""How long a step of a spec takes, and what `plan` says of it."""
import json
import statistics
import subprocess
import sys

from specs import ECHELON


def seconds(spec, ranks, folder, *options):
    """Median seconds of a step behind the first, each rank on a core of its own."""
    log = folder / "log.jsonl"
    log.unlink(missing_ok=True)
    cores = ",".join(str(core) for core in range(ranks))
    command = ["taskset", "-c", cores, ECHELON, "run", str(spec), "--log", str(log), *options]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return statistics.median([json.loads(row)["step_time_s"] for row in log.read_text().splitlines()
                              if "step_time_s" in row][1:])


def plan(spec, *options):
    done = subprocess.run([ECHELON, "plan", str(spec), "--json", *options], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)
