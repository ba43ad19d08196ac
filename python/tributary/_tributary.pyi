from collections.abc import Sequence
from types import TracebackType
from typing import Literal, TypedDict, overload

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from .policy import Quorum

__version__: str

_Array = NDArray[np.float32] | NDArray[np.int32] | NDArray[np.float16] | NDArray[np.uint16]

class _Stats(TypedDict):
    operations: int
    tensor_bytes: int
    busy_seconds: float
    stalled_seconds: float
    packets_sent: int
    resends: int
    marked: int
    congestion_decreases: int
    congestion_window: int
    results: int
    late: int
    predicted: int
    mispredicted: int
    announced: int
    moves: int
    round_trip_seconds: float
    lanes: int
    window: int
    streams: int
    shared_memory: bool

class Communicator:
    def __new__(
        cls,
        world: str,
        rank: int | None = None,
        size: int | None = None,
        *,
        aggregators: str | Sequence[str] | None = None,
        policy: Literal["all"] | Quorum | None = None,
        on_lost: Literal["abort", "shrink"] = "abort",
        timeout: float = 10.0,
        connect_timeout: float = 10.0,
        wait: float = 60.0,
        linger: float = 5.0,
        fail_over: bool = True,
        failover_after: float = 1.0,
        lanes: int | None = None,
        window: int | None = None,
        streams: int | None = None,
        weight: int = 100,
        priority: int = 0,
        busy_poll: float = 0.0,
        shared_memory: bool = True,
    ) -> Self: ...
    @property
    def world(self) -> str: ...
    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def ranks(self) -> list[int]: ...
    @overload
    def all_reduce(
        self, array: _Array, op: str = "sum", *, wire: int = 32, feedback: None = None, dtype: str | None = None
    ) -> None: ...
    @overload
    def all_reduce(
        self, array: NDArray[np.float32], op: str = "sum", *, wire: int = 32, feedback: Feedback, dtype: None = None
    ) -> tuple[int, int]: ...
    def all_reduce_async(
        self,
        array: _Array,
        op: str = "sum",
        *,
        wire: int = 32,
        feedback: Feedback | None = None,
        dtype: str | None = None,
    ) -> Pending: ...
    def broadcast(self, array: _Array, root: int = 0) -> None: ...
    def barrier(self) -> None: ...
    def stats(self) -> _Stats: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

class Pending:
    def wait(self, timeout: float | None = None) -> tuple[int, int] | None: ...
    def done(self) -> bool: ...

class Feedback:
    def __new__(cls, len: int) -> Self: ...
    def __len__(self) -> int: ...
    def residual(self) -> NDArray[np.float32]: ...
    def reset(self) -> None: ...

class Aggregator:
    def __new__(
        cls,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        data_port: int = 0,
        shards: int = 1,
        memory_mib: int = 64,
        lost_after: float = 10.0,
    ) -> Self: ...
    @property
    def address(self) -> str: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

def end_all(in_order: bool) -> list[str]: ...
