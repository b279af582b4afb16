# Runs echelon in a folder with file names and arguments that are none a shell could write down, and prints what it says.
import os
import shutil
import subprocess
import sys

spec, folder = sys.argv[1], os.fsencode(sys.argv[2])
shutil.rmtree(folder, ignore_errors=True)
os.makedirs(folder)
os.chdir(folder)
shutil.copy(spec, "fine.ech")
for name in (b"\x1b[31m.ech", b"a\nechelon: fine.ech", "\u202e.ech".encode(), b"\xff.ech"):
    with open(name, "w") as file:
        file.write("model M { x = }\n")
with open("script", "w") as file:
    file.write("touch STARTED\n")
os.chmod("script", 0o755)


def run(title, *arguments, **environment):
    ran = subprocess.run(["echelon", *arguments], env={**os.environ, **environment}, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT)
    sys.stdout.buffer.write(f"== {title}: {ran.returncode}\n".encode() + ran.stdout)
    sys.stdout.flush()


run("colour", "check", b"\x1b[31m.ech")
run("line end", "check", b"a\nechelon: fine.ech")
run("bidi", "check", "\u202e.ech")
run("bytes", "check", b"\xff.ech")
run("nowhere", "check", b"\x1b]0;x\x07")
run("argument", "run", "fine.ech", "--transport", "\x1b]0;x\x07")
run("two values", "plan", "fine.ech", "--set", "batch=8; seed 3")
run("two clauses", "plan", "fine.ech", "--set", "batch=8 seed 3")
run("two arguments", "plan", "fine.ech", "--set", "layout.dp=2, tp = 2")
run("a string", "plan", "fine.ech", "--set", "seed=\"}\n#")
run("no program", "build", "fine.ech", CXX=os.path.abspath("script"))
run("option", "build", "fine.ech", "--emit", "cpp", "-o", "./-x")
for name in ("-x", "@x"):
    run("file " + name, "build", "fine.ech", "-o", name, CXX="g++", CXXFLAGS="-O0")
print("there:", *(name for name in ("STARTED", "-x", "@x") if os.path.exists(name)))
