"""DDP in its many forms, by the hook and by the back end."""

import functools
from pathlib import Path

import pytest
from conftest import JOBS, torchrun

NAMES = [
    "many_small_buckets",
    "one_large_bucket",
    "gradients_as_views_of_buckets",
    "unused_parameters",
    "gradient_accumulation",
    "static_graph",
    "one_parameter",
    "an_infinite_gradient_is_seen_by_every_scaler",
    "a_type_that_is_not_ours_goes_to_the_process_group",
    "quorum",
    "a_quorum_does_not_wait_for_a_late_rank",
    "narrow_wire_formats",
    "an_infinite_gradient_leaves_nothing_in_the_feedback",
    "gradients_of_bfloat16",
    "collectives_of_the_back_end",
    "subgroups",
]

#: Way, ranks, the default group's back end, how much torch checks. With DETAIL torch 2.15 itself crashes in DDP over plain Gloo.
RUNS = {
    "hook-2": ("hook", 2, "gloo", "INFO"),
    "hook-4-detail": ("hook", 4, "tributary", "DETAIL"),
    "backend-2-detail": ("backend", 2, "tributary", "DETAIL"),
    "backend-4": ("backend", 4, "gloo", "OFF"),
}

#: What only one of the ways has.
ONLY = {
    "quorum": "hook",
    "a_quorum_does_not_wait_for_a_late_rank": "hook",
    "narrow_wire_formats": "hook",
    "an_infinite_gradient_leaves_nothing_in_the_feedback": "hook",
    "collectives_of_the_back_end": "backend",
    "subgroups": "backend",
}

CASES = [(job, name) for job, (way, *_) in RUNS.items() for name in NAMES if ONLY.get(name, way) == way]


@functools.cache
def run(name: str) -> list[str]:
    """One job does all scenarios: starting ranks is what takes long."""
    way, size, backend, debug = RUNS[name]
    try:
        return torchrun(size, "scenarios", way, backend, TORCH_DISTRIBUTED_DEBUG=debug).splitlines()
    except Exception as error:
        # Not once for each scenario.
        return [f"Error: {error}"]


@pytest.mark.parametrize(("job", "name"), CASES)
def test_scenario(job: str, name: str) -> None:
    size = RUNS[job][1]
    said = [line for line in run(job) if line.startswith(name + " ")]
    assert said == [f"{name} ok"] * size, said


@pytest.mark.parametrize("job", [job for job, (*_, debug) in RUNS.items() if debug == "DETAIL"])
def test_torch_has_nothing_to_say_with_all_its_checks(job: str) -> None:
    complaints = [line for line in run(job) if "Error" in line or "Traceback" in line or "mismatch" in line]
    assert complaints == []


def test_every_scenario_is_asked_for() -> None:
    source = Path(JOBS, "scenarios.py").read_text()
    listed = source[source.index("SCENARIOS = [") :].split("]")[0].split("[")[1].replace(",", " ").split()
    assert listed == NAMES
