"""A site's policy: how many holders must agree, and rules that would protect nobody are refused."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
import pytest

from fedgeom.errors import InputError
from fedgeom.federation.policy import Policy

NEEDED = {
    # of 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 holders
    "2/3": [2, 3, 4, 4, 5, 6, 6, 7, 8, 8],
    0.667: [2, 3, 4, 4, 5, 6, 6, 7, 8, 8],
    0.6667: [2, 3, 4, 4, 5, 6, 6, 7, 8, 8],
    2 / 3: [2, 3, 4, 4, 5, 6, 6, 7, 8, 8],
    "0.667": [2, 3, 4, 4, 5, 6, 6, 7, 8, 8],
    0.7: [3, 3, 4, 5, 5, 6, 7, 7, 8, 9],
    "7/10": [3, 3, 4, 5, 5, 6, 7, 7, 8, 9],
    "3/4": [3, 3, 4, 5, 6, 6, 7, 8, 9, 9],
    0.75: [3, 3, 4, 5, 6, 6, 7, 8, 9, 9],
    1: [3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
    "1": [3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
    0.9: [3, 4, 5, 6, 7, 8, 9, 9, 10, 11],
    0.51: [2, 3, 3, 4, 4, 5, 5, 6, 6, 7],
}


@pytest.mark.parametrize("threshold", NEEDED)
def test_how_many_of_three_to_twelve_holders_must_agree(threshold: Any) -> None:
    policy = Policy(threshold=threshold)
    assert [policy.holders_needed(n) for n in range(3, 13)] == NEEDED[threshold]


def test_two_thirds_is_what_holds_where_nothing_is_said() -> None:
    assert [Policy().holders_needed(n) for n in range(2, 10)] == [2, 2, 3, 4, 4, 5, 6, 6]
    assert Policy() == Policy(min_cohort=3, threshold="2/3", max_message_bytes=64 * 2**20, methods=())


@pytest.mark.parametrize("threshold", [0.500001, 0.501, 0.51, "2/3", 0.7, 1])
def test_more_than_half_and_at_least_two_and_never_more_than_there_are(threshold: Any) -> None:
    policy = Policy(threshold=threshold)
    for n in range(2, 200):
        assert n >= policy.holders_needed(n) >= 2
        assert 2 * policy.holders_needed(n) > n  # or two halves could be unmasked apart


def test_a_decimal_number_means_the_simple_fraction_near_it_and_else_itself() -> None:
    assert Policy(threshold=0.667).share == Fraction(2, 3)
    assert Policy(threshold=0.68).share == Fraction(0.68)
    assert Policy(threshold=0.5005).share == Fraction(0.5005)  # not one half


@pytest.mark.parametrize(
    "threshold",
    [0.5, 0.4999, "1/2", 0, -1, 1.01, 2, "4/3", "two thirds", "", "1/0", float("nan"), float("inf"), "nan", None],
)
def test_thresholds_that_are_none_are_refused_in_words(threshold: Any) -> None:
    with pytest.raises(InputError, match="threshold="):
        Policy(threshold=threshold)


@pytest.mark.parametrize(
    "change",
    [
        {"min_cohort": 1},
        {"min_cohort": 0},
        {"max_message_bytes": 0},
        {"runs_per_day": -1},
        {"max_features": 0},
        {"min_rows_per_feature": -1},
    ],
)
def test_policies_that_protect_nobody_are_refused(change: dict[str, Any]) -> None:
    name, value = next(iter(change.items()))
    with pytest.raises(InputError, match=f"{name}={value}"):
        Policy(**change)


def test_a_policy_is_read_from_a_table_and_an_unknown_rule_is_refused() -> None:
    table = {"min_cohort": 5, "threshold": 0.75, "methods": ["hulls"], "runs_per_day": 0}
    read = msgspec.convert(table, Policy)
    assert read == Policy(min_cohort=5, threshold=0.75, methods=("hulls",), runs_per_day=0)
    with pytest.raises(msgspec.ValidationError, match="smallest_cohort"):
        msgspec.convert({"smallest_cohort": 5}, Policy)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"min_cohort": "5"}, Policy)


@pytest.mark.parametrize("megabytes", [-1, 1, 511])
def test_a_limit_of_memory_leaves_room_for_what_is_loaded(megabytes):
    with pytest.raises(InputError, match=f"max_memory_mb={megabytes} given"):
        Policy(max_memory_mb=megabytes)
    assert (Policy().max_memory_mb, Policy(max_memory_mb=512).max_memory_mb) == (0, 512)
