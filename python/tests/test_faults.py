"""Ranks that die, and people who press Ctrl-C."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest
from conftest import Ranks

import tributary

WAYS = ["numpy", "hook", "backend"]

#: A rank that is not heard for so long is lost.
LOST_AFTER = 3.0

#: And what it may take until everybody has noticed, on a busy machine.
SLACK = 12.0


@pytest.mark.parametrize("way", WAYS)
def test_when_a_rank_dies_every_survivor_raises(way: str, start: Callable[..., Ranks]) -> None:
    with tributary.Aggregator(lost_after=LOST_AFTER) as aggregator:
        ranks = start("faults", 3, way, "0.01", TRIBUTARY_AGGREGATORS=aggregator.address)
        for rank in range(3):
            ranks.read_until(rank, "working")
        time.sleep(0.5)
        ranks.signal(1, signal.SIGKILL)
        began = time.monotonic()
        for rank in (0, 2):
            status, said = ranks.wait(rank, LOST_AFTER + SLACK)
            assert status == 1, said
            assert "rank 1" in said, said
            if way == "hook":
                # Torch's autograd makes a RuntimeError of what a hook raises.
                assert "raised RuntimeError" in said and "state.error is a OperationError" in said, said
            else:
                assert "raised OperationError" in said, said
        assert time.monotonic() - began < LOST_AFTER + SLACK


def test_when_the_rank_with_the_aggregator_dies_the_others_raise(start: Callable[..., Ranks]) -> None:
    # The embedded aggregator's `lost_after` is 10 s.
    ranks = start("faults", 2, "hook", "0.01")
    for rank in range(2):
        ranks.read_until(rank, "working")
    ranks.signal(0, signal.SIGKILL)
    status, said = ranks.wait(1, 10 + 2 * SLACK)
    assert status == 1, said
    assert "the aggregator has not answered" in said, said


@pytest.mark.parametrize("way", WAYS)
def test_ctrl_c_ends_a_rank_that_waits_and_the_others_are_told(way: str, start: Callable[..., Ranks]) -> None:
    with tributary.Aggregator() as aggregator:
        # Rank 1 is at its pause, so rank 0 waits for it.
        ranks = start("faults", 2, way, "2.0", TRIBUTARY_AGGREGATORS=aggregator.address)
        for rank in range(2):
            ranks.read_until(rank, "working")
        time.sleep(0.5)
        ranks.signal(0, signal.SIGINT)
        status, said = ranks.wait(0, SLACK)
        assert "raised KeyboardInterrupt" in said, said
        status, said = ranks.wait(1, SLACK)
        # Not after a deadline: rank 0 has said that it leaves.
        assert status == 1 and "rank 0" in said, said
