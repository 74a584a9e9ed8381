"""A frozen network as a feature map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import fedgeom
from fedgeom.errors import InputError
from fedgeom.methods.ridge.features import FeatureContext, FeatureMap
from fedgeom.methods.ridge.network_features import FrozenNetwork
from tests.methods.ridge.making import SHAPE, images, pooled

torch = pytest.importorskip("torch")
WEIGHTS = np.random.default_rng(0).normal(size=(3, 1, 4, 4)) / 50


@dataclass(frozen=True)
class SmallNetwork(FrozenNetwork):
    name: ClassVar[str] = "test-network"
    outputs: ClassVar[int] = 3 * 3 * 3

    def module(self) -> Any:
        layer = torch.nn.Conv2d(1, 3, 4, bias=False)
        layer.weight.data = torch.tensor(WEIGHTS, dtype=torch.float32)
        return torch.nn.Sequential(layer, torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Flatten())


def test_outputs_are_those_of_the_module_on_images() -> None:
    X = pooled(images())[0]
    found = SmallNetwork().transform(X, FeatureContext(36, 0, SHAPE))
    cells = X.reshape(-1, 6, 6)
    by_hand = np.maximum((cells[5, 1:5, 2:6] * WEIGHTS[1, 0]).sum(), 0)  # the second filter in row 1, column 2
    assert found[5].reshape(3, 3, 3)[1, 1, 2] == pytest.approx(by_hand, rel=1e-4)
    assert found.dtype == np.float32


def test_a_registered_network_makes_the_features_of_a_run() -> None:
    sites = images()
    run = fedgeom.run(fedgeom.Ridge(features="test-network", shape=SHAPE), sites)  # type: ignore[arg-type]
    X, y = pooled(sites)
    assert run.metrics["features"] == 27
    assert run.model.score(X, y) > 0.95
    assert FeatureMap.read("test-network", "features") == SmallNetwork()


def test_other_outputs_than_were_said_are_refused() -> None:
    class Wider(SmallNetwork):
        outputs: ClassVar[int] = 28

    with pytest.raises(InputError, match="gave 27 outputs of a row; wanted 28"):
        Wider().transform(pooled(images())[0], FeatureContext(36, 0, SHAPE))
    assert np.abs(SmallNetwork().transform(1e9 * np.ones((1, 36)), FeatureContext(36, 0, SHAPE))).max() <= 100
