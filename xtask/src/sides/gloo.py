"""All-reduce of float32 with Gloo, one rank: what the comparisons of `cargo xtask` set beside Tributary.

Arguments: bytes, iterations, seconds that this rank begins later. Environment as torch.distributed wants it. Rank 0 prints
the seconds of each iteration as a list by rank, one iteration a line.
"""

import json
import sys
import time

import torch
import torch.distributed as dist

size, iterations, delay = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
tensor = torch.full((size // 4,), float(rank + 1))
dist.all_reduce(tensor)  # opens the connections
expected = world * (world + 1) / 2
assert bool((tensor == expected).all()), "Gloo's sum is wrong"
for _ in range(iterations):
    tensor.fill_(float(rank + 1))
    dist.barrier()
    start = time.perf_counter()
    time.sleep(delay)
    dist.all_reduce(tensor)
    seconds = torch.tensor([time.perf_counter() - start], dtype=torch.float64)
    everybodys = [torch.zeros(1, dtype=torch.float64) for _ in range(world)]
    dist.all_gather(everybodys, seconds)
    if rank == 0:
        print(json.dumps([round(value.item(), 6) for value in everybodys]), flush=True)
dist.destroy_process_group()
