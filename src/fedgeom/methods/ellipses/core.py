"""What a site writes of its classes, and how it is read again: counts, sums and products in slots of hidden blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Indices, Ints
from fedgeom.data.validation import FaultsError, fault
from fedgeom.errors import InputError
from fedgeom.federation.privacy import privacy_of
from fedgeom.geometry.gaussians import Gaussians, find_components
from fedgeom.geometry.hyperbolic.poincare import log0
from fedgeom.methods.ellipses.settings import EllipseSettings
from fedgeom.methods.moments.core import inside, mended_covariances, moments_of, numbers, sensitivity, weights
from fedgeom.privacy.bounded_sums import BITS, in_whole_numbers


@dataclass(frozen=True)
class EllipseLayout:
    """Where what stands in the vector that sites add up: first the scatter inside all classes, then the slots."""

    columns: int
    blocks: int
    classes: int
    components: int

    @property
    def scatter(self) -> int:
        """How many numbers the common part has: rows, and the upper triangle of the scatter inside classes."""
        return 1 + self.columns * (self.columns + 1) // 2

    @property
    def slot(self) -> int:
        """How many numbers a Gaussian has: rows, those behind the products, sums, the upper triangle of products."""
        return 2 + self.columns + self.columns * (self.columns + 1) // 2

    @property
    def length(self) -> int:
        """How many numbers there are in all."""
        return self.scatter + self.blocks * self.classes * self.components * self.slot


def vectors(X: Floats, settings: EllipseSettings, scales: Floats | None) -> Floats:
    """Return rows as vectors: in the tangent space of the ball, or standardised by means and deviations.

    X (n, d), scales (2, d) or None; returns (n, d), f8.
    """
    if settings.c is not None:
        return np.asarray(log0(X, c=settings.c))
    rows = np.asarray(X, np.float64)
    return rows if scales is None else (rows - scales[0]) / scales[1]


def write_classes(
    V: Floats,
    y: npt.NDArray[Any],
    places: Mapping[str, int],
    layout: EllipseLayout,
    settings: EllipseSettings,
    full: float,
) -> Floats:
    """Return a site's numbers: for each of its words the Gaussians, in its place, and the scatter inside them all.

    V (n, d), f8, y (n,); places: the first slot of each word that takes part. Of components with fewer
    than ``full`` rows the products of different columns are those of independent ones.
    """
    vector = np.zeros(layout.length)
    upper = np.triu_indices(layout.columns)
    slots = vector[layout.scatter :].reshape(-1, layout.slot)
    scatter = np.zeros((layout.columns, layout.columns))
    rows = 0
    for word, place in places.items():
        members = V[y == word]
        component = find_components(members, layout.components, settings.min_rows)
        for at in range(int(component.max()) + 1):
            inside = members[component == at]
            n = len(inside)
            mean = inside.mean(axis=0)
            within = (inside - mean).T @ (inside - mean)
            scatter += within
            rows += n
            known = within if n >= full else np.diag(np.diag(within))
            products = known + n * np.outer(mean, mean)
            slots[place + at] = [n, n if n >= full else 0, *(n * mean), *products[upper]]
    vector[: layout.scatter] = [rows, *scatter[upper]]
    return vector


@dataclass(frozen=True, eq=False)
class Received:
    """What the coordinator reads from the sum: Gaussians, in an order that tells nothing of the sites."""

    gaussians: Gaussians
    slots: Indices
    """(k,): which slot each is from."""
    within: Floats
    """(d, d): the covariance inside all classes."""

    def by_class(self, components: int) -> tuple[Gaussians, Indices, Indices]:
        """Return one Gaussian for each class of a site, the slot of each class, and the class of each Gaussian here."""
        slots = list(dict.fromkeys((self.slots // components).tolist()))
        place = {slot: at for at, slot in enumerate(slots)}
        member = np.array([place[slot] for slot in (self.slots // components).tolist()], np.intp)
        return self.gaussians.merged(member, len(slots)), np.array(slots, np.intp), member


def read_sum(total: Floats, layout: EllipseLayout) -> Received:
    """Take the sum apart; Gaussians whose covariances were not sent have those of all classes.

    total (`EllipseLayout.length`,), f8.
    """
    d = layout.columns
    upper = np.triu_indices(layout.columns)
    within = _symmetric(total[1 : layout.scatter], d) / max(total[0], 1.0)
    table = total[layout.scatter :].reshape(-1, layout.slot)
    used = np.flatnonzero(np.rint(table[:, 0]) >= 1)
    used = used[_canonical(table[used], used // (layout.classes * layout.components))]
    counts = np.rint(table[used, 0])
    behind = np.rint(table[used, 1])
    means = table[used, 2 : 2 + d] / counts[:, None]
    covariances = np.zeros((len(used), d, d))
    covariances[:, upper[0], upper[1]] = table[used, 2 + d :] / counts[:, None]
    covariances[:, upper[1], upper[0]] = table[used, 2 + d :] / counts[:, None]
    covariances -= means[:, :, None] * means[:, None, :]
    alike = _correlations(within)
    for at in np.flatnonzero(behind < counts).tolist():
        deviations = np.sqrt(np.maximum(np.diag(covariances[at]), 0.0))
        covariances[at] += (1 - behind[at] / counts[at]) * np.outer(deviations, deviations) * alike
    return Received(Gaussians(counts, means, covariances), used, within)


def _symmetric(upper: Floats, columns: int) -> Floats:
    matrix = np.zeros((columns, columns))
    matrix[np.triu_indices(columns)] = upper
    return matrix + np.triu(matrix, 1).T


def _correlations(covariance: Floats) -> Floats:
    """Return how columns go together inside classes, without what each does by itself: 0 on the diagonal."""
    deviations = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    return np.asarray(covariance / np.outer(deviations, deviations) * (1 - np.eye(len(covariance))))


def _canonical(table: Floats, block: Indices) -> Indices:
    """Return an order that depends on the numbers alone: inside blocks by numbers, blocks by their first ones.

    The order of blocks is drawn anew in each run; sums of floats in another order would differ in the last digit.
    """
    ranks = np.lexsort(table.T[::-1])
    place = np.empty(len(table), np.intp)
    place[ranks] = np.arange(len(table))
    first = {one: int(place[block == one].min()) for one in np.unique(block).tolist()}
    return np.array(sorted(range(len(table)), key=lambda at: (first[int(block[at])], place[at])), dtype=np.intp)


def check_width(columns: int, layout: EllipseLayout, limit: int) -> None:
    """Refuse so many columns that no message of ``limit`` bytes could hold the Gaussians of all sites."""
    size = 8 * layout.length
    if size > limit:
        most = columns
        while (
            most > 1 and 8 * EllipseLayout(most, layout.blocks, layout.classes, layout.components).length > limit
        ):
            most = most * 9 // 10
        what = (
            f"Gaussians of {columns:,} columns, {layout.classes} classes and {layout.blocks} sites are a message of "
            f"{size:,} bytes; the limit is {limit:,} (max_message_bytes in the policy)"
        )
        raise FaultsError([fault(what, f"take fewer columns, some {most:,} or less", topic="size")])


COUNT = weights(squares=True)[0]
"""What one row adds to its slot's count."""
CERTAIN = 4.0
"""A slot is used if its count is above so many deviations of the noise: of a hundred empty ones, 0.003 are taken."""


def bounds(layout: EllipseLayout) -> dict[str, Any]:
    """Return what the noise of the sum follows from (`fedgeom.protocols.noise.sum_noise`)."""
    slots = layout.blocks * layout.classes
    return {"sensitivity": sensitivity(squares=True), "numbers": numbers(slots, layout.columns, squares=True)}


def bounded_gaussians(
    V: Floats, y: npt.NDArray[Any], places: Mapping[str, int], layout: EllipseLayout, settings: EllipseSettings
) -> Ints:
    """Return a site's counts, sums and products, slot by slot, (numbers,), i8; places: the slot of each word."""
    privacy = privacy_of(settings)
    assert privacy is not None
    nobody = np.zeros(len(y), bool)
    slots = layout.blocks * layout.classes
    word = {slot: name for name, slot in places.items()}
    members = [y == word[slot] if slot in word else nobody for slot in range(slots)]
    return moments_of(in_whole_numbers(V, privacy.clip), members, squares=True)


def read_noisy_sum(total: Floats, layout: EllipseLayout, settings: EllipseSettings, spread: float) -> Received:
    """Take a noisy sum, (numbers,), f8, apart; ``spread`` is the deviation of its noise.

    Means and covariances that noise made impossible are mended; nobody's rows are looked at again.
    """
    privacy = privacy_of(settings)
    w = weights(squares=True)
    d = layout.columns
    assert privacy is not None
    table = total.reshape(layout.blocks * layout.classes, -1)
    clip = privacy.clip
    error = spread / w[0]
    counts = table[:, 0] / w[0]
    used = np.arange(len(table)) if settings.shared else np.flatnonzero(counts > CERTAIN * error)
    if not len(used):
        raise InputError(
            "every class of every site is lost in the noise: more rows, or a larger epsilon, are needed"
        )
    counts = np.maximum(counts[used], 1.0)
    means = table[used, 1 : 1 + d] * (clip / 2**BITS / w[1]) / np.maximum(counts, 2 * error)[:, None]
    means = inside(means, clip)
    scale = clip**2 / 4**BITS / w[2]
    covariances = mended_covariances(
        table[used, 1 + d :] * scale, spread * scale, counts, means, settings.shrinkage
    )
    within = np.einsum("k,kij->ij", counts, covariances) / counts.sum()
    return Received(Gaussians(counts, means, covariances), used.astype(np.intp), within)
