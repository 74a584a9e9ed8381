"""Feature maps of images: convolutions with random filters, or with filters that all sites learn by secure sums."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.errors import ProtocolError
from fedgeom.federation.settings import Between
from fedgeom.memo import memoize
from fedgeom.methods.ridge.features import FeatureContext, FeatureMap, normals

Singles = npt.NDArray[np.float32]

CONTRAST = 0.04
"""A patch's variance is raised by the square of this share of the images' contrast, so that flat patches stay flat."""
WHITENING = 0.1
"""What is added to the eigenvalues of normalised patches before whitening."""
LATTICE = 6
"""Filters are learnt from 6 × 6 patches of each image, in the same places of all images: how rows are dealt to sites
then makes no difference."""


def grid(shape: Sequence[int], patch: int, padding: int) -> tuple[int, int]:
    """Return in how many places, down and across, a patch fits."""
    return shape[0] + 2 * padding - patch + 1, shape[1] + 2 * padding - patch + 1


def normalised_patches(
    X: npt.NDArray[Any], shape: Sequence[int], patch: int, padding: int, contrast: float, *, lattice: bool = False
) -> Singles:
    """Return every patch of some images with mean 0 and about unit variance: (images, places, patch cells), f4.

    With ``lattice``, only patches in a few places. Contrast is measured beside ``contrast``, that of all images.
    """
    windows = _windows(X, shape, patch, padding)
    down, across = windows.shape[1:3]
    if lattice:
        windows = windows[:, _places(down)][:, :, _places(across)]
        down, across = windows.shape[1:3]
    cells = windows.reshape(len(windows), down * across, -1)  # a copy: windows overlap
    cells -= cells.mean(axis=2, keepdims=True)
    power = np.einsum("ijk,ijk->ij", cells, cells) / np.float32(cells.shape[2])
    cells /= np.sqrt(power + np.float32((CONTRAST * contrast) ** 2 + 1e-30))[:, :, None]
    return cells


def _windows(X: npt.NDArray[Any], shape: Sequence[int], patch: int, padding: int) -> Singles:
    """Return a view of all patches, (images, down, across, channels, patch, patch), f4."""
    height, width, channels = shape
    around = ((0, 0), (padding, padding), (padding, padding), (0, 0))
    images = np.pad(np.asarray(X, np.float32).reshape(len(X), height, width, channels), around)
    return np.lib.stride_tricks.sliding_window_view(images, (patch, patch), axis=(1, 2))


def _places(count: int) -> npt.NDArray[np.int64]:
    return np.unique(np.rint(np.linspace(0, count - 1, min(LATTICE, count))).astype(np.int64))


def patch_moments(patches: Singles) -> Floats:
    """Return how many patches there are, their sum and the upper triangle of their squares: one vector, f8."""
    rows = patches.reshape(-1, patches.shape[-1])
    squares = (rows.T @ rows).astype(np.float64)
    sums = rows.sum(axis=0, dtype=np.float64)
    return np.concatenate([[len(rows)], sums, squares[np.triu_indices(len(sums))]])


def whitening(total: Floats, cells: int) -> tuple[Floats, Floats]:
    """Return the patches' mean, (cells,), and the symmetric matrix that whitens them, from their joint moments."""
    count = max(total[0], 1.0)
    mean = total[1 : cells + 1] / max(total[0], 1.0)
    squares = np.zeros((cells, cells))
    squares[np.triu_indices(cells)] = total[cells + 1 :] / count
    squares = squares + np.triu(squares, 1).T - np.outer(mean, mean)
    values, vectors = np.linalg.eigh(squares)
    return mean, np.asarray((vectors / np.sqrt(np.maximum(values, 0.0) + WHITENING)) @ vectors.T)


def assign(
    patches: Singles, mean: Floats, whitener: Floats, centres: Floats
) -> tuple[npt.NDArray[np.int64], Singles]:
    """Return the nearest centre of each patch by angle, (patches,), and the whitened patches of length one, f4."""
    rows = patches.reshape(-1, patches.shape[-1]) - mean.astype(np.float32)
    rows = rows @ whitener.astype(np.float32)
    length = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    rows /= np.where(length > 0, length, np.float32(1))
    return (rows @ centres.astype(np.float32).T).argmax(axis=1), rows


def count_images(cells: npt.NDArray[np.int64], images: int, centres: int) -> npt.NDArray[np.int64]:
    """Return how many images have a patch nearest to each centre, (centres,); cells (images·places,)."""
    held = np.zeros((images, centres), bool)
    held[np.repeat(np.arange(images), len(cells) // max(images, 1)), cells] = True
    return np.asarray(held.sum(axis=0), np.int64)


def sum_cells(cells: npt.NDArray[np.int64], units: Singles, kept: npt.NDArray[np.int64], centres: int) -> Floats:
    """Return the sums of the unit patches nearest to the centres that are kept, (kept, patch cells), f8."""
    import scipy.sparse as sp  # slow to import

    member = sp.csr_array((np.ones(len(cells)), (cells, np.arange(len(cells)))), shape=(centres, len(cells)))
    return np.asarray(member @ units, np.float64)[kept]


def pooled_responses(
    patches: Singles, filters: Singles, offsets: Singles, threshold: float, pools: Singles
) -> Singles:
    """Return roots of the mean two-sided responses of filters in each pool: (images, pools·2·filters), f4.

    A response r = patchᵀfilter - offset becomes max(r - threshold, 0) and max(-r - threshold, 0). The root evens out
    how often a pattern occurs in a pool (docs/ridge.md has what that is worth).

    patches (images, places, cells), filters (cells, filters), pools (pools, places), whose rows sum to one.
    """
    found = patches @ filters
    found -= offsets
    down = np.float32(threshold)
    above = pools @ np.maximum(found - down, np.float32(0))
    np.negative(found, out=found)
    found -= down
    below = pools @ np.maximum(found, np.float32(0), out=found)
    found = np.concatenate([above, below], axis=2).reshape(len(patches), -1)
    np.sqrt(found, out=found)
    return found


def pool_matrix(down: int, across: int, pools: int, overlap: float = 0.0) -> Singles:
    """Return the (pools², places) matrix that takes means over pools × pools parts of a grid, f4.

    With ``overlap``, means over all places, weighted by Gaussians around the parts' centres.
    """
    rows, columns = (
        _hills(count, pools, overlap) if overlap else _parts(count, pools) for count in (down, across)
    )
    return np.kron(rows, columns).astype(np.float32)


def mirrored_filters(filters: Singles, patch: int) -> Singles:
    """Return filters as they are for mirror images: (patch cells, filters), f4, cells by channel, row and column."""
    turned = filters.reshape(-1, patch, patch, filters.shape[1])[:, :, ::-1]
    return np.ascontiguousarray(turned.reshape(filters.shape))


def mirrored_pools(pools: Singles, places: tuple[int, int]) -> Singles:
    """Return pools as they are for mirror images: (pools, places down × across), f4."""
    return np.ascontiguousarray(pools.reshape(len(pools), *places)[:, :, ::-1].reshape(pools.shape))


def _parts(count: int, parts: int) -> Floats:
    """Return the (parts, count) matrix of means over consecutive, nearly equal parts."""
    edges = np.linspace(0, count, parts + 1).round().astype(int)
    found = np.zeros((parts, count))
    for at, (first, last) in enumerate(pairwise(edges.tolist())):
        found[at, first : max(last, first + 1)] = 1.0 / max(last - first, 1)
    return found


def _hills(count: int, parts: int, width: float) -> Floats:
    """Return the (parts, count) matrix of Gaussian means around the parts' centres, of ``width`` parts' deviation."""
    size = count / parts
    centres = (np.arange(parts) + 0.5) * size - 0.5
    heights = np.exp(-(((np.arange(count) - centres[:, None]) / (width * size)) ** 2) / 2)
    return np.asarray(heights / heights.sum(axis=1, keepdims=True))


def brightness(
    X: npt.NDArray[Any], shape: Sequence[int], parts: int, usual: float, *, mirror: bool = False
) -> Singles:
    """Return the mean of each channel, less ``usual``, in parts × parts regions: (images, regions·channels), f4.

    With ``mirror``, the mean of an image and its mirror image, in the regions of the left half.
    """
    height, width, channels = shape
    images = np.asarray(X, np.float32).reshape(len(X), height * width, channels) - np.float32(usual)
    regions = pool_matrix(height, width, parts)
    if mirror:
        both = (regions + mirrored_pools(regions, (height, width))) / np.float32(2)
        regions = both.reshape(parts, parts, -1)[:, : -(-parts // 2)].reshape(-1, height * width)
    return np.asarray(regions @ images).reshape(len(X), -1)


def blocks(rows: int, size: int) -> Iterator[slice]:
    """Yield slices that go through all rows, ``size`` at a time."""
    for first in range(0, rows, size):
        yield slice(first, min(first + size, rows))


AT_ONCE = 8
"""How many images are looked at together: their patches and responses then stay in a processor's cache."""


@dataclass(frozen=True)
class Convolutions(FeatureMap):
    """What all convolutions share: contrast-normalised patches, two-sided responses, pooling, and brightness."""

    images: ClassVar[bool] = True
    dtype: ClassVar[type[np.floating[Any]]] = np.float32
    n_filters: Annotated[int, Between(1, 4096)] = 250
    """How many filters there are; each gives two features in each pool."""
    patch_size: Annotated[int, Between(2, 64)] = 6
    """Height and width of a patch in cells."""
    padding: Annotated[int, Between(0, 32)] = 2
    """How many empty cells are put around an image."""
    pools: Annotated[int, Between(1, 16)] = 3
    """Responses are averaged over this many parts, down and across."""
    overlap: Annotated[float, Between(0, 4)] = 0.0
    """How far parts reach into each other: the weight of a place falls off from a part's centre like a Gaussian whose
    deviation is so many parts. 0: they do not, and all places of a part count alike."""
    means: Annotated[int, Between(0, 64)] = 7
    """Into how many parts, down and across, the image is divided for its brightness; 0: no such features."""
    threshold: Annotated[float, Between(0, 100)] = 0.25
    """Only responses beyond it count."""
    mirror: Literal["colour", "always", "never"] = "colour"
    """Whether an image and its mirror image have the same features, the means of both: for images of three or more
    channels, always, or never. Writing is not to be mirrored; of photographs it is as if there were twice as many."""

    def mirrors(self, shape: Sequence[int]) -> bool:
        """Return whether images of this shape are averaged with their mirror images."""
        return self.mirror == "always" or (self.mirror == "colour" and shape[2] >= 3)

    def regions(self, shape: Sequence[int]) -> int:
        """Return of how many regions the brightness is a feature; of mirrored ones the left half is enough."""
        return self.means * (-(-self.means // 2) if self.mirrors(shape) else self.means)

    def width(self, columns: int | None, shape: Sequence[int]) -> int | None:
        """Return two features for each filter and pool, and the brightness of each region and channel."""
        return 2 * self.n_filters * self.pools**2 + self.regions(shape) * shape[2]

    @property
    def mean_square(self) -> float:
        """A normalised patch has length √cells at most, and whitening stretches it by √10; with up to 64 channels."""
        return 10.0 * 64 * self.patch_size**2

    def bank(self, ground: FeatureContext) -> tuple[Singles, Singles]:
        """Return the filters, (patch cells, filters), and what is taken from their responses, (filters,); f4."""
        raise NotImplementedError(f"{type(self).__name__} has no filters")

    def transform(self, X: npt.NDArray[Any], ground: FeatureContext) -> npt.NDArray[Any]:
        """Return pooled responses and brightness."""
        shape = ground.shape
        filters, offsets = self.bank(ground)
        places = grid(shape, self.patch_size, self.padding)
        looks = [(filters, pool_matrix(*places, self.pools, self.overlap))]
        if self.mirrors(shape):  # a filter on the mirror image is the mirrored filter on the image
            looks.append((mirrored_filters(filters, self.patch_size), mirrored_pools(looks[0][1], places)))
        wide = self.width(None, shape)
        assert wide is not None
        out = np.zeros((len(X), wide), np.float32)
        split = 2 * self.n_filters * self.pools**2
        for some in blocks(len(X), AT_ONCE):
            found = normalised_patches(X[some], shape, self.patch_size, self.padding, ground.contrast)
            for bank, pools in looks:
                out[some, :split] += pooled_responses(found, bank, offsets, self.threshold, pools)
        out /= np.float32(len(looks))
        if self.means:
            usual = float(ground.mean.mean())
            unit = np.float32(ground.contrast)
            out[:, split:] = brightness(X, shape, self.means, usual, mirror=self.mirrors(shape)) / unit
        return out


@dataclass(frozen=True)
class RandomConv(Convolutions):
    """Convolutions with random filters of mean 0 and length one, drawn by the seed: no sum is needed to make them."""

    name: ClassVar[str] = "random-conv"

    def bank(self, ground: FeatureContext) -> tuple[Singles, Singles]:
        """Draw the filters."""
        return _random_bank(ground.seed, self.n_filters, self.patch_size**2 * ground.shape[2])


@memoize(4)
def _random_bank(seed: int, filters: int, cells: int) -> tuple[Singles, Singles]:
    drawn = normals(seed, "filters", filters, cells)
    drawn = drawn - drawn.mean(axis=1, keepdims=True)
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    return np.ascontiguousarray(drawn.T, np.float32), np.zeros(filters, np.float32)


@dataclass(frozen=True)
class Conv(Convolutions):
    """Convolutions with filters that all sites learn: whitening from one sum, spherical k-means from two a round."""

    name: ClassVar[str] = "conv"
    n_rounds: Annotated[int, Between(1, 100)] = 10
    """Steps of k-means; each counts the images of each cluster first, and then sums the clusters of enough images."""
    min_cell: Annotated[int, Between(1)] = 10
    """A cluster that fewer images of all sites have a patch in is not summed: its filter stays where it is."""

    def bank(self, ground: FeatureContext) -> tuple[Singles, Singles]:
        """Return the learnt filters."""
        if ground.filters is None or ground.offsets is None:
            raise ProtocolError("the filters are not learnt yet")
        return ground.filters, ground.offsets
