"""Discrete Gaussian noise: its distribution, to the last chance that can be counted, and where it comes from."""

from __future__ import annotations

import math
import os
from decimal import Decimal, localcontext
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import chi2, kstest, norm

from fedgeom.crypto.discrete_gaussian import (
    LARGEST,
    LARGEST_TABLE,
    PRECISION,
    REACH,
    SMOOTH,
    DiscreteGaussian,
    _OneByOne,
    _Table,
    chances,
    discrete_gaussian,
    parts_of,
)
from fedgeom.crypto.masks import KeyStream
from fedgeom.errors import InputError


def stream(number: int = 0) -> KeyStream:
    return KeyStream(bytes([number]) * 32)


def law(sigma: float, reach: int) -> np.ndarray:
    """P(x) for x = -reach … reach, from the definition."""
    x = np.arange(-reach, reach + 1)
    weights = np.exp(-(x**2) / (2 * sigma**2))
    return weights / weights.sum()


@pytest.mark.parametrize("sigma", [8.0, 11.37, 40.0, 77.7, 420.0, 1023.0])
def test_every_number_comes_as_often_as_the_definition_says(sigma: float) -> None:
    drawn = DiscreteGaussian(sigma).draw(stream(), 400_000)
    reach = int(4.5 * sigma)
    expected = law(sigma, int(REACH * sigma))[int(REACH * sigma) - reach : int(REACH * sigma) + reach + 1] * len(
        drawn
    )
    seen = np.bincount(np.clip(drawn, -reach, reach) + reach, minlength=2 * reach + 1)[1:-1]
    statistic = ((seen - expected[1:-1]) ** 2 / expected[1:-1]).sum()
    assert chi2.sf(statistic, len(seen)) > 1e-4


@pytest.mark.parametrize("sigma", [2.0**20 * 1.3, LARGEST])
def test_on_a_fine_grid_it_is_the_gaussian(sigma: float) -> None:
    drawn = DiscreteGaussian(sigma).draw(stream(1), 100_000)
    assert kstest(drawn / sigma, norm.cdf).pvalue > 1e-4
    assert abs(np.corrcoef(drawn[1:], drawn[:-1])[0, 1]) < 0.02
    low = np.bincount(drawn & 15, minlength=16)  # the last digits are uniform
    assert chi2.sf(((low - len(drawn) / 16) ** 2 / (len(drawn) / 16)).sum(), 15) > 1e-4


def test_chances_are_the_definitions_to_the_last_digit() -> None:
    sigma = 8.25
    found, reach = chances(sigma), math.ceil(REACH * sigma)
    assert sum(found) == 2**PRECISION
    assert found == found[::-1]
    with localcontext() as context:
        context.prec = 80
        heights = [(-(Decimal(x) ** 2) / (2 * Decimal(sigma) ** 2)).exp() for x in range(-reach, reach + 1)]
        whole = sum(heights)
        off = [
            abs(Decimal(one) / 2**PRECISION - height / whole) for one, height in zip(found, heights, strict=True)
        ]
    assert sum(off) / 2 < Decimal("1e-35")  # total variation
    assert math.erfc(REACH / math.sqrt(2)) < 2.0**-PRECISION


def convolved(sigma: float) -> dict[int, float]:
    """The distribution of the sum of parts, from their definitions."""
    total = np.ones(1)
    for part, times in parts_of(sigma):
        own = law(part, math.ceil(REACH * part))
        spread = np.zeros((len(own) - 1) * times + 1)
        spread[::times] = own
        total = np.convolve(total, spread)
    reach = len(total) // 2
    return dict(zip(range(-reach, reach + 1), total.tolist(), strict=True))


@pytest.mark.parametrize("sigma", [1025.0, 1500.0, 2777.7])
def test_a_sum_of_parts_is_the_discrete_gaussian_itself(sigma: float) -> None:
    (small, _), (_, step) = parts_of(sigma)
    assert small == pytest.approx(SMOOTH * step)
    assert sum((part * times) ** 2 for part, times in parts_of(sigma)) == pytest.approx(sigma**2)
    found, reach = convolved(sigma), int(5 * sigma)
    wanted = law(sigma, int(REACH * sigma))
    middle = len(wanted) // 2
    ratio = [found[x] / wanted[middle + x] for x in range(-reach, reach + 1)]
    assert max(abs(one - 1) for one in ratio) < 1e-12  # floating point sees no more


def unevenness(sigma: float) -> float:
    """Return η: by what share, at most, the chance of a number differs from the definition; 0 for a single table."""
    parts, whole, most = parts_of(sigma), sigma, 0.0
    for (inner, times), (_, after) in pairwise(parts):
        step, outer = after // times, math.sqrt(whole**2 - inner**2)  # outer: aσ₂
        narrow = inner * outer / whole / step
        most += 2.01 * math.exp(-2 * (math.pi * narrow) ** 2)
        whole = outer / step
    return 2 * most


def test_uneven_chances_are_far_below_anything_that_counts() -> None:
    assert unevenness(100.0) == unevenness(LARGEST_TABLE) == 0
    for sigma in (1025.0, 1.5e3, 4e3, 2.0**20, 1.9 * 2.0**21, LARGEST):
        assert 0 < unevenness(sigma) < 1e-21
        assert all(part >= 8 for part, _ in parts_of(sigma))


def test_what_sixteen_bits_do_not_choose_is_drawn_from_what_is_left() -> None:
    weights = [1, 2**20, 3, 7 * 2**14]  # of 1 and 3 no place of 2^16 is full
    for tables in (1, 2):
        made = _Table([10, 20, 30, 40], weights, tables)
        assert 10 not in made.places[: int(made.last) + 1]
        assert made.next is not None
    left = _OneByOne([10, 20, 30], [1, 2, 5]).draw(stream(3), 40_000)
    assert [(left == value).mean() for value in (10, 20, 30)] == pytest.approx([1 / 8, 2 / 8, 5 / 8], abs=0.02)
    made = _Table([10, 20, 30, 40], [1, 2, 3, 10**6], 1)
    drawn = made.draw(stream(4), 2_000_000)
    rest = np.bincount(drawn, minlength=41)[[10, 20, 30]]
    assert rest.sum() == pytest.approx(12, abs=11)  # some six of a million are none of the frequent one
    exact = _Table([0, 1, 2], [1, 1, 2**16 - 2])
    assert exact.next is None
    assert int(exact.last) == 2**16 - 1


def test_a_long_vector_is_drawn_piece_by_piece() -> None:
    made, numbers = discrete_gaussian(2.0**20 * 1.1), np.full(100_001, 5, np.int64)
    made.add_to(numbers, stream(7))
    assert abs(numbers.mean() - 5) < 5 * 2.0**20 * 1.1 / math.sqrt(len(numbers))
    for some in np.array_split(numbers, 5):
        assert some.std() == pytest.approx(2.0**20 * 1.1, rel=0.03)
    assert (made.draw(stream(7), 100_001) == numbers - 5).all()


def test_a_key_gives_the_same_again_and_another_key_something_else() -> None:
    made = discrete_gaussian(1000.0)
    assert made is discrete_gaussian(1000.0)
    one, two = made.draw(stream(1), 20_000), made.draw(stream(2), 20_000)
    assert (made.draw(stream(1), 20_000) == one).all()
    assert (one != two).mean() > 0.99
    assert made.draw(KeyStream(os.urandom(32)), 0).shape == (0,)


@pytest.mark.parametrize("sigma", [0.0, 7.9, 2.0**37, math.nan])
def test_deviations_outside_are_refused(sigma: float) -> None:
    with pytest.raises(InputError, match="wanted a deviation from 8"):
        DiscreteGaussian(sigma)
