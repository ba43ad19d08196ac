"""Gradients of PyTorch's DistributedDataParallel, summed in the network.

One line after the model is wrapped::

    ddp = DistributedDataParallel(model)
    tributary.torch.accelerate(ddp)

Importing this also registers the back end ``tributary`` of ``torch.distributed``, for torch 2.14 and newer.
"""

# No `from __future__ import annotations`: DDP compares the hook's annotations with types, not with their names.

import logging
import threading
import time
import weakref
from typing import Any, Optional, Union

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket
from torch.nn.parallel import DistributedDataParallel

from . import _rendezvous, backend
from ._lane import Lane, Operation, takes
from ._tributary import Communicator, Feedback
from .errors import Error
from .policy import Quorum

backend.register()

__all__ = ["State", "accelerate", "backend_stats", "hook"]

_log = logging.getLogger("tributary")


class State:
    """What the hook keeps of one model: its world, feedback of its buckets, and statistics.

    Making one is a collective of ``process_group``: every rank must. Arguments must be the same on every rank but for
    ``aggregators``, "host:port" with commas, by default those of TRIBUTARY_AGGREGATORS; with neither, rank 0 starts an
    aggregator in its process.

    ``policy`` says when a sum is complete: "all", or a ``tributary.Quorum``; ``wire`` is the bits of an element on the wire: 32,
    16 or 8. What a sum does not hold then of gradients of float32 is kept for the next step (error feedback).

    An operation fails when nothing of it came for ``timeout`` seconds; a rank whose process died is noticed within 10 seconds.
    """

    def __init__(
        self,
        process_group: Optional[dist.ProcessGroup] = None,
        *,
        policy: Union[str, Quorum] = "all",
        wire: int = 32,
        aggregators: Optional[str] = None,
        timeout: float = 1800.0,
        name: str = "ddp",
        **options: Any,
    ) -> None:
        if wire not in (32, 16, 8):
            # Before the other ranks count on this one, and not at the first backward pass.
            raise ValueError(f"wire = {wire} is unknown: give 32, 16 or 8 bits")
        self.process_group = _world_if_none(process_group)
        exchange = _Collectives(self.process_group)
        meeting = _rendezvous.meet(exchange, name, aggregators)
        communicator = Communicator(
            meeting.world,
            exchange.rank,
            exchange.size,
            aggregators=meeting.aggregators,
            policy=policy,  # type: ignore[arg-type]
            timeout=timeout,
            fail_over=not meeting.is_embedded,
            **options,
        )
        self.lane = Lane(communicator, name)
        self._rank = exchange.rank
        # A model that is thrown away leaves its world in order, too; at the process's end all that is open does.
        self._leave = weakref.finalize(self, _leave, self.lane)
        self._leave.atexit = False
        self._wire = wire
        self._keeps_feedback = isinstance(policy, Quorum) or wire < 32
        self._feedback: dict[tuple[int, ...], Feedback] = {}
        self._fallbacks: dict[str, int] = {}
        self._steps = 0
        self._exposed_seconds = 0.0
        self._chunks = 0
        self._late = 0
        #: What went wrong first, with its attributes. `backward` raises it as a RuntimeError with the same text.
        self.error: Optional[Error] = None

    def stats(self) -> dict[str, Any]:
        """What the hook has done, and how much of it went on beside the backward pass.

        ``overlap`` is the part of the communication's time that was hidden behind it: 1 minus what was waited for after the last
        bucket was ready.
        """
        stats: dict[str, Any] = dict(self.lane.communicator.stats())
        busy = stats["busy_seconds"]
        stats["steps"] = self._steps
        stats["exposed_seconds"] = self._exposed_seconds
        stats["overlap"] = max(0.0, 1.0 - self._exposed_seconds / busy) if busy > 0 else 0.0
        stats["chunks"], stats["late_chunks"] = self._chunks, self._late
        stats["fallbacks"] = dict(self._fallbacks)
        return stats

    def close(self) -> None:
        """Leaves the world together with the other ranks. The end of the process does it, too."""
        self._leave.detach()
        self.lane.close()

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("a tributary.torch.State belongs to its process: make another one after loading a model")

    def _run(self, bucket: GradBucket) -> "torch.futures.Future[torch.Tensor]":
        tensor = bucket.buffer()
        if not takes(tensor, "avg"):
            return self._fall_back(tensor)
        operation = self.lane.all_reduce(tensor, "avg", self._wire, self._feedback_of(bucket, tensor))
        ready = time.perf_counter()
        is_last = bucket.is_last()

        def note(future: "torch.futures.Future[torch.Tensor]") -> torch.Tensor:
            return self._note(operation, future, ready if is_last else None)

        return operation.future().then(note)

    def _note(self, operation: Operation, future: "torch.futures.Future[torch.Tensor]", ready: Optional[float]) -> torch.Tensor:
        try:
            operation.wait()
        except Error as error:
            if self.error is None:
                self.error = error
            self._feedback.clear()
        if operation.contribution is not None:
            chunks, late = operation.contribution
            self._chunks += chunks
            self._late += late
        if ready is not None:
            self._steps += 1
            self._exposed_seconds += time.perf_counter() - ready
        return future.value()

    def _feedback_of(self, bucket: GradBucket, tensor: torch.Tensor) -> Optional[Feedback]:
        """A bucket's own. DDP makes its buckets anew after the first step: what was left over of that is forgotten."""
        if not self._keeps_feedback or tensor.dtype != torch.float32:
            return None
        key = (bucket.index(), *(parameter.data_ptr() for parameter in bucket.parameters()))
        if key not in self._feedback:
            for old in [old for old in self._feedback if old[0] == key[0]]:
                del self._feedback[old]
            self._feedback[key] = Feedback(tensor.numel())
        return self._feedback[key]

    def _fall_back(self, tensor: torch.Tensor) -> "torch.futures.Future[torch.Tensor]":
        what = f"{tensor.dtype} on {tensor.device.type}".replace("torch.", "")
        if tensor.layout != torch.strided:
            what += f", {tensor.layout}".replace("torch.", "")
        if what not in self._fallbacks:
            # Once is enough: all ranks do the same.
            level = logging.WARNING if self._rank == 0 else logging.INFO
            _log.log(level, "not in the network, by the process group's back end: gradients of %s", what)
        self._fallbacks[what] = self._fallbacks.get(what, 0) + 1
        work = dist.all_reduce(tensor, group=self.process_group, async_op=True)
        assert work is not None
        size = self.process_group.size()
        return work.get_future().then(lambda future: future.value()[0].div_(size))


def _leave(lane: Lane) -> None:
    """In the background: the last barrier waits for the other ranks, which throw the model away when they do."""

    def leave() -> None:
        try:
            lane.close()
        except Error as error:
            _log.warning("leaving: %s", error)

    threading.Thread(target=leave, name="tributary-leave").start()


def hook(state: State, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """DDP's communication hook: ``ddp.register_comm_hook(state, tributary.torch.hook)``. Averages a bucket in the background."""
    return state._run(bucket)


def accelerate(ddp: DistributedDataParallel, **options: Any) -> State:
    """Has a model's gradients summed in the network. Every rank must call it. Returns the `State`, which takes the options."""
    if not isinstance(ddp, DistributedDataParallel):
        raise TypeError(f"accelerate takes a model that DistributedDataParallel wraps, not a {type(ddp).__name__}: wrap it first")
    state = State(ddp.process_group, **options)
    ddp.register_comm_hook(state, hook)
    return state


def backend_stats(group: Optional[dist.ProcessGroup] = None) -> dict[str, Any]:
    """What the back end ``tributary`` has done in a process group, what it passed on to Gloo included."""
    return backend.of(_world_if_none(group)).stats()


def _world_if_none(group: Optional[dist.ProcessGroup]) -> dist.ProcessGroup:
    group = group if group is not None else dist.group.WORLD
    if group is None:
        raise RuntimeError("torch.distributed.init_process_group comes first")
    return group


class _Collectives:
    """An exchange by the process group's own collectives: of any back end."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        self._group = group
        self.rank = group.rank()
        self.size = group.size()

    def gather(self, value: Any) -> list[Any]:
        values = [None] * self.size
        dist.all_gather_object(values, value, group=self._group)
        return list(values)

    def share(self, value: Any) -> Any:
        values = [value]
        dist.broadcast_object_list(values, src=dist.get_global_rank(self._group, 0), group=self._group)
        return values[0]
