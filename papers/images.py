"""The image sets that several papers use, as rows of bytes."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fedgeom.data.images import unpacked
from fedgeom.methods.ridge.features import FeatureContext
from fedgeom.methods.ridge.image_features import RandomConv
from papers.common import Ints, load_data

Bytes = npt.NDArray[np.uint8]
Singles = npt.NDArray[np.float32]
FILTERS = RandomConv(n_filters=64, patch_size=4, padding=1, pools=2, means=4, mirror="never")
"""A first layer that nobody trains: random filters, which every site draws for itself."""


def fashion_mnist(part: str) -> tuple[Bytes, Ints]:
    """Return the images of "train" or "test", (images, 28, 28, 1), and their classes, (images,)."""
    with load_data("fashion_mnist.npz") as file:
        return file[f"X_{part}"].reshape(-1, 28, 28, 1), file[f"y_{part}"].astype(np.int64)


@lru_cache(maxsize=2)  # unpacking takes seconds
def cifar10(part: str) -> tuple[Bytes, Ints]:
    """Return the images of "train" or "test", (images, 32, 32, 3) in red, green and blue, and their classes."""
    with load_data(f"cifar10_{part}.npz") as file:
        return unpacked(file), file["y"].astype(np.int64)


def half_size(images: Bytes) -> Bytes:
    """Return the means of 2 × 2 pixels of images, (images, 32, 32, channels), as (images, 16, 16, channels)."""
    count, channels = len(images), images.shape[3]
    means = images.reshape(count, 16, 2, 16, 2, channels).mean((2, 4), dtype=np.float32)
    return means.round().astype(np.uint8)


def filtered(images: Bytes) -> Singles:
    """Return what fixed random filters make of images, (images, 32, 32, channels), at half their size.

    Responses beyond a threshold, both ways, averaged over the quarters of an image, and the brightness of its
    sixteenths: (images, 560) for three channels. Nothing follows from data but the contrast of a patch.
    """
    shape = (16, 16, images.shape[3])
    small = half_size(images).reshape(len(images), -1)
    columns = small.shape[1]
    ground = FeatureContext(columns=columns, seed=0, shape=shape, mean=np.full(columns, 128.0), contrast=64.0)
    found: Singles = FILTERS.transform(small, ground)
    return found
