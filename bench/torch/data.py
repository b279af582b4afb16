"""The data of the specs, read without Echelon: (training samples, held-out samples, change of a training batch).

Samples are a dictionary of inputs by name, the sample first. Order, augmentation and synthetic digits are drawn by
torch's generator, so a run differs from Echelon's as two seeds differ.
"""
import gzip
import pathlib
import re

import numpy
import torch


def opened(folder, words):
    """The bytes of the files whose names hold one of the words, unpacked."""
    files = sorted(f for f in pathlib.Path(folder).iterdir() if any(w in f.name for w in words))
    return [gzip.open(f).read() if f.suffix == ".gz" else f.read_bytes() for f in files]


def mnist(folder, image):
    def part(word):
        files = opened(folder, [word])
        pixels = next(f for f in files if f[3] == 3)
        labels = next(f for f in files if f[3] == 1)
        x = torch.frombuffer(bytearray(pixels[16:]), dtype=torch.uint8).view(-1, 28, 28)
        return {image: x.float() / 255, "label": torch.frombuffer(bytearray(labels[8:]), dtype=torch.uint8).long()}
    return part("train"), part("t10k"), None


def cifar10(folder, augment):
    def part(words):
        rows = torch.frombuffer(bytearray(b"".join(opened(folder, words))), dtype=torch.uint8).view(-1, 3073)
        return {"image": rows[:, 1:].reshape(-1, 3, 32, 32).float() / 255, "label": rows[:, 0].long()}

    def change(batch):
        x = batch["image"]
        count = len(x)
        flipped = torch.rand(count) < 0.5
        x = torch.where(flipped.view(-1, 1, 1, 1), x.flip(-1), x)
        x = torch.nn.functional.pad(x, (4, 4, 4, 4))
        top, left = torch.randint(0, 9, (count, 1)), torch.randint(0, 9, (count, 1))
        rows, columns = top + torch.arange(32), left + torch.arange(32)
        sample = torch.arange(count).view(-1, 1, 1)
        x = x.permute(0, 2, 3, 1)[sample, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
        return {**batch, "image": x}
    return part(("data_batch", "train")), part(("test",)), change if augment else None


def windows(file, length, share):
    text = torch.frombuffer(bytearray(pathlib.Path(file).read_bytes()), dtype=torch.uint8).long()
    count = (len(text) - 1) // length
    samples = {"tokens": text[:count * length].view(count, length),
               "labels": text[1:count * length + 1].view(count, length)}
    held = int(share * count)
    return {k: v[:-held] for k, v in samples.items()}, {k: v[-held:] for k, v in samples.items()}, None


def sorted_digits(count, held):
    def part(n):
        source = torch.randint(0, 10, (n, 12))
        answer = source.sort(1).values
        return {"source": source, "target": torch.cat([torch.full((n, 1), 10), answer[:, :-1]], 1), "answer": answer}
    return part(count), part(held), None


def of(spec):
    text = spec.data
    path = re.search(r'"(.*?)"', text)
    path = path and spec.path.parent / path[1]
    if text.startswith("mnist"):
        return mnist(path, re.search(r"->\s*(\w+)", text)[1])
    if text.startswith("cifar10"):
        return cifar10(path, "flip, crop(pad = 4)" in text)
    if text.startswith("next_token"):
        return windows(path, 64, float(re.search(r"holdout = (\d+)%", text)[1]) / 100)
    if text.startswith("synthetic(sorted_digits)"):
        return sorted_digits(spec.steps * spec.batch, spec.evaluated[1] * spec.batch)
    raise SystemExit(f"{spec.name}: no reader for {text}")


def batches(samples, size):
    """Without end: each epoch in a new order, batches going on from one epoch into the next."""
    count = len(next(iter(samples.values())))
    order = torch.randperm(count)
    while True:
        while len(order) < size:
            order = torch.cat([order, torch.randperm(count)])
        taken, order = order[:size], order[size:]
        yield {k: v[taken] for k, v in samples.items()}
