"""Trains the digits once for each way that is named (`gloo`, `hook`, `backend`); a line of JSON for each, and rank."""

import json
import sys

import torch
import torch.distributed as dist
from common import digest, digits
from torch.nn.parallel import DistributedDataParallel

import tributary.torch

EPOCHS = 12
BATCH = 64


def train(way: str, group: "dist.ProcessGroup | None") -> dict[str, object]:
    pictures, labels, test_pictures, test_labels = digits()
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)
    )
    ddp = DistributedDataParallel(model, process_group=group, bucket_cap_mb=0.1)
    state = tributary.torch.accelerate(ddp) if way == "hook" else None
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
    loss_of = torch.nn.CrossEntropyLoss()
    rank, size = dist.get_rank(), dist.get_world_size()
    for epoch in range(EPOCHS):
        order = torch.randperm(len(pictures), generator=torch.Generator().manual_seed(epoch))
        for first in range(0, len(order) - BATCH + 1, BATCH):
            mine = order[first : first + BATCH][rank::size]
            optimizer.zero_grad()
            loss_of(ddp(pictures[mine]), labels[mine]).backward()
            optimizer.step()
    with torch.no_grad():
        accuracy = (model(test_pictures).argmax(1) == test_labels).float().mean().item()
    result: dict[str, object] = {"way": way, "rank": rank, "accuracy": accuracy, "digest": digest(model)}
    if state is not None:
        result["operations"] = state.stats()["operations"]
        state.close()
    if way == "backend":
        result["operations"] = tributary.torch.backend_stats(group)["all_reduces"]
    return result


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for way in sys.argv[1:]:
        group = dist.new_group(backend="tributary") if way == "backend" else None
        # One write, so that the ranks' lines do not mix.
        sys.stdout.write(json.dumps(train(way, group)) + "\n")
        sys.stdout.flush()
    dist.destroy_process_group()


main()
