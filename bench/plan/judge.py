#!/usr/bin/env python3
"""The cost model held against other people's measurements: a plan of each row of the public tables.

    bench/plan/judge.py [TABLE...] [--rows FOLDER] [--machines FILE] [--every N] [--worst N]

Rows become specs (spec.py) on the machines of bench/plan/machines.ech, whose constants fit.py finds. Prints the errors of
step times in per cent, whether runs fit, and how good the choice is among the rows of one model on as many devices.
Goals: means of Korthikanti 3 %, llm-foundry 4 %, Aleph Alpha 5 %, nanotron without its slow state 7 % (median 4.5 %),
vTrain's median 4 %; fits or not 95 %; tau 0.85 in each group, the choice within 5 % in 92 % of groups.
"""
import argparse
import math
import sys

import ask
import judged
import rows
import spec

MACHINES = rows.ROOT / "bench/plan/machines.ech"


def said(all_rows, machines):
    """What the plan says of each row, also of those that have no room. Rows that cannot run have no time."""
    texts = {row.run: spec.text(row.run, machines) for row in all_rows if row.run.runnable}
    figures = dict(zip(texts, ask.figures(list(texts.values()), [machines])))
    made = []
    for row in all_rows:
        known = figures.get(row.run)
        if row.run in figures and known is None:
            sys.exit(f"{row.name} does not compile")
        made.append(judged.Said(known and known[0], known is not None and known[2]))
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=rows.TABLES)
    parser.add_argument("--rows", default=rows.VALIDATION)
    parser.add_argument("--machines", default=MACHINES)
    parser.add_argument("--every", default=1, type=int)
    parser.add_argument("--worst", default=0, type=int)
    options = parser.parse_args()
    print(judged.HEAD)
    reported = []
    for table in options.tables:
        all_rows = rows.load(table, options.rows)[::options.every]
        pairs = list(zip(all_rows, said(all_rows, options.machines)))
        usual = [(row, s) for row, s in pairs if not row.slow]
        print(judged.line(table, judged.errors(pairs)), flush=True)
        if len(usual) < len(pairs):
            print(judged.line(f"{table} without its slow state", judged.errors(usual)), flush=True)
        if any(not row.ran for row in all_rows):
            reported.append((table, pairs, usual))
        timed = [(row, s) for row, s in usual if row.seconds and s.seconds]
        for row, s in sorted(timed, key=lambda p: -abs(math.log(p[1].seconds / p[0].seconds)))[:options.worst]:
            r = row.run
            print(f"  {row.name:28} measured {row.seconds:9.3f} s, predicted {s.seconds:9.3f} s: {r.layers} layers of {r.hidden},"
                  f" seq {r.seq}, pp {r.pp} dp {r.dp} tp {r.tp} micro {r.micro} x {r.micros}, {r.kernel}, {r.recompute}")
    for table, pairs, usual in reported:
        print("\n" + judged.fits_line(table, pairs))
        for g in judged.groups(usual):
            print(f"  {', '.join(map(str, g.name)):72} {g.rows:4} rows, tau {g.tau:5.2f}, choice {100 * g.lost:5.1f} % slower than"
                  f" the best, best {'among' if g.first_three else 'not among'} the first three")


if __name__ == "__main__":
    main()
