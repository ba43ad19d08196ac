"""Ranks on several machines, which network namespaces stand for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest
from conftest import JOBS

#: Names that begin so are found by `cargo xtask`, if this is killed.
HOSTS = [f"trib-py{os.getpid() % 10000}-{rank}" for rank in range(2)]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@pytest.fixture
def machines() -> Iterator[list[str]]:
    """Two of them and a cable; 10.77.0.1 and 10.77.0.2."""
    try:
        for host in HOSTS:
            ip("netns", "add", host)
        ip("-n", HOSTS[0], "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", HOSTS[1])
        for rank, host in enumerate(HOSTS):
            ip("-n", host, "address", "add", f"10.77.0.{rank + 1}/24", "dev", "eth0")
            ip("-n", host, "link", "set", "eth0", "up")
            ip("-n", host, "link", "set", "lo", "up")
        yield HOSTS
    finally:
        for host in HOSTS:
            subprocess.run(["ip", "netns", "delete", host], check=False)


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("ip") is None, reason="needs root and iproute2")
def test_without_a_configured_aggregator_rank_0s_serves_the_other_machines_with_a_warning(machines: list[str]) -> None:
    environment = {
        **os.environ,
        "MASTER_ADDR": "10.77.0.1",
        "MASTER_PORT": "29500",
        "WORLD_SIZE": "2",
        "GLOO_SOCKET_IFNAME": "eth0",
        "OMP_NUM_THREADS": "1",
    }
    environment.pop("TRIBUTARY_AGGREGATORS", None)
    ranks = [
        subprocess.Popen(
            ["ip", "netns", "exec", host, sys.executable, str(JOBS / "train.py"), "hook"],
            env={**environment, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank, host in enumerate(machines)
    ]
    try:
        said = [rank.communicate(timeout=170)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], said
    assert "rank 0's process, at 10.77.0.1:" in said[0] and "for 2 machines" in said[0], said
