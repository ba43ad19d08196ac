"""What the tests share: ranks as processes, with a deadline for all of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

JOBS = Path(__file__).parent / "jobs"


@dataclass
class Ranks:
    """The ranks of a job, started by hand: unlike torchrun, that lets the others live when one dies."""

    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def wait(self, rank: int, limit: float) -> tuple[int, str]:
        """A rank's exit status, and what it said."""
        said, _ = self.processes[rank].communicate(timeout=limit)
        return self.processes[rank].returncode, said

    def read_until(self, rank: int, text: str, limit: float = 60.0) -> None:
        """Waits for a line of a rank's output."""
        stdout = self.processes[rank].stdout
        assert stdout is not None
        end = time.monotonic() + limit
        for line in stdout:
            print(f"rank {rank}: {line}", end="")
            if text in line:
                return
            assert time.monotonic() < end, f"rank {rank} did not say '{text}' in {limit} s"
        raise AssertionError(f"rank {rank} ended without '{text}'")

    def signal(self, rank: int, number: signal.Signals) -> None:
        self.processes[rank].send_signal(number)

    def end(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()


_ports = iter(range(29700 + os.getpid() % 200, 32000))


@pytest.fixture
def start() -> Iterator[Callable[..., Ranks]]:
    """Starts the ranks of `jobs/NAME.py`, and ends what is left of them."""
    started: list[Ranks] = []

    def start(name: str, size: int, *arguments: str, **environment: str) -> Ranks:
        ranks = Ranks()
        started.append(ranks)
        common = {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(next(_ports)),
            "WORLD_SIZE": str(size),
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
        }
        for rank in range(size):
            process = subprocess.Popen(
                [sys.executable, str(JOBS / f"{name}.py"), *arguments],
                env={**os.environ, **common, **environment, "RANK": str(rank)},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            ranks.processes.append(process)
        return ranks

    yield start
    for ranks in started:
        ranks.end()


def torchrun(size: int, name: str, *arguments: str, limit: float = 170.0, **environment: str) -> str:
    """Runs `jobs/NAME.py` under torchrun, to its end; what all ranks said."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(size)]
    # A port of its own, so that jobs do not meet.
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", str(JOBS / f"{name}.py"), *arguments]
    process = subprocess.Popen(
        command,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=limit)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        print(process.communicate()[0])
        raise
    print(said)
    assert process.returncode == 0, f"torchrun {name}: status {process.returncode}"
    return said
