"""The policies of `recompute` on one spec.

    policies.py ECHELON DATA SPEC TRAIN POLICY… [--precision P]        the same bits as `none`, and less memory
    policies.py ECHELON DATA SPEC TRAIN POLICY… --kept NUMBERS …       what a layer keeps, in numbers a sample, under each

DATA: the program that makes the spec's data (test/specs/make_data.py).

Bits: every gradient, moment, parameter and loss of three steps. Memory: the arena that `plan` gives, which is what the
program allocates. What one layer keeps is what the arena grows by, where the model has one layer more.
"""
import argparse
import filecmp
import json
import os
import shutil
import subprocess
import sys
import tempfile

def plan(echelon, spec, *options):
    text = subprocess.run([echelon, "plan", spec, "--json", *options], check=True, capture_output=True, text=True)
    return json.loads(text.stdout)


def trained(echelon, spec, options, folder):
    subprocess.run([echelon, "run", spec, *options, "--dump", folder, "--dump-state", "--log", folder + ".jsonl",
                    "--deadline", "120"], check=True, stdout=subprocess.DEVNULL)
    with open(folder + ".jsonl", encoding="utf-8") as log:
        return [{k: v for k, v in json.loads(line).items() if "time" not in k and "per_s" not in k} for line in log]


def files(folder):
    return sorted(os.path.relpath(os.path.join(where, name), folder)
                  for where, _, names in os.walk(folder) for name in names if name.endswith(".npy"))


def same_bits(echelon, spec, asked, work):
    options = ["--train", asked.train, "--set", "precision=" + asked.precision]
    none = trained(echelon, spec, options, work + "/none")
    held = plan(echelon, spec, *options)["recompute"]["work_bytes"]
    wrong = not files(work + "/none")
    for policy in asked.policies:
        own = [*options, "--set", "recompute=" + policy]
        rows = trained(echelon, spec, own, work + "/own")
        _, other, missing = filecmp.cmpfiles(work + "/none", work + "/own", files(work + "/none"), shallow=False)
        is_same = rows == none and not other and not missing and files(work + "/own") == files(work + "/none")
        cost = plan(echelon, spec, *own)["recompute"]
        saves = cost["work_bytes"] < held and cost["work_bytes_of_none"] == held and cost["operations_again"] > 0
        wrong |= not is_same or not saves
        print(f"{asked.train}, {asked.precision}, {policy}: {'the same bits' if is_same else 'OTHER BITS'}"
              f"{' ' + ' '.join((other + missing)[:3]) if other or missing else ''}; {cost['work_bytes']} bytes of work, "
              f"not {held}{'' if saves else ': NOTHING SAVED'}; {cost['operations_again']:.1%} more operations")
        shutil.rmtree(work + "/own")
    return wrong


def kept(echelon, spec, asked):
    """Of a layer: how the arena grows with the layers, less the gradients of a layer's parameters."""
    wrong = False
    for policy, numbers in zip(asked.policies, asked.kept):
        def work(layers):
            return plan(echelon, spec, "--train", asked.train, "--set", f"model.layers={layers}", "--set",
                        "recompute=" + policy)["arena_bytes"]["work"]
        grown = (work(24) - work(12)) / 12 / 4 - asked.gradients
        print(f"{policy}: a layer keeps {grown / asked.batch:g} numbers a sample, expected {numbers:g}")
        wrong |= grown != numbers * asked.batch
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("echelon")
    parser.add_argument("data")
    parser.add_argument("spec")
    parser.add_argument("train")
    parser.add_argument("policies", nargs="+")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--kept", type=lambda text: [float(n) for n in text.split(",")])
    parser.add_argument("--gradients", type=int, default=0)
    parser.add_argument("--batch", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        subprocess.run([sys.executable, asked.data, work], check=True)
        spec = shutil.copy(asked.spec, work)
        wrong = kept(asked.echelon, spec, asked) if asked.kept else same_bits(asked.echelon, spec, asked, work)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
