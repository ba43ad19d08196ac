"""Torch tensors on a communicator: operations in the background, and futures for those who wait."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

import torch

from ._tributary import Communicator, Feedback, Pending

#: What is summed in the network, where it lies.
DTYPES = (torch.float32, torch.int32, torch.float16, torch.bfloat16)
OPS = ("sum", "avg", "min", "max")


def takes(tensor: torch.Tensor, op: str) -> bool:
    """Whether a lane reduces such a tensor."""
    return (
        op in OPS
        and tensor.dtype in DTYPES
        and not (op == "avg" and not tensor.dtype.is_floating_point)
        and tensor.layout == torch.strided
        and tensor.device.type in ("cpu", "cuda")
        and tensor.is_contiguous()
    )


class Operation:
    """A tensor's reduction under way. Anybody may wait for it, and several may."""

    def __init__(self, lane: Lane, tensor: torch.Tensor, finish: Callable[[], None] | None) -> None:
        self._lane = lane
        self._tensor = tensor
        self._finish = finish
        self._pending: Pending | None = None
        self._submitted = threading.Event()
        self._lock = threading.Lock()
        self._ended = False
        self._error: BaseException | None = None
        self._future: torch.futures.Future[torch.Tensor] | None = None
        #: ``(chunks, late)``, for one with feedback that has ended.
        self.contribution: tuple[int, int] | None = None

    def wait(self, timeout: float | None = None) -> torch.Tensor:
        """The tensor with the result. Raises what went wrong, or TimeoutError: then it goes on."""
        deadline = None if timeout is None else time.monotonic() + timeout
        # Only a tensor that is staged is submitted later than at once. In slices, so that Ctrl-C is heard.
        while not self._submitted.wait(0.05):
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError("the operation has not begun yet: it goes on, wait again")
        contribution = None
        if self._pending is not None and self._error is None:
            contribution = self._pending.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
        with self._lock:
            if not self._ended:
                self._ended = True
                if self._error is None:
                    self.contribution = contribution
                    if self._finish is not None:
                        self._finish()
        if self._error is not None:
            raise self._error
        return self._tensor

    def done(self) -> bool:
        """Whether a wait would return at once."""
        return self._submitted.is_set() and (self._pending is None or self._pending.done())

    def future(self) -> torch.futures.Future[torch.Tensor]:
        """A future that another thread completes."""
        with self._lock:
            if self._future is None:
                devices: list[int | str | torch.device] = [self._tensor.device] if self._tensor.is_cuda else []
                self._future = torch.futures.Future(devices=devices)
                self._lane.completer.put(self._complete)
            # An error is kept in the future as what its reader raises; only a reader in Python has that. Others, such as DDP's
            # reducer, see it as the error of what comes then.
            return self._future.then(_value)

    def _complete(self) -> None:
        future = self._future
        assert future is not None
        try:
            future.set_result(self.wait())
        except Exception as error:
            future.set_exception(error)  # type: ignore[arg-type]

    def _submit(self, submit: Callable[[], Pending]) -> None:
        try:
            self._pending = submit()
        except Exception as error:
            self._error = error
        self._submitted.set()


def _value(future: torch.futures.Future[torch.Tensor]) -> torch.Tensor:
    return future.wait()


class Lane:
    """A communicator for torch tensors.

    Tensors of the CPU are used where they lie. Those of a CUDA device are staged through pinned memory of the host.
    """

    def __init__(self, communicator: Communicator, name: str) -> None:
        self.communicator = communicator
        self.completer = Worker(f"{name}-complete")
        self._stager: Worker | None = None
        self._name = name
        self._streams: dict[torch.device, Any] = {}

    def all_reduce(self, tensor: torch.Tensor, op: str, wire: int = 32, feedback: Feedback | None = None) -> Operation:
        """Reduces a tensor that `takes` takes, in place and in the background."""
        if tensor.is_cuda:
            return self._staged(tensor, op, wire, feedback)
        operation = Operation(self, tensor, None)
        self._put(operation, lambda: self._submit(tensor, op, wire, feedback))
        return operation

    def _submit(self, tensor: torch.Tensor, op: str, wire: int, feedback: Feedback | None) -> Pending:
        tensor, dtype = tensor.detach(), None
        if tensor.dtype == torch.bfloat16:
            tensor, dtype = tensor.view(torch.uint16), "bfloat16"
        return self.communicator.all_reduce_async(tensor.numpy(), op, wire=wire, feedback=feedback, dtype=dtype)

    def _put(self, operation: Operation, submit: Callable[[], Pending]) -> None:
        """Submits at once; but once there was a staged tensor, behind those before it, since ranks must agree on the order."""
        if self._stager is None:
            operation._submit(submit)
        else:
            self._stager.put(lambda: operation._submit(submit))

    def _staged(self, tensor: torch.Tensor, op: str, wire: int, feedback: Feedback | None) -> Operation:
        """A tensor of a CUDA device: to pinned memory and back, beside what the device computes."""
        if self._stager is None:
            self._stager = Worker(f"{self._name}-stage")
        if tensor.device not in self._streams:
            self._streams[tensor.device] = torch.cuda.Stream(tensor.device)  # type: ignore[no-untyped-call]
        stream = self._streams[tensor.device]
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        stream.wait_stream(torch.cuda.current_stream(tensor.device))
        with torch.cuda.stream(stream):
            host.copy_(tensor, non_blocking=True)
            there = stream.record_event()
        tensor.record_stream(stream)

        def submit() -> Pending:
            there.synchronize()
            return self._submit(host, op, wire, feedback)

        def finish() -> None:
            # On the stream of whoever waits: what it launches then comes behind.
            tensor.copy_(host, non_blocking=True)

        operation = Operation(self, tensor, finish)
        self._put(operation, submit)
        return operation

    def close(self) -> None:
        """Leaves the world together with the other ranks."""
        self._stop()
        self.communicator.close()

    def abort(self) -> None:
        """Leaves at once; the other ranks are told."""
        self.communicator.abort()
        self._stop()

    def _stop(self) -> None:
        if self._stager is not None:
            self._stager.stop()
        self.completer.stop()


class Worker:
    """A thread that does one thing after the other, from the first on."""

    def __init__(self, name: str) -> None:
        self._name = f"tributary-{name}"
        self._begin()

    def _begin(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._process = os.getpid()

    def put(self, job: Callable[[], None]) -> None:
        if self._process != os.getpid():
            # Forked: the thread was not, and its queue may be in any state.
            self._begin()
        self._jobs.put(job)
        if self._thread is None:
            # Python waits for no daemon: what is under way when the process ends is nobody's any more.
            self._thread = threading.Thread(target=_run, args=(self._jobs,), name=self._name, daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Lets it end after what it was given. What comes later has another thread: an operation after a close, which fails."""
        jobs = self._jobs
        self._begin()
        jobs.put(None)


def _run(jobs: queue.SimpleQueue[Callable[[], None] | None]) -> None:
    for job in iter(jobs.get, None):
        job()
