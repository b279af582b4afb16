"""data FILE N: N samples of four numbers and a label. compare LOG LOG: the values of both logs' evaluations."""
import json
import random
import sys


def data(file, count):
    random.seed(1)
    with open(file, "w") as out:
        print("a,b,c,d,label", file=out)
        for _ in range(int(count)):
            print(",".join(["%.4f" % random.gauss(0, 1) for _ in range(4)] + [str(random.randrange(3))]), file=out)


def compare(*logs):
    first, second = ([row for row in map(json.loads, open(log)) if "eval_loss" in row][-1] for log in logs)
    names = [name for name in ("deep", "high", "hardness", "often", "eval_loss", "total_loss") if name in first]
    apart = max(abs(first[name] - second[name]) / abs(first[name]) for name in names)
    print(" ".join(names) + ": " + ("equal" if apart < 1e-12 else f"{apart:.1e} apart, {first} and {second}"))


{"data": data, "compare": compare}[sys.argv[1]](*sys.argv[2:])
