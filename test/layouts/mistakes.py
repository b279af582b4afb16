"""Mistakes that training systems have let through: here each is refused, or computes what one rank does.

    mistakes.py ECHELON [NAME…]

A case computes right where `echelon verify` says so: in fp64, loss, gradient norm, every gradient, parameter and moment
of three steps, with clip, against one rank and its whole batch, to 1e-10. README.md says which other tests hold each.
"""
import pathlib
import re
import sys
import tempfile

from base import echelon, make_data, spec_of

# The mistake; model, batch, layout; empty, or the message that it is refused with.
CASES = {
    # Where pp does not divide the layers, the last ones are not computed.
    "layers-lost": [
        ("gpt", "6 in micro batches of 1", "mesh(pp = 3) { split layer over pp }",
         "E0312]: cannot split layer = 4 over pp = 3"),
        ("hard", "6 in micro batches of 1", "mesh(pp = 2) { split layer over pp with zero_bubble }",
         "E0312]: cannot split layer = 3 over pp = 2"),
    ],
    # Tokens beyond the last whole part have no logit, or padding has one.
    "vocabulary-not-divided": [
        ("gpt", "4", "mesh(tp = 3) { split vocab over tp }", "E0312]: cannot split vocab = 16 over tp = 3"),
        ("gpt", "4 in micro batches of 2", "mesh(tp = 3) { split vocab over tp with padding }", ""),
    ],
    # Of a norm's gamma and beta each rank of tp has seen its positions alone.
    "norms-of-parts": [
        ("gpt", "4 in micro batches of 2", "mesh(tp = 4) { split ff, vocab, seq over tp }", ""),
        ("hard", "8 in micro batches of 2",
         "mesh(dp = 2, tp = 2) { split batch over dp; split head, ff, vocab, seq over tp }", ""),
    ],
    # The mean of the means of micro batches, or of ranks, in which unequally many tokens count.
    "means-of-means": [
        ("hard", "12 in micro batches of 1", "mesh(dp = 3) { split batch over dp }", ""),
        ("hard", "5 in micro batches of 1", "mesh(pp = 3) { split layer over pp with 1f1b }", ""),
        ("hard", "4 in micro batches of 1",
         "mesh(cp = 2, dp = 2) { split batch over dp; split seq, past over cp }", ""),
    ],
    # A norm of parts alone, or one in which whole gradients count once a rank.
    "norm-of-parts": [
        ("gpt", "4 in micro batches of 2", "mesh(tp = 2) { split head, ff over tp }", ""),
        ("gpt", "4 in micro batches of 2", "mesh(pp = 2) { split layer over pp }", ""),
        ("gpt", "4 in micro batches of 1",
         "mesh(dp = 2) { split batch over dp; store optimizer, gradients over dp }", ""),
        ("gpt", "6 in micro batches of 1",
         "mesh(dp = 2, pp = 2, tp = 2) { split batch over dp; split layer over pp; split head, ff, vocab, seq over tp; "
         "store optimizer, gradients, params over dp }", ""),
    ],
    # Two copies of a table that each get a part of its gradient. All three stages read this one.
    "tied-tables": [
        ("hard", "6 in micro batches of 1", "mesh(pp = 3) { split layer over pp with zero_bubble }", ""),
        ("hard", "6 in micro batches of 1",
         "mesh(pp = 3, dp = 2) { split layer over pp; split batch over dp; store optimizer, gradients over dp }", ""),
        ("hard", "3 in micro batches of 1",
         "mesh(pp = 3, tp = 2) { split layer over pp; split head, ff, vocab, seq over tp }", ""),
    ],
    # Ranks that split positions or samples drop the same ones; ranks that hold the same ones drop others.
    "dropout": [
        ("gpt", "4 in micro batches of 2", "mesh(tp = 2) { split head, ff, vocab over tp }", ""),
        ("gpt", "4 in micro batches of 2", "mesh(cp = 4) { split seq, past over cp }", ""),
        ("gpt", "4 in micro batches of 2",
         "mesh(cp = 2, tp = 2) { split seq, past over cp with zigzag; split head, seq over tp }", ""),
    ],
    # A softmax over nothing: all that a rank's queries see lies on others, or there is nothing at all.
    "blind-ranks": [
        ("hard", "4 in micro batches of 2", "mesh(cp = 4) { split seq, past over cp }", ""),
        ("hard", "4 in micro batches of 2", "mesh(cp = 3) { split seq, past over cp with zigzag }", ""),
        ("hard", "4 in micro batches of 2", "mesh(cp = 2) { split past over cp }", ""),
    ],
    # Gradients of micro batches that are added and not averaged, or averaged over the wrong number.
    "accumulation": [
        ("mlp", "24 in micro batches of 1", "mesh(dp = 3) { split batch over dp }", ""),
        ("gpt", "6 in micro batches of 2", "mesh(dp = 1) { split batch over dp }", ""),
        ("moe", "4 in micro batches of 1", "mesh(ep = 2) { split expert, batch over ep }", ""),
    ],
}


def attempt(program, work, number, case):
    """Empty, or what is wrong."""
    model, batch, layout, refusal = case
    folder = work / str(number)
    folder.mkdir()
    make_data(folder)
    (folder / f"{model}.ech").write_text(spec_of(model, batch, layout))
    said, status = echelon(program, work, "verify", f"{model}.ech", folder=folder)
    if refusal:
        return "" if refusal in said and "error[E" in said and status == 1 else said or "is not refused"
    return "" if status == 0 and re.search(r"(?m)^ok ", said) else said


def main():
    program, names = str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2:] or list(CASES)
    cases = [(name, case) for name in names for case in CASES[name]]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, case) in enumerate(cases):
            said = attempt(program, pathlib.Path(folder), number, case)
            wrong += bool(said)
            print(f"{'WRONG' if said else 'ok   '} {name}: {case[0]}, batch {case[1]}, {case[2]}"
                  f"{': refused' if case[3] else ''}{chr(10) + said if said else ''}", flush=True)
    print(f"{len(cases)} cases, {wrong} wrong")
    return 1 if wrong or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
