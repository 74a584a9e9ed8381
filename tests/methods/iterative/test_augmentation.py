"""Augmentation: crops, flips and mixed rows, seeded."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom import FedAvg
from fedgeom.errors import InputError
from fedgeom.methods.iterative import Crops, CrossEntropy, Mixup
from fedgeom.methods.iterative.effort import NoAugmentation
from tests.methods.iterative.torching import DIGITS, batch_of, digits, torch


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_every_crop_is_a_window_of_the_padded_image():
    X = torch.arange(1.0, 1 + 6 * 2 * 4 * 5).reshape(6, 2, 4, 5)
    found = Crops(padding=1, flip_probability=0.5)(X, seeded())
    padded = torch.nn.functional.pad(X, (1, 1, 1, 1))
    for image, whole in zip(found, padded, strict=True):
        windows = [whole[:, i : i + 4, j : j + 5] for i in range(3) for j in range(3)]
        windows += [window.flip(2) for window in windows]
        assert any(torch.equal(image, window) for window in windows)
    assert torch.equal(found, Crops(padding=1, flip_probability=0.5)(X, seeded()))
    assert not torch.equal(found, Crops(padding=1, flip_probability=0.5)(X, seeded(1)))


def test_without_padding_and_flips_images_stay():
    X = torch.rand(3, 1, 4, 4)
    assert torch.equal(Crops(padding=0, flip_probability=0.0)(X, seeded()), X)
    assert torch.equal(Crops(padding=0, flip_probability=1.0)(X, seeded()), X.flip(3))
    assert NoAugmentation()(X, seeded()) is X


def test_tables_have_no_crops_and_images_train_with_them_the_same_again():
    with pytest.raises(InputError, match="is for images"):
        Crops()(torch.zeros(2, 3), seeded())
    rule = FedAvg(**(DIGITS | {"network": "convnet", "shape": (1, 8, 8), "n_rounds": 1, "augmentation": Crops(1)}))
    first, again = (rule.plain(digits()).model.parameters.flat() for _ in range(2))
    assert np.array_equal(first, again)


def drawn(alpha, rows):
    """What `Mixup` draws first from a fresh generator: the partners and the share."""
    generator = seeded()
    partner = torch.randperm(rows, generator=generator)
    seed = int(torch.randint(2**31, (1,), generator=generator))
    return partner, float(np.random.default_rng(seed).beta(alpha, alpha))


@pytest.mark.parametrize("weights", [None, (1.0, 2.0, 3.0)])
def test_mixed_rows_name_both_classes_in_proportion(weights):
    """Cross-entropy is linear in the targets, so mixing losses is the loss of mixed targets."""
    rows, labels = [[1.0, 0.0], [0.0, 2.0], [-1.0, 1.0]], [0, 1, 1]
    given = {} if weights is None else {"weights": torch.tensor(weights)}
    found = Mixup(alpha=2.0).loss(CrossEntropy(), batch_of(rows, labels, **given))
    partner, share = drawn(2.0, 3)
    assert 0 < share < 1
    X = torch.tensor(rows)
    logs = (share * X + (1 - share) * X[partner]).log_softmax(dim=1)
    own = -logs[torch.arange(3), torch.tensor(labels)]
    theirs = -logs[torch.arange(3), torch.tensor(labels)[partner]]
    w = torch.ones(3) if weights is None else torch.tensor(weights)
    expected = share * (w * own).mean() + (1 - share) * (w[partner] * theirs).mean()
    assert float(found) == pytest.approx(float(expected), abs=1e-6)


def test_mixed_images_are_moved_as_crops_are_and_tables_stay():
    X = torch.arange(1.0, 1 + 3 * 1 * 4 * 5).reshape(3, 1, 4, 5)
    assert torch.equal(
        Mixup(padding=1, flip_probability=0.5)(X, seeded()), Crops(padding=1, flip_probability=0.5)(X, seeded())
    )
    assert Mixup()(X, seeded()) is X


def test_mixing_trains_is_seeded_and_goes_with_any_loss():
    sites = digits()
    for changes in ({}, {"loss": "balanced"}):
        rule = FedAvg(
            **(DIGITS | {"augmentation": "mixed", "n_rounds": 5, "epochs": 3, "learning_rate": 0.2} | changes)
        )
        one, again = rule.plain(sites, 1).model, rule.plain(sites, 1).model
        assert one.to_bytes() == again.to_bytes()
        other = (
            FedAvg(**(DIGITS | {"n_rounds": 5, "epochs": 3, "learning_rate": 0.2} | changes)).plain(sites, 1).model
        )
        assert one.to_bytes() != other.to_bytes()
        X, y = (np.concatenate([getattr(site, part) for site in sites]) for part in ("X", "y"))
        assert np.mean(one.predict(X) == y) > 0.7
    assert FedAvg.from_terms(rule.terms()) == rule
    with pytest.raises(InputError, match="augmentation are for torch"):
        FedAvg(n_rounds=1, augmentation="mixed").plain(sites)
