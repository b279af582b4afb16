"""What `echelon plan` says of specs: asked once for each text, side by side, and kept under build/plan-rows. `answers` asks
the command; `figures` the same compilation many times in one process, which takes a tenth of the time."""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
ECHELON = pathlib.Path(os.environ.get("ECHELON", ROOT / "build/bin/echelon"))
TIMES = ROOT / "build/bin/bench_plan_times"
KEPT = ROOT / "build/plan-rows"


class Answer:
    """What the command printed: its JSON, or what it refused."""

    def __init__(self, code, out, errors):
        self.code, self.out, self.errors = code, out, errors
        self.plan = json.loads(out) if code == 0 and out.startswith("{") else None

    @property
    def refusal(self):
        """The first error, without its place; empty where there is none."""
        for line in self.errors.split("\n"):
            if "error" in line:
                return line[line.index("error"):]
        return "" if self.plan else f"ended with {self.code}: {self.errors.strip()[-200:]}"


def asked(text):
    with tempfile.TemporaryDirectory() as there:
        spec = pathlib.Path(there) / "row.ech"
        spec.write_text(text)
        try:
            done = subprocess.run([ECHELON, "plan", spec, "--json"], capture_output=True, text=True, timeout=300)
        except subprocess.TimeoutExpired:
            return {"code": -1, "out": "", "errors": "error: no answer in 300 s"}
        return {"code": done.returncode, "out": done.stdout, "errors": done.stderr.replace(str(spec), "row.ech")}


def answers(texts, imported=(), jobs=os.cpu_count()):
    """An Answer for each text, in order. `imported`: files that they import, whose text counts as theirs."""
    stamp = ECHELON.stat()
    key = f"{ECHELON}{stamp.st_size}{stamp.st_mtime_ns}" + "".join(pathlib.Path(f).read_text() for f in imported)
    KEPT.mkdir(parents=True, exist_ok=True)

    def one(text):
        kept = KEPT / hashlib.sha256((key + text).encode()).hexdigest()
        if not kept.exists():
            made = json.dumps(asked(text))
            kept.with_suffix(".new").write_text(made)
            kept.with_suffix(".new").rename(kept)
        return Answer(**json.loads(kept.read_text()))

    distinct = list(dict.fromkeys(texts))
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        of = {}
        for count, (text, answer) in enumerate(zip(distinct, pool.map(one, distinct)), 1):
            of[text] = answer
            if sys.stderr.isatty() and (count % 20 == 0 or count == len(distinct)):
                print(f"\r{count}/{len(distinct)}", end="", file=sys.stderr)
    return [of[text] for text in texts]


def figures(texts, imported=(), jobs=os.cpu_count()):
    """(seconds, bytes of a rank, whether they fit) of each text, in order; None where it does not compile."""
    stamp = TIMES.stat()
    key = f"{TIMES}{stamp.st_size}{stamp.st_mtime_ns}" + "".join(pathlib.Path(f).read_text() for f in imported)
    KEPT.mkdir(parents=True, exist_ok=True)
    names = {text: hashlib.sha256((key + text).encode()).hexdigest() for text in texts}
    todo = [text for text, name in names.items() if not (KEPT / f"{name}.figures").exists()]

    def share(part):
        with tempfile.TemporaryDirectory() as there:
            specs = [pathlib.Path(there) / f"{i}.ech" for i in range(len(part))]
            for spec, text in zip(specs, part):
                spec.write_text(text)
            with subprocess.Popen([TIMES, "plan"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
                for spec, text in zip(specs, part):
                    process.stdin.write(f"{spec}\n")
                    process.stdin.flush()
                    (KEPT / f"{names[text]}.figures").write_text(process.stdout.readline())
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(share, [todo[k::jobs] for k in range(jobs)]))
    for text in todo:  # what did not compile is asked once more, alone
        if (KEPT / f"{names[text]}.figures").read_text().strip() in ("", "-"):
            share([text])
    made = []
    for text in texts:
        said = (KEPT / f"{names[text]}.figures").read_text().split()
        made.append((float(said[0]), int(said[1]), said[2] == "1") if len(said) == 3 else None)
    return made
