"""What models do with DDP, each on the way that is named (`hook` or `backend`): a line `NAME ok` or `NAME failed: ...` for each.

The reference is the same training in one process, which goes through the ranks' batches by itself.
"""

import copy
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from common import digest
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import tributary
import tributary.torch

WAY = sys.argv[1]
STEPS = 4
RATE = 0.05

Batch = Callable[[int, int], torch.Tensor]


def batch(step: int, rank: int, width: int = 20) -> torch.Tensor:
    """A rank's own input."""
    return torch.randn(8, width, generator=torch.Generator().manual_seed(1000 * step + rank))


def deep(width: int = 20) -> nn.Module:
    torch.manual_seed(7)
    layers: list[nn.Module] = []
    for _ in range(4):
        layers += [nn.Linear(width, width), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(width, 1))


class Branches(nn.Module):
    """Of two branches each step uses one; a third is never used."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.branches = nn.ModuleList([nn.Linear(20, 1) for _ in range(3)])
        self.step = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.branches[self.step % 2](x)


class Twice(nn.Module):
    """One layer is used twice, another never."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.layer, self.idle, self.last = nn.Linear(20, 20), nn.Linear(20, 20), nn.Linear(20, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.layer(torch.tanh(self.layer(x))))


def descend(parameters: Iterable[nn.Parameter]) -> None:
    with torch.no_grad():
        for parameter in parameters:
            if parameter.grad is not None:
                parameter -= RATE * parameter.grad
                parameter.grad = None


def wrap(model: nn.Module, options: dict[str, Any], **ours: Any) -> tuple[DistributedDataParallel, Any]:
    group = GROUP if WAY == "backend" else None
    ddp = DistributedDataParallel(model, process_group=group, **options)
    return ddp, tributary.torch.accelerate(ddp, **ours) if WAY == "hook" else None


def same_everywhere(model: nn.Module) -> None:
    digests: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(digests, digest(model))
    assert len(set(digests)) == 1, f"ranks differ: {digests}"


def compare(model: nn.Module, reference: nn.Module, tolerance: float = 1e-5) -> None:
    same_everywhere(model)
    for (name, mine), theirs in zip(model.named_parameters(), reference.parameters(), strict=True):
        apart = (mine - theirs).abs().max().item()
        assert apart <= tolerance, f"{name} is {apart} from the reference"


def train(model: nn.Module, options: dict[str, Any], inner: int = 1, tolerance: float = 1e-5, **ours: Any) -> Any:
    """`inner` backward passes a step, of which the last one sums."""
    reference = copy.deepcopy(model)
    ddp, state = wrap(model, options, **ours)
    rank, size = dist.get_rank(), dist.get_world_size()
    for step in range(STEPS):
        for net in (model, reference):
            if hasattr(net, "step"):
                net.step = step
        for turn in range(inner - 1):
            with ddp.no_sync():
                ddp(batch(inner * step + turn, rank)).square().mean().backward()
        ddp(batch(inner * step + inner - 1, rank)).square().mean().backward()
        descend(model.parameters())
        for other in range(size):
            for turn in range(inner):
                (reference(batch(inner * step + turn, other)).square().mean() / size).backward()
        descend(reference.parameters())
    compare(model, reference, tolerance)
    return state


def many_small_buckets() -> None:
    state = train(deep(), {"bucket_cap_mb": 0.001})
    if state is not None:
        assert state.stats()["operations"] >= 3 * STEPS, state.stats()


def one_large_bucket() -> None:
    state = train(deep(), {"bucket_cap_mb": 200})
    if state is not None:
        assert state.stats()["steps"] == STEPS, state.stats()


def gradients_as_views_of_buckets() -> None:
    train(deep(), {"bucket_cap_mb": 0.001, "gradient_as_bucket_view": True})


def unused_parameters() -> None:
    train(Branches(), {"find_unused_parameters": True})


def gradient_accumulation() -> None:
    state = train(deep(), {}, inner=3)
    if state is not None:
        assert state.stats()["steps"] == STEPS, "the passes without synchronisation must not communicate"


def static_graph() -> None:
    train(Twice(), {"static_graph": True})


def one_parameter() -> None:
    torch.manual_seed(7)
    train(nn.Linear(20, 1, bias=False), {})


def an_infinite_gradient_is_seen_by_every_scaler(**ours: Any) -> None:
    model = deep()
    ddp, _ = wrap(model, {"bucket_cap_mb": 0.001}, **ours)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=RATE)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=1000)
    rank = dist.get_rank()
    scales = []
    for step in range(STEPS):
        before = copy.deepcopy(model.state_dict())
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = ddp(batch(step, rank)).float().square().mean()
        if step == 2 and rank == dist.get_world_size() - 1:
            loss = loss * float("inf")
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
        moved = any(not torch.equal(before[name], value) for name, value in model.state_dict().items())
        assert moved == (step != 2), f"step {step}: moved is {moved}"
    assert scales == [1024.0, 1024.0, 512.0, 512.0], scales
    assert all(parameter.isfinite().all() for parameter in model.parameters())
    same_everywhere(model)


def a_type_that_is_not_ours_goes_to_the_process_group() -> None:
    model = deep().double()
    ddp, state = wrap(model, {})
    for step in range(2):
        ddp(batch(step, dist.get_rank()).double()).square().mean().backward()
        descend(model.parameters())
    same_everywhere(model)
    if state is not None:
        fallbacks = state.stats()["fallbacks"]
        assert fallbacks.keys() == {"float64 on cpu"} and fallbacks["float64 on cpu"] >= 2, fallbacks
    else:
        assert tributary.torch.backend_stats(GROUP)["fallbacks"]["allreduce SUM float64 cpu"] >= 2


def quorum() -> None:
    """With all ranks in time a quorum of all of them is the whole sum."""
    if WAY == "hook":
        state = train(deep(), {}, policy=tributary.Quorum(dist.get_world_size()))
        stats = state.stats()
        assert stats["chunks"] > 0 and stats["late_chunks"] == 0, stats


def a_quorum_does_not_wait_for_a_late_rank() -> None:
    """All have the same parameters all the same, and what was late is not lost."""
    if WAY != "hook":
        return
    rank, size = dist.get_rank(), dist.get_world_size()
    model = deep()
    ddp, state = wrap(model, {}, policy=tributary.Quorum(size - 1, grace=0.01))
    delay, waited = 0.5, 0.0
    for step in range(8):
        # DDP's first two steps talk to all ranks about the buckets.
        is_late = rank == size - 1 and 2 <= step < 6
        if is_late:
            time.sleep(delay)
        began = time.monotonic()
        ddp(batch(step, rank)).square().mean().backward()
        waited += time.monotonic() - began
        descend(model.parameters())
    same_everywhere(model)
    if rank == size - 1:
        assert state.stats()["late_chunks"] > 0, state.stats()
    if rank == 0:
        assert waited < 3 * delay, f"waited {waited} s for a rank that was late four times by {delay} s"


def narrow_wire_formats() -> None:
    """Rounded to few bits the sums are off by what error feedback makes up for later."""
    if WAY == "hook":
        for wire, tolerance in ((16, 1e-3), (8, 1e-1)):
            state = train(deep(), {"bucket_cap_mb": 0.001}, tolerance=tolerance, wire=wire)
            assert state.stats()["chunks"] > 0, "no error feedback"


def an_infinite_gradient_leaves_nothing_in_the_feedback() -> None:
    if WAY == "hook":
        an_infinite_gradient_is_seen_by_every_scaler(wire=16)


def gradients_of_bfloat16() -> None:
    model = deep().bfloat16()
    ddp, state = wrap(model, {})
    for step in range(STEPS):
        ddp(batch(step, dist.get_rank()).bfloat16()).square().mean().backward()
        descend(model.parameters())
    same_everywhere(model)
    if state is not None:
        stats = state.stats()
        assert stats["operations"] >= STEPS and not stats["fallbacks"], stats


def collectives_of_the_back_end() -> None:
    if WAY != "backend":
        return
    rank, size = dist.get_rank(), dist.get_world_size()
    before = tributary.torch.backend_stats(GROUP)["all_reduces"]
    for dtype in (torch.float32, torch.int32, torch.float16, torch.bfloat16):
        tensor = (torch.arange(1000) % 50).to(dtype).reshape(10, 100) + rank
        dist.all_reduce(tensor, group=GROUP)
        expected = size * (torch.arange(1000) % 50).to(dtype).reshape(10, 100) + size * (size - 1) // 2
        assert torch.equal(tensor, expected), (dtype, tensor)
    average = torch.full((3,), float(rank))
    work = dist.all_reduce(average, dist.ReduceOp.AVG, group=GROUP, async_op=True)
    work.wait()
    assert torch.equal(average, torch.full((3,), (size - 1) / 2)), average
    future = dist.all_reduce(average, group=GROUP, async_op=True).get_future()
    assert torch.equal(future.wait()[0], torch.full((3,), size * (size - 1) / 2))
    scalar = torch.tensor(1.0)
    dist.all_reduce(scalar, group=GROUP)
    assert scalar.item() == size
    for op, expected in ((dist.ReduceOp.MIN, 0), (dist.ReduceOp.MAX, size - 1)):
        for dtype in (torch.float32, torch.int32):
            extreme = torch.full((3,), rank, dtype=dtype)
            dist.all_reduce(extreme, op, group=GROUP)
            assert extreme.tolist() == [expected] * 3, (op, dtype, extreme)
    assert tributary.torch.backend_stats(GROUP)["all_reduces"] == before + 11
    # By Gloo:
    gathered = [torch.empty(2) for _ in range(size)]
    dist.all_gather(gathered, torch.full((2,), float(rank)), group=GROUP)
    assert [tensor[0].item() for tensor in gathered] == list(range(size))
    product = torch.full((2,), 2.0)
    dist.all_reduce(product, dist.ReduceOp.PRODUCT, group=GROUP)
    assert product[0].item() == 2.0**size
    dist.barrier(group=GROUP)
    if rank == 0:
        dist.send(torch.ones(2), 1, group=GROUP)
    elif rank == 1:
        received = torch.zeros(2)
        dist.recv(received, 0, group=GROUP)
        assert received.sum().item() == 2
    fallbacks = tributary.torch.backend_stats(GROUP)["fallbacks"]
    assert {"allgather float32 cpu", "allreduce PRODUCT float32 cpu"} <= fallbacks.keys(), fallbacks


def subgroups() -> None:
    """Each group is a world of its own."""
    if WAY != "backend":
        return
    rank, size = dist.get_rank(), dist.get_world_size()
    groups = [dist.new_group([r for r in range(size) if r % 2 == parity], backend="tributary") for parity in range(2)]
    mine = groups[rank % 2]
    tensor = torch.full((5,), float(rank))
    dist.all_reduce(tensor, group=mine)
    assert tensor[0].item() == sum(r for r in range(size) if r % 2 == rank % 2)
    dist.destroy_process_group(mine)


SCENARIOS = [
    many_small_buckets,
    one_large_bucket,
    gradients_as_views_of_buckets,
    unused_parameters,
    gradient_accumulation,
    static_graph,
    one_parameter,
    an_infinite_gradient_is_seen_by_every_scaler,
    a_type_that_is_not_ours_goes_to_the_process_group,
    quorum,
    a_quorum_does_not_wait_for_a_late_rank,
    narrow_wire_formats,
    an_infinite_gradient_leaves_nothing_in_the_feedback,
    gradients_of_bfloat16,
    collectives_of_the_back_end,
    subgroups,
]


def main() -> None:
    global GROUP
    torch.set_num_threads(1)
    dist.init_process_group(sys.argv[2])
    GROUP = dist.new_group(backend="tributary") if WAY == "backend" else None
    for scenario in SCENARIOS:
        try:
            scenario()
            said = f"{scenario.__name__} ok"
        except Exception:
            said = f"{scenario.__name__} failed: " + traceback.format_exc().replace("\n", " | ")
        sys.stdout.write(said + "\n")
        sys.stdout.flush()
    dist.destroy_process_group()


main()
