"""Ellipses with differential privacy: Gaussians of shortened rows, by one sum with a bound on what a row adds.

A row of one class of one site, shortened and divided by ``clip``, adds (w₀, w₁u, w₂uuᵀ) to one slot, as with `Moments`.
Slots that are not used have noise alone; which these are the coordinator takes from noisy counts.

With own names, a row may be the only one of its word, so that a word more or less is given a slot. Slots are drawn in
an order that the site alone knows: whichever slots the other words have, they may have them with one word more as well,
with the same chance. What leaves is then a mixture, over that order, of sums that one row moves within the bound, and
mixtures are no less private than what they are mixed of (Rényi divergence is quasi-convex; van Erven and Harremoës
2014, Theorem 13).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Ints
from fedgeom.errors import InputError
from fedgeom.federation.privacy import privacy_of
from fedgeom.geometry.gaussians.bundles import Gaussians
from fedgeom.methods.ellipses.core import Layout, Received
from fedgeom.methods.ellipses.settings import EllipseSettings
from fedgeom.methods.moments.private import inside, mended_covariances, moments_of, numbers, sensitivity, weights
from fedgeom.privacy.bounded_sums import BITS, in_whole_numbers

COUNT = weights(squares=True)[0]
"""What one row adds to its slot's count."""
CERTAIN = 4.0
"""A slot is used if its count is above so many deviations of the noise: of a hundred empty ones, 0.003 are taken."""


def bounds(layout: Layout) -> dict[str, Any]:
    """Return what the noise of the sum follows from (`fedgeom.protocols.noising.sum_noise`)."""
    slots = layout.blocks * layout.classes
    return {"sensitivity": sensitivity(squares=True), "numbers": numbers(slots, layout.columns, squares=True)}


def bounded_gaussians(
    V: Floats, y: npt.NDArray[Any], places: Mapping[str, int], layout: Layout, settings: EllipseSettings
) -> Ints:
    """Return a site's counts, sums and products, slot by slot, (numbers,), i8; places: the slot of each word."""
    privacy = privacy_of(settings)
    assert privacy is not None
    nobody, slots = np.zeros(len(y), bool), layout.blocks * layout.classes
    word = {slot: name for name, slot in places.items()}
    members = [y == word[slot] if slot in word else nobody for slot in range(slots)]
    return moments_of(in_whole_numbers(V, privacy.clip), members, squares=True)


def read_noisy_sum(total: Floats, layout: Layout, settings: EllipseSettings, spread: float) -> Received:
    """Take a noisy sum, (numbers,), f8, apart; ``spread`` is the deviation of its noise.

    Means and covariances that noise made impossible are mended; nobody's rows are looked at again.
    """
    privacy, w, d = privacy_of(settings), weights(squares=True), layout.columns
    assert privacy is not None
    table, clip = total.reshape(layout.blocks * layout.classes, -1), privacy.clip
    error, counts = spread / w[0], table[:, 0] / w[0]
    used = np.arange(len(table)) if settings.shared else np.flatnonzero(counts > CERTAIN * error)
    if not len(used):
        raise InputError(
            "every class of every site is lost in the noise: more rows, or a larger epsilon, are needed"
        )
    counts = np.maximum(counts[used], 1.0)
    means = table[used, 1 : 1 + d] * (clip / 2**BITS / w[1]) / np.maximum(counts, 2 * error)[:, None]
    means, scale = inside(means, clip), clip**2 / 4**BITS / w[2]
    covariances = mended_covariances(
        table[used, 1 + d :] * scale, spread * scale, counts, means, settings.shrinkage
    )
    within = np.einsum("k,kij->ij", counts, covariances) / counts.sum()
    return Received(Gaussians(counts, means, covariances), used.astype(np.intp), within)
