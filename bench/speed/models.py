"""The examples as one writes them in PyTorch: modules, fused functions, fused optimizers. What Echelon is timed against.

make(name) gives (model, optimizer, clip, batches): model(*batch) is the loss, batches(size) an endless stream of
batches from data that lies in memory, made and augmented on the main thread as a training loop would.
"""
import gzip
import os
import pathlib

import torch
import torch.nn.functional as F
from torch import nn

from sizes import SIZES

SHARED = pathlib.Path(os.environ.get("ECHELON_SHARED", pathlib.Path(__file__).resolve().parents[2].parent / "shared"))


class MLP(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.hidden, self.head = nn.Linear(784, width), nn.Linear(width, 10)

    def forward(self, image, label):
        return F.cross_entropy(self.head(F.relu(self.hidden(image.flatten(1)))), label)


class Attention(nn.Module):
    """Self-attention projects q, k and v in one product."""

    def __init__(self, embed, heads, causal=False, cross=False):
        super().__init__()
        self.heads, self.causal, self.cross = heads, causal, cross
        self.inner = nn.ModuleList([nn.Linear(embed, embed), nn.Linear(embed, 2 * embed)] if cross
                                   else [nn.Linear(embed, 3 * embed)])
        self.outer = nn.Linear(embed, embed)

    def split(self, x):
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def forward(self, x, memory=None):
        if self.cross:
            q, (k, v) = self.inner[0](x), self.inner[1](memory).chunk(2, -1)
        else:
            q, k, v = self.inner[0](x).chunk(3, -1)
        y = F.scaled_dot_product_attention(self.split(q), self.split(k), self.split(v), is_causal=self.causal)
        return self.outer(y.transpose(1, 2).flatten(2))


class Feed(nn.Module):
    def __init__(self, embed):
        super().__init__()
        self.up, self.down = nn.Linear(embed, 4 * embed), nn.Linear(4 * embed, embed)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self, embed, heads, causal=False, cross=False):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(embed) for _ in range(3 if cross else 2))
        self.attention, self.feed = Attention(embed, heads, causal), Feed(embed)
        self.cross = Attention(embed, heads, cross=True) if cross else None

    def forward(self, x, memory=None):
        x = x + self.attention(self.norms[0](x))
        if self.cross is not None:
            x = x + self.cross(self.norms[1](x), memory)
        return x + self.feed(self.norms[-1](x))


class GPT(nn.Module):
    def __init__(self, layers=4, heads=4, width=128, vocab=256, seq=64):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Parameter(0.01 * torch.randn(seq, width))
        nn.init.normal_(self.wte.weight, std=0.02)
        self.blocks = nn.ModuleList(Block(width, heads, causal=True) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens, labels):
        x = self.wte(tokens) + self.wpe
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), labels.reshape(-1))


class Seq2Seq(nn.Module):
    def __init__(self, layers=2, heads=4, width=64, vocab=12, length=12):
        super().__init__()
        self.wte = nn.Embedding(vocab, width)
        nn.init.normal_(self.wte.weight, std=0.02)
        self.wsrc, self.wdst = (nn.Parameter(0.02 * torch.randn(length, width)) for _ in range(2))
        self.encoder = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.decoder = nn.ModuleList(Block(width, heads, causal=True, cross=True) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, source, target, answer):
        m, x = self.wte(source) + self.wsrc, self.wte(target) + self.wdst
        for block in self.encoder:
            m = block(m)
        for block in self.decoder:
            x = block(x, m)
        logits = F.linear(self.norm(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), answer.reshape(-1))


def conv_norm(come, go, stride=1):
    return nn.Sequential(nn.Conv2d(come, go, 3, stride, 1, bias=False), nn.BatchNorm2d(go))


class Residual(nn.Module):
    def __init__(self, width, survival):
        super().__init__()
        self.first, self.second, self.survival = conv_norm(width, width), conv_norm(width, width), survival

    def forward(self, x):
        keep = (torch.rand(x.shape[0], 1, 1, 1) < self.survival).to(x.dtype)
        return F.relu(x + keep * self.second(F.relu(self.first(x))))


class ResNet(nn.Module):
    def __init__(self, depth=3, p_last=0.5):
        super().__init__()
        self.layers, come = nn.ModuleList(), 3
        for stage, width in enumerate((16, 32, 64)):
            self.layers.append(nn.Sequential(conv_norm(come, width, 1 if stage == 0 else 2), nn.ReLU()))
            for i in range(depth):
                self.layers.append(Residual(width, 1 - (i + 1 + stage * depth) / (3 * depth) * (1 - p_last)))
            come = width
        self.head = nn.Linear(64, 10)

    def forward(self, image, label):
        x = image
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.head(x.mean((2, 3))), label)


class ConvNet(nn.Module):
    def __init__(self, channels=16):
        super().__init__()
        self.first, self.second = conv_norm(1, channels), conv_norm(channels, 2 * channels)
        self.head = nn.Linear(2 * channels, 10)

    def forward(self, picture, label):
        x = F.max_pool2d(F.relu(self.first(picture.unsqueeze(1))), 2)
        x = F.max_pool2d(F.relu(self.second(x)), 2)
        return F.cross_entropy(self.head(x.mean((2, 3))), label)


def idx(path):
    data = (gzip.open if path.suffix == ".gz" else open)(path, "rb").read()
    dims = data[3]
    shape = [int.from_bytes(data[4 + 4 * d:8 + 4 * d], "big") for d in range(dims)]
    return torch.frombuffer(bytearray(data[4 + 4 * dims:]), dtype=torch.uint8).view(shape)


def mnist(folder):
    def find(what):
        return next(p for p in sorted(pathlib.Path(folder).iterdir()) if "train" in p.name and what in p.name)
    images, labels = idx(find("images")).float() / 255, idx(find("labels")).long()

    def batches(size):
        while True:
            for i in torch.randperm(len(images)).split(size)[:len(images) // size]:
                yield images[i], labels[i]
    return batches


def cifar(folder):
    rows = torch.cat([torch.frombuffer(bytearray((gzip.open if p.suffix == ".gz" else open)(p, "rb").read()),
                                       dtype=torch.uint8).view(-1, 3073)
                      for p in sorted(pathlib.Path(folder).iterdir()) if "train" in p.name or "data_batch" in p.name])
    labels, images = rows[:, 0].long(), F.pad(rows[:, 1:].view(-1, 3, 32, 32).float() / 255, (4, 4, 4, 4))

    def batches(size):
        near = torch.arange(32)
        while True:
            for i in torch.randperm(len(images)).split(size)[:len(images) // size]:
                y, x = (torch.randint(0, 9, (size, 1)) + near for _ in range(2))
                x = torch.where(torch.rand(size, 1) < 0.5, x.flip(1), x)
                yield images[i[:, None, None], :, y[:, :, None], x[:, None, :]].permute(0, 3, 1, 2), labels[i]
    return batches


def text(path, seq):
    data = torch.frombuffer(bytearray(pathlib.Path(path).read_bytes()), dtype=torch.uint8).long()
    windows = data[:(len(data) - 1) // seq * seq + 1].unfold(0, seq + 1, seq)

    def batches(size):
        while True:
            for i in torch.randperm(len(windows)).split(size)[:len(windows) // size]:
                yield windows[i, :-1], windows[i, 1:]
    return batches


def sorted_digits(size):
    while True:
        source = torch.randint(0, 10, (size, 12))
        answer = source.sort(1).values
        yield source, torch.cat([torch.full((size, 1), 10), answer[:, :-1]], 1), answer


FASHION, SAYINGS = "/usr/share/datasets/fashion-mnist", "/usr/share/games/fortunes/cookie"
SGD, ADAM = torch.optim.SGD, torch.optim.Adam
# name: model, batch, optimizer, its arguments, clip, data
EXAMPLES = {
    "mlp_mnist": (MLP, 128, SGD, dict(lr=0.1, momentum=0.9), None, lambda: mnist(SHARED / "data/mnist")),
    "gpt_shakespeare": (GPT, 64, torch.optim.AdamW, dict(lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1), 1.0,
                        lambda: text(SHARED / "data/tinyshakespeare/input.txt", 64)),
    "resnet20_cifar": (ResNet, 128, SGD, dict(lr=0.1, momentum=0.9, weight_decay=1e-4), None,
                       lambda: cifar(SHARED / "data/cifar10-part")),
    "translate_digits": (Seq2Seq, 64, ADAM, dict(lr=1e-3), None, lambda: sorted_digits),
    "mlp_fashion": (MLP, 128, SGD, dict(lr=0.1, momentum=0.9), None, lambda: mnist(FASHION)),
    "conv_fashion": (ConvNet, 128, SGD, dict(lr=0.1, momentum=0.9, weight_decay=1e-4), None, lambda: mnist(FASHION)),
    "gpt_fortunes": (GPT, 32, torch.optim.AdamW, dict(lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1), 1.0,
                     lambda: text(SAYINGS, 64)),
    "sort_digits": (Seq2Seq, 64, ADAM, dict(lr=1e-3), None, lambda: sorted_digits),
}


def gpt(size):
    return (lambda: GPT(size.layers, size.heads, size.width, size.words, size.length), size.batch, torch.optim.AdamW,
            dict(lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1), 1.0, lambda: text(SAYINGS, size.length))


EXAMPLES.update((name, gpt(size)) for name, size in SIZES.items())


def make(name):
    model, batch, optimizer, arguments, clip, data = EXAMPLES[name]
    torch.manual_seed(1)
    model = model()
    return model, optimizer(model.parameters(), fused=True, **arguments), batch, clip, data()
