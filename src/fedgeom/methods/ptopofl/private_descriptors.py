"""Descriptors with differential privacy: a mechanism with a proof, and why the obvious one has no use.

Neighbours are data sets of which one has one row more, as everywhere in a site's budget; how many rows there are is
told with noise alone. A row that is exchanged for another is one taken out and one added: two steps, at twice μ.

**Noise on the 48 numbers themselves is useless.** The smallest Gaussian noise for (ε, δ) has a deviation
proportional to the L2 sensitivity, the most that one row can move the descriptor, and that is about the size of the
descriptor itself, also on data clipped to the unit box:

- Thresholds end at a percentile, which one row can move. Of 80 points on a line let 77 be evenly spaced and 3 far
  away: 79 pairs are alive at the first 19 thresholds. Move a fourth point far away, and 4 are alive from the second
  threshold on. The H0 curve has moved by √18 · 75 = 318; for ε = 1, δ = 1e-5 the noise needs a deviation of
  3.73 · 318 ≈ 1,190 on values of at most 79.
- Fixed thresholds help in low dimension only. A point joins all components that it touches; neighbours at scale t
  that are pairwise farther apart than t can number as many as spheres can touch one sphere: at most 5 in the plane,
  12 in space, but thousands in R^20, where one row of 80 can join all others.
- H1 is worse: 22 points in R^20 (two orthogonal simplices of 11) have 100 loops at one scale, and one point in their
  middle fills them all.

Dividing by n divides signal and noise alike. The paper's c/n (Appendix E) is no bound: one row moves the Hausdorff
distance by up to the diameter of the domain, whatever n is.

**Subsample and aggregate is sound for any statistic** (Nissim, Raskhodnikova and Smith 2007). How many rows there are
is counted with noise, and B, the number of blocks, follows from that. Each row draws its block by itself. One vector is
computed per block and clipped to a public set of diameter Δ. One row more is in one block and moves no other row, so
that, B being told, the mean over blocks moves by at most Δ/B. Both releases together are Gaussian differentially
private with μ² = (1/σ_rows)² + (Δ/Bσ)² (Dong, Roth and Su 2022, Corollary 3.3: composition may be adaptive), which is
(ε, δ) by the exact curve, and ρ = μ²/2. All else, thresholds and percentiles included, happens inside a block.

What it costs: on coordinates scaled to [0, 1] the noise has deviation c · √m / B for m numbers, with c = 3.83 at
(1, 1e-5). 48 numbers need B = 266 blocks for a deviation of 0.1 (5,320 rows in blocks of 20), four numbers 77 blocks
(1,540 rows), and 48 numbers clipped to a public ball of radius 0.5 need 39 blocks (780 rows). A site of 80 rows has
about 4 blocks and no use of it.

**No doubles.** Doubles have gaps by which noisy values can betray more than is said (Mironov 2012). So blocks' vectors
are rounded to whole numbers of a unit, which are summed exactly, and the noise is a discrete Gaussian. Its σ is 2^30
units or more, where it is nearly a Gaussian that was rounded: at k the chances differ by a share of (k²/σ² + 1)/24σ²,
which out to 14σ, farther than any number comes, is less than 9/σ². So much is taken from ε for each number and release,
twice (for two data sets); what is left holds for the Gaussian, and rounding tells nothing more.

Limits. That a site has fewer rows than one block, and so takes no part, is not covered. Noise is a secret: it must come
from the operating system (`fedgeom.crypto.masks.SystemDraws`). From a numerical generator, which can be repeated or
foreseen, there is no privacy; such draws are for tests. Refusals (missing values) are seen by the site alone and must
not be sent on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import exp, log2, sqrt
from math import floor as floor_of
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from fedgeom.arrays import Floats, Ints
from fedgeom.crypto.discrete_gaussian import discrete_gaussian
from fedgeom.crypto.masks import NoiseStream
from fedgeom.errors import InputError
from fedgeom.geometry._checks import check_positive
from fedgeom.geometry.topology.descriptors import NAMES, describe
from fedgeom.geometry.topology.persistence import check_cloud, rips_diagrams, scale_to_unit_box

BLOCK_ROWS = 20
"""Rows of a block, where nothing is said: fewer have no loops, more make fewer blocks."""

__all__ = [
    "BLOCK_ROWS",
    "NoiseSource",
    "PrivateMean",
    "descriptor_bounds",
    "gaussian_delta",
    "gaussian_sigma",
    "private_descriptor",
    "subsample_and_aggregate",
]

ROWS_SHARE = 0.05
"""Which part of ρ the count of rows has: at (1, 1e-5) its noise has a deviation of 17 rows."""
DIGITS = 30
"""Binary digits of the noise's deviation, in units that blocks' vectors are rounded to."""


class NoiseSource(Protocol):
    """Where blocks and noise come from: the operating system, or in tests a numpy generator."""

    def bytes(self, length: int, /) -> bytes:
        """Return random bytes."""


class PrivateMean(NamedTuple):
    """A private mean over blocks, and all that a reader needs to know of it; every field may be published.

    ``values`` are in units of the public box: 0 at ``low``, 1 at ``high``. ``sigma`` is the deviation of the noise
    on each of them, ``sensitivity`` the most that one row more moves their mean (L2), ``rows`` the noisy count of rows
    from which ``blocks`` follows, ``rows_sigma`` the deviation of its noise, ``epsilon`` and ``delta`` the budget spent
    by all ``releases`` together.
    """

    values: Floats
    sigma: float
    sensitivity: float
    blocks: int
    rows: float
    rows_sigma: float
    epsilon: float
    delta: float
    releases: int


def gaussian_delta(sigma: float, sensitivity: float, epsilon: float) -> float:
    """Return the exact δ(ε) of Gaussian noise: Φ(s/2σ − εσ/s) − e^ε Φ(−s/2σ − εσ/s), s the L2 sensitivity.

    Balle and Wang (2018), Theorem 8: no smaller δ holds, and no larger one is needed.
    """
    if sensitivity == 0.0:
        return 0.0
    half = sensitivity / (2.0 * sigma)
    shift = epsilon * sigma / sensitivity
    # e^ε and Φ in one exponent: apart, the first overflows where the second vanishes.
    return max(float(ndtr(half - shift)) - exp(min(epsilon + float(log_ndtr(-half - shift)), 0.0)), 0.0)


def gaussian_sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return the smallest σ for which Gaussian noise is (ε, δ)-private (the analytic Gaussian mechanism).

    Rounded up in the tenth digit, so that `gaussian_delta` of it is at most δ.
    """
    epsilon = check_positive(epsilon, "epsilon", "1 is a common choice, and larger is less private")
    if not 0.0 < delta < 1.0:
        raise InputError(f"delta is {delta!r}, but it lies between 0 and 1; take it well below 1/n.")
    if not (np.isfinite(sensitivity) and sensitivity >= 0.0):
        raise InputError(f"sensitivity is {sensitivity!r}, but a finite number from 0 is wanted.")
    if sensitivity == 0.0:
        return 0.0

    def excess(log_sigma: float) -> float:
        return gaussian_delta(exp(log_sigma), 1.0, epsilon) - delta

    low = -1.0
    high = 1.0
    while excess(low) <= 0.0:
        low -= 1.0
    while excess(high) > 0.0:
        high += 1.0
    return float(sensitivity * exp(brentq(excess, low, high, xtol=1e-13, rtol=1e-14)) * (1.0 + 1e-10))


def subsample_and_aggregate(
    n: int,
    statistic: Callable[[NDArray[np.int64]], ArrayLike],
    *,
    block_rows: int,
    low: ArrayLike,
    high: ArrayLike,
    epsilon: float,
    delta: float,
    rng: NoiseSource,
    radius: float | None = None,
    centre: ArrayLike | None = None,
    releases: int = 1,
) -> PrivateMean:
    """Return the mean over blocks of any statistic of a block of row numbers, (ε, δ)-private for one row more or less.

    ``statistic`` gets the numbers of one block's rows and must use no other rows. Its vectors are clipped to the
    public box [low, high], brought to [0, 1], and with ``radius`` also drawn into the ball of that radius about
    ``centre`` (a point of [0, 1]^m, its middle if not given). The sensitivity is the smaller of the box's and the
    ball's diameter, divided by the number of blocks. Blocks have about ``block_rows`` rows; of one with more than twice
    as many the rest is not used, and one with less than half as many counts as ``centre``.

    ``releases`` says how often this will be asked of the same rows: R Gaussian releases are together exactly one
    of √R times the sensitivity, and (ε, δ) is kept by all of them together.

    ``rng`` must draw from the operating system; see the module's limits.
    """
    floor, ceiling = np.broadcast_arrays(*(np.atleast_1d(np.asarray(b, np.float64)) for b in (low, high)))
    if (
        floor.ndim != 1
        or not np.isfinite(floor).all()
        or not np.isfinite(ceiling).all()
        or (floor >= ceiling).any()
    ):
        raise InputError("low and high must be finite public bounds, low below high, one of each per number.")
    if block_rows < 1 or n // block_rows < 1:
        raise InputError(f"{n} rows do not make one block of {block_rows}; take fewer rows per block.")
    if releases < 1:
        raise InputError(f"releases is {releases}, but at least one is wanted.")
    m = len(floor)
    diameter = (
        sqrt(m) if radius is None else min(sqrt(m), 2.0 * check_positive(radius, "radius", "a public number"))
    )
    middle = np.full(m, 0.5) if centre is None else np.broadcast_to(np.asarray(centre, np.float64), (m,))
    if not ((middle >= 0.0) & (middle <= 1.0)).all():
        raise InputError("centre must lie in [0, 1] in every number, in units of the public box.")
    check_positive(epsilon, "epsilon", "1 is a common choice, and larger is less private")
    left = epsilon - 2 * releases * (m + 1) * 9 * 4.0**-DIGITS
    rows, rows_sigma = _noisy_count(n, left, delta, releases, rng)
    blocks = max(1, floor_of(rows / block_rows))
    part = sqrt(releases / (1 - ROWS_SHARE))
    unit = 2.0 ** (floor_of(log2(gaussian_sigma(left, delta, diameter * part))) - DIGITS)
    total = np.zeros(m, np.int64)
    for members in _drawn_blocks(n, blocks, rng):
        inside = middle
        if len(members) >= max(1, block_rows // 2):
            found = np.asarray(statistic(members[: 2 * block_rows]), np.float64)
            inside = _clipped(found, floor, ceiling, middle, radius)
        total += np.rint(inside / unit).astype(np.int64)
    moved = diameter / unit + sqrt(m)  # rounding moves each number by half a unit, at both ends
    sigma = gaussian_sigma(left, delta * (1 - 1e-9), moved * part)
    noisy = np.asarray((total + _noise(sigma, m, rng)) * (unit / blocks), np.float64)
    spread = sigma * unit / blocks
    return PrivateMean(noisy, spread, diameter / blocks, blocks, rows, rows_sigma, epsilon, delta, releases)


def _noisy_count(n: int, epsilon: float, delta: float, releases: int, rng: NoiseSource) -> tuple[float, float]:
    """Return the number of rows with noise that has `ROWS_SHARE` of ρ, and the deviation of that noise.

    In units of a power of two, of which one row is a whole number, so that nothing is rounded.
    """
    wanted = gaussian_sigma(epsilon, delta * (1 - 1e-9), sqrt(releases / ROWS_SHARE))
    unit = min(2.0 ** (floor_of(log2(wanted)) - DIGITS), 1.0)
    noise = int(_noise(wanted / unit, 1, rng)[0])
    return n + noise * unit, wanted


def _drawn_blocks(n: int, blocks: int, rng: NoiseSource) -> Iterator[NDArray[np.int64]]:
    """Yield the rows of each block, in the order of their draws: where a row is depends on its own draw alone."""
    draws = np.frombuffer(rng.bytes(8 * n), "<u8")
    block = (draws % np.uint64(blocks)).astype(np.int64)
    order = np.lexsort((draws, block))
    ends = np.searchsorted(block[order], np.arange(blocks + 1))
    for first, last in pairwise(ends.tolist()):
        yield order[first:last]


def _noise(sigma: float, numbers: int, rng: NoiseSource) -> Ints:
    """Return discrete Gaussian numbers, from a key of the generator's."""
    return discrete_gaussian(sigma).draw(NoiseStream(rng.bytes(32)), numbers)


def descriptor_bounds(dimension: int) -> tuple[Floats, Floats]:
    """Return public bounds (low, high) of the 48 size-free numbers for points of the unit box in R^dimension.

    H0 curve, counts and both entropies lie in [0, 1] for every cloud. Loops per merge are clipped at 1, and the root
    mean square persistence at half the box's diagonal √d; clouds beyond that are possible and lose something, not
    their privacy.
    """
    high = np.ones(len(NAMES))
    high[[i for i, name in enumerate(NAMES) if name.startswith("amplitude")]] = 0.5 * sqrt(dimension)
    return np.zeros(len(NAMES)), high


def private_descriptor(
    X: ArrayLike,
    low: ArrayLike,
    high: ArrayLike,
    *,
    epsilon: float,
    delta: float,
    rng: NoiseSource,
    block_rows: int = BLOCK_ROWS,
    coordinates: Sequence[int] | None = None,
    radius: float | None = None,
    centre: ArrayLike | None = None,
    releases: int = 1,
) -> PrivateMean:
    """Return the size-free descriptor of an average block of X, (ε, δ)-private for one row more or less.

    ``low`` and ``high`` are public ranges of the columns (not the site's own least and largest values, which would
    tell of single rows); entries are clipped to them. ``coordinates`` keeps only these of the 48 numbers `NAMES`:
    the noise grows with the root of how many are sent. The rest is as in `subsample_and_aggregate`; ``rng`` must draw
    from the operating system.
    """
    cloud = scale_to_unit_box(check_cloud(X), low, high)
    kept = np.arange(len(NAMES)) if coordinates is None else np.asarray(coordinates, np.int64)
    places = set(kept.ravel().tolist())
    if kept.ndim != 1 or not places or len(places) != len(kept) or not places <= set(range(len(NAMES))):
        raise InputError(f"coordinates are {coordinates!r}, but different places in NAMES are wanted, 0 to 47.")
    floor, ceiling = descriptor_bounds(cloud.shape[1])

    def statistic(rows: NDArray[np.int64]) -> Floats:
        return describe(rips_diagrams(cloud[rows]), size_free=True)[kept]

    return subsample_and_aggregate(
        len(cloud),
        statistic,
        block_rows=block_rows,
        low=floor[kept],
        high=ceiling[kept],
        epsilon=epsilon,
        delta=delta,
        rng=rng,
        radius=radius,
        centre=centre,
        releases=releases,
    )


def _clipped(value: Floats, low: Floats, high: Floats, centre: Floats, radius: float | None) -> Floats:
    """Bring one block's vector into the public set; whatever it was, the result lies inside."""
    if value.shape != low.shape:
        raise InputError(f"a block's statistic has shape {value.shape}, but the bounds have {low.shape}.")
    # A statistic that is not a number would pass through clipping and undo the proof.
    unit = (np.clip(np.where(np.isnan(value), low, value), low, high) - low) / (high - low)
    if radius is None:
        return np.asarray(unit, np.float64)
    away = unit - centre
    length = float(np.linalg.norm(away))
    return np.asarray(centre + away * min(1.0, radius / length) if length > 0.0 else centre, np.float64)
