#!/usr/bin/env python3
"""Which rows of the public tables the compiler plans, and what it refuses of the others.

    bench/plan/shapes.py [TABLE...] [--rows FOLDER] [--every N] [--show ROW]

Each row becomes a spec (spec.py), each distinct spec is planned once. Prints a table of refusals, an example of each,
and how long a plan takes. --every N takes each Nth distinct spec alone; --show prints the spec of one row (TABLE:ID).
"""
import argparse
import collections
import re
import sys
import time

import ask
import rows
import spec


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=rows.TABLES)
    parser.add_argument("--rows", default=rows.VALIDATION)
    parser.add_argument("--every", default=1, type=int)
    parser.add_argument("--show")
    options = parser.parse_args()
    if options.show:
        table, _, _ = options.show.partition(":")
        return print(next(spec.text(r.run) for r in rows.load(table, options.rows) if r.name == options.show), end="")
    print(f"{'table':24} {'rows':>5} {'run':>5} {'specs':>6} {'planned':>8} {'no room':>8} {'refused':>8} {'s a plan':>9}")
    refused, failed = collections.defaultdict(list), 0
    for table in options.tables:
        all_ = rows.load(table, options.rows)
        of = {}
        for row in all_:
            if row.run.runnable:
                of.setdefault(spec.text(row.run), row)
        texts = list(of)[::options.every]
        began = time.perf_counter()
        plans = ask.answers(texts)
        took = (time.perf_counter() - began) / max(1, len(texts))
        good = sum(a.plan is not None for a in plans)
        full = sum("E0314" in a.refusal for a in plans)
        print(f"{table:24} {len(all_):5} {sum(r.run.runnable for r in all_):5} {len(texts):6} {good:8} {full:8}"
              f" {len(texts) - good - full:8} {took:9.3f}", flush=True)
        for text, answer in zip(texts, plans):
            if answer.plan is None and "E0314" not in answer.refusal:
                refused[re.sub(r"\d+(?![\d\]]*\])", "N", answer.refusal)].append((of[text].name, answer.refusal))
                failed += 1
    for names in refused.values():
        print(f"{len(names)} times, as {names[0][0]}: {names[0][1]}")
    sys.exit(failed > 0)


main()
