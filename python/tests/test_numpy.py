"""The communicator on numpy arrays. The ranks are threads here: the interpreter's lock is released while they wait."""

from __future__ import annotations

import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tributary


def world(size: int, job: Callable[[tributary.Communicator], Any], **options: Any) -> list[Any]:
    """Runs a job in every rank of a world; what each returns."""
    outcomes: list[Any] = [None] * size

    def rank(number: int) -> None:
        try:
            with tributary.Communicator("test", number, size, aggregators=aggregator.address, **options) as communicator:
                outcomes[number] = job(communicator)
        except BaseException as error:
            outcomes[number] = error

    with tributary.Aggregator() as aggregator:
        threads = [threading.Thread(target=rank, args=(number,), daemon=True) for number in range(size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive(), "a rank hangs"
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return outcomes


def values(rank: int, count: int = 10_000) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(rank).standard_normal(count, dtype=np.float32)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_sums_of_float32_are_within_the_bound_and_have_the_same_bits(size: int) -> None:
    def job(communicator: tributary.Communicator) -> Any:
        array = values(communicator.rank)
        assert communicator.all_reduce(array) is None
        return array

    results = world(size, job)
    exact = sum(values(rank).astype(np.float64) for rank in range(size))
    largest = max(np.abs(values(rank)).max() for rank in range(size))
    # docs/protocol.md, R-NUM: a unit of the fixed point a rank, and the rounding of the result.
    bound = size * 2.0 ** (np.ceil(np.log2(largest)) - 31 + np.ceil(np.log2(size))) + 2.0**-24 * np.abs(exact)
    assert (np.abs(results[0] - exact) <= bound).all()
    assert all(result.tobytes() == results[0].tobytes() for result in results)


def test_sums_of_int32_are_exact_and_wrap() -> None:
    def job(communicator: tributary.Communicator) -> Any:
        array = np.array([communicator.rank, 2**31 - 1, -5], dtype=np.int32).reshape(3, 1)
        communicator.all_reduce(array)
        return array.ravel().tolist()

    assert world(2, job) == [[1, -2, -10]] * 2


@pytest.mark.parametrize(("op", "expected"), [("sum", [3, 3, -3]), ("avg", [1, 1, -1]), ("min", [0, 1, -2]), ("max", [2, 1, 0])])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, "bfloat16"])
def test_every_operation_on_every_type(op: str, expected: list[int], dtype: Any) -> None:
    if dtype == np.int32 and op == "avg":
        return  # refused, as another test shows

    def job(communicator: tributary.Communicator) -> Any:
        mine = np.array([communicator.rank, 1, -communicator.rank], dtype=np.float32)
        if dtype != "bfloat16":
            array = mine.astype(dtype)
            communicator.all_reduce(array, op)
            return array.tolist()
        # The upper half of a float32.
        bits = (mine.view(np.uint32) >> 16).astype(np.uint16)
        communicator.all_reduce(bits, op, dtype="bfloat16")
        return (bits.astype(np.uint32) << 16).view(np.float32).tolist()

    assert world(3, job) == [expected] * 3


@pytest.mark.parametrize(("wire", "bits"), [(16, 14), (8, 6)])
def test_narrow_wire_formats_move_fewer_bytes_and_stay_within_their_bound(wire: int, bits: int) -> None:
    def job(communicator: tributary.Communicator) -> Any:
        array = values(communicator.rank, 4_000_000)
        before = communicator.stats()["results"]
        communicator.all_reduce(array)
        wide = communicator.stats()["results"] - before
        array = values(communicator.rank, 4_000_000)
        communicator.all_reduce(array, wire=wire)
        return array, wide / (communicator.stats()["results"] - before - wide)

    (result, fewer), (other, _) = world(2, job)
    assert result.tobytes() == other.tobytes()
    assert fewer > 0.8 * 32 / wire, fewer
    exact = values(0, 4_000_000).astype(np.float64) + values(1, 4_000_000)
    largest = max(np.abs(values(rank, 4_000_000)).max() for rank in range(2))
    bound = 2 * 2.0 ** (np.ceil(np.log2(largest)) - bits)
    assert 0 < np.abs(result - exact).max() <= bound


def test_operations_in_the_background_end_in_their_order() -> None:
    def job(communicator: tributary.Communicator) -> Any:
        arrays = [np.full(50_000, communicator.rank + k, dtype=np.float32) for k in range(8)]
        pending = [communicator.all_reduce_async(array) for array in arrays]
        assert pending[-1].wait() is None
        # The last has ended, so have all.
        assert all(operation.done() for operation in pending)
        assert pending[0].wait() is None and pending[0].wait(0.0) is None
        return [float(array[-1]) for array in arrays]

    assert world(2, job) == [[2.0 * k + 1 for k in range(8)]] * 2


def test_a_wait_may_have_a_limit_and_the_operation_goes_on() -> None:
    def job(communicator: tributary.Communicator) -> Any:
        array = np.ones(10, dtype=np.float32)
        if communicator.rank == 1:
            time.sleep(0.5)
            communicator.all_reduce(array)
            return array[0]
        pending = communicator.all_reduce_async(array)
        with pytest.raises(TimeoutError, match="goes on"):
            pending.wait(0.05)
        assert not pending.done()
        pending.wait()
        return array[0]

    assert world(2, job) == [2.0, 2.0]


def test_statistics_do_not_wait_for_an_operation() -> None:
    asked = threading.Event()

    def job(communicator: tributary.Communicator) -> Any:
        array = np.ones(10, dtype=np.float32)
        communicator.all_reduce(array)
        if communicator.rank == 1:
            assert asked.wait(20)
            communicator.all_reduce(array)
            return None
        before = communicator.stats()
        pending = communicator.all_reduce_async(array)
        time.sleep(0.2)
        during = communicator.stats()
        assert not pending.done()
        asked.set()
        pending.wait()
        assert during["operations"] == before["operations"] == 1
        assert during["results"] == before["results"] > 0
        assert communicator.stats()["results"] > before["results"]
        return None

    world(2, job)


def test_an_array_that_an_operation_has_lives_and_is_not_resized() -> None:
    def job(communicator: tributary.Communicator) -> Any:
        array = np.ones(1000, dtype=np.float32)
        view = array[:]
        if communicator.rank == 1:
            time.sleep(0.3)
        pending = communicator.all_reduce_async(array)
        with pytest.raises(ValueError, match="resize"):
            array.resize(1)
        del array
        pending.wait()
        return view.sum()

    assert world(2, job) == [2000.0, 2000.0]


def test_what_cannot_be_reduced_is_refused_by_a_type_error_that_says_what_can() -> None:
    read_only = np.zeros(3, dtype=np.float32)
    read_only.flags.writeable = False
    refused = [
        (np.zeros(3), "float64"),
        (np.zeros(3, dtype=np.int64), "int64"),
        (np.zeros(3, dtype=">f4"), ">f4"),
        (np.zeros((4, 4), dtype=np.float32).T, "not C-contiguous"),
        (np.zeros(6, dtype=np.float32)[::2], "not C-contiguous"),
        (read_only, "read-only"),
        ([1.0, 2.0], "list"),
    ]

    def job(communicator: tributary.Communicator) -> Any:
        for array, why in refused:
            with pytest.raises(TypeError, match="float32, int32, float16 or bfloat16") as error:
                communicator.all_reduce(array)  # type: ignore[call-overload]
            assert why in str(error.value)
        array = np.zeros(3, dtype=np.float32)
        with pytest.raises(TypeError, match="uint16"):
            communicator.all_reduce(array, dtype="bfloat16")
        with pytest.raises(ValueError, match="'sum'"):
            communicator.all_reduce(array, "product")
        with pytest.raises(ValueError, match="16"):
            communicator.all_reduce(array, wire=12)
        with pytest.raises(ValueError, match="exact"):
            communicator.all_reduce(array, "max", feedback=tributary.Feedback(3))
        with pytest.raises(ValueError, match="integers have"):
            communicator.all_reduce(np.zeros(3, dtype=np.int32), "avg")
        # Nothing was sent: it can be used on.
        communicator.all_reduce(array)

    world(1, job)


def test_broadcast_copies_the_roots_bits() -> None:
    def job(communicator: tributary.Communicator) -> Any:
        array = values(communicator.rank)
        array[0] = np.nan
        communicator.broadcast(array, 1)
        with pytest.raises(ValueError, match="rank 9"):
            communicator.broadcast(array, 9)
        return array.tobytes()

    expected = values(1)
    expected[0] = np.nan
    assert world(3, job) == [expected.tobytes()] * 3


def test_feedback_keeps_what_a_sum_does_not_hold() -> None:
    def job(communicator: tributary.Communicator) -> Any:
        feedback = tributary.Feedback(10_000)
        assert len(feedback) == 10_000
        array = values(communicator.rank)
        array[0] = 2.0**20  # its chunk is coarse then
        mine = array.copy()
        chunks, late = communicator.all_reduce(array, feedback=feedback)
        assert chunks > 0 and late == 0
        rest = feedback.residual()
        assert np.abs(rest).max() > 0
        with pytest.raises(ValueError, match="9999"):
            communicator.all_reduce(array[:9999], feedback=feedback)
        with pytest.raises(TypeError, match="float32"):
            communicator.all_reduce(np.zeros(10_000, np.int32), feedback=feedback)  # type: ignore[call-overload]
        return array, mine, rest

    ranks = world(2, job)
    # The sum and what is left over of both are what both contributed.
    total = sum(mine.astype(np.float64) for _, mine, _ in ranks)
    held = ranks[0][0].astype(np.float64) + sum(rest for *_, rest in ranks)
    assert np.abs(held - total).max() <= 2.0**-24 * np.abs(total).max()


def test_ranks_that_disagree_get_an_error_that_names_them() -> None:
    def job(communicator: tributary.Communicator) -> Any:
        with pytest.raises(tributary.OperationError) as error:
            communicator.all_reduce(np.zeros(10 + communicator.rank, dtype=np.float32))
        return [error.value]

    def aborting(communicator: tributary.Communicator) -> Any:
        try:
            return job(communicator)
        finally:
            # Nothing is left to be closed together.
            communicator.abort()

    for rank, [error] in enumerate(world(2, aborting)):
        assert isinstance(error, tributary.Error) and isinstance(error, RuntimeError)
        assert (error.world, error.rank) == ("test", rank)
        assert error.ranks or "aborted" in str(error), error
        again = pickle.loads(pickle.dumps(error))
        assert str(again) == str(error) and again.rank == rank


def test_a_missing_rank_is_named_at_the_deadline() -> None:
    late = threading.Event()

    def job(communicator: tributary.Communicator) -> Any:
        if communicator.rank == 1:
            late.wait(20)
            communicator.abort()
            return None
        began = time.monotonic()
        with pytest.raises(tributary.OperationError, match="rank 1") as error:
            communicator.all_reduce(np.zeros(10, dtype=np.float32))
        late.set()
        communicator.abort()
        return error.value, time.monotonic() - began

    error, waited = world(2, job, timeout=1.0)[0]
    assert 0.9 < waited < 5
    assert error.ranks == (1,) and error.operation == 0 and error.chunk == 0
    assert error.aggregator.startswith("127.0.0.1:")


def test_a_world_that_does_not_come_together_is_a_join_error() -> None:
    with tributary.Aggregator() as aggregator, pytest.raises(tributary.JoinError, match="rank 1"):
        tributary.Communicator("alone", 0, 2, aggregators=aggregator.address, wait=0.5)
    with pytest.raises(tributary.JoinError, match=r"127\.0\.0\.1:1"):
        tributary.Communicator("nobody", 0, 1, aggregators=["127.0.0.1:1"], connect_timeout=0.3)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"timeout": -1.0}, "timeout"),
        ({"wait": float("nan")}, "wait"),
        ({"policy": "most"}, "tributary.Quorum"),
        ({"policy": 5}, r"^policy = 5 is unknown: give 'all', or tributary.Quorum\(members\)$"),
        ({"policy": tributary.Quorum(300)}, "members = 300 is out of range: give 0 to 255"),
        ({"weight": 70_000}, "weight = 70000 is out of range"),
        ({"priority": -1}, "priority = -1 is out of range"),
        ({"window": -1}, "window = -1 is out of range"),
        ({"on_lost": "cry"}, "shrink"),
    ],
)
def test_settings_that_mean_nothing_are_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        tributary.Communicator("test", 0, 1, aggregators="127.0.0.1:1", **options)


def test_what_is_no_number_or_address_is_refused_in_one_line() -> None:
    with pytest.raises(ValueError, match="rank = -1 is out of range: give 0 to"):
        tributary.Communicator("test", -1, 2)
    with pytest.raises(TypeError, match=r"^aggregators = 5 are no addresses: give 'host:port'.*$"):
        tributary.Communicator("test", 0, 1, aggregators=5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="port = 131072 is out of range"):
        tributary.Aggregator(port=1 << 17)


def test_a_feedback_for_which_there_is_no_memory_is_an_error_and_not_the_end_of_the_process() -> None:
    with pytest.raises(MemoryError, match="1152921504606846976 elements"):
        tributary.Feedback(1 << 60)
    with pytest.raises(ValueError, match="len = -1"):
        tributary.Feedback(-1)


def test_a_rank_that_closes_before_the_others_is_what_the_error_speaks_of() -> None:
    def job(communicator: tributary.Communicator) -> Any:
        try:
            if communicator.rank == 1:
                communicator.close()
            else:
                communicator.all_reduce(np.zeros(10, dtype=np.float32))
        except tributary.OperationError as error:
            communicator.abort()
            return str(error)

    texts = world(2, job)
    assert any("closing a communicator, as a script's end does, is a barrier" in text for text in texts), texts


def test_rank_and_size_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(TypeError, match="RANK"):
        tributary.Communicator("test")
    with tributary.Aggregator() as aggregator:
        monkeypatch.setenv("RANK", "0")
        monkeypatch.setenv("WORLD_SIZE", "1")
        monkeypatch.setenv("TRIBUTARY_AGGREGATORS", aggregator.address)
        with tributary.Communicator("test") as communicator:
            assert (communicator.rank, communicator.size, communicator.ranks) == (0, 1, [0])
            communicator.barrier()
            assert communicator.stats()["operations"] == 1
        with pytest.raises(tributary.OperationError, match="closed"):
            communicator.barrier()


def test_ctrl_c_ends_a_wait() -> None:
    # Joining waits for rank 1, which never comes.
    timer = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
    with tributary.Aggregator() as aggregator:
        timer.start()
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            tributary.Communicator("interrupted", 0, 2, aggregators=aggregator.address, wait=30.0)
        assert time.monotonic() - began < 5


def test_the_package_says_its_version_and_has_types() -> None:
    assert tributary.__version__
    assert sys.modules["tributary"].__file__
