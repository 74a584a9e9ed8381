"""Image sets as rows of bytes."""

from __future__ import annotations

import lzma

import numpy as np
import pytest

from fedgeom.data.images import unpacked
from papers import images
from papers.common import MissingFile

pytestmark = pytest.mark.full


def test_packed_images_are_what_was_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    wanted = rng.integers(0, 256, (3, 4, 4, 3), dtype=np.uint8)
    red, green, blue = np.moveaxis(wanted, -1, 0)
    planes = np.stack([green, red - green, blue - green])
    packed = np.diff(np.diff(planes, axis=-1, prepend=0), axis=-2, prepend=0).astype(np.uint8)
    file = {"xz": np.frombuffer(lzma.compress(packed.tobytes()), np.uint8), "shape": np.array(packed.shape)}
    np.testing.assert_array_equal(unpacked(file), wanted)


@pytest.mark.parametrize(("load", "shape"), [(images.fashion_mnist, (28, 28, 1)), (images.cifar10, (32, 32, 3))])
def test_test_images_have_ten_classes_alike(load, shape) -> None:
    try:
        X, y = load("test")
    except MissingFile as missing:
        pytest.skip(str(missing))
    assert X.shape == (10_000, *shape)
    assert X.dtype == np.uint8
    assert np.bincount(y).tolist() == [1000] * 10
