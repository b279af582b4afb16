"""What the measurements of this folder share: where things are, and the specs they take."""
import argparse
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
SHARED = pathlib.Path(os.environ.get("ECHELON_SHARED", ROOT.parent / "shared"))
ECHELON = str(os.environ.get("ECHELON", ROOT / "build/bin/echelon"))


def two_ranks(name, without):
    """The text of a spec of $ECHELON_SHARED or examples/, data-parallel on two ranks, without some clauses (a|b|c)."""
    there = SHARED / f"specs/{name}.ech"
    there = there if there.exists() else ROOT / f"examples/{name}.ech"
    text = there.read_text().replace('"../', f'"{there.parent}/../')
    text = re.sub(r"layout mesh\([^)]*\) *\{[^}]*\}", "layout mesh(dp = 2) { split batch over dp }", text)
    text = re.sub(r"local\(ranks = \d+\)", "local(ranks = 2)", text)
    return re.sub(rf"(?m)^  ({without}) .*\n", "", text)


def emit(spec):
    return [ECHELON, "build", str(spec), "--emit", "cpp"]


def arguments(doc, repeat):
    """(specs, --repeat): those of the command line, else every one of examples/ and $ECHELON_SHARED/specs that builds."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("specs", nargs="*", type=pathlib.Path)
    parser.add_argument("--repeat", default=repeat, type=int)
    options = parser.parse_args()
    specs = options.specs or [*sorted((SHARED / "specs").glob("*.ech")), *sorted((ROOT / "examples").glob("*.ech"))]

    def builds(spec):
        return subprocess.run(emit(spec), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
    return filter(builds, specs), options.repeat
