"""What rounding at random costs: the divergences themselves, computed, beside what is reckoned with."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedgeom.privacy import mechanism
from fedgeom.privacy.accounting import LARGEST_ORDER, ORDERS
from fedgeom.privacy.mechanism import rounded_rho

REACH = 40


def rounded(x: float, variance: float) -> np.ndarray:
    """log P_x(y) for y = -reach … reach: x rounded at random, and a discrete Gaussian of a variance."""
    reach = math.ceil(REACH * math.sqrt(variance))
    y = np.arange(-reach, reach + 1)
    below, share = math.floor(x), x - math.floor(x)
    height = math.log(np.exp(-(y**2) / (2 * variance)).sum())
    logs = [-((y - below - up) ** 2) / (2 * variance) - height for up in (0, 1)]
    with np.errstate(divide="ignore"):
        return np.logaddexp(np.log(1 - share) + logs[0], np.log(share) + logs[1])


def divergence(order: float, x: float, other: float, variance: float) -> float:
    """The Rényi divergence of what leaves for x from what leaves for another number."""
    terms = order * rounded(x, variance) + (1 - order) * rounded(other, variance)
    most = float(terms.max())
    return (most + math.log(np.exp(terms - most).sum())) / (order - 1)


@pytest.mark.parametrize("variance", [100.0, 400.0, 2500.0])
@pytest.mark.parametrize("order", [1.1, 2.0, 8.0, 40.0])
def test_no_two_numbers_diverge_more_than_is_reckoned_with(
    variance: float, order: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mechanism, "LEAST_VARIANCE", 100.0)
    closest = 0.0
    for moved in (0.05, 0.3, 0.5, 1.0, 2.4):
        bound = rounded_rho(variance, moved, 1, order)
        found = [
            divergence(order, x, x + sign * moved, variance) for x in np.arange(0, 1, 0.1) for sign in (-1, 1)
        ]
        assert max(found) <= order * bound
        closest = max(closest, max(found) / (order * bound))
        # Rounding to the nearest would have to count |moved| + 1.
        assert order * bound < order * (moved + 1) ** 2 / (2 * variance)
    assert closest > 0.5  # the bound is no more than it has to be, where something is moved


def test_many_small_moves_cost_what_they_do_without_rounding() -> None:
    numbers, moved, variance = 10**6, 128.0, 2 * 370.0**2
    plain = moved**2 / (2 * variance)
    assert plain < rounded_rho(variance, moved, numbers) < 1.02 * plain
    assert rounded_rho(variance, moved, 10) < 1.005 * plain


def test_divergences_of_many_numbers_are_below_the_bound_together() -> None:
    variance, numbers = 400.0, 2000
    rng, order = np.random.default_rng(0), 8.0
    moves = rng.normal(size=numbers)
    moves *= 10.0 / np.linalg.norm(moves)
    sample, starts = moves[:60], rng.random(60)
    mean = np.mean([divergence(order, x, x + t, variance) for x, t in zip(starts, sample, strict=True)])
    # No lower bound on the variance is needed for what is computed here, but for the constants.
    assert mean * numbers <= order * _unchecked(variance, 10.0, numbers, order)


def _unchecked(variance: float, moved: float, numbers: int, order: float) -> float:
    least, mechanism.LEAST_VARIANCE = mechanism.LEAST_VARIANCE, 0.0
    try:
        return rounded_rho(variance, moved, numbers, order)
    finally:
        mechanism.LEAST_VARIANCE = least


def test_it_is_said_for_no_other_orders_and_variances() -> None:
    assert max(ORDERS) <= LARGEST_ORDER
    assert rounded_rho(2.0**16 - 1, 1.0, 1) == math.inf
    assert rounded_rho(2.0**16, 1.0, 1, order=2.0**18) == math.inf
