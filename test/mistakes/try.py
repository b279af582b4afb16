"""Each spec of this folder holds one mistake of a user; what Echelon says of it is in NAME.expected.

    try.py ECHELON WORK [--update] [--messages] [NAME…]

Specs and data are copied to the folder WORK and tried there, by `echelon check NAME.ech` or by the spec's own lines
`# $ echelon …`, of which the last one's output counts. --update writes the .expected files, to be read before they are
committed; --messages prints the messages alone, numbered, to be judged by someone who sees nothing else.
"""
import argparse
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import make_data

HERE = pathlib.Path(__file__).parent


def commands(spec):
    """What is typed, as lists of words."""
    lines = [line[3:].strip() for line in spec.read_text().splitlines() if line.startswith("# $")]
    return [shlex.split(line) for line in lines] or [["echelon", "check", spec.name]]


def heading(spec):
    """The mistake, and its mend, as the spec's first line tells them."""
    match = re.match(r"# mistake: (.*); mend: (.*)\n", spec.read_text())
    if not match:
        sys.exit(f"{spec.name}: the first line is not '# mistake: …; mend: …'")
    return match.groups()


def attempt(echelon, spec, work):
    """What the last command prints."""
    for words in commands(spec):
        done = subprocess.run([echelon] + words[1:], cwd=work, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=300)
    text = done.stdout.replace(os.path.realpath(work), "DIR")
    return re.sub(r"(?m)^(step [0-9]+/|memory a rank|training |data |echelon: compiling ).*\n", "", text)  # what runs print in any case


def portable(text):
    """Without what differs between machines and builds."""
    return re.sub(r"which has [0-9.]+ GB", "which has N GB", text)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("echelon")
    arguments.add_argument("work", type=pathlib.Path)
    arguments.add_argument("--update", action="store_true")
    arguments.add_argument("--messages", action="store_true")
    arguments.add_argument("names", nargs="*")
    given = arguments.parse_args()
    echelon = os.path.abspath(given.echelon)
    work = given.work / "work"  # emptied here, so it is a folder of our own
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    make_data.make(work)
    os.environ.update(NO_COLOR="1", ECHELON_CACHE=os.environ.get("ECHELON_CACHE", os.path.abspath(given.work / "cache")))

    specs = [spec for spec in sorted(HERE.glob("*.ech")) if not given.names or spec.stem in given.names]
    missing = set(given.names) - {spec.stem for spec in specs}
    if missing or not specs:
        sys.exit(f"no such mistake: {', '.join(sorted(missing)) or HERE}")
    wrong = 0
    for number, spec in enumerate(specs, 1):
        shutil.copy(spec, work)
        heading(spec)
        told = attempt(echelon, spec, work)
        expected = spec.with_suffix(".expected")
        if given.messages:
            typed = " ".join(shlex.quote(word) for word in commands(spec)[-1])
            print(f"[{number}] $ {typed}\n{told}".replace(spec.name, "spec.ech"))
        if given.update:
            expected.write_text(portable(told))
        if not given.messages and (not expected.exists() or portable(told) != expected.read_text()):
            print(f"{spec.name}: expected\n{expected.read_text() if expected.exists() else ''}---- told\n{portable(told)}")
            wrong += 1
        if not told:
            print(f"{spec.name}: taken without a word")
            wrong += 1
    print(f"{len(specs)} mistakes, {wrong} not told as expected")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
