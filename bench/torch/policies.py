"""Sync policies by hand, as docs/language.md defines them under "Sync policies".

What a log's rows say of the order in which workers arrived is followed; which samples each took, and which parameters
it read, is worked out here, and must be what the rows say.
"""
import torch


def copy(values):
    return {k: v.detach().clone() for k, v in values.items()}


class Turns:
    """P workers over the parameters of one optimizer."""

    def __init__(self, kind, k, workers, damp=False):
        self.kind, self.k, self.workers, self.damp = kind, k, workers, damp
        self.read, self.ticket, self.copies = [0] * workers, [None] * workers, [None] * workers
        self.next, self.again = 0, []

    def take(self, worker, version, parameters):
        """It begins on the next ticket, at the newest parameters."""
        self.ticket[worker] = self.again.pop(0) if self.again else self.next
        self.next += self.ticket[worker] == self.next
        self.read[worker], self.copies[worker] = version, copy(parameters)

    def begin(self, version, parameters):
        """All who have no work in hand; in the synchronous forms nobody keeps any over an update."""
        for worker in range(self.workers):
            if self.ticket[worker] is None or "async" not in self.kind:
                self.take(worker, version, parameters)

    def meet(self):
        """All drop what they have in hand, and its tickets are taken first, in order."""
        if "async" in self.kind:
            self.again = sorted(self.again + [t for t in self.ticket if t is not None])
            self.ticket = [None] * self.workers

    def step(self, version, parameters, row, gradient_of):
        """(loss, gradients) of an update; gradient_of(ticket, parameters) -> (loss, gradients)."""
        self.begin(version, parameters)
        losses, total = [], {}
        for place, worker in enumerate(row["workers"]):
            ticket, read = self.ticket[worker], self.read[worker]
            assert [ticket, read] == [row["tickets"][place], row["reads"][place]], (row, ticket, read)
            loss, gradients = gradient_of(ticket, self.copies[worker])
            counts = 1 / self.k / (max(1, version - read) if self.damp else 1)
            total = {name: total.get(name, 0) + counts * g for name, g in gradients.items()}
            losses.append(loss)
            self.ticket[worker] = None
            if "batch" in self.kind and place + 1 < self.k:
                self.take(worker, version, parameters)
        assert len(losses) == self.k
        return sum(losses) / self.k, total


def mean(values):
    return {name: sum(v[name] for v in values) / len(values) for name in values[0]}


class Anchor:
    """Where local workers meet: anchor - lr V, or anchor - lr (D + momentum V) with nesterov."""

    def __init__(self, parameters, lr=1.0, momentum=0.0, nesterov=False):
        self.values, self.lr, self.momentum, self.nesterov = copy(parameters), lr, momentum, nesterov
        self.velocity = {k: torch.zeros_like(v) for k, v in self.values.items()}

    def meet(self, workers):
        """workers: the parameters of each, which all become the new anchor."""
        average = mean([copy(w) for w in workers])
        for k, anchor in self.values.items():
            d = anchor - average[k]
            self.velocity[k] = self.momentum * self.velocity[k] + d
            anchor -= self.lr * (d + self.momentum * self.velocity[k] if self.nesterov else self.velocity[k])
            for parameters in workers:
                parameters[k].data.copy_(anchor)
