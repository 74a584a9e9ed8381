"""The plan: a field that holds all sums of labels, words that decode to hulls, and limits that are said."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest

from fedgeom.codes.fields import is_prime
from fedgeom.errors import DecodeError, InputError, ProtocolError
from fedgeom.methods.hulls.encoding import (
    SPLITTING,
    Hull,
    HullPlan,
    check_plan,
    decode_hulls,
    field_above,
    largest_order,
)
from fedgeom.methods.hulls.settings import HullSettings

PLAN = HullPlan(epsilon=0.5, radius=0.9, curvature=1.0, classes=2, blocks=3, capacity=4, h=2)


def word(plan: HullPlan, hulls: dict[int, list[int]]) -> np.ndarray:
    """Encode hulls as the sites do together: in each bin the sum of the labels that meet there."""
    total: dict[int, int] = {}
    for label, bins in hulls.items():
        for place in bins:
            total[place] = total.get(place, 0) + plan.labels.labels[label]
    return plan.code.encode(list(total), list(total.values()))


@pytest.mark.parametrize("lower", [10, 1000, 10**6, 2**40 + 1, 2**62])
def test_the_field_is_a_prime_above_the_bound_that_splits_quickly(lower: int) -> None:
    q = field_above(lower)
    assert lower < q < 2**63
    assert is_prime(q)
    assert q % 2**SPLITTING == 1


def test_the_field_keeps_to_the_agreed_bound() -> None:
    with pytest.raises(InputError, match="agreed bound is 63 bits"):
        field_above(2**63)


def test_as_many_hulls_may_meet_as_fit() -> None:
    assert largest_order(2, 3, 10**6) == 6
    assert largest_order(10, 100, 10**6) < 6
    assert largest_order(2, 1, 100) == 2  # no more than there are hulls


def test_both_ends_build_the_same_from_the_numbers() -> None:
    again = msgspec.json.decode(msgspec.json.encode(PLAN), type=HullPlan)
    assert again == PLAN
    assert again.labels.labels == PLAN.labels.labels
    assert (again.code.modulus, again.code.length) == (PLAN.code.modulus, PLAN.code.length)
    assert PLAN.code.modulus > max(PLAN.grid.size, PLAN.labels.largest_total)
    assert len(PLAN.labels.labels) == 6  # J labels for each of L sites


@pytest.mark.parametrize(
    "hulls",
    [
        {0: [1, 2, 5]},
        {0: [1, 2], 3: [2, 7], 5: [9]},
        {1: [4], 2: [4]},  # two meet in one bin, as many as h allows
    ],
)
def test_the_sum_of_all_words_decodes_to_the_hulls(hulls: dict[int, list[int]]) -> None:
    found, crowded = decode_hulls(PLAN, word(PLAN, hulls))
    assert found == [Hull(label, tuple(bins)) for label, bins in sorted(hulls.items())]
    assert crowded == 0


def test_a_bin_in_which_more_than_h_hulls_meet_is_counted_and_left_out() -> None:
    found, crowded = decode_hulls(PLAN, word(PLAN, {0: [3, 5], 2: [3], 4: [3]}))
    assert found == [Hull(0, (5,))]
    assert crowded == 1


def test_a_word_that_is_no_sum_of_labels_is_refused() -> None:
    wrong = PLAN.code.encode([5], [PLAN.labels.labels[0] + (PLAN.labels.max_terms + 1)])
    with pytest.raises(DecodeError, match="no sum of labels"):
        decode_hulls(PLAN, wrong)


def test_labels_that_cannot_fit_are_refused_at_once() -> None:
    huge = msgspec.structs.replace(PLAN, classes=4096, blocks=1000, h=6)
    with pytest.raises(InputError, match="do not fit into 63 bits: use a smaller h or fewer classes"):
        _ = huge.labels


@pytest.mark.parametrize(
    "change", [{"epsilon": 0.0}, {"classes": 1}, {"blocks": 1}, {"capacity": 0}, {"h": 33}, {"secret": 1}]
)
def test_plans_out_of_bounds_are_not_read(change: dict[str, object]) -> None:
    wrong = msgspec.json.encode(msgspec.to_builtins(PLAN) | change)
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(wrong, type=HullPlan)


def test_a_plan_whose_bins_cannot_be_numbered_is_refused_as_the_coordinators_fault() -> None:
    settings = HullSettings(epsilon=0.1, radius=1 - 1e-15, capacity=10, n_classes=2)
    plan = HullPlan(epsilon=0.1, radius=1 - 1e-15, curvature=1.0, classes=2, blocks=3, capacity=10, h=2)
    with pytest.raises(ProtocolError, match="cannot be carried out"):
        check_plan(plan, settings, 3)


def test_bins_of_equal_area_are_counted_as_in_appendix_c() -> None:
    """R = √½, so sinh²(R_H/2) = ½/(1 - ½) = 1 and sinh R_H = 2·1·√2; sinh(ε/2) = .51 makes ⌈1/.51²⌉ = 4 rings."""
    epsilon = 2 * math.asinh(0.51)
    plan = HullPlan(
        epsilon=epsilon,
        radius=math.sqrt(0.5),
        curvature=1.0,
        classes=2,
        blocks=3,
        capacity=4,
        h=2,
        equal_area=True,
    )
    assert plan.grid.n_radial == 4
    assert plan.grid.n_angular == math.ceil(2 * 2 * math.pi * 2 * math.sqrt(2) / epsilon)
    norms = np.linalg.norm(plan.grid.center(1 + plan.grid.n_angular * np.arange(4)), axis=1)
    odds = norms**2 / (1 - norms**2)
    assert odds == pytest.approx([1 / 8, 3 / 8, 5 / 8, 7 / 8])  # Eq. 18: centres halve the area of their ring


@pytest.mark.parametrize("grid", ["polar", "equal-area"])
def test_a_plan_with_another_grid_than_the_terms_is_refused(grid: str) -> None:
    settings = HullSettings(epsilon=0.5, radius=0.9, capacity=4, n_classes=2, h=2, grid=grid)  # type: ignore[arg-type]
    check_plan(msgspec.structs.replace(PLAN, equal_area=grid == "equal-area"), settings, 3)
    with pytest.raises(ProtocolError, match=f"grid is another one than the terms', '{grid}'"):
        check_plan(msgspec.structs.replace(PLAN, equal_area=grid == "polar"), settings, 3)
