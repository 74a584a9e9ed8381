"""Noise of several sites: each adds a share, and over every cohort that is allowed it is enough."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedgeom.crypto.masks import KeyStream
from fedgeom.errors import InputError
from fedgeom.privacy.mechanism import DIGITS, SumNoise, honest_sites, sum_rho


@pytest.mark.parametrize("smallest", [2, 3, 7, 40])
@pytest.mark.parametrize("colluders", [0, 1])
def test_every_cohort_that_is_allowed_has_at_least_the_noise_that_was_promised(
    smallest: int, colluders: int
) -> None:
    noise = SumNoise(2.0**36, 0.03, honest_sites(smallest, colluders), 500)
    for living in (smallest, smallest + 1, 5 * smallest):
        counted = living - colluders
        assert sum_rho(noise.sigma, counted, noise.grid_sensitivity, 500) <= 0.03
    assert sum_rho(noise.sigma, noise.honest - 1, noise.grid_sensitivity, 500) > 0.03
    # No more than is needed: what is relied on is what the sum costs, to six digits.
    assert sum_rho(noise.sigma, noise.honest, noise.grid_sensitivity, 500) == pytest.approx(0.03, rel=1e-6)


@pytest.mark.parametrize("sensitivity", [1.0, 37.5, 2.0**36])
def test_what_is_read_is_the_sum_with_the_noise_of_its_sites(sensitivity: float) -> None:
    sites, count = 5, 20_000
    noise = SumNoise(sensitivity, 0.05, 3, count)
    whole = np.arange(count, dtype=np.int64) * int(sensitivity) % 2**40
    total = sum(noise.add(whole, KeyStream(bytes([site]) * 32)) for site in range(sites))
    error = noise.read(np.asarray(total)) - sites * whole
    wanted = sensitivity / math.sqrt(2 * 0.05) * math.sqrt(sites / 3)
    assert error.std() == pytest.approx(wanted, rel=0.03)
    assert abs(error.mean()) < 4 * wanted / math.sqrt(count) + 2.0 ** max(noise.shift, 0)
    assert noise.spread == pytest.approx(wanted / math.sqrt(sites / 3), rel=0.01)
    assert 2**DIGITS <= noise.sigma <= 2 ** (DIGITS + 1) * 1.01


def test_neighbours_on_the_grid_are_no_farther_apart_than_is_reckoned_with() -> None:
    rng = np.random.default_rng(0)
    noise = SumNoise(2.0**36, 0.03, 2, 50)
    assert noise.shift > 0
    for _ in range(200):
        whole = rng.integers(-(2**45), 2**45, 50)
        step = rng.normal(size=50)
        step = np.trunc(step * (2.0**36 / np.linalg.norm(step))).astype(np.int64)
        key = KeyStream(bytes(32)), KeyStream(bytes(32))
        apart = noise.add(whole + step, key[0]) - noise.add(whole, key[1])
        assert np.linalg.norm(apart) <= noise.grid_sensitivity


def test_the_formula_for_sums_counts_that_small_noise_does_not_add_up_to_a_gaussian() -> None:
    assert sum_rho(0.5, 10, 1.0, 100) > 10 * sum_rho(0.5, 1, 1.0, 100) / 10
    assert sum_rho(100.0, 10, 1.0, 100) == pytest.approx(1 / (2 * 10 * 100.0**2))
    assert sum_rho(0.0, 3, 1.0, 1) == math.inf


def test_a_cohort_too_small_for_the_noise_is_refused() -> None:
    assert honest_sites(3, 1) == 2
    with pytest.raises(InputError, match=r"nobody's is left\. Wanted min_sites = 3 at least"):
        honest_sites(2, 2)


def test_numbers_of_another_shape_are_refused() -> None:
    with pytest.raises(InputError, match=r"wanted \(3,\)"):
        SumNoise(1.0, 0.1, 2, 3).add(np.zeros(4, np.int64), KeyStream(bytes(32)))
