"""Tributary: gradients summed in the network.

``Communicator`` sums numpy arrays over ranks, in place; ``tributary.torch`` is one line in a PyTorch training script, and a back
end for ``torch.distributed``.
"""

from __future__ import annotations

import atexit
import logging
import sys

from ._tributary import Aggregator, Communicator, Feedback, Pending, __version__, end_all
from .errors import Error, JoinError, OperationError, RanksLostError
from .policy import Quorum

__all__ = [
    "Aggregator",
    "Communicator",
    "Error",
    "Feedback",
    "JoinError",
    "OperationError",
    "Pending",
    "Quorum",
    "RanksLostError",
    "__version__",
]


def _end() -> None:
    """Leaves the worlds that are still open: with the other ranks, or at once after an exception that nobody caught."""
    crashed = getattr(sys, "last_type", None) is not None
    for problem in end_all(not crashed):
        logging.getLogger("tributary").warning("at the end of the process: %s", problem)


atexit.register(_end)
