"""What a rank holds under layouts of the GPT of this folder, 1.85 million parameters in 4 layers.

    memory.py ECHELON

What `plan` says, what the program's text says and what the program itself says at its end are one; ZeRO-1, -2, -3 on 4
ranks hold a quarter of what each stores, and no more whole gradients or parameters at once than two layers have; a
stage keeps what it needs again of at most min(micro batches, stages) micro batches, `gpipe` of all, and by the drawing
of `plan` stage r under `1f1b` of at most min(micro batches, stages - r).
"""
import json
import pathlib
import re
import sys
import tempfile

from base import echelon, spec_of

RANKS = LAYERS = STAGES = 4
KINDS = "", "optimizer", "optimizer, gradients", "optimizer, gradients, params"
KNOWN = 0.01  # how well a quarter is met: each tensor begins at a multiple of 64 bytes


def stored(kinds):
    return f"mesh(dp = 4) {{ split batch over dp{f'; store {kinds} over dp' if kinds else ''} }}"


def staged(schedule):
    return f"mesh(pp = {STAGES}) {{ split layer over pp with {schedule} }}"


class Memory:
    def __init__(self, program, work):
        self.program, self.work, self.wrong = program, work, 0

    def expect(self, fine, what):
        self.wrong += not fine
        print("ok   " if fine else "WRONG", what, flush=True)

    def echelon(self, *arguments):
        said, status = echelon(self.program, self.work, *arguments)
        if status:
            sys.exit(said)
        return said

    def plan(self, layout, batch):
        text = spec_of("gpt", batch, layout, ["precision fp32"]).replace("GPT()", "GPT(width = 256)")
        (self.work / "gpt.ech").write_text(text)
        return json.loads(self.echelon("plan", "gpt.ech", "--json"))

    def is_one(self, layout, batch):
        """Plan, text and program."""
        plan = self.plan(layout, batch)
        arenas, kinds = plan["arena_bytes"], plan["memory_bytes"]
        text = re.search(r"Bytes of one rank: (\d+) state, (\d+) input, (\d+) work",
                         self.echelon("build", "gpt.ech", "--emit", "cpp"))
        self.expect([int(n) for n in text.groups()] == [arenas["state"], arenas["input"], arenas["work"]] and
                    sum(arenas.values()) == kinds["total"] == sum(kinds.values()) - kinds["total"],
                    f"{layout}: plan and text, {kinds['total']} bytes")
        line = re.search(r"memory a rank: arenas ([\d.]+) MB \(state ([\d.]+), inputs ([\d.]+), work ([\d.]+)",
                         self.echelon("run", "gpt.ech", "--steps", "1"))
        planned = [kinds["total"], arenas["state"], arenas["input"], arenas["work"]]
        self.expect(all(abs(float(said) - bytes * 1e-6) <= 0.05001 for said, bytes in zip(line.groups(), planned)),
                    f"{layout}: the program, {line.group()}")

    def stores(self):
        """Each kind of state in quarters."""
        held = [self.plan(stored(kinds), "8 in micro batches of 1") for kinds in KINDS]
        whole = held[0]["memory_bytes"]
        for level, plan in enumerate(held):
            bytes = plan["memory_bytes"]
            for kind, least in ("optimizer", 1), ("gradients", 2), ("params", 3):
                share = whole[kind] / RANKS if level >= least else whole[kind]
                self.expect(abs(bytes[kind] / share - 1) < KNOWN,
                            f"ZeRO-{level}: {kind} {bytes[kind]} of {whole[kind]}")
            state = (whole["params"] / (RANKS if level >= 3 else 1) + whole["optimizer"] / (RANKS if level >= 1 else 1))
            self.expect(abs(plan["arena_bytes"]["state"] / state - 1) < KNOWN,
                        f"ZeRO-{level}: state {plan['arena_bytes']['state']}, expected {state:.0f}")
            whole_at_once = bytes["activations"] - whole["activations"]
            self.expect(whole_at_once <= 3 * whole["params"] / LAYERS,  # parameters of two iterations, gradients of one
                        f"ZeRO-{level}: {whole_at_once} bytes whole at once, of {whole['params'] // LAYERS} a layer")

    def keeps(self, schedule, most):
        """Slots of a pipeline: how its work grows by the micro batch."""
        counts = 1, 2, 3, 4, 6, 8, 12
        work = [self.plan(staged(schedule), f"{m} in micro batches of 1")["arena_bytes"]["work"] for m in counts]
        slot = work[1] - work[0]
        slots = [1 + (bytes - work[0]) / slot for bytes in work]
        self.expect(slot > 0 and slots == [most(m) for m in counts],
                    f"{schedule}: {', '.join(f'{n:g}' for n in slots)} micro batches of {slot} bytes are kept, of "
                    f"{', '.join(map(str, counts))}")

    def draws(self, micro):
        self.plan(staged("1f1b"), f"{micro} in micro batches of 1")
        stages = re.findall(r"(?m)^  stage (\d+) +(\S+)$", self.echelon("plan", "gpt.ech"))
        self.expect(len(stages) == STAGES, f"1f1b: {len(stages)} stages are drawn")
        for stage, drawn in stages:
            kept = most = 0
            for at, turn in enumerate(drawn):
                kept += turn.isdigit()
                kept -= turn.isalpha() and turn not in drawn[at + 1:]
                most = max(most, kept)
            bound = min(micro, STAGES - int(stage))
            self.expect(most == bound and kept == 0,
                        f"1f1b, stage {stage}, {drawn}: keeps {most} of {micro}, at most {bound}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        memory = Memory(str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(folder))
        memory.stores()
        memory.keeps("1f1b", lambda micro: min(micro, STAGES))
        memory.keeps("zero_bubble", lambda micro: min(micro, STAGES))
        memory.keeps("gpipe", lambda micro: micro)
        memory.draws(2)
        memory.draws(6)
        for kinds in KINDS:
            memory.is_one(stored(kinds), "8 in micro batches of 1")
        for schedule in "1f1b", "gpipe", "zero_bubble":
            memory.is_one(staged(schedule), "6 in micro batches of 1")
        memory.is_one("mesh(dp = 2, pp = 2, tp = 2) { split batch over dp; split layer over pp; "
                      "split head, ff, vocab, seq over tp; store optimizer, gradients, params over dp }",
                      "6 in micro batches of 1")
    return 1 if memory.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
