"""Modules whose parameters lie in one vector."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.methods.iterative import Tree
from tests.methods.iterative.torching import torch

flat_module = pytest.importorskip("fedgeom.methods.iterative.learners.flat_module")
nn = torch.nn


class Odd(nn.Module):
    """A module with a statistic, a counter and a fixed buffer."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.register_buffer("mean", torch.zeros(2))
        self.register_buffer("count", torch.tensor(3))
        self.register_buffer("fixed", torch.ones(2), persistent=False)


def made():
    torch.manual_seed(0)
    return flat_module.FlatModule(Odd(), torch.device("cpu"))


def test_what_is_saved_travels_and_counters_begin_anew():
    flat = made()
    assert flat.names == ["layer.weight", "layer.bias", "mean"]
    model = Tree(
        {
            "layer.weight": np.arange(4.0).reshape(2, 2),
            "layer.bias": np.array([8.0, 9.0]),
            "mean": np.array([1.0, 2.0]),
        }
    )
    flat.module.count.add_(5)
    found = flat.load(model).read()
    assert found.flat().tolist() == model.flat().tolist()
    assert {leaf.dtype for leaf in found.values()} == {np.dtype(np.float32)}
    assert flat.module.count.item() == 3
    assert flat.module.fixed.tolist() == [1.0, 1.0]


def test_parameters_are_views_of_one_vector_and_gradients_of_another():
    flat = made()
    flat.train()
    flat.module.layer(torch.tensor([[1.0, 2.0]])).sum().backward()
    assert flat.gradient.tolist() == [1.0, 2.0, 1.0, 2.0, 1.0, 1.0]
    with torch.no_grad():
        flat.vector.zero_()
    assert not flat.module.layer.weight.any()
    assert flat.slopes()["layer.bias"].tolist() == [1.0, 1.0]
    assert flat.flat(Tree({"layer.bias": np.array([3.0, 4.0])})).tolist() == [0, 0, 0, 0, 3.0, 4.0]


def test_frozen_arrays_get_no_gradient():
    flat = made()
    flat.train(["layer.weight"])
    flat.module.layer(torch.tensor([[1.0, 2.0]])).sum().backward()
    assert flat.gradient.tolist() == [0.0, 0.0, 0.0, 0.0, 1.0, 1.0]
    flat.train()
    assert flat.module.layer.weight.requires_grad


def test_a_module_without_parts_has_its_rows_as_features():
    layer = nn.Linear(2, 3)
    whole = flat_module.divided(layer)
    X = torch.randn(4, 2)
    assert torch.equal(whole.features(X), X)
    assert torch.equal(whole.scores(X), layer(X))
    assert whole.head is layer


def test_a_frozen_model_is_loaded_once_when_it_is_looked_at():
    loads = []
    frozen = flat_module.Frozen(
        lambda: loads.append(1) or flat_module.FlatModule(nn.Linear(2, 2), torch.device("cpu"))
    )
    assert not loads
    found = frozen.scores(frozen.features(torch.ones(1, 2)))
    assert not found.requires_grad
    assert isinstance(frozen.head, nn.Linear)
    assert loads == [1]
