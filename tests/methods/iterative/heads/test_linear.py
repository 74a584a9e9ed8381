"""The linear head."""

from __future__ import annotations

from fedgeom.methods.iterative import Linear
from tests.methods.iterative.torching import torch


def test_a_linear_head_has_a_weight_for_each_feature_and_class():
    head = Linear().build(4, 3)
    assert {name: tuple(p.shape) for name, p in head.named_parameters()} == {"weight": (3, 4), "bias": (3,)}
    assert [name for name, _ in Linear(bias=False).build(4, 3).named_parameters()] == ["weight"]
    assert torch.equal(Linear(bias=False).build(4, 3)(torch.zeros(2, 4)), torch.zeros(2, 3))
