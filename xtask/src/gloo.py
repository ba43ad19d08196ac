"""All-reduce of float32 with Gloo, one rank: what `cargo xtask compare` sets beside Tributary.

Arguments: bytes, iterations. Environment as torch.distributed wants it. Rank 0 prints the seconds of each iteration,
the slowest rank's, one a line.
"""

import sys
import time

import torch
import torch.distributed as dist

size, iterations = int(sys.argv[1]), int(sys.argv[2])
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
    dist.all_reduce(tensor)
    seconds = torch.tensor([time.perf_counter() - start], dtype=torch.float64)
    dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
    if rank == 0:
        print(f"{seconds.item():.6f}", flush=True)
dist.destroy_process_group()
