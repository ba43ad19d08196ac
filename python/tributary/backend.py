"""The back end ``tributary`` of ``torch.distributed``: all-reduce in the network, the rest by Gloo."""

from __future__ import annotations

import datetime
import logging
import pickle
import re
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from . import _rendezvous
from ._lane import Lane, Operation, takes
from ._tributary import Communicator
from .errors import Error

NAME = "tributary"

_log = logging.getLogger("tributary")

#: What torch calls the operations that there are here.
_OPS = {dist.ReduceOp.SUM: "sum", dist.ReduceOp.AVG: "avg", dist.ReduceOp.MIN: "min", dist.ReduceOp.MAX: "max"}

#: What Gloo does, by the names that torch looks for; some of them are older names of others.
_DELEGATED = (
    "_allgather_base",
    "_reduce_scatter_base",
    "all_gather_single",
    "all_gather_single_coalesced",
    "all_to_all_single",
    "allgather",
    "allgather_coalesced",
    "allreduce_coalesced",
    "allreduce_sparse",
    "alltoall",
    "alltoall_base",
    "barrier",
    "broadcast",
    "gather",
    "monitored_barrier",
    "recv",
    "recv_anysource",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_single_coalesced",
    "scatter",
    "send",
)

#: Sent by one rank to another: no other rank could report them.
_BETWEEN_TWO = ("send", "recv", "recv_anysource")


def register() -> None:
    """Registers the back end, once."""
    if NAME not in dist.Backend.backend_list:
        # Torch takes a back end of CUDA at its word, and asks the device for its streams.
        devices = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
        dist.Backend.register_backend(NAME, _create, extended_api=True, devices=devices)


def _is_old() -> bool:
    """Whether torch has no back ends written in Python yet: it is older than 2.14."""
    version = re.match(r"(\d+)\.(\d+)", torch.__version__)
    return version is not None and (int(version[1]), int(version[2])) < (2, 14)


class Work(dist.Work):
    """An all-reduce under way."""

    def __init__(self, operation: Operation) -> None:
        super().__init__()
        self._operation = operation

    def wait(self, timeout: datetime.timedelta = datetime.timedelta(0)) -> bool:
        # Torch says "no timeout" with 0 or less.
        seconds = timeout.total_seconds()
        self._operation.wait(seconds if seconds > 0 else None)
        return True

    def is_completed(self) -> bool:
        return self._operation.done()

    def get_future(self) -> torch.futures.Future[Any]:
        return self._operation.future().then(lambda future: [future.value()])

    def result(self) -> list[torch.Tensor]:
        return [self._operation.wait()]


class Backend(c10d.Backend):
    """One process group's."""

    def __init__(self, opts: Any) -> None:
        super().__init__(opts.group_rank, opts.group_size)
        self._rank = opts.group_rank
        self._group = opts.group_id
        # A store may outlive a group and serve the next one of the same name, as after `destroy_process_group`: what the former
        # one said there must not be taken for this one's.
        turn = opts.store.add(f"{NAME}/{opts.group_rank}", 1)
        store = c10d.PrefixStore(f"{NAME}/{turn}", opts.store)
        self._gloo: Any = c10d.ProcessGroupGloo(
            c10d.PrefixStore("gloo", store), opts.group_rank, opts.group_size, timeout=opts.timeout
        )
        exchange = _Store(c10d.PrefixStore("meeting", store), opts.group_rank, opts.group_size)
        meeting = _rendezvous.meet(exchange, f"group-{opts.group_id}")
        communicator = Communicator(
            meeting.world,
            opts.group_rank,
            opts.group_size,
            aggregators=meeting.aggregators,
            fail_over=not meeting.is_embedded,
            timeout=opts.timeout.total_seconds(),
        )
        self._lane = Lane(communicator, f"group-{opts.group_id}")
        self._sequence = 0
        self._all_reduces = 0
        self._fallbacks: dict[str, int] = {}

    def getBackendName(self) -> str:
        return NAME

    def allreduce(self, tensors: list[torch.Tensor], opts: Any = None) -> Any:
        opts = dist.AllreduceOptions() if opts is None else opts
        self._sequence += 1
        op = _OPS.get(_kind(opts.reduceOp), "")
        if len(tensors) != 1 or not takes(tensors[0], op):
            self._report("allreduce", tensors, str(_kind(opts.reduceOp)).rsplit(".", 1)[-1])
            return self._gloo.allreduce(tensors, opts)
        self._all_reduces += 1
        return Work(self._lane.all_reduce(tensors[0], op))

    def stats(self) -> dict[str, Any]:
        stats: dict[str, Any] = dict(self._lane.communicator.stats())
        stats["all_reduces"] = self._all_reduces
        stats["fallbacks"] = dict(self._fallbacks)
        return stats

    def shutdown(self) -> None:
        """Leaves the world together with the other ranks, as `destroy_process_group` asks for."""
        _backends.pop(self._group, None)
        try:
            self._lane.close()
        except Error as error:
            _log.warning("leaving: %s", error)
        if hasattr(self._gloo, "shutdown"):
            self._gloo.shutdown()

    def abort(self) -> None:
        _backends.pop(self._group, None)
        self._lane.abort()
        if hasattr(self._gloo, "abort"):
            self._gloo.abort()

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        """That of Gloo. A world's timeout is fixed when it is made."""
        self._gloo.set_timeout(timeout)

    setTimeout = set_timeout

    def _set_default_timeout(self, timeout: datetime.timedelta) -> None:
        self._gloo._set_default_timeout(timeout)

    # With TORCH_DISTRIBUTED_DEBUG=DETAIL torch compares these numbers among ranks, so that it notices when they are out of step.

    def setSequenceNumberForGroup(self) -> None:
        self._sequence = 0

    def getSequenceNumberForGroup(self) -> int:
        return self._sequence

    _set_sequence_number_for_group = setSequenceNumberForGroup
    _get_sequence_number_for_group = getSequenceNumberForGroup

    def _report(self, name: str, tensors: Any, op: str = "") -> None:
        """Counts what goes to Gloo; the first of each kind is logged."""
        tensor = _first_tensor(tensors)
        about = [name.strip("_"), op]
        if tensor is not None:
            about += [str(tensor.dtype).replace("torch.", ""), tensor.device.type]
            if not tensor.is_contiguous():
                about.append("not contiguous")
        what = " ".join(part for part in about if part)
        if what not in self._fallbacks:
            # Once is enough where all ranks do the same.
            level = logging.WARNING if self._rank == 0 or name in _BETWEEN_TWO else logging.INFO
            _log.log(level, "not in the network, by Gloo: %s", what)
        self._fallbacks[what] = self._fallbacks.get(what, 0) + 1


def _delegate(name: str) -> Callable[..., Any]:
    def delegated(self: Backend, *arguments: Any) -> Any:
        if name not in _BETWEEN_TWO:
            self._sequence += 1
        self._report(name, arguments)
        return getattr(self._gloo, name)(*arguments)

    delegated.__name__ = name
    return delegated


for _name in _DELEGATED:
    if hasattr(c10d.ProcessGroupGloo, _name):
        setattr(Backend, _name, _delegate(_name))

#: By group, until they are shut down: torch's wrapper for debugging keeps only the half of a back end that is C++.
_backends: dict[str, Backend] = {}


def of(group: dist.ProcessGroup) -> Backend:
    """The back end of a process group of this process."""
    backend = _backends.get(group.group_name)
    if backend is None:
        raise ValueError(f"the process group '{group.group_name}' has another back end than '{NAME}'")
    return backend


def _create(opts: Any, _: Any) -> Backend:
    if _is_old():
        raise RuntimeError(
            f"the back end '{NAME}' needs torch 2.14, this is {torch.__version__}: use Gloo and tributary.torch.accelerate(ddp)"
        )
    backend = Backend(opts)
    _backends[opts.group_id] = backend
    return backend


def _kind(op: Any) -> Any:
    """The operation without its parameters, if it has any."""
    return getattr(op, "op", op)


def _first_tensor(value: Any) -> torch.Tensor | None:
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, (list, tuple)):
        return next((tensor for tensor in map(_first_tensor, value) if tensor is not None), None)
    return None


class _Store:
    """An exchange by the group's store. Its timeout bounds every wait."""

    def __init__(self, store: Any, rank: int, size: int) -> None:
        self._store = store
        self.rank = rank
        self.size = size

    def gather(self, value: Any) -> list[Any]:
        self._store.set(f"gather/{self.rank}", pickle.dumps(value))
        return [pickle.loads(self._store.get(f"gather/{rank}")) for rank in range(self.size)]

    def share(self, value: Any) -> Any:
        if self.rank == 0:
            self._store.set("share", pickle.dumps(value))
        return pickle.loads(self._store.get("share"))
