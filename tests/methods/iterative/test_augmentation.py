"""Augmentation: crops and flips, seeded."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom import FedAvg
from fedgeom.errors import InputError
from fedgeom.methods.iterative import Crops
from fedgeom.methods.iterative.augmentation import NoAugmentation
from tests.methods.iterative.torching import DIGITS, digits, torch


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_every_crop_is_a_window_of_the_padded_image():
    X = torch.arange(1.0, 1 + 6 * 2 * 4 * 5).reshape(6, 2, 4, 5)
    found = Crops(pad=1, flip=0.5)(X, seeded())
    padded = torch.nn.functional.pad(X, (1, 1, 1, 1))
    for image, whole in zip(found, padded, strict=True):
        windows = [whole[:, i : i + 4, j : j + 5] for i in range(3) for j in range(3)]
        windows += [window.flip(2) for window in windows]
        assert any(torch.equal(image, window) for window in windows)
    assert torch.equal(found, Crops(pad=1, flip=0.5)(X, seeded()))
    assert not torch.equal(found, Crops(pad=1, flip=0.5)(X, seeded(1)))


def test_without_padding_and_flips_images_stay():
    X = torch.rand(3, 1, 4, 4)
    assert torch.equal(Crops(pad=0, flip=0.0)(X, seeded()), X)
    assert torch.equal(Crops(pad=0, flip=1.0)(X, seeded()), X.flip(3))
    assert NoAugmentation()(X, seeded()) is X


def test_tables_have_no_crops_and_images_train_with_them_the_same_again():
    with pytest.raises(InputError, match="is for images"):
        Crops()(torch.zeros(2, 3), seeded())
    rule = FedAvg(**(DIGITS | {"network": "convnet", "shape": (1, 8, 8), "rounds": 1, "augmentation": Crops(1)}))
    first, again = (rule.plain(digits()).model.parameters.flat() for _ in range(2))
    assert np.array_equal(first, again)
