"""PyTorch's side of the comparison: a process that trains and stops and goes on as it is told.

    worker.py NAME FORM [RANK RANKS FILE]
    FORM: eager or compiled, then _channels_last (conv nets), _2_threads or _autocast (to bfloat16)

Says "ready" after its first steps. For each line SECONDS that it reads, trains so long and prints the steps' times.
With several ranks they train one batch under DistributedDataParallel over Gloo; rank 0 says how many steps there are.
"""
import os
import sys
import time

import torch
from models import make

name, form = sys.argv[1:3]
rank, ranks = (int(sys.argv[3]), int(sys.argv[4])) if len(sys.argv) > 3 else (0, 1)
torch.set_num_threads(2 if "2_threads" in form else 1)
torch.set_num_interop_threads(1)
model, optimizer, batch, clip, data = make(name)
memory = torch.channels_last if "channels_last" in form else torch.contiguous_format
model = model.to(memory_format=memory)
if ranks > 1:
    torch.distributed.init_process_group("gloo", init_method="file://" + sys.argv[5], rank=rank, world_size=ranks)
    model = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    torch.manual_seed(1 + rank)
loss_of = torch.compile(model) if "compiled" in form else model
stream = data(batch // ranks)
parameters = list(model.parameters())


def step():
    began = time.perf_counter()
    inputs = [x.contiguous(memory_format=memory) if x.dim() == 4 else x for x in next(stream)]
    with torch.autocast("cpu", torch.bfloat16, enabled="autocast" in form):
        loss = loss_of(*inputs)
    loss.backward()
    if clip:
        torch.nn.utils.clip_grad_norm_(parameters, clip)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    loss.item()
    return time.perf_counter() - began


warm = [step() for _ in range(3)]
print("ready", flush=True)
for line in sys.stdin:
    seconds = float(line)
    if ranks == 1:
        times, used, began = [], time.process_time(), time.perf_counter()
        while time.perf_counter() - began < seconds:
            times.append(step())
    else: # the same number of steps on each rank
        count = torch.tensor([max(1, int(seconds / min(warm)))])
        torch.distributed.broadcast(count, 0)
        used = time.process_time()
        times = [step() for _ in range(int(count))]
        warm = times
    print((time.process_time() - used) / len(times), *times, flush=True)
os._exit(0)
