"""What can go wrong, as exceptions. Each says in one line what failed, with which values, and often what to do."""

from __future__ import annotations


class Error(RuntimeError):
    """The base of all."""

    #: The world's name.
    world: str = ""
    #: The rank that raises it.
    rank: int = -1


class JoinError(Error):
    """The rank could not join its world: no aggregator there, ranks that did not come, sizes that disagree."""


class OperationError(Error):
    """An operation ended without a result, or the job was ended. The communicator is of no more use."""

    #: Where the aggregator receives, ``host:port``.
    aggregator: str | None = None
    #: The ranks that it is about: missing, lost, or in disagreement with this one. Empty where that is not known.
    ranks: tuple[int, ...] = ()
    #: The operation's number, from 0.
    operation: int | None = None
    #: The oldest chunk that was waited for.
    chunk: int | None = None


class RanksLostError(Error):
    """Ranks were lost, and the job goes on without them (``on_lost="shrink"``).

    The tensor of this operation is undefined: restore it. Every rank that is left gets this error for the same operation.
    """

    #: The operation's number, from 0.
    operation: int = -1
    #: The ranks that were lost.
    lost: tuple[int, ...] = ()
    #: How many are left.
    left: int = 0
