"""Runs a spec on emulated GPUs with a tool that writes ranges down; checks that they nest, and says which there were."""
import os
import re
import subprocess
import sys

spec, tool, folder = sys.argv[1:]


def listed(steps):
    return ", ".join(str(step) for step in sorted(steps))


def check(name, *options, **environment):
    path = os.path.join(folder, name.replace(" ", "-"))
    command = ["echelon", "run", spec, "--target", "cuda-host", *options]
    environment = {**os.environ, "NVTX_INJECTION64_PATH": tool, "NVTX_TOOL_FILE": path, **environment}
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)
    assert ran.returncode == 0, ran.stdout
    events = [line.split(" ", 2) for line in open(path).read().splitlines()]
    assert events[0] == ["domain", "0", "echelon"], events[0]
    stacks, loose = {}, {}
    within, operations = {}, {}
    for kind, number, text in events[1:]:
        stack = stacks.setdefault(number, []) if kind in ("push", "pop") else None
        if kind == "push":
            outer = stack[0] if stack else ""
            within.setdefault(text.split(" (")[0], set()).add(outer)
            if text.startswith("all_reduce"):
                assert re.search(r"\(.*ranges\.ech:[0-9]+\)$", text), text
                assert len(stack) >= 2, stack  # in a function, which is in a step
            stack.append(text)
        elif kind == "pop":
            assert stack, "a pop without a push"
            stack.pop()
        elif kind == "start":
            steps = {stack[0] if stack else "" for stack in stacks.values()}
            if len(steps) == 1: # else it is not known whose it is: of two ranks the later one finds both in one step
                operations.setdefault(" ".join(text.split()[:2]), set()).update(steps)
            assert re.search(r"\((.*ranges\.ech:[0-9]+.*)?\)$", text), text
            loose[number] = text
        else:
            del loose[number]
    assert not loose and not any(stacks.values()), (loose, stacks)
    assert len(stacks) == 2, stacks  # ranks
    steps = lambda names: [int(name.split()[1]) for name in names if name.startswith("step ")]
    assert sorted(steps(within)) == [1, 2, 3, 4], within
    print(f"{name}: balanced; forward in steps {listed(steps(within['forward']))}; "
          f"all_reduce in steps {listed(steps(within['all_reduce']))}; "
          f"{'evaluate_batch' if within['evaluate_batch'] == {'evaluation'} else within['evaluate_batch']}")
    if operations:
        of = [name for name in ("loop h", "gemm product") if name in operations]
        print(f"operations in steps {listed(set.intersection(*(set(steps(operations[name])) for name in of)))}: {', '.join(of)}")


check("graphs")
check("no graphs", ECHELON_GRAPHS="0")
check("probes", "--profile")
