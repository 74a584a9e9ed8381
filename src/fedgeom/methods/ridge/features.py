"""Feature maps: what a row becomes before the ridge, made by the seed in the terms and by sums over all sites.

A feature map is a setting (`FeatureMap`), by name or with settings of its own. Nothing of the features travels: every
site makes them from the run's seed and from sums that it has checked.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Ints
from fedgeom.errors import InputError
from fedgeom.federation.onnx import Graph
from fedgeom.federation.settings import POSITIVE, Between, Choice
from fedgeom.memo import memoize

MOST = 65_536
"""No feature map makes more features than this."""


def feature_seed(seed: int, what: str) -> bytes:
    """Return the 32-byte seed of one thing that is drawn, such as frequencies, from a run's seed."""
    return hashlib.sha256(f"fedgeom ridge {what} {seed}".encode()).digest()


@memoize(4)
def normals(seed: int, what: str, count: int, columns: int) -> Floats:
    """Draw (count, columns) Gaussians, the same on every machine."""
    from fedgeom.geometry.graphs.lsh import projection_blocks  # scipy.special: slow to import

    found = np.vstack(list(projection_blocks(feature_seed(seed, what), count, columns)))
    found.setflags(write=False)
    return found


@dataclass(frozen=True, eq=False)
class FeatureContext:
    """What feature maps are made from: the terms, the run's seed, and what the sites' sums say."""

    columns: int
    seed: int
    shape: tuple[int, ...] = ()
    """Height, width and channels of images; empty where rows are none."""
    mean: Floats = field(default_factory=lambda: np.empty(0))
    """(columns,): the joint mean of each column."""
    scale: Floats = field(default_factory=lambda: np.empty(0))
    """(columns,): the joint standard deviation of each column; 1 where a column is constant."""
    varies: Floats = field(default_factory=lambda: np.empty(0))
    """(columns,): 1, or 0 for constant columns."""
    contrast: float = 1.0
    """The standard deviation of all cells together: the unit in which the contrast of a patch is measured."""
    filters: npt.NDArray[np.float32] | None = None
    """(patch cells, filters), f4: learnt filters, whitening included."""
    offsets: npt.NDArray[np.float32] | None = None
    """(filters,), f4: what is taken from the filters' responses."""
    merged: Ints | None = None
    """(columns, bins): which bin stands for each bin of a column, where policies have floors (`Binned`)."""

    def standardised(self, X: npt.NDArray[Any]) -> Floats:
        """Return rows with joint mean 0 and joint variance 1 in each column; constant columns become 0."""
        rows = np.asarray(X, np.float64)
        return np.asarray((rows - self.mean) * (self.varies / self.scale))

    def products(self, rows: Floats, matrix: Floats) -> Floats:
        """Return rows·matrix."""
        return np.asarray(rows @ matrix)

    @property
    def spread(self) -> float:
        """The mean squared length of a standardised row: how many columns vary."""
        return max(float(self.varies.sum()), 1.0)


class BufferedContext(FeatureContext):
    """A context that reuses one output buffer, for features that are used at once.

    An array of so many rows and features is memory that the system has to clear each time that it is asked for.
    """

    def __init__(self, ground: FeatureContext) -> None:
        super().__init__(**{one.name: getattr(ground, one.name) for one in fields(ground)})
        object.__setattr__(self, "_room", np.empty((0, 0)))

    def products(self, rows: Floats, matrix: Floats) -> Floats:
        """Return rows·matrix, until it is called again."""
        room: Floats = self.__dict__["_room"]
        if len(room) < len(rows) or room.shape[1] != matrix.shape[1]:
            room = self.__dict__["_room"] = np.empty((len(rows), matrix.shape[1]))
        return np.matmul(rows, matrix, out=room[: len(rows)])


@dataclass(frozen=True)
class FeatureMap(Choice):
    """The base of all feature maps; packages offer more by entry points of the group ``fedgeom.features``."""

    kind: ClassVar[str] = "feature"
    name: ClassVar[str]
    dtype: ClassVar[type[np.floating[Any]]] = np.float64
    """In what the features are computed: single precision where there are many, such as of images."""
    images: ClassVar[bool] = False
    """Whether rows are images, so that ``shape`` must be said."""

    def width(self, columns: int | None, shape: Sequence[int]) -> int | None:
        """Return how many features there are; None where that depends on columns that are not known yet."""
        raise NotImplementedError(f"{type(self).__name__} does not say how many features it makes")

    @property
    def mean_square(self) -> float:
        """What the joint mean square of no feature exceeds; it decides how many digits a sum can have."""
        return 1.0

    def transform(self, X: npt.NDArray[Any], ground: FeatureContext) -> npt.NDArray[Any]:
        """Return the features of some rows: X (rows, columns) of any dtype, the result (rows, width)."""
        raise NotImplementedError(f"{type(self).__name__} makes no features")

    def onnx(self, graph: Graph, rows: str, ground: FeatureContext) -> str:
        """Add the features of standardised rows to an ONNX graph, and return their name."""
        raise InputError(
            f"a ridge model of features {self.name!r} cannot be exported to ONNX; those of linear and fourier can"
        )


@dataclass(frozen=True)
class LinearFeatures(FeatureMap):
    """The columns themselves, with joint mean 0 and joint variance 1."""

    name: ClassVar[str] = "linear"

    def width(self, columns: int | None, shape: Sequence[int]) -> int | None:
        """Return the number of columns."""
        return columns

    def transform(self, X: npt.NDArray[Any], ground: FeatureContext) -> npt.NDArray[Any]:
        """Return the standardised columns."""
        return ground.standardised(X)

    def onnx(self, graph: Graph, rows: str, ground: FeatureContext) -> str:
        """Add nothing: the rows are standardised."""
        return rows


@dataclass(frozen=True)
class Fourier(FeatureMap):
    """Random Fourier features of a Gaussian kernel on standardised columns: √2·cos(ωᵀx + b).

    The kernel is exp(-|x - x'|²/(2σ²)). σ² is ``bandwidth``² times the mean squared length of a standardised row, which
    is half the mean squared distance of two rows, from joint moments.
    """

    name: ClassVar[str] = "fourier"
    n_components: Annotated[int, Between(1, MOST)] = 1000
    """How many features there are."""
    bandwidth: Annotated[float, POSITIVE] = 1.0
    """How wide the kernel is, beside the usual distance of two rows."""
    scale: Literal["each", "joint"] = "each"
    """Whether each column is brought to variance 1, or all are divided by one number: principal components, whose
    sizes mean something, are best left beside each other as they are."""

    def width(self, columns: int | None, shape: Sequence[int]) -> int | None:
        """Return the number of features."""
        return self.n_components

    @property
    def mean_square(self) -> float:
        """No cosine exceeds 1, so that no feature exceeds √2."""
        return 2.0

    def transform(self, X: npt.NDArray[Any], ground: FeatureContext) -> npt.NDArray[Any]:
        """Return the cosines at the frequencies that the seed draws."""
        frequencies, phases = self._waves(ground)
        rows = ground.standardised(X)
        if self.scale == "joint":
            rows = rows * ground.scale
        found = ground.products(rows, frequencies)
        found += phases  # in place: each array of so many rows and features is memory that the system has to clear
        np.cos(found, out=found)
        found *= math.sqrt(2.0)
        return found

    def _waves(self, ground: FeatureContext) -> tuple[Floats, Floats]:
        """Return frequencies, (columns, features), and phases, (features,)."""
        frequencies = normals(ground.seed, "frequencies", self.n_components, ground.columns)
        # A Gaussian's distribution function makes its phase uniform; the last column of a wider draw would do as well.
        phases = 2 * math.pi * _uniform(normals(ground.seed, "phases", self.n_components, 1)[:, 0])
        spread = ground.spread
        if self.scale == "joint":
            spread = max(float((ground.varies * ground.scale**2).sum()), 1e-300)
        return frequencies.T / (self.bandwidth * math.sqrt(spread)), phases

    def onnx(self, graph: Graph, rows: str, ground: FeatureContext) -> str:
        """Add the cosines."""
        frequencies, phases = self._waves(ground)
        if self.scale == "joint":
            frequencies = ground.scale[:, None] * frequencies
        waves = graph.add("Cos", graph.affine(rows, frequencies, phases))
        return graph.add("Mul", waves, graph.constant(np.array([math.sqrt(2.0)])))


@dataclass(frozen=True)
class Binned(FeatureMap):
    """Columns cut into bins, shuffled and grouped; each group is a one-hot block over its bins together.

    Our own reading of an idea that was published without code (SAFLe): products of bins within a group make a linear
    model bend, and all is still a sum. Bins hold equal shares of a Gaussian with the column's joint mean and variance.
    Where policies have floors, a bin joins its neighbour until no cell has few rows or sites of a class
    (`fedgeom.federation.disclosure.merge_bins`); the features of bins that joined another are 0.
    """

    name: ClassVar[str] = "binned"
    n_bins: Annotated[int, Between(2, 64)] = 4
    """Into how many bins a column is cut."""
    group_size: Annotated[int, Between(1, 8)] = 2
    """How many columns make a group: bins to the power of these are the group's features."""
    n_shuffles: Annotated[int, Between(1, 64)] = 1
    """How often the columns are shuffled and grouped anew."""

    def width(self, columns: int | None, shape: Sequence[int]) -> int | None:
        """Return groups times the cells of a group."""
        return (
            None
            if columns is None
            else self.n_shuffles * -(-columns // self.group_size) * self.n_bins**self.group_size
        )

    def groups(self, columns: int, seed: int) -> list[list[int]]:
        """Return the columns of each group, all groups of a shuffle one after the other."""
        count = -(-columns // self.group_size)
        found = []
        for shuffle in range(self.n_shuffles):
            order = np.argsort(normals(seed, f"shuffle {shuffle}", 1, columns)[0], kind="stable").tolist()
            found += [order[at::count] for at in range(count)]
        return found

    def places(self, X: npt.NDArray[Any], ground: FeatureContext) -> Ints:
        """Return in which cell of each group rows lie, (rows, groups)."""
        from scipy.special import ndtri  # slow to import

        edges = ndtri(np.arange(1, self.n_bins) / self.n_bins)
        found = np.searchsorted(edges, ground.standardised(X), side="right")
        if ground.merged is not None:
            found = ground.merged[np.arange(ground.columns), found]
        groups = self.groups(ground.columns, ground.seed)
        places = np.zeros((len(found), len(groups)), np.int64)
        for at, members in enumerate(groups):
            for column in members:
                places[:, at] = places[:, at] * self.n_bins + found[:, column]
        return places

    def transform(self, X: npt.NDArray[Any], ground: FeatureContext) -> npt.NDArray[Any]:
        """Return one-hot blocks, one for each group of each shuffle."""
        places = self.places(X, ground)
        out = np.zeros((*places.shape, self.n_bins**self.group_size))
        np.put_along_axis(out, places[:, :, None], 1.0, axis=2)
        return out.reshape(len(places), -1)


def read_merged(bins: Sequence[Floats]) -> Ints | None:
    """Return which bin stands for each, (columns, bins), from one array of columns for each bin; None where none is."""
    if not len(bins):
        return None
    found = np.array(bins).T.astype(np.int64)
    if not ((found >= 0) & (found < len(bins))).all():
        raise InputError(f"bins stand for bins that there are not; wanted 0 to {len(bins) - 1}")
    return found


def _uniform(draws: Floats) -> Floats:
    from scipy.special import ndtr  # slow to import

    return np.asarray(ndtr(draws))


def total_width(maps: Sequence[FeatureMap], columns: int | None, shape: Sequence[int]) -> int | None:
    """Return how many features several maps make together; None where that depends on the columns."""
    widths = [one.width(columns, shape) for one in maps]
    return None if None in widths else sum(width for width in widths if width is not None)


def stack(maps: Sequence[FeatureMap], X: npt.NDArray[Any], ground: FeatureContext) -> npt.NDArray[Any]:
    """Return the features of some rows by several maps side by side, in the dtype of the most exact."""
    if len(maps) == 1:
        return maps[0].transform(X, ground)
    return np.concatenate([one.transform(X, ground) for one in maps], axis=1)


def check_widths(maps: Sequence[FeatureMap], columns: int, shape: Sequence[int], most: int) -> int:
    """Return how many features there are; refuse more than ``most``, and images of another shape than the rows have."""
    if any(one.images for one in maps) and math.prod(shape) != columns:
        raise InputError(
            f"shape={tuple(shape)} given, which are {math.prod(shape):,} cells, but rows have {columns:,} columns; "
            "wanted height, width and channels of the images whose cells, row by row, are the columns"
        )
    found = total_width(maps, columns, shape)
    assert found is not None
    if found > most:
        raise InputError(
            f"{found:,} features given; wanted max_features = {most:,} at most: their sums have a number for each pair "
            "of features. Take fewer features or columns, or raise max_features knowingly"
        )
    return found
