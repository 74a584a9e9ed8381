"""Private descriptors: the exact Gaussian curve, the sensitivity of the mean, and why bare noise is useless."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import kstest, norm

from fedgeom import PTopoFL
from fedgeom.crypto.masks import SystemDraws
from fedgeom.errors import InputError
from fedgeom.geometry.topology.descriptors import NAMES, betti_curve, describe, descriptor
from fedgeom.geometry.topology.persistence import rips_diagrams
from fedgeom.methods.ptopofl import private_descriptors
from fedgeom.methods.ptopofl.private_descriptors import (
    descriptor_bounds,
    gaussian_delta,
    gaussian_sigma,
    private_descriptor,
    subsample_and_aggregate,
)
from tests.tiers import examples

PLAIN = {"epsilon": 1.0, "delta": 1e-5, "rng": np.random.default_rng(0)}


class Quiet(np.random.Generator):
    """A generator without noise, to see what is released before it."""


@pytest.fixture(scope="module", autouse=True)
def _noise_of_others() -> Iterator[None]:
    """Noise is left out where a quiet generator is given."""
    real = private_descriptors._noise

    def noise(sigma: float, numbers: int, rng: np.random.Generator) -> np.ndarray:
        return np.zeros(numbers, np.int64) if isinstance(rng, Quiet) else real(sigma, numbers, rng)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(private_descriptors, "_noise", noise)
        yield


def quiet(seed: int = 0) -> np.random.Generator:
    return Quiet(np.random.PCG64(seed))


@pytest.mark.parametrize(("sigma", "epsilon"), [(0.5, 1.0), (1.0, 0.1), (2.0, 1.0), (4.0, 0.5), (0.3, 5.0)])
def test_the_curve_is_the_hockey_stick_divergence(sigma: float, epsilon: float) -> None:
    """δ(ε) = ∫ max(p(x) − e^ε q(x), 0) dx for the noise about 0 and about the sensitivity, here 1."""

    def excess(x: float) -> float:
        return float(norm.pdf(x, 1.0, sigma) - np.exp(epsilon) * norm.pdf(x, 0.0, sigma))

    start = 0.5 + epsilon * sigma**2  # where the two densities cross
    exact, _ = quad(excess, start, start + 40 * sigma, epsabs=1e-13, limit=400)
    assert gaussian_delta(sigma, 1.0, epsilon) == pytest.approx(exact, rel=1e-6, abs=1e-12)
    assert gaussian_delta(3 * sigma, 3.0, epsilon) == pytest.approx(exact, rel=1e-6, abs=1e-12)


@examples(60)
@given(st.floats(0.01, 50), st.floats(-12, -0.5), st.floats(1e-3, 1e3))
def test_sigma_keeps_delta_and_a_little_less_does_not(
    epsilon: float, log_delta: float, sensitivity: float
) -> None:
    delta = 10.0**log_delta
    sigma = gaussian_sigma(epsilon, delta, sensitivity)
    assert gaussian_delta(sigma, sensitivity, epsilon) <= delta
    assert gaussian_delta(0.999 * sigma, sensitivity, epsilon) > delta


def test_known_values_of_sigma() -> None:
    assert gaussian_sigma(1.0, 1e-5, 1.0) == pytest.approx(3.730632, rel=1e-5)
    assert gaussian_sigma(1.0, 1e-5, 7.0) == pytest.approx(7 * gaussian_sigma(1.0, 1e-5, 1.0))
    assert gaussian_sigma(0.5, 1e-5, 1.0) < np.sqrt(2 * np.log(1.25e5)) / 0.5  # the textbook's noise is larger
    assert gaussian_sigma(1.0, 1e-5, 0.0) == gaussian_delta(1.0, 0.0, 1.0) == 0.0
    assert gaussian_delta(1e-3, 1.0, 1.0) == pytest.approx(1.0)
    assert gaussian_delta(1.0, 1.0, 900.0) == 0.0  # e^900 is beyond a double


def test_one_row_moves_the_thresholds_and_with_them_the_whole_curve() -> None:
    """The figure of the module's first lines: √18 · 75 = 318 by one of 80 points on a line."""
    before = np.append(0.001 * np.arange(77), [0.3, 0.6, 0.9])
    after = before.copy()
    after[76] = 1.2  # the row at the end of the evenly spaced ones
    curves = [describe(rips_diagrams(x[:, None] / 1.2))[:20] for x in (before, after)]
    np.testing.assert_array_equal(curves[0][:19], np.full(19, 79.0))
    assert np.linalg.norm(curves[0] - curves[1]) >= np.sqrt(18) * 75
    assert 318 < np.sqrt(18) * 75 < 319


def star(leaves: int) -> np.ndarray:
    """Unit vectors of R^20 that are pairwise more than 1 apart."""
    rng, found = np.random.default_rng(0), [*np.eye(20), *-np.eye(20)]
    while len(found) < leaves:
        new = rng.choice([-1.0, 1.0], 20) / np.sqrt(20)
        if max(float(new @ old) for old in found) < 0.45:
            found.append(new)
    return np.array(found[:leaves])


def test_one_row_joins_all_others_at_fixed_thresholds_in_r20() -> None:
    leaves = star(79)
    joined = rips_diagrams(np.vstack([leaves, np.zeros(20)])).h0
    apart = rips_diagrams(np.vstack([leaves, leaves[0]])).h0
    assert betti_curve(joined, [1.02])[0] == 0
    assert betti_curve(apart, [1.02])[0] == 78


def test_one_row_fills_a_hundred_loops_in_r20() -> None:
    corners = np.eye(11) - 1 / 11
    basis = np.linalg.svd(corners)[2][:10]
    simplex = corners @ basis.T  # 11 points of R^10
    none = np.zeros_like(simplex)
    pair = np.vstack([np.hstack([simplex, none]), np.hstack([none, simplex])])
    assert len(rips_diagrams(np.vstack([pair, pair[0]])).h1) == 100
    assert len(rips_diagrams(np.vstack([pair, np.zeros(20)])).h1) == 0


@examples(25)
@given(st.integers(0, 9999), st.sampled_from([None, 0.3, 50.0]))
def test_one_row_more_moves_the_mean_by_at_most_the_stated_sensitivity(seed: int, radius: float | None) -> None:
    """Given the noisy count, which is the same for both here: 60 and 61 rows make five blocks of 12."""
    rng = np.random.default_rng(seed)
    X = rng.random((60, 3))
    more = np.vstack([X, rng.normal(size=3) * 10.0 ** rng.integers(0, 300)])
    options = {"epsilon": 1.0, "delta": 1e-5, "block_rows": 12, "radius": radius}
    a, b = (private_descriptor(Y, 0.0, 1.0, rng=quiet(seed), **options) for Y in (X, more))
    assert a.blocks == b.blocks == 5
    rounding = np.sqrt(48) * a.sigma * 2.0**-private_descriptors.DIGITS
    assert 0 < a.sensitivity <= np.sqrt(48) / 5
    assert np.linalg.norm(a.values - b.values) <= a.sensitivity + rounding


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("releases", [1, 5])
def test_count_and_mean_together_keep_the_budget_for_one_row_more(epsilon: float, releases: int) -> None:
    """μ² adds up over the two Gaussian releases: the exact curve of their sum is at most δ, and ρ what is charged."""
    found = subsample_and_aggregate(
        400,
        lambda rows: np.zeros(48),
        block_rows=20,
        low=0,
        high=np.ones(48),
        epsilon=epsilon,
        delta=1e-5,
        rng=quiet(),
        releases=releases,
    )
    mu = np.sqrt(releases * (1 / found.rows_sigma**2 + (found.sensitivity / found.sigma) ** 2))
    assert 0.99e-5 < gaussian_delta(1.0, mu, epsilon) <= 1e-5
    charged = PTopoFL(epsilon=epsilon, delta=1e-5).spends
    assert charged is not None
    assert mu**2 / 2 == pytest.approx(charged.rho, rel=1e-6)


def test_how_many_rows_there_are_is_told_with_noise_alone() -> None:
    """39 rows and 40 are one block and two by division: what is published follows from a count with noise instead."""
    options = {"block_rows": 20, "low": 0, "high": 1, "epsilon": 1.0, "delta": 1e-5, "rng": SystemDraws()}
    found = {n: [subsample_and_aggregate(n, lambda rows: [0.5], **options) for _ in range(400)] for n in (39, 40)}
    for n, all_ in found.items():
        gaps = np.array([one.rows - n for one in all_]) / all_[0].rows_sigma
        assert kstest(gaps, norm.cdf).pvalue > 1e-5
        assert all(one.blocks == max(1, int(np.floor(one.rows / 20))) for one in all_)
    assert all_[0].rows_sigma > 10
    assert len({one.blocks for one in found[39]} & {one.blocks for one in found[40]}) > 2


def test_the_bound_is_reached() -> None:
    """A statistic that jumps from one corner of the box to the other uses all of the sensitivity."""
    low, high = np.full(3, -2.0), np.full(3, 2.0)

    def released(data: np.ndarray, radius: float | None) -> tuple[np.ndarray, float]:
        found = subsample_and_aggregate(
            40,
            lambda rows: np.full(3, 1e9 * data[rows].sum()),
            block_rows=10,
            low=low,
            high=high,
            epsilon=50.0,
            delta=0.1,
            rng=quiet(),
            radius=radius,
        )
        return found.values, found.sensitivity

    data, other = np.zeros(40), np.zeros(40)  # of 40 rows, those of the block of row 5 jump
    data[5], other[5] = -1.0, 1.0
    for radius, wanted in ((None, np.sqrt(3) / 4), (0.25, 0.5 / 4), (9.0, np.sqrt(3) / 4)):
        (a, sensitivity), (b, _) = released(data, radius), released(other, radius)
        assert sensitivity == pytest.approx(wanted)
        assert np.linalg.norm(a - b) == pytest.approx(wanted, rel=1e-2)


def test_a_row_s_block_is_its_own_draw_and_blocks_are_neither_large_nor_small() -> None:
    def blocks(n: int) -> list[list[int]]:
        return [rows.tolist() for rows in private_descriptors._drawn_blocks(n, 4, np.random.default_rng(0))]

    assert sorted(row for rows in blocks(47) for row in rows) == list(range(47))
    more = blocks(48)
    assert [[row for row in rows if row != 47] for rows in more] == blocks(47)  # the others stay where they are
    sizes: list[int] = []

    def statistic(rows: np.ndarray) -> list[float]:
        sizes.append(len(rows))
        return [1.0]

    found = subsample_and_aggregate(40_000, statistic, block_rows=10, low=0, high=1, **PLAIN | {"rng": quiet()})
    assert (min(sizes), max(sizes)) == (5, 20)
    small = found.blocks - len(sizes)
    assert 0 < small < 0.06 * found.blocks  # as many as chance has it: P(Poisson(10) < 5) = .029
    assert found.values[0] == pytest.approx(1 - 0.5 * small / found.blocks)


def test_the_noise_has_the_stated_deviation_and_many_releases_share_the_budget() -> None:
    options = {"block_rows": 10, "low": 0, "high": np.ones(3000), "epsilon": 1.0, "delta": 1e-5}
    rng = np.random.default_rng(int.from_bytes(os.urandom(32), "little"))
    one, four = (
        subsample_and_aggregate(100, lambda rows: np.full(3000, 0.5), rng=rng, releases=r, **options)
        for r in (1, 4)
    )
    for found in (one, four):
        assert np.std(found.values - 0.5) == pytest.approx(found.sigma, rel=0.1)
        assert abs(np.mean(found.values) - 0.5) < 6 * found.sigma / np.sqrt(3000)
    assert four.sigma * four.blocks == pytest.approx(2 * one.sigma * one.blocks)
    for found in (one, four):
        whole = gaussian_sigma(1.0, 1e-5, np.sqrt(3000 * found.releases / 0.95))
        assert found.sigma * found.blocks == pytest.approx(whole)
    assert not np.array_equal(one.values, four.values)


def test_what_it_costs_is_what_the_first_lines_say() -> None:
    c = gaussian_sigma(1.0, 1e-5, 1.0) / np.sqrt(1 - private_descriptors.ROWS_SHARE)
    assert [int(np.ceil(c * d / 0.1)) for d in (np.sqrt(48), 2.0, 1.0)] == [266, 77, 39]


def test_a_statistic_beyond_its_bounds_or_not_a_number_is_clipped() -> None:
    options = {"block_rows": 5, "low": [0, 0, -1], "high": [1, 1, 1], "epsilon": 50.0, "delta": 0.1}
    found = subsample_and_aggregate(20, lambda rows: [np.nan, np.inf, -7], rng=quiet(), **options)
    np.testing.assert_allclose(found.values, [0, 1, 0], atol=1e-12)


def test_many_blocks_come_near_the_descriptor_of_a_block() -> None:
    X = np.random.default_rng(0).random((4000, 2))
    kept = [NAMES.index("entropy H0"), NAMES.index("amplitude H0")]
    rng = np.random.default_rng(int.from_bytes(os.urandom(32), "little"))
    found = private_descriptor(X, 0.0, 1.0, epsilon=2.0, delta=1e-5, rng=rng, coordinates=kept)
    assert 190 < found.blocks < 210
    high = descriptor_bounds(2)[1][kept]
    typical = np.mean(
        [descriptor(X[i : i + 20], scale="none", size_free=True)[kept] for i in range(0, 4000, 20)], 0
    )
    np.testing.assert_allclose(found.values, typical / high, atol=6 * found.sigma + 0.01)
    assert found.sigma < 0.02


@pytest.mark.parametrize("d", [1, 2, 20])
def test_blocks_of_the_unit_box_lie_within_the_public_bounds(d: int) -> None:
    low, high = descriptor_bounds(d)
    for seed in range(5):
        X = np.random.default_rng(seed).random((20, d))
        phi = descriptor(X, scale="none", size_free=True)
        assert ((phi >= low) & (phi <= high)).all()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: gaussian_sigma(0.0, 1e-5, 1.0), "epsilon"),
        (lambda: gaussian_sigma(1.0, 0.0, 1.0), "delta"),
        (lambda: gaussian_sigma(1.0, 1.0, 1.0), "delta"),
        (lambda: gaussian_sigma(1.0, 1e-5, np.inf), "sensitivity"),
        (lambda: private_descriptor(np.zeros((19, 2)), 0, 1, **PLAIN), "one block"),
        (lambda: private_descriptor(np.zeros((40, 2)), 0, 1, coordinates=[0, 48], **PLAIN), "coordinates"),
        (lambda: private_descriptor(np.zeros((40, 2)), 0, 1, coordinates=[1, 1], **PLAIN), "coordinates"),
        (lambda: private_descriptor(np.zeros((40, 2)), 0, 1, coordinates=[], **PLAIN), "coordinates"),
        (lambda: private_descriptor(np.zeros((40, 2)), 1, 0, **PLAIN), "below"),
        (lambda: private_descriptor(np.zeros((40, 2)), 0, 1, radius=0.0, **PLAIN), "radius"),
        (lambda: private_descriptor(np.zeros((40, 2)), 0, 1, centre=2.0, **PLAIN), "centre"),
        (lambda: private_descriptor(np.zeros((40, 2)), 0, 1, releases=0, **PLAIN), "releases"),
        (
            lambda: subsample_and_aggregate(9, lambda r: [1, 2], block_rows=3, low=0, high=1, **PLAIN),
            "shape",
        ),
        (
            lambda: subsample_and_aggregate(9, lambda r: [1], block_rows=3, low=1, high=1, **PLAIN),
            "bounds",
        ),
    ],
)
def test_what_cannot_be_used_is_refused(call: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()  # type: ignore[operator]


def test_releases_are_whole_numbers_of_a_unit_with_discrete_noise() -> None:
    options = {"block_rows": 10, "low": 0, "high": np.ones(2000), "epsilon": 1.0, "delta": 1e-5}
    found = subsample_and_aggregate(100, lambda rows: np.full(2000, 1 / 3), rng=SystemDraws(), **options)
    blocks = found.blocks
    unit = 2.0 ** (np.floor(np.log2(found.sigma * blocks * (1 - 1e-6))) - private_descriptors.DIGITS)
    whole = found.values * blocks / unit
    assert np.abs(whole - np.rint(whole)).max() < 1e-3  # but for the division by blocks
    assert kstest((found.values - 1 / 3) / found.sigma, norm.cdf).pvalue > 1e-5


@pytest.mark.parametrize("sigma", [40.0, 300.0])
def test_a_discrete_gaussian_is_a_rounded_one_but_for_the_share_that_is_reckoned_with(sigma: float) -> None:
    k = np.arange(-int(5 * sigma), int(5 * sigma) + 1)
    rounded = norm.cdf((k + 0.5) / sigma) - norm.cdf((k - 0.5) / sigma)
    discrete = np.exp(-(k**2) / (2 * sigma**2)) / (sigma * np.sqrt(2 * np.pi))
    assert (np.abs(np.log(discrete / rounded)) <= 1.01 * (k**2 / sigma**2 + 1) / (24 * sigma**2) + 1e-10).all()
