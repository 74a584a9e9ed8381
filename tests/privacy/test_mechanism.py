"""Noise of several sites: each adds a share, and over every cohort that is allowed it is enough."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chi2

from fedgeom.crypto.masks import NoiseStream
from fedgeom.errors import InputError
from fedgeom.privacy.bounded_sums import FINE_ONE, BoundedVector
from fedgeom.privacy.mechanism import (
    COSTS_LITTLE,
    DIGITS,
    FRACTION,
    FineGrid,
    SumNoise,
    honest_sites,
    sum_rho,
)


@pytest.mark.parametrize("numbers", [1, 500, 10**6])
@pytest.mark.parametrize("smallest", [2, 3, 7, 40])
@pytest.mark.parametrize("colluders", [0, 1])
def test_every_cohort_that_is_allowed_has_at_least_the_noise_that_was_promised(
    smallest: int, colluders: int, numbers: int
) -> None:
    noise = SumNoise(2.0**36, 0.03, honest_sites(smallest, colluders), numbers)

    def rho(sites: int) -> float:
        return sum_rho(noise.sigma, sites, noise.grid.sensitivity, numbers, rounded=noise.shift > 0)

    for living in (smallest, smallest + 1, 5 * smallest):
        assert rho(living - colluders) <= 0.03
    assert rho(noise.honest - 1) > 0.03
    # No more than is needed: what is relied on is what the sum costs, to six digits, and rounding is little of it.
    assert rho(noise.honest) == pytest.approx(0.03, rel=1e-6)
    least = 2.0**36 / math.sqrt(2 * 0.03)
    assert least < noise.spread < (1 + COSTS_LITTLE) * least * 1.0001


@pytest.mark.parametrize("rho", [1e-6, 1e-3, 0.05, 3.0])
@pytest.mark.parametrize("numbers", [1, 10**4, 10**7])
def test_the_grid_is_as_coarse_as_the_noise_allows(rho: float, numbers: int) -> None:
    grid = SumNoise(2.0**40, rho, 2, numbers).grid
    digits = math.floor(math.log2(2.0**40 / math.sqrt(4 * rho))) - grid.shift
    assert digits >= DIGITS
    assert 2.0**digits <= grid.sigma < 2.0 ** (digits + 1) * (1 + COSTS_LITTLE)
    if digits > DIGITS:  # one digit less would have cost too much
        coarser, moved = 2.0 ** (digits - DIGITS), grid.sensitivity / 2.0 ** (digits - DIGITS)
        assert sum_rho(grid.sigma / coarser, 2, moved, numbers, rounded=True) > rho


@pytest.mark.parametrize("sensitivity", [1.0, 37.5, 2.0**36])
def test_what_is_read_is_the_sum_with_the_noise_of_its_sites(sensitivity: float) -> None:
    sites, count = 5, 20_000
    noise = SumNoise(sensitivity, 0.05, 3, count)
    whole = np.arange(count, dtype=np.int64) * int(sensitivity) % 2**40
    total = sum(noise.add(whole, NoiseStream(bytes([site]) * 32)) for site in range(sites))
    error = noise.read(np.asarray(total)) - sites * whole
    wanted = sensitivity / math.sqrt(2 * 0.05) * math.sqrt(sites / 3)
    assert error.std() == pytest.approx(wanted, rel=0.03)
    assert abs(error.mean()) < 4 * wanted / math.sqrt(count)
    assert noise.spread == pytest.approx(wanted / math.sqrt(sites / 3), rel=0.01)


def test_neighbours_on_the_grid_are_no_farther_apart_than_is_reckoned_with() -> None:
    rng = np.random.default_rng(0)
    for bits in (22, 30, 36):
        noise = SumNoise(2.0**bits, 0.03, 2, 50)
        assert noise.shift > 0
        unit = 2.0 ** min(noise.shift, FRACTION)
        for _ in range(200):
            whole = rng.integers(-(2**45), 2**45, 50)
            step = rng.normal(size=50)
            step = np.trunc(step * (2.0**bits / np.linalg.norm(step))).astype(np.int64)
            one = FineGrid(whole + step, noise.shift, narrow=False).piece(0, 50)
            two = FineGrid(whole, noise.shift, narrow=False).piece(0, 50)
            assert np.linalg.norm((one - two) / unit) <= noise.grid.sensitivity


def test_small_numbers_are_not_lost_on_a_coarse_grid() -> None:
    count = 400_000
    noise = SumNoise(2.0**36, 0.03, 2, count)
    for small in (-0.3, -0.004, 0.02, 0.5):  # of a multiple: to the nearest, they would be 0 or 1
        whole = np.full(count, round(small * 2.0**noise.shift), np.int64)
        shown = noise.add(whole, NoiseStream(bytes(32))) - noise.add(whole * 0, NoiseStream(bytes(32)))
        assert set(shown.tolist()) <= {math.floor(small), math.ceil(small)}
        chance = abs(small)
        assert abs(shown.mean() - small) < 4 * math.sqrt(chance * (1 - chance) / count) + 2.0**-FRACTION


@pytest.mark.parametrize("small", [0.25, -0.6])
def test_what_leaves_has_the_chances_of_a_number_rounded_at_random_with_noise(small: float) -> None:
    count = 400_000
    noise = SumNoise(2.0**36, 0.03, 2, count)
    whole = np.full(count, round(small * 2.0**noise.shift), np.int64)
    shown = noise.add(whole, NoiseStream(bytes(31) + b"x"))
    reach, below = int(4.2 * noise.sigma), math.floor(small)
    y = np.arange(-reach, reach + 1)
    height = np.exp(-(np.arange(-20_000, 20_001) ** 2) / (2 * noise.sigma**2)).sum()
    chances = sum(
        share * np.exp(-((y - below - up) ** 2) / (2 * noise.sigma**2)) / height
        for up, share in ((0, 1 - (small - below)), (1, small - below))
    )
    seen = np.bincount(shown[np.abs(shown) <= reach] + reach, minlength=2 * reach + 1)
    statistic = ((seen - count * chances) ** 2 / (count * chances)).sum()
    assert chi2.sf(statistic, len(seen)) > 1e-4
    assert abs(shown.mean() - small) < 4 * noise.sigma / math.sqrt(count)


@pytest.mark.parametrize("honest", [2, 10**5])  # few digits are left of so many sites' vectors: wide numbers
def test_a_vector_has_the_same_noise_as_its_whole_numbers(honest: int) -> None:
    values = np.random.default_rng(1).normal(size=70_000)
    vector, noise = BoundedVector(values, 100.0), SumNoise(2.0 * FINE_ONE, 0.03, honest, 70_000)
    one, two = (noise.add(each, NoiseStream(bytes(32))) for each in (vector, vector.whole()))
    assert np.abs(one - two).max() <= 1  # whole numbers below 0 are cut off downwards, a vector's towards 0
    assert (one != two).mean() < 1e-3
    with_room = np.empty(70_000, np.int64)
    assert noise.add(vector, NoiseStream(bytes(32)), with_room) is with_room
    assert (with_room == one).all()


def test_the_formula_for_sums_counts_that_small_noise_does_not_add_up_to_a_gaussian() -> None:
    assert sum_rho(0.5, 10, 1.0, 100) > 10 * sum_rho(0.5, 1, 1.0, 100) / 10
    assert sum_rho(100.0, 10, 1.0, 100) == pytest.approx(1 / (2 * 10 * 100.0**2))
    assert sum_rho(0.0, 3, 1.0, 1) == math.inf


@pytest.mark.parametrize("numbers", [1, 300, 50_000])
def test_honest_sums_are_no_longer_than_is_said_and_little_shorter(numbers: int) -> None:
    noise, one = SumNoise(2.0 * FINE_ONE, 0.03, 4, numbers), np.zeros(numbers, np.int64)
    one[0] = FINE_ONE
    lengths = []
    for trial in range(20):
        keys = [NoiseStream(bytes([trial, site] * 16)) for site in range(5)]
        total = sum(noise.add(one, key) for key in keys)
        lengths.append(float(np.linalg.norm(noise.read(np.asarray(total)))))
    assert max(lengths) <= noise.longest(FINE_ONE, 5)
    if numbers > 10**4:
        assert min(lengths) > 0.85 * noise.longest(FINE_ONE, 5)


def test_a_cohort_too_small_for_the_noise_is_refused() -> None:
    assert honest_sites(3, 1) == 2
    with pytest.raises(InputError, match=r"none is left\. Wanted min_sites = 3 at least"):
        honest_sites(2, 2)


def test_numbers_of_another_shape_are_refused() -> None:
    with pytest.raises(InputError, match=r"wanted \(3,\)"):
        SumNoise(1.0, 0.1, 2, 3).add(np.zeros(4, np.int64), NoiseStream(bytes(32)))
