"""PyTorch's side of train.py: peer.py SIZES FORM STEPS LOG trains a GPT or a Llama in autocast(bfloat16) and writes a line
{"step_time_s": …} for each step. FORM: eager or compiled, and which attention: flash or cudnn."""
import json
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel


class GptBlock(nn.Module):
    def __init__(self, m):
        super().__init__()
        width, self.heads = m["width"], m["heads"]
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, _):
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv(self.norms[0](x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norms[1](x)), approximate="tanh"))


class LlamaBlock(nn.Module):
    def __init__(self, m):
        super().__init__()
        width, self.heads = m["width"], m["heads"]
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, 2 * m["hidden"], bias=False)
        self.down = nn.Linear(m["hidden"], width, bias=False)

    def forward(self, x, turn):
        def rotate(y):
            a, b = y.chunk(2, -1)
            cos, sin = turn
            return torch.cat((a * cos - b * sin, a * sin + b * cos), -1).type_as(y)
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv(self.norms[0](x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        gate, up = self.gate(self.norms[1](x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Model(nn.Module):
    def __init__(self, m):
        super().__init__()
        width, is_gpt = m["width"], m["kind"] == "gpt"
        self.wte = nn.Embedding(m["words"], width)
        self.wpe = nn.Parameter(0.01 * torch.randn(m["length"], width)) if is_gpt else None
        self.blocks = nn.ModuleList((GptBlock if is_gpt else LlamaBlock)(m) for _ in range(m["layers"]))
        self.norm = nn.LayerNorm(width) if is_gpt else nn.RMSNorm(width)
        self.head = nn.Linear(width, m["words"], bias=False)
        nn.init.normal_(self.wte.weight, std=0.02)
        if is_gpt:
            self.head.weight = self.wte.weight
        half = width // m["heads"] // 2
        angle = torch.outer(torch.arange(m["length"]), 10000.0 ** (-torch.arange(half) / half))
        self.register_buffer("turn", torch.stack((angle.cos(), angle.sin())))

    def forward(self, tokens, labels):
        x = self.wte(tokens)
        if self.wpe is not None:
            x = x + self.wpe
        for block in self.blocks:
            x = block(x, self.turn)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), labels.flatten())


def main():
    m, form, steps, log = json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(1337)
    torch.set_float32_matmul_precision("high")
    model = Model(m).to(device)
    step = torch.compile(model) if form.startswith("compiled") else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    shape = (m["batch"], m["length"])
    batches = [torch.randint(m["words"], (2, *shape), device=device) for _ in range(4)]
    backend = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}[form.split("_")[1]]
    with open(log, "w") as out, sdpa_kernel(backend if device == "cuda" else SDPBackend.MATH):
        for i in range(steps):
            began = time.perf_counter()
            tokens, labels = batches[i % len(batches)]
            with torch.autocast(device, torch.bfloat16):
                loss = step(tokens, labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            value = loss.item() # as a log has it; waits for the step
            print(json.dumps({"step": i, "loss": value, "step_time_s": time.perf_counter() - began}), file=out)


main()
