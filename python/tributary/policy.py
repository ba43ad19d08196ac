"""When a sum is complete."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Quorum:
    """A sum of float32 is let go when ``members`` ranks are in it, and the others had ``grace`` seconds since the first.

    It is then an estimate of the whole sum, scaled by the count; what was late is kept as error feedback for the next one.
    Ranks may run ahead of the last one as far as ``history_bytes`` of the aggregator's slot memory allow. Every rank must ask
    for the same.
    """

    members: int
    grace: float = 0.005
    history_bytes: int = 64 << 20
