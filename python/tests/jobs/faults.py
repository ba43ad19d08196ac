"""A rank that works until it is stopped from outside: by numpy, hook or back end (`numpy`, `hook`, `backend`)."""

import os
import sys
import time

import numpy as np

import tributary

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def by_numpy(pause: float) -> None:
    communicator = tributary.Communicator("faults", timeout=60.0)
    array = np.zeros(100_000, dtype=np.float32)
    say("working")
    while True:
        communicator.all_reduce(array)
        time.sleep(pause)


def by_hook(pause: float) -> None:
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    import tributary.torch

    dist.init_process_group("gloo")
    ddp = DistributedDataParallel(torch.nn.Linear(1000, 100))
    state = tributary.torch.accelerate(ddp)
    # By then DDP has made its buckets anew, which is Gloo's.
    for _ in range(3):
        ddp(torch.ones(4, 1000)).sum().backward()
    say("working")
    try:
        while True:
            ddp(torch.ones(4, 1000)).sum().backward()
            time.sleep(pause)
    except RuntimeError:
        say(f"state.error is a {type(state.error).__name__}")
        raise


def by_backend(pause: float) -> None:
    import torch
    import torch.distributed as dist

    import tributary.torch  # noqa: F401

    dist.init_process_group("tributary")
    tensor = torch.zeros(100_000)
    say("working")
    while True:
        dist.all_reduce(tensor)
        time.sleep(pause)


def say(what: str) -> None:
    sys.stdout.write(what + "\n")
    sys.stdout.flush()


def main() -> None:
    # The last rank may be slow, so that the others wait for it most of the time.
    pause = float(sys.argv[2]) if RANK == SIZE - 1 else 0.0
    try:
        {"numpy": by_numpy, "hook": by_hook, "backend": by_backend}[sys.argv[1]](pause)
    except BaseException as error:
        say(f"rank {RANK} raised {type(error).__name__}: {error}")
        raise


main()
