"""What `compress gradients` packs, by hand, as docs/language.md defines it under "Compression".

A packing takes u of one worker, one tensor at one index of its repeats, and gives what is unpacked of it. PowerSGD works
on that of all workers at once; `PowerSgd` is the definition, `hook_losses` PyTorch's own hook over gloo.
"""
import math
import tempfile

import torch

import models


def pieces(name, value):
    """What is packed by itself: the tensor, or that of each index of its repeats."""
    return value.unbind(0) if models.repeated(name) else [value]


def fp16(u):
    return u.clamp(-65504, 65504).half().to(u.dtype)  # a double by way of a float, in both


def int8(u):
    step = u.abs().max() / 127
    return (u / step).round() * step if step > 0 else u


def onebit(u):
    up = u >= 0
    means = [part.sum() / max(len(part), 1) for part in (u[up], u[~up])]
    return torch.where(up, *means)


def largest(size, percent):
    """The places of the ceil(percent of d) largest, the lowest index first at ties."""
    return size.flatten().argsort(descending=True, stable=True)[:-(-percent * size.numel() // 100)]


def at_places(u, places, factor=1.0):
    kept = torch.zeros_like(u).flatten()
    kept[places] = u.flatten()[places] * factor
    return kept.view_as(u)


def topk(percent):
    return lambda u: at_places(u, largest(u.abs(), percent))


def matrix(u):
    """Rows and columns: the leading axes and the others, cut where rows + columns is least; None for one axis."""
    cuts = [(math.prod(u.shape[:c]), math.prod(u.shape[c:])) for c in range(1, u.dim())]
    return min(cuts, key=sum) if cuts else None


def is_packed(u, rank):
    return matrix(u) is not None and rank * sum(matrix(u)) < u.numel()


class PowerSgd:
    def __init__(self, rank):
        self.rank, self.q = rank, {}

    @staticmethod
    def orthonormal(m):
        longest, m = m.norm(dim=0).max(), m.clone()
        for j in range(m.shape[1]):
            for before in range(j):
                m[:, j] -= (m[:, j] @ m[:, before]) * m[:, before]
            left = m[:, j].norm()
            m[:, j] = 0 if left <= 1e-5 * longest else m[:, j] / left
        return m

    def __call__(self, name, i, us, start):
        """What comes of all workers' u, the same for each; start: the first Q."""
        if not is_packed(us[0], self.rank):
            return None
        flat = [u.reshape(matrix(u)) for u in us]
        before = self.q.get((name, i), start)
        p = self.orthonormal(sum(m @ before for m in flat) / len(flat))
        q = sum(m.t() @ p for m in flat) / len(flat)
        largest = q.abs().max(dim=0).values
        self.q[name, i] = torch.where(largest == 0, before, q / largest)
        return (p @ q.t()).view_as(us[0])


class Workers:
    """n workers' gradients into the mean of what is unpacked of them; what packing loses is kept with `feedback`."""

    def __init__(self, pack, feedback, start):
        self.pack, self.feedback, self.start, self.owed = pack, feedback, start, {}

    def mean(self, gradients, draws):
        """gradients, of each worker: by name. Each is a mean over the worker's samples."""
        return {name: self.of_tensor(name, [g[name] for g in gradients], draws.get("compress." + name))
                for name in gradients[0]}

    def of_tensor(self, name, gradients, draws):
        parts = zip(*(pieces(name, g) for g in gradients), strict=True)
        draws = pieces(name, draws) if draws is not None else None
        means = [self.of_piece(name, i, us, draws and draws[i]) for i, us in enumerate(parts)]
        return torch.stack(means) if models.repeated(name) else means[0]

    def of_piece(self, name, i, us, draws):
        if us[0].numel() == 1:
            return sum(us) / len(us)
        if self.feedback:
            us = [u + self.owed.get((name, i, worker), 0) for worker, u in enumerate(us)]
        unpacked = self.unpacked(name, i, us, draws)
        if unpacked is None:
            return sum(us) / len(us)
        for worker, (u, came) in enumerate(zip(us, unpacked, strict=True)):
            self.owed[name, i, worker] = u - came
        return sum(unpacked) / len(us)

    def unpacked(self, name, i, us, draws):
        """What comes of each worker's u; None for a tensor that travels as it is."""
        if isinstance(self.pack, PowerSgd):
            q = self.start.get("optimizer.powersgd." + name)
            came = self.pack(name, i, us, None if q is None else self.factor(name, i, q))
            return came if came is None else [came] * len(us)
        if isinstance(self.pack, RandomK):
            return [self.pack(u, draws, self.feedback) for u in us]
        return [self.pack(u) for u in us]

    @staticmethod
    def factor(name, i, q):
        return pieces(name, q)[i].reshape(-1, q.shape[-1])


class RandomK:
    """The places with the largest draws of the step, the same of all workers."""

    def __init__(self, percent):
        self.percent = percent

    def __call__(self, u, draws, feedback):
        places = largest(draws, self.percent)
        return at_places(u, places, 1.0 if feedback else u.numel() / len(places))


class Bucket:
    """What PyTorch's hook asks of a bucket of gradients: here all of them, each as the matrix that Echelon makes of it.
    DDP's own would be views by the first axis, several buckets, and two steps without compression first."""

    def __init__(self, gradients, rank):
        tensors = [p for name, g in gradients.items() for p in pieces(name, g)]
        self.flat = torch.cat([t.flatten() for t in tensors])
        parts = self.flat.split([t.numel() for t in tensors])
        self.views = [p.view(matrix(t) if is_packed(t, rank) else (-1,)) for p, t in zip(parts, tensors, strict=True)]

    def buffer(self):
        return self.flat

    def gradients(self):
        return self.views

    def index(self):
        return 0

    def is_last(self):
        return True

    def by_name(self, like):
        flat = self.flat.split([g.numel() for g in like.values()])
        return {name: part.view_as(g) for (name, g), part in zip(like.items(), flat, strict=True)}


class Hook:
    """powerSGD_hook of torch.distributed on this process's gradients, from Echelon's Q, with epsilon 0, its default."""

    def __init__(self, rank, start):
        from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as module
        self.module, self.rank, self.start = module, rank, start
        self.state = module.PowerSGDState(None, rank, start_powerSGD_iter=2, min_compression_rate=1)
        self.state.iter = self.state.start_powerSGD_iter

    def mean(self, gradients):
        bucket = Bucket(gradients, self.rank)
        if not self.state.q_memory_dict:
            self.begin(gradients)
        self.module.powerSGD_hook(self.state, bucket).wait()
        return bucket.by_name(gradients)

    def begin(self, gradients):
        """The first Q, in the order in which the hook keeps them: by shape, then by place."""
        by_shape = {}
        for name, g in gradients.items():
            for i, piece in enumerate(pieces(name, g)):
                if is_packed(piece, self.rank):
                    q = Workers.factor(name, i, self.start["optimizer.powersgd." + name])
                    by_shape.setdefault(matrix(piece), []).append(q.flatten())
        self.state.q_memory_dict[0] = torch.cat([q for group in by_shape.values() for q in group])
        rows = sum(shape[0] * len(group) for shape, group in by_shape.items())
        self.state.p_memory_dict[0] = torch.empty(rows * self.rank, dtype=self.state.q_memory_dict[0].dtype)


def processes(count, work, *arguments):
    """work(worker, *arguments) in as many processes, joined by gloo; what the first returns."""
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(joined, (count, folder, work, arguments), nprocs=count)
        return torch.load(folder + "/result")


def joined(worker, count, folder, work, arguments):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", f"file://{folder}/meet", rank=worker, world_size=count)
    result = work(worker, *arguments)
    if worker == 0:
        torch.save(result, folder + "/result")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
