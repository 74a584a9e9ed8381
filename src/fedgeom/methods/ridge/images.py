"""Feature maps of images: convolutions with random filters, or with filters that all sites learn by secure sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from fedgeom.errors import ProtocolError
from fedgeom.federation.settings import Between
from fedgeom.methods.ridge.features import FeatureMap, Ground, normals
from fedgeom.methods.ridge.patches import (
    Singles,
    blocks,
    brightness,
    grid,
    mirrored_filters,
    mirrored_pools,
    normalised_patches,
    pool_matrix,
    pooled_responses,
)

AT_ONCE = 8
"""How many images are looked at together: their patches and responses then stay in a processor's cache."""


@dataclass(frozen=True)
class Convolutions(FeatureMap):
    """What all convolutions share: contrast-normalised patches, two-sided responses, pooling, and brightness."""

    images: ClassVar[bool] = True
    dtype: ClassVar[type[np.floating[Any]]] = np.float32
    filters: Annotated[int, Between(1, 4096)] = 250
    """How many filters there are; each gives two features in each pool."""
    patch: Annotated[int, Between(2, 64)] = 6
    """Height and width of a patch in cells."""
    padding: Annotated[int, Between(0, 32)] = 2
    """How many empty cells are put around an image."""
    pools: Annotated[int, Between(1, 16)] = 3
    """Responses are averaged over this many parts, down and across."""
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
        return 2 * self.filters * self.pools**2 + self.regions(shape) * shape[2]

    @property
    def mean_square(self) -> float:
        """A normalised patch has length √cells at most, and whitening stretches it by √10; with up to 64 channels."""
        return 10.0 * 64 * self.patch**2

    def bank(self, ground: Ground) -> tuple[Singles, Singles]:
        """Return the filters, (patch cells, filters), and what is taken from their responses, (filters,); f4."""
        raise NotImplementedError(f"{type(self).__name__} has no filters")

    def transform(self, X: npt.NDArray[Any], ground: Ground) -> npt.NDArray[Any]:
        """Return pooled responses and brightness."""
        shape, (filters, offsets) = ground.shape, self.bank(ground)
        places = grid(shape, self.patch, self.padding)
        looks = [(filters, pool_matrix(*places, self.pools))]
        if self.mirrors(shape):  # a filter on the mirror image is the mirrored filter on the image
            looks.append((mirrored_filters(filters, self.patch), mirrored_pools(looks[0][1], places)))
        wide = self.width(None, shape)
        assert wide is not None
        out = np.zeros((len(X), wide), np.float32)
        split = 2 * self.filters * self.pools**2
        for some in blocks(len(X), AT_ONCE):
            found = normalised_patches(X[some], shape, self.patch, self.padding, ground.contrast)
            for bank, pools in looks:
                out[some, :split] += pooled_responses(found, bank, offsets, self.threshold, pools)
        out /= np.float32(len(looks))
        if self.means:
            usual, unit = float(ground.mean.mean()), np.float32(ground.contrast)
            out[:, split:] = brightness(X, shape, self.means, usual, mirror=self.mirrors(shape)) / unit
        return out


@dataclass(frozen=True)
class RandomConv(Convolutions):
    """Convolutions with random filters of mean 0 and length one, drawn by the seed: no sum is needed to make them."""

    name: ClassVar[str] = "random-conv"

    def bank(self, ground: Ground) -> tuple[Singles, Singles]:
        """Draw the filters."""
        return _random_bank(ground.seed, self.filters, self.patch**2 * ground.shape[2])


@lru_cache(maxsize=4)
def _random_bank(seed: int, filters: int, cells: int) -> tuple[Singles, Singles]:
    drawn = normals(seed, "filters", filters, cells)
    drawn = drawn - drawn.mean(axis=1, keepdims=True)
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    return np.ascontiguousarray(drawn.T, np.float32), np.zeros(filters, np.float32)


@dataclass(frozen=True)
class Conv(Convolutions):
    """Convolutions with filters that all sites learn: whitening from one sum, spherical k-means from two a round."""

    name: ClassVar[str] = "conv"
    rounds: Annotated[int, Between(1, 100)] = 10
    """Steps of k-means; each counts the images of each cluster first, and then sums the clusters of enough images."""
    min_cell: Annotated[int, Between(1)] = 10
    """A cluster that fewer images of all sites have a patch in is not summed: its filter stays where it is."""

    def bank(self, ground: Ground) -> tuple[Singles, Singles]:
        """Return the learnt filters."""
        if ground.filters is None or ground.offsets is None:
            raise ProtocolError("the filters are not learnt yet")
        return ground.filters, ground.offsets
