"""Trains a small network on handwritten digits, data-parallel. One line makes its gradients be summed in the network:

    torchrun --nproc-per-node 2 train_digits.py

`--plain` leaves that line out (Gloo does the sums then); `--backend tributary` uses the back end instead.
"""

import argparse
import hashlib
import logging
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import tributary.torch

DIGITS = Path(__file__).parent / "../../tributary/data/digits.csv"


def digits(path: Path) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """1797 pictures of 8 x 8 pixels and what they show: of each ten, eight to train and two to test."""
    table = torch.from_numpy(np.loadtxt(path, delimiter=",", dtype=np.float32))
    pictures, labels = table[:, :64] / 16, table[:, 64].long()
    is_test = torch.arange(len(table)) % 10 >= 8
    return pictures[~is_test], labels[~is_test], pictures[is_test], labels[is_test]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default=DIGITS)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--backend", default="gloo")
    parser.add_argument("--plain", action="store_true")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.set_num_threads(1)

    dist.init_process_group(arguments.backend)
    rank, size = dist.get_rank(), dist.get_world_size()
    pictures, labels, test_pictures, test_labels = digits(arguments.data)

    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)
    )
    model = DistributedDataParallel(model)
    if not arguments.plain:
        state = tributary.torch.accelerate(model)  # the one line

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loss_of = torch.nn.CrossEntropyLoss()
    batch = 64
    for epoch in range(arguments.epochs):
        order = torch.randperm(len(pictures), generator=torch.Generator().manual_seed(epoch))
        for first in range(0, len(order) - batch + 1, batch):
            mine = order[first : first + batch][rank::size]
            optimizer.zero_grad()
            loss_of(model(pictures[mine]), labels[mine]).backward()
            optimizer.step()

    with torch.no_grad():
        right = (model.module(test_pictures).argmax(1) == test_labels).float().mean().item()
    bits = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    if not arguments.plain and rank == 0:
        print("stats", state.stats())
    print(f"rank {rank}: accuracy {right:.4f}, parameters {hashlib.sha256(bits).hexdigest()[:16]}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
