"""What predictions are worth: errors of step times, whether runs fit, and how good a choice by them is."""
from collections import defaultdict
from dataclasses import dataclass
from math import exp, log
from statistics import mean, median


@dataclass
class Said:
    """What was predicted of a row. `seconds` may be None where it has no room."""
    seconds: float
    fits: bool


def errors(pairs):
    """log(predicted / measured) of (row, said) pairs that have both."""
    return [log(said.seconds / row.seconds) for row, said in pairs if row.seconds and said.seconds]


HEAD = f"{'':44} {'rows':>5} {'mean':>6} {'median':>6} {'90 %':>6} {'most':>6} {'bias':>6} {'in 10 %':>7}"


def line(name, logs):
    """Relative errors in per cent; the bias is the median of predicted by measured, less 1."""
    e = sorted(abs(exp(x) - 1) for x in logs)
    if not e:
        return f"{name:44} {0:5}"
    figures = mean(e), median(e), e[min(len(e) - 1, int(0.9 * len(e)))], e[-1], exp(median(logs)) - 1
    return (f"{name:44} {len(e):5} " + " ".join(f"{100 * x:6.2f}" for x in figures[:4]) +
            f" {100 * figures[4]:+6.2f} {100 * sum(x < 0.1 for x in e) / len(e):6.1f}%")


def tau(pairs):
    """Kendall's: pairs of rows in the right order less those in the wrong one, by all whose times differ."""
    x = [said.seconds for _, said in pairs]
    y = [row.seconds for row, _ in pairs]
    signs = [(x[i] - x[j]) * (y[i] - y[j]) for i in range(len(x)) for j in range(i)]
    return (sum(s > 0 for s in signs) - sum(s < 0 for s in signs)) / max(1, sum(s != 0 for s in signs))


@dataclass
class Group:
    name: tuple
    rows: int
    tau: float
    lost: float         # the time of the first choice by the best measured one, less 1
    first_three: bool   # the best measured one, or one within 1 % of it, is among the first three


def groups(pairs):
    """Of each group with two measured rows and more: how well those that are said to fit are ranked."""
    of = defaultdict(list)
    for row, said in pairs:
        if row.seconds and said.seconds:
            of[row.group].append((row, said))
    made = []
    for name, members in sorted(of.items(), key=lambda item: str(item[0])):
        if len(members) < 2:
            continue
        by_choice = sorted([m for m in members if m[1].fits] or members, key=lambda m: m[1].seconds)
        best = min(row.seconds for row, _ in members)
        made.append(Group(name, len(members), tau(members), by_choice[0][0].seconds / best - 1,
                          any(row.seconds <= 1.01 * best for row, _ in by_choice[:3])))
    return made


def fits_line(name, pairs):
    right = sum(said.fits == row.ran for row, said in pairs)
    wrong = sum(said.fits and not row.ran for row, said in pairs), sum(row.ran and not said.fits for row, said in pairs)
    return (f"{name}: fits or not {100 * right / len(pairs):.1f} % of {len(pairs)} right; {wrong[0]} said to fit did not run,"
            f" {wrong[1]} ran that were said not to")
