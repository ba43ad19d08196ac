"""The back end, destroyed and made again; what was made with the first one is still there."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import tributary.torch  # noqa: F401

kept = []
for _ in range(3):
    dist.init_process_group("tributary")
    ddp = DistributedDataParallel(torch.nn.Linear(10, 10))
    ddp(torch.ones(4, 10)).sum().backward()
    kept.append(ddp)
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [dist.get_world_size()] * 3, tensor
    dist.destroy_process_group()
print("made again: ok", flush=True)
