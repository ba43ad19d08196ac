"""One rank, and a process forked from it that does what is named with what belongs to the rank. A line for each."""

import os
import sys

import numpy as np

import tributary

ONES = np.ones(3, dtype=np.float32)


def main(what: str) -> None:
    with tributary.Aggregator() as aggregator:
        communicator = tributary.Communicator("forked", 0, 1, aggregators=aggregator.address)
        communicator.all_reduce(ONES)
        pending = communicator.all_reduce_async(ONES)
        child = os.fork()
        if child == 0:
            try:
                if what == "all_reduce":
                    communicator.all_reduce(ONES)
                elif what == "wait":
                    pending.wait()
                elif what == "close":
                    communicator.close()
                elif what == "drop":
                    del communicator, pending
                    aggregator.close()
                elif what == "join":
                    with tributary.Communicator("child", 0, 1, aggregators=aggregator.address) as other:
                        other.all_reduce(ONES)
                print("child: ok", flush=True)
            except tributary.Error as error:
                print(f"child: {type(error).__name__}: {error}", flush=True)
            # Not os._exit: what Python does at the end must end, too.
            sys.exit(0)
        _, status = os.waitpid(child, 0)
        pending.wait()
        communicator.all_reduce(ONES)
        communicator.close()
        print(f"parent: ok, child {status}", flush=True)


main(sys.argv[1])
