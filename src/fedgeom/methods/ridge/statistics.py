"""What a run of Ridge can be updated from later: the features, the sums, and a number that stands for both."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Bools, Floats, Ints, Words
from fedgeom.crypto.keys import fingerprint
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.disclosure import merge_bins
from fedgeom.federation.messages import Array
from fedgeom.federation.preparation import Preparation
from fedgeom.methods.ridge import image_features
from fedgeom.methods.ridge.core import Rows, class_weights, cuts, fold_numbers, fraction_bits, starts
from fedgeom.methods.ridge.features import (
    BufferedContext,
    FeatureContext,
    check_widths,
    normals,
    read_merged,
    stack,
)
from fedgeom.methods.ridge.settings import RidgeSettings
from fedgeom.protocols.fixed_point import from_fixed, from_wide

PATCH_BITS = 28
"""Binary digits after the point in sums of patches."""
_IMAGES = 256


@dataclass(frozen=True)
class FeatureProblem:
    """What follows from the terms, the run's seed, the policies and the number of columns."""

    settings: RidgeSettings
    seed: int
    floors: tuple[int, int]
    """How many sites and rows of all sites a cluster of patches must have to be summed, by the policies."""
    columns: int
    classes: int
    sites: int = 1
    """How many sites joined."""

    @property
    def width(self) -> int:
        """How many features there are."""
        return check_widths(self.settings.maps, self.columns, self.settings.shape, self.settings.max_features)

    @property
    def cells(self) -> int:
        """How many cells a patch has."""
        conv = self.settings.conv
        return 0 if conv is None else conv.patch_size**2 * self.settings.shape[2]

    @property
    def steps(self) -> int:
        """How many sums the features need: moments of columns, cells of bins, moments of patches, two in each round."""
        conv = self.settings.conv
        return 1 + self.binned + (0 if conv is None else 1 + 2 * conv.n_rounds)

    @property
    def binned(self) -> bool:
        """Whether a sum is planned that counts cells of bins; it is held where policies have floors (`floored`)."""
        return self.settings.binned is not None

    @property
    def floored(self) -> bool:
        """Whether cells of bins are counted."""
        return self.binned and self.floors != (1, 1)

    @property
    def groups(self) -> list[list[int]]:
        """The columns of each group of bins."""
        binned = self.settings.binned
        return [] if binned is None else binned.groups(self.columns, self.seed)

    @property
    def cell_shape(self) -> tuple[int, ...]:
        """The shape of what is counted: rows and sites; classes and folds; features."""
        binned = self.settings.binned
        width = 0 if binned is None else binned.width(self.columns, self.settings.shape)
        assert width is not None
        return 2, self.classes * self.settings.folds, width

    @property
    def pair_shape(self) -> tuple[int, ...]:
        """The shape of what is counted for cells of two groups: rows and sites; folds; two groups; their cells."""
        groups = self.cell_shape[2] // self.group_cells
        return 2, self.settings.folds, groups * (groups - 1) // 2, self.group_cells**2

    @property
    def group_cells(self) -> int:
        """How many cells a group of bins has."""
        binned = self.settings.binned
        return 1 if binned is None else int(binned.n_bins**binned.group_size)

    @property
    def counted_cells(self) -> int:
        """How many numbers say how many rows are in which cells."""
        return math.prod(self.cell_shape) + math.prod(self.pair_shape) + self.settings.folds * self.cell_shape[2]

    @property
    def beside(self) -> int:
        """How many features there are beside the bins: as many rows of a cell can be cancelled by their products."""
        return self.width - self.cell_shape[2]

    @property
    def spread_rows(self) -> int:
        """How many rows of one site count at most where is counted over how many sites a cell's rows are spread."""
        return -(-(self.beside + 1) // max(self.sites - self.floors[0] + 1, 1))

    @property
    def cell_floors(self) -> tuple[int, int]:
        """How many rows a cell must have, counted as `spread_rows` says, and in all, whatever is cancelled.

        Of so many, more rows than can be cancelled are left without those of any ``min_sites`` - 1 sites.
        """
        sites, rows = self.floors
        return (sites - 1) * self.spread_rows + self.beside + 1, rows + self.beside


class FeatureFit(msgspec.Struct, kw_only=True):
    """How far the features have come: a site remembers it between two questions."""

    taken: int = 0
    """How many sums were taken."""
    counts: Array | None = None
    """(classes,), f8: rows of each class at all sites."""
    moments: Array | None = None
    """(3, columns), f8: mean, standard deviation, and whether a column varies; where bins have floors, below them which
    bin stands for each bin of a column, (3 + bins, columns)."""
    contrast: float = 1.0
    patch_mean: Array | None = None
    """(patch cells,), f8"""
    whitener: Array | None = None
    """(patch cells, patch cells), f8"""
    centres: Array | None = None
    """(filters, patch cells), f8: unit vectors."""
    kept: Array | None = None
    """(at most filters,), i8: clusters that are large enough to be summed; None: sizes are not known yet."""

    def length(self, plan: FeatureProblem) -> int:
        """Return how many words the next sum has."""
        conv = plan.settings.conv
        cells = plan.cells
        if self.taken == 0:
            return 2 * (plan.classes + 2 * plan.columns)
        if self.taken < 1 + plan.binned:
            return plan.counted_cells
        if self.taken >= plan.steps or conv is None:
            raise ProtocolError("all features are made already")
        patches = self.taken - plan.binned
        if patches == 1:
            return 1 + cells + cells * (cells + 1) // 2
        return 2 * conv.n_filters if patches % 2 == 0 else self._sizes() * cells

    def _sizes(self) -> int:
        if self.kept is None:
            raise ProtocolError("clusters are summed only after the small ones were left out")
        return self.kept.shape[0]

    def take(self, total: Words, plan: FeatureProblem) -> None:
        """Take the next sum over all sites, ring elements as they were added up."""
        if len(total) != self.length(plan):
            raise ProtocolError(f"a sum of {len(total)} words came; wanted {self.length(plan)}")
        patches = self.taken - plan.binned
        if self.taken == 0:
            self._take_columns(from_wide(total), plan)
            self.taken += plan.binned and not plan.floored  # cells are not counted
        elif self.taken < 1 + plan.binned:
            self._merge_bins(total.view(np.int64), plan)
        elif patches == 1:
            mean, whitener = image_features.whitening(from_fixed(total, fraction_bits=PATCH_BITS), plan.cells)
            self.patch_mean = Array.of(mean)
            self.whitener = Array.of(whitener)
            first = normals(plan.seed, "centres", self._conv(plan).n_filters, plan.cells)
            self.centres = Array.of(first / np.linalg.norm(first, axis=1, keepdims=True))
        elif patches % 2 == 0:
            images, sites = total.view(np.int64).reshape(2, -1)
            enough = images >= max(self._conv(plan).min_cell, plan.floors[1])
            self.kept = Array.of(np.flatnonzero(enough & (sites >= plan.floors[0])).astype(np.int64))
        else:
            self._move(from_fixed(total, fraction_bits=PATCH_BITS).reshape(-1, plan.cells))
        self.taken += 1

    def _conv(self, plan: FeatureProblem) -> Any:
        return plan.settings.conv

    def _take_columns(self, values: Floats, plan: FeatureProblem) -> None:
        counts = np.rint(values[: plan.classes])
        rows = max(float(counts.sum()), 1.0)
        sums, squares = values[plan.classes :].reshape(2, plan.columns) / rows
        variance = squares - sums**2
        varies = variance > 1e-12 * np.maximum(squares, 1e-300)
        scale = np.sqrt(np.where(varies, variance, 1.0))
        self.counts = Array.of(counts)
        self.moments = Array.of(np.array([sums, scale, varies.astype(np.float64)]))
        whole = float(squares.mean() - sums.mean() ** 2)
        self.contrast = float(np.sqrt(whole)) if whole > 0 else 1.0

    def _merge_bins(self, counts: Ints, plan: FeatureProblem) -> None:
        """Let bins join their neighbours until no cell is too small."""
        binned = plan.settings.binned
        assert binned is not None
        assert self.moments is not None
        merged = merge_bins(_cell_tables(counts, plan), plan.columns, binned.n_bins)
        self.moments = Array.of(np.vstack([self.moments.numpy(), merged.T]))

    def merged_bins(self) -> int:
        """Return how many bins joined another."""
        if self.moments is None:
            return 0
        merged = self.moments.numpy()[3:]
        return int((merged != np.arange(len(merged))[:, None]).sum())

    def _move(self, sums: Floats) -> None:
        """Put the centres of clusters that were summed to their directions; the others stay."""
        assert self.centres is not None
        assert self.kept is not None
        centres = self.centres.numpy()
        length = np.linalg.norm(sums, axis=1, keepdims=True)
        kept = self.kept.numpy()
        centres[kept] = np.where(length > 1e-9, sums / np.where(length > 1e-9, length, 1.0), centres[kept])
        self.centres = Array.of(centres)
        self.kept = None

    def rows(self) -> float:
        """Return how many rows all sites have."""
        return float(self.class_counts().sum())

    def class_counts(self) -> Floats:
        """Return how many rows of each class all sites have, (classes,)."""
        if self.counts is None:
            raise ProtocolError("the rows of all sites were not counted yet")
        found: Floats = self.counts.numpy()
        return found

    def ground(self, plan: FeatureProblem) -> FeatureContext:
        """Return what feature maps are made from, as far as it is known."""
        if self.moments is None:
            raise ProtocolError("the columns' moments are not known yet")
        mean, scale, varies, *merged = self.moments.numpy()
        filters = offsets = None
        if self.taken == plan.steps and self.centres is not None:
            assert self.whitener is not None
            assert self.patch_mean is not None
            bank = self.whitener.numpy() @ self.centres.numpy().T
            filters = np.ascontiguousarray(bank, np.float32)
            offsets = (self.patch_mean.numpy() @ bank).astype(np.float32)
        shape = tuple(plan.settings.shape)
        known = plan.columns, plan.seed, shape, mean, scale, varies, self.contrast, filters, offsets
        return FeatureContext(*known, merged=read_merged(merged))

    def finished(self, plan: FeatureProblem) -> FeatureContext:
        """Return what feature maps are made from, once all sums were taken."""
        if self.taken != plan.steps:
            raise ProtocolError("the features are not made yet")
        return self.ground(plan)


def column_moments(X: npt.NDArray[Any], codes: Ints, classes: int) -> Floats:
    """Return counts of classes, sums of columns and sums of their squares: one vector, f8."""
    sums = np.zeros(X.shape[1])
    squares = np.zeros(X.shape[1])
    for some in image_features.blocks(len(X), 4096):
        rows = np.asarray(X[some], np.float64)
        sums += rows.sum(axis=0)
        squares += np.einsum("ij,ij->j", rows, rows)
    return np.concatenate([np.bincount(codes, minlength=classes).astype(np.float64), sums, squares])


def cell_counts(X: npt.NDArray[Any], codes: Ints, fit: FeatureFit, plan: FeatureProblem) -> Ints:
    """Return how many of a site's rows lie in each cell, at most the floor, and whether any do.

    One vector: rows of each class and fold in each cell of a group (`FeatureProblem.cell_shape`), then rows of each
    fold in the cells of each two groups (`FeatureProblem.pair_shape`), then rows of each fold in each cell of a group,
    at most `FeatureProblem.spread_rows`.
    """
    binned = plan.settings.binned
    assert binned is not None
    _, slices, width = plan.cell_shape
    _, folds, pairs, both = plan.pair_shape
    one, other = np.triu_indices(len(plan.groups), 1)
    inner = np.array([binned.n_bins ** len(members) for members in plan.groups])
    of_fold = fold_numbers(X, folds)
    single = np.zeros(slices * width, np.int64)
    double = np.zeros(folds * pairs * both, np.int64)
    for some in image_features.blocks(len(X), 4096):
        places = binned.places(X[some], fit.ground(plan))
        fold = of_fold[some][:, None]
        group = plan.group_cells * np.arange(places.shape[1])
        cells = places + group + width * (codes[some][:, None] * folds + fold)
        single += np.bincount(cells.ravel(), minlength=len(single))
        cells = places[:, one] * inner[other] + places[:, other] + both * (np.arange(pairs) + pairs * fold)
        double += np.bincount(cells.ravel(), minlength=len(double))
    found = [part for kind in (single, double) for part in (np.minimum(kind, plan.cell_floors[1]), kind > 0)]
    all_classes = single.reshape(plan.classes, -1).sum(axis=0)
    return np.concatenate([*found, np.minimum(all_classes, plan.spread_rows)]).astype(np.int64)


def _cell_tables(counts: Ints, plan: FeatureProblem) -> Iterator[tuple[list[int], Ints, tuple[int, int]]]:
    """Yield the columns of each group, and of each two, what was counted for it, and its floors (`merge_bins`)."""
    lengths = [math.prod(plan.cell_shape), math.prod(plan.pair_shape)]
    single, double, spread = np.split(counts, np.cumsum(lengths))
    groups = plan.groups
    of_groups = single.reshape(2, plan.classes, plan.settings.folds, len(groups), plan.group_cells)
    in_all = of_groups[0].sum(axis=0)
    all_classes = np.array([in_all, spread.reshape(in_all.shape)])
    of_pairs = double.reshape(plan.pair_shape)
    for at, members in enumerate(groups):
        yield members, of_groups.reshape(2, -1, *of_groups.shape[3:])[:, :, at], plan.floors
        yield members, all_classes[:, :, at], plan.cell_floors
    for at, (one, other) in enumerate(itertools.combinations(groups, 2)):
        yield [*one, *other], of_pairs[:, :, at], plan.floors


def patch_sums(X: npt.NDArray[Any], fit: FeatureFit, plan: FeatureProblem) -> Floats:
    """Return the moments of a site's patches, f8."""
    total = np.zeros(fit.length(plan))
    for found in _lattices(X, fit, plan):
        total += image_features.patch_moments(found)
    return total


def cluster_sums(X: npt.NDArray[Any], fit: FeatureFit, plan: FeatureProblem) -> tuple[Ints, Floats]:
    """Return how many images have a patch in each cluster, (filters,), and the clusters' sums, (filters, cells)."""
    assert fit.patch_mean is not None
    assert fit.whitener is not None
    assert fit.centres is not None
    mean = fit.patch_mean.numpy()
    whitener = fit.whitener.numpy()
    centres = fit.centres.numpy()
    images = np.zeros(len(centres), np.int64)
    sums = np.zeros(centres.shape)
    for found in _lattices(X, fit, plan):
        cells, units = image_features.assign(found, mean, whitener, centres)
        images += image_features.count_images(cells, len(found), len(centres))
        sums += image_features.sum_cells(cells, units, np.arange(len(centres)), len(centres))
    return images, sums


def _lattices(X: npt.NDArray[Any], fit: FeatureFit, plan: FeatureProblem) -> Sequence[Any]:
    conv = plan.settings.conv
    shape = plan.settings.shape
    assert conv is not None
    contrast = fit.contrast
    return (
        []
        if not len(X)
        else _each(
            X,
            lambda rows: image_features.normalised_patches(
                rows, shape, conv.patch_size, conv.padding, contrast, lattice=True
            ),
        )
    )


def _each(X: npt.NDArray[Any], make: Callable[[Any], Any]) -> Any:
    return (make(X[some]) for some in image_features.blocks(len(X), _IMAGES))


def features_of(
    X: npt.NDArray[Any], plan: FeatureProblem, ground: FeatureContext
) -> Callable[[slice], npt.NDArray[Any]]:
    """Return what gives the features of a range of rows; those of the next range may be written over them."""
    maps = plan.settings.maps
    if len(maps) == 1:  # several would write over each other's
        ground = BufferedContext(ground)
    return lambda some: stack(maps, X[some], ground)


ENVELOPE = 65_536
"""Bytes that are allowed for what is in a message beside the numbers."""
CALIBRATED = 2000
"""Temperatures are tried on about this many rows of all sites, or on all if there are fewer."""


def gram_parts(settings: RidgeSettings, features: int, classes: int) -> list[Rows]:
    """Return which rows each sum of the Gram matrix has; with folds, all rows come once for each."""
    return cuts(features, classes, settings.max_sum_length) * settings.folds


def check_part(settings: RidgeSettings, features: int, classes: int, limit: int) -> None:
    """Refuse parts of the sum that no message of ``limit`` bytes could hold; say what to do."""
    rows = gram_parts(settings, features, classes)
    at = starts(features, classes)
    size = 8 * max(int(at[last] - at[first]) for first, last in rows) + ENVELOPE
    if size > limit:
        room = (limit - ENVELOPE) // 8
        enough = room > features + classes  # a row of the sums
        remedy = f"say max_sum_length = {room} or less, which divides the sum" if enough else "take fewer features"
        raise InputError(
            f"a part of the sum is a message of {size:,} bytes; the limit is {limit:,} (max_message_bytes in the "
            f"policy): {remedy}"
        )


def check_counted_cells(plan: FeatureProblem, limit: int) -> None:
    """Refuse more cells of bins than can be counted in a message of ``limit`` bytes; say what to do."""
    size = 8 * plan.counted_cells + ENVELOPE
    if size > limit:
        raise InputError(
            f"bins of {plan.columns:,} columns make {plan.counted_cells:,} counts of rows in their cells, a message of "
            f"{size:,} bytes; the limit is {limit:,} (max_message_bytes in the policy): take fewer bins, smaller "
            'groups, fewer shuffles, or "fourier" features'
        )


def gram_bits(settings: RidgeSettings, fit: FeatureFit, sites: int) -> int:
    """Return how many binary digits after the point the Gram matrix is summed with."""
    heaviest = float(class_weights(fit.class_counts()).max(initial=1.0)) if settings.balanced else 1.0
    return fraction_bits(fit.rows(), max(one.mean_square for one in settings.maps), sites, heaviest)


ROOM = 2.0**12
"""How much larger the mean square of changed rows' features may be than of those that the features were made for."""


def change_bits(settings: RidgeSettings, changed: float, sites: int) -> int:
    """Return how many binary digits after the point a change of the Gram matrix is summed with."""
    return fraction_bits(changed, ROOM * max(one.mean_square for one in settings.maps), sites)


def rows_of(site: SiteData) -> npt.NDArray[Any]:
    """Return a site's rows in the type in which they came, such as bytes for images; sparse ones are made dense."""
    return site.table if isinstance(site.table, np.ndarray) else site.X


def tried_rows(X: npt.NDArray[Any], rows: float) -> Bools:
    """Return on which rows temperatures are tried: by their content, so that it does not matter who has them."""
    every = max(int(rows) // CALIBRATED, 1)
    return fold_numbers(X, every) == 0 if every > 1 else np.ones(len(X), bool)


GRAM = "ridge_gram"
MADE = "ridge_made"
"""How the arrays are called among a run's artifacts."""


class FeatureState(msgspec.Struct, kw_only=True):
    """What features are made from, what the run was seeded with, and how probabilities are calibrated."""

    fit: FeatureFit
    seed: int
    temperature: float
    prepared: bytes = b""
    """How raw rows were prepared before (`Preparation.to_bytes`); empty: they were taken as they are."""

    def preparation(self) -> Preparation | None:
        """Return what takes raw rows to those that the features are made from; None: they are the same."""
        return Preparation.from_bytes(self.prepared) if self.prepared else None


def made_by(fit: FeatureFit, seed: int, temperature: float, preparation: Preparation | None) -> FeatureState:
    """Return what a run made its features from."""
    prepared = b"" if preparation is None else preparation.to_bytes()
    return FeatureState(fit=fit, seed=seed, temperature=temperature, prepared=prepared)


@dataclass(frozen=True, eq=False)
class Statistics:
    """The sums of a run, in parts, and what their features are made from."""

    made: FeatureState
    parts: tuple[Floats, ...]
    """Each part of the sum, f8."""

    @property
    def hashes(self) -> tuple[bytes, ...]:
        """A hash of each part."""
        return tuple(hash_part(part) for part in self.parts)

    @property
    def stands_for(self) -> str:
        """What stands for them in the terms of an update."""
        return stands_for(msgspec.msgpack.encode(self.made), self.hashes)

    def artifacts(self) -> dict[str, npt.NDArray[Any]]:
        """Return what a run keeps of them."""
        made = np.frombuffer(msgspec.msgpack.encode(self.made), np.uint8)
        return {GRAM: np.concatenate(self.parts), MADE: made}

    @classmethod
    def of(cls, artifacts: Mapping[str, npt.NDArray[Any]], lengths: Sequence[int]) -> Statistics:
        """Return the statistics that a run kept; refuse a run that kept none."""
        if GRAM not in artifacts or MADE not in artifacts:
            raise InputError("the run kept no sums to update; wanted one with Ridge(updatable=True)")
        whole = np.asarray(artifacts[GRAM], np.float64)
        if len(whole) != sum(lengths):
            raise InputError(f"the run kept sums of {len(whole):,} numbers; wanted {sum(lengths):,}")
        made = msgspec.msgpack.decode(artifacts[MADE].tobytes(), type=FeatureState)
        return cls(made, tuple(np.split(whole, np.cumsum(lengths)[:-1])))


def hash_part(part: Floats) -> bytes:
    """Hash a part of a sum, (numbers,), f8."""
    return fingerprint(b"ridge part", np.ascontiguousarray(part, "<f8").tobytes())


def stands_for(made: bytes, hashes: Sequence[bytes]) -> str:
    """Return what stands for statistics in the terms of a run that updates them: a hash, in hexadecimal digits."""
    return fingerprint(b"ridge statistics", made, *hashes).hex()
