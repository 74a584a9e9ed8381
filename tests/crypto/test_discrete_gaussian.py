"""Discrete Gaussian noise: its distribution, to the last chance that can be counted, and where it comes from."""

from __future__ import annotations

import math
import os

import numpy as np
import pytest
from scipy.stats import chi2, kstest, norm

from fedgeom.crypto.discrete_gaussian import LARGEST, REACH, DiscreteGaussian, discrete_gaussian
from fedgeom.crypto.masks import KeyStream
from fedgeom.errors import InputError


def stream(number: int = 0) -> KeyStream:
    return KeyStream(bytes([number]) * 32)


def law(sigma: float, reach: int) -> np.ndarray:
    """P(x) for x = -reach … reach, from the definition."""
    x = np.arange(-reach, reach + 1)
    weights = np.exp(-(x**2) / (2 * sigma**2))
    return weights / weights.sum()


@pytest.mark.parametrize("sigma", [8.0, 11.37, 40.0, 77.7])
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


def test_stairs_lie_above_the_density_so_that_no_chance_is_above_one() -> None:
    for sigma in (8.0, 100.3, 2.0**21 * 1.7):
        made = DiscreteGaussian(sigma)
        width = 2**made._bits
        starts = np.arange(-made._half, made._half) * width
        nearest = np.minimum(np.abs(starts), np.abs(starts + width - 1))
        assert (np.exp(-((nearest / sigma) ** 2) / 2) * made._ratios[:-1] <= 1).all()
        assert len(made._stairs) == 2**16


def test_what_floating_point_cannot_decide_is_decided_exactly() -> None:
    made = DiscreteGaussian(50.0)
    at = made._half + 3
    number = 3 << made._bits
    share = math.exp(-((number / 50.0) ** 2) / 2) * made._ratios[at]
    exact = int(share * 2**64)
    far = 2**64 // 10**6
    assert made._exactly(at, number, exact - far, stream()) is True
    assert made._exactly(at, number, exact + far, stream()) is False
    near = [made._exactly(at, number, exact + step, stream()) for step in range(-4096, 4096)]
    turn = near.index(False)
    assert 0 < turn < len(near)
    assert near == [True] * turn + [False] * (len(near) - turn)


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
