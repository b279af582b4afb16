"""Every example, every spec of this folder and those beside the project, as programs for GPUs.

    gpu.py BUILD compile|losses [SPEC ...]      SPEC: a name without folder and ending; all unless told

compile: printed for --target cuda, compiled by nvcc for sm_90 (some for sm_80, too) and linked, without a warning, and
without a kernel that spills registers. losses: what the first steps of --target cuda-host lose, in fp32, against the
CPU's program, to a relative 1e-5. ccache, where it is there, keeps what nvcc made. Ends with 77, which ctest takes for
skipped, where what it needs is not there.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SPECS = {path.stem: path for folder in (HERE, ROOT / "examples", ROOT.parent / "shared/specs")
         for path in sorted(folder.glob("*.ech"))}
# For more machines than one has, with clauses that are not built yet.
NOT_RUN = ("gpt3_175b", "llama3_8b")
OF_BOTH = ("mlp_fashion", "gpt_fortunes", "conv_fashion")
STEPS = 4
ALLOWED = 1e-5
WARNINGS = ["-Werror=all-warnings", "-Xcompiler", "-Wall,-Wextra,-Werror", "-Xptxas", "-v"]


class Build:
    def __init__(self, folder):
        self.folder = folder
        self.echelon = folder / "bin/echelon"
        cache = (folder / "CMakeCache.txt").read_text()
        found = dict(re.findall(r"^(CMAKE_CUDA_COMPILER|ECHELON_CUDA_HEADERS):\w+=(.*)$", cache, re.MULTILINE))
        self.nvcc = found.get("CMAKE_CUDA_COMPILER", "")
        self.headers = found.get("ECHELON_CUDA_HEADERS", "")
        self.library = folder / "lib/libechelon_cuda.a"

    def can(self, what):
        if what == "compile":
            return self.nvcc and not self.nvcc.endswith("NOTFOUND") and self.library.exists()
        return (self.folder / "lib/libechelon_cuda_host.a").exists()

    def compile(self, source, architectures):
        """(Whether it went without a warning and links, the names of kernels that spill, all that was said.)"""
        launcher = [shutil.which("ccache")] if shutil.which("ccache") else []
        code = [f"-gencode=arch=compute_{each},code=sm_{each}" for each in architectures]
        object_, libraries = source.with_suffix(".o"), pathlib.Path(self.headers).parent / "lib64"
        done = subprocess.run([*launcher, self.nvcc, "-std=c++17", "-O3", "--expt-relaxed-constexpr", *code, *WARNINGS,
                               f"-I{ROOT}", "-c", source.name, "-o", object_.name], capture_output=True, text=True,
                              cwd=source.parent)
        said = done.stdout + done.stderr
        kernels = re.findall(r"Compiling entry function '(\w+)'.*\n.*\n\s*\d+ bytes stack frame, (\d+) bytes spill stores",
                             said)
        spilling = [name for name, bytes_ in kernels if bytes_ != "0"]
        if done.returncode == 0 and not kernels:
            return False, [], said + "\nptxas says nothing of kernels"
        if done.returncode == 0:
            done = subprocess.run([self.nvcc, object_, "-o", source.with_suffix(""), self.library,
                                   self.folder / "lib/libechelon_runtime.a", "-lopenblas", "-ldnnl", "-lgomp", "-lz",
                                   "-ldeflate", "-lpthread", "-ldl", f"-L{libraries}", "-lcublasLt", "-lnccl"],
                                  capture_output=True, text=True)
            said += done.stdout + done.stderr
        return done.returncode == 0, spilling, said


def compile_spec(build, spec, work):
    source = work / f"{spec.stem}.cu"
    subprocess.run([build.echelon, "build", spec, "--target", "cuda", "--emit", "cpp", "-o", source], check=True,
                   capture_output=True, text=True, cwd=work)
    architectures = (80, 90) if spec.stem in OF_BOTH else (90,)
    fine, spilling, said = build.compile(source, architectures)
    if not fine:
        return said
    return f"these kernels spill: {', '.join(spilling)}" if spilling else None


def losses(build, spec, work, target):
    log = work / f"{target}.jsonl"
    settings = ["--set", "precision=fp32"]
    if " batches" in (work / spec).read_text():
        settings += ["--set", "evaluate.batches=1"]
    if re.search(r"^\s*checkpoint ", (work / spec).read_text(), re.MULTILINE):
        settings += ["--out", work / target]
    subprocess.run([build.echelon, "run", spec, "--steps", str(STEPS), "--target", target, *settings, "--log", log,
                    "--deadline", "120", "--transport", "threads"], check=True, capture_output=True, text=True,
                   env={"CXXFLAGS": "-O1", **os.environ}, cwd=work)
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    return [row["loss"] for row in rows if "loss" in row]


def compare_losses(build, spec, work):
    cpu, gpu = (losses(build, spec, work, target) for target in ("cpu", "cuda-host"))
    if len(cpu) != STEPS or len(gpu) != STEPS:
        return f"{len(cpu)} and {len(gpu)} losses"
    apart = max(abs(a - b) / abs(a) for a, b in zip(cpu, gpu))
    return None if apart <= ALLOWED else f"{apart:.1e} apart: {cpu}, on the GPU {gpu}"


def main(folder, what, *names):
    build = Build(pathlib.Path(folder).resolve())
    if not build.can(what):
        print("no nvcc" if what == "compile" else "no CUDA: its headers were not there when Echelon was built")
        return 77
    do = compile_spec if what == "compile" else compare_losses
    failed = 0
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        subprocess.run([sys.executable, HERE / "make_data.py", work / "data"], check=True)
        for name in names or [name for name in SPECS if name not in NOT_RUN]:
            spec = SPECS[name]
            if spec.parent == HERE:  # names its data from its own folder
                spec = pathlib.Path(shutil.copy(spec, work)).relative_to(work)  # or ccache would see another text
            try:
                wrong = do(build, spec, work)
            except subprocess.CalledProcessError as error:
                wrong = f"{error}\n{error.stderr}"
            print(f"{name}: {wrong or 'ok'}", flush=True)
            failed += wrong is not None
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
