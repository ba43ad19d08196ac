"""Time of a training step whose gradients are 25 MB: by Gloo, and summed in the network; one rank.

Environment as torch.distributed wants it, and TRIBUTARY_AGGREGATORS. Arguments: turns, steps a turn, pictures a batch. In the
network gradients have 32 bits on the wire, and once more 16. The ways take turns, so that a machine whose speed drifts harms all
alike. Rank 0 prints a line of JSON for each way: the median of a step's seconds, the slowest rank counted; for ours also how much
of the communication went on beside the backward pass.
"""

import json
import statistics
import sys
import time
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import tributary.torch

WIDTH, LAYERS = 1024, 6

#: Several buckets, so that there is something to overlap: in one of the default's 25 MB all gradients fit.
BUCKET_MB = 4


def model() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)))


def step(ddp: DistributedDataParallel, batch: torch.Tensor, is_alone: bool = False) -> float:
    """Seconds of the slowest rank."""
    dist.barrier()
    start = time.perf_counter()
    with ddp.no_sync() if is_alone else nullcontext():
        ddp(batch).square().mean().backward()
    seconds = torch.tensor([time.perf_counter() - start], dtype=torch.float64)
    dist.all_reduce(seconds, dist.ReduceOp.MAX)
    ddp.zero_grad()
    return seconds.item()


def main() -> None:
    turns, steps, pictures = map(int, sys.argv[1:])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    models = {way: DistributedDataParallel(model(), bucket_cap_mb=BUCKET_MB) for way in ("compute", "gloo", "wire 32", "wire 16")}
    states = {f"wire {wire}": tributary.torch.accelerate(models[f"wire {wire}"], wire=wire) for wire in (32, 16)}
    batch = torch.randn(pictures, WIDTH, generator=torch.Generator().manual_seed(dist.get_rank()))
    times: dict[str, list[float]] = {way: [] for way in models}
    for turn in range(-1, turns):
        for way, ddp in models.items():
            measured = [step(ddp, batch, is_alone=way == "compute") for _ in range(steps)]
            if turn >= 0:  # the first opens connections and makes the buckets
                times[way] += measured
    for way, seconds in times.items():
        result = {"way": way, "seconds": statistics.median(seconds), "fastest": min(seconds), "slowest": max(seconds)}
        if way in states:
            stats = states[way].stats()
            result["overlap"] = stats["overlap"]
            result["communication"] = stats["busy_seconds"] / stats["steps"]
        if dist.get_rank() == 0:
            print(json.dumps(result), flush=True)
    for state in states.values():
        state.close()
    dist.destroy_process_group()


main()
