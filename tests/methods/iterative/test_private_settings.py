"""Which settings of training go with privacy, and what is said of those that do not."""

from __future__ import annotations

from typing import Any

import pytest

from fedgeom import DP, FedAdam, FedAvg, FedAvgM, FedProx, FedYogi, HyperFed, InputError, PTopoFL, Scaffold

CLASSES = ("a", "b")
ROW: dict[str, Any] = {
    "steps": 1,
    "batch_size": None,
    "scale": "none",
    "classes": CLASSES,
    "privacy": DP(epsilon=1, clip=1),
}
SITE: dict[str, Any] = {
    "weights": "sites", "scale": "none", "classes": CLASSES, "privacy": DP(epsilon=1, clip=1, unit="site")
}  # fmt: skip


@pytest.mark.parametrize("method", [FedAvg, FedAvgM, FedAdam, FedYogi])
def test_rules_that_need_only_means_have_both_units(method: Any) -> None:
    assert method(**ROW).private_units == ("row", "site")
    assert not method(**ROW).needs_rows
    assert not method(**SITE).sums_rows
    assert method().needs_rows
    assert method.from_terms(method(**ROW).terms()) == method(**ROW)


@pytest.mark.parametrize("method", [FedProx, Scaffold, HyperFed, PTopoFL])
def test_others_say_that_nothing_bounds_what_they_send(method: Any) -> None:
    with pytest.raises(InputError, match=r"no bound on what one row adds .*: .*fedavg"):
        method(privacy=DP(epsilon=1, clip=1))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (ROW | {"scale": "joint"}, r'summed without noise: wanted scale="none"'),
        (ROW | {"scale": "site"}, r'let one row move all others: wanted scale="none"'),
        (
            ROW | {"steps": None, "batch_size": 32},
            "steps=None, batch_size=32 given; wanted steps=1, batch_size=None",
        ),
        (ROW | {"validation_fraction": 0.2}, "validation_fraction=0.2 given; wanted validation_fraction=0.0"),
        (ROW | {"personal": "finetuned"}, "personal='finetuned' given; wanted personal='none'"),
        (ROW | {"aggregation": "median"}, 'wanted aggregation="mean" and max_abs_value=None'),
        (ROW | {"participation": 0.5}, "wanted participation=1.0"),
        (SITE | {"weights": "rows"}, "weights='rows' given; wanted weights='sites'"),
        (SITE | {"holdout": 0.2}, 'wanted holdout=None, or unit="row"'),
        (ROW | {"classes": None}, "needs the label names"),
    ],
)
def test_what_noise_would_not_cover_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        FedAvg(**settings)
