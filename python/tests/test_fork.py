"""Processes that are forked from a rank: workers that load data, and whatever else a script starts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from conftest import Ranks


@pytest.mark.parametrize(
    ("what", "said_by_child"),
    [
        ("nothing", "child: ok"),
        ("close", "child: ok"),
        ("drop", "child: ok"),
        ("join", "child: ok"),
        ("all_reduce", "child: OperationError: rank 0 of 'forked' belongs to process"),
        ("wait", "child: OperationError: this operation belongs to process"),
    ],
)
def test_a_forked_process_ends_and_leaves_the_rank_alone(what: str, said_by_child: str, start: Callable[..., Ranks]) -> None:
    status, said = start("forked", 1, what).wait(0, 20.0)
    assert status == 0, said
    assert said_by_child in said and "parent: ok, child 0" in said, said
