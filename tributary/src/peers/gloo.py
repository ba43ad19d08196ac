"""One rank of an all-reduce with Gloo, for `tributary bench allreduce --compare gloo`.

Arguments: the type of the elements, then bytes:iterations for each size. Environment as torch.distributed wants it. Rank 0
prints one JSON object a size.
"""

import json
import sys
import time

import torch
import torch.distributed as dist


def sent():
    """Bytes that have left by the loopback interface of this machine."""
    with open("/proc/net/dev") as file:
        return next((int(line.split(":")[1].split()[8]) for line in file if line.strip().startswith("lo:")), 0)


dtype = {"f32": torch.float32, "i32": torch.int32}[sys.argv[1]]
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
for size in sys.argv[2:]:
    length, iterations = (int(part) for part in size.split(":"))
    tensor = torch.full((length // 4,), rank + 1, dtype=dtype)
    dist.all_reduce(tensor)  # opens the connections
    assert bool((tensor == world * (world + 1) // 2).all()), "Gloo's sum is wrong"
    times, cpu = [], 0.0
    before = sent()
    for _ in range(iterations):
        tensor.fill_(rank + 1)
        dist.barrier()
        start, start_cpu = time.perf_counter(), time.process_time()
        dist.all_reduce(tensor)
        times.append(time.perf_counter() - start)
        cpu += time.process_time() - start_cpu
    everybodys = torch.tensor(times, dtype=torch.float64)
    dist.barrier()
    crossed = sent() - before
    dist.all_reduce(everybodys, op=dist.ReduceOp.MAX)
    total = torch.tensor([cpu], dtype=torch.float64)
    dist.all_reduce(total)
    if rank == 0:
        figures = {"bytes": length, "seconds": everybodys.tolist(), "cpu": total.item(), "sent": crossed}
        print(json.dumps(figures), flush=True)
dist.destroy_process_group()
