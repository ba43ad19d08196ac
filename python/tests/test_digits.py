"""Training on real data: as good as with Gloo, and the same bits on every rank and in every run."""

import json

import pytest
from conftest import torchrun


def results(size: int, *ways: str) -> dict[str, list[dict[str, object]]]:
    """What each rank got, by way."""
    found: dict[str, list[dict[str, object]]] = {way: [] for way in ways}
    for line in torchrun(size, "train", *ways).splitlines():
        if line.startswith("{"):
            result = json.loads(line)
            found[result["way"]].append(result)
    assert all(len(ranks) == size for ranks in found.values()), found
    return found


@pytest.mark.parametrize("size", [2, 4])
def test_digits_are_learnt_as_with_gloo_and_with_the_same_bits_everywhere(size: int) -> None:
    first = results(size, "gloo", "hook", "backend")
    second = results(size, "hook", "backend")
    gloo = float(str(first["gloo"][0]["accuracy"]))
    assert gloo > 0.94, "the training itself does not work"
    for way in ("hook", "backend"):
        ranks = first[way] + second[way]
        assert all(abs(float(str(rank["accuracy"])) - gloo) <= 0.005 for rank in ranks), (gloo, ranks)
        assert len({rank["digest"] for rank in ranks}) == 1, ranks
        # A bucket_cap_mb of 0.1 makes several buckets, once DDP has seen a step: all of them went this way.
        assert all(int(str(rank["operations"])) > 1.9 * 22 * 12 for rank in ranks), ranks
