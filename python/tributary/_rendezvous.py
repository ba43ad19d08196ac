"""How the ranks of a process group find one another's aggregator: through what they have in common already."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
from dataclasses import dataclass
from typing import Any, Protocol

from ._tributary import Aggregator
from .errors import JoinError

_log = logging.getLogger("tributary")

#: Aggregators that are there already, ``host:port`` with commas: the first, and those that take over.
AGGREGATORS = "TRIBUTARY_AGGREGATORS"


class Exchange(Protocol):
    """What a group of ranks can tell one another before there is a world."""

    rank: int
    size: int

    def gather(self, value: Any) -> list[Any]:
        """Every rank's value, on every rank."""

    def share(self, value: Any) -> Any:
        """Rank 0's value, on every rank."""


@dataclass(frozen=True)
class Meeting:
    """Where the ranks meet."""

    #: The world's name, which no other job has.
    world: str
    #: This rank's aggregators.
    aggregators: list[str]
    #: The aggregator is in rank 0's process, and ends with it.
    is_embedded: bool


@dataclass(frozen=True)
class _Offer:
    """What rank 0 says."""

    world: str = ""
    aggregators: tuple[str, ...] = ()
    is_embedded: bool = False
    #: One line for people.
    about: str = ""
    is_slow: bool = False
    #: Why there is none.
    trouble: str | None = None


def meet(exchange: Exchange, name: str, aggregators: str | None = None) -> Meeting:
    """Agrees on a world and its aggregator. Every rank must call it.

    A rank uses the aggregators that it is told, as ranks of different racks may be told different ones; one that is told nothing
    uses rank 0's. Where rank 0 is told nothing either, it starts one in its process.
    """
    told = aggregators if aggregators is not None else os.environ.get(AGGREGATORS, "")
    mine = [address.strip() for address in told.split(",") if address.strip()]
    everybody = exchange.gather((_machine(), bool(mine)))
    offer = exchange.share(_offer(name, mine, everybody) if exchange.rank == 0 else None)
    if exchange.rank == 0 and offer.trouble is None:
        level = logging.WARNING if offer.is_slow else logging.INFO
        _log.log(level, "world '%s' of %d ranks: %s", offer.world, exchange.size, offer.about)
    if offer.trouble is not None:
        error = JoinError(f"rank {exchange.rank} of {exchange.size} cannot join '{name}': {offer.trouble}")
        error.rank = exchange.rank
        raise error
    return Meeting(offer.world, mine or list(offer.aggregators), offer.is_embedded)


def _offer(name: str, mine: list[str], everybody: list[tuple[str, bool]]) -> _Offer:
    world = f"{name}-{secrets.token_hex(4)}"
    if mine:
        return _Offer(world, tuple(mine), about=f"aggregators {', '.join(mine)}")
    others = [rank for rank, (_, is_told) in enumerate(everybody) if is_told]
    if others:
        return _Offer(trouble=f"{AGGREGATORS} is set for rank {others[0]}, but not for rank 0: set it for all, or for none")
    machines = {machine for machine, _ in everybody}
    try:
        host = "127.0.0.1" if len(machines) == 1 else _outward_address()
        aggregator = _embedded(host)
    except OSError as error:
        return _Offer(trouble=f"{error}; or run `tributary serve` and set {AGGREGATORS}=host:port for all ranks")
    about = f"an aggregator in rank 0's process, at {aggregator.address}"
    if len(machines) > 1:
        about += (
            f", for {len(machines)} machines: every rank's bytes go over that machine's link, which makes it slow; start one on a"
            f" machine of its own (`tributary serve`) and set {AGGREGATORS}=host:port"
        )
    return _Offer(world, (aggregator.address,), True, about, is_slow=len(machines) > 1)


def _machine() -> str:
    """Ranks with the same answer reach one another over loopback: same boot of a machine, same network namespace."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read().strip()
    return f"{boot}/{os.stat('/proc/self/ns/net').st_ino}"


def _outward_address() -> str:
    """This machine's address on the way to where torch's rendezvous is, which every rank can reach."""
    master = os.environ.get("MASTER_ADDR", "")
    port = int(os.environ.get("MASTER_PORT") or 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # Sends nothing: it only asks the kernel for the route.
        probe.connect((master, port))
        address = str(probe.getsockname()[0])
    if address.startswith("127."):
        raise OSError(f"MASTER_ADDR = '{master}' is {address} here, which the ranks on other machines cannot reach")
    return address


_lock = threading.Lock()
_started: dict[tuple[int, str], Aggregator] = {}


def _embedded(host: str) -> Aggregator:
    """The aggregator of this process at an address: one for all of its worlds, until the process ends."""
    # Not that of the process from which this one was forked, which may end before.
    key = (os.getpid(), host)
    with _lock:
        if key not in _started:
            _started[key] = Aggregator(host)
        return _started[key]
