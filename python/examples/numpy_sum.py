"""Sums a numpy array over ranks, in place:

    torchrun --nproc-per-node 4 numpy_sum.py        or any launcher that sets RANK and WORLD_SIZE

Without TRIBUTARY_AGGREGATORS rank 0 starts the aggregator, on this machine.
"""

import numpy as np

import tributary

with tributary.Communicator("numpy-sum") as communicator:
    array = np.full(1_000_000, communicator.rank + 1, dtype=np.float32)
    communicator.all_reduce(array)
    assert (array == communicator.size * (communicator.size + 1) / 2).all()

    # In the background: the array is the operation's until wait returns.
    largest = np.array([communicator.rank, -communicator.rank], dtype=np.int32)
    pending = communicator.all_reduce_async(largest, "max")
    pending.wait()
    print(f"rank {communicator.rank} of {communicator.size}: sums {array[0]}, largest {largest}")
