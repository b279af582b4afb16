"""Layouts compose: each model of this folder under each base layout, each pair of them and some triples, against one
rank, in fp64: loss, norm, every gradient, parameter and moment of three steps, with clip, over micro batches, to 1e-10.

    pairs.py ECHELON [--sample] [--jobs N] [--of WORD]… [--list]

--sample: a part in which every base, every two families, and every model with every family occur; --of: the cases that
have each of these words, a model or a base. One line a case; it fails where results differ, where what REFUSED does not
list is refused, and where what it lists is not.
"""
import argparse
import concurrent.futures
import itertools
import pathlib
import re
import sys
import tempfile

import base

# What does not combine: a case that has a word of each tuple is refused with the code; and why.
REFUSED = [
    ([("interleaved",), ("every",)], "E0410", "a chunk of one layer has no groups of two"),
    ([("uneven",), ("every",)], "E0410", "a stage of one layer, or of three, has no groups of two"),
    ([("chain",), ("every",)], "E0410", "what a stage has of the decoder, one layer or three, has no groups of two"),
]
TRIPLES = ("zero1", "zero3", "tp_seq", "1f1b", "zero_bubble", "cp", "zigzag", "ep", "full", "keep")


def refusal(case):
    """The row of REFUSED that a case meets, or none."""
    words = {case.model, *case.bases}
    return next((row for row in REFUSED if all(words & set(some) for some in row[0])), None)


def all_cases():
    for model in base.MODELS:
        for count in 1, 2:
            yield from base.combinations(model, count)
    for model in "gpt", "moe":
        yield from base.combinations(model, 3, TRIPLES)


def sample(cases):
    """Few cases that have all there is to have, each that which has most of what is missing; one of each refusal."""
    def features(case):
        row = refusal(case)
        families = [base.FAMILY_OF[each] for each in case.bases]
        return {row[2]} if row else {*case.bases, *itertools.product([case.model], families),
                                     *itertools.combinations(families, 2)}
    has = {case: features(case) for case in cases}
    missing = set().union(*has.values())
    while missing:
        best = max(cases, key=lambda case: len(has[case] & missing))
        missing -= has[best]
        yield best


def attempt(echelon, work, number, case):
    """One line about a case, and whether all is as it should be."""
    folder = work / f"{number:04d}"
    folder.mkdir()
    base.make_data(folder)
    (folder / f"{case.model}.ech").write_text(case.spec())
    transport = ("threads", "shm")[number % 2]
    said, status = base.echelon(echelon, work, "verify", f"{case.model}.ech", "--transport", transport, folder=folder)
    row = refusal(case)
    code = re.search(r"error\[(E\d+)\]", said)
    worst = re.search(r"ok .*: (.*)", said)
    if row:
        fine = bool(code) and code.group(1) == row[1]
        what = f"refused {row[1]}: {row[2]}" if fine else f"NOT REFUSED, {row[1]} is expected: {row[2]}\n{said}"
    else:
        fine = status == 0 and bool(worst) and not code
        what = f"{worst.group(1)} ({transport})" if fine else f"WRONG: {case.layout}\n{said}"
    return fine, f"{'ok   ' if fine else 'WRONG'} {case}, {case.ranks} ranks: {what}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("echelon")
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--of", action="append", default=[])
    parser.add_argument("--list", action="store_true")
    asked = parser.parse_args()
    cases = [case for case in all_cases() if set(asked.of) <= {case.model, *case.bases}]
    if asked.sample:
        cases = list(sample(cases))
    if asked.list:
        print(*(f"{case}: {case.layout}" for case in cases), sep="\n")
        return 0
    echelon = str(pathlib.Path(asked.echelon).resolve())
    wrong = 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        work = pathlib.Path(folder)
        if cases:  # the first one compiles the runtime's headers, which the others share
            first, rest = attempt(echelon, work, 0, cases[0]), enumerate(cases[1:], 1)
            for fine, line in itertools.chain([first], pool.map(lambda each: attempt(echelon, work, *each), rest)):
                wrong += not fine
                print(line, flush=True)
    print(f"{len(cases)} cases, {wrong} wrong")
    return 1 if wrong or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
