"""The network for tables."""

from __future__ import annotations

from fedgeom.methods.iterative import MLP
from tests.methods.iterative.torching import torch


def test_layers_are_as_many_and_as_wide_as_said():
    body = MLP(features=4, hidden=7, depth=2).build((3,))
    sizes = [(m.in_features, m.out_features) for m in body if isinstance(m, torch.nn.Linear)]
    assert sizes == [(3, 7), (7, 7), (7, 4)]
    assert MLP(depth=0, features=4).build((2, 3))(torch.zeros(5, 2, 3)).shape == (5, 4)
    assert [m.p for m in MLP(dropout=0.3).build((3,)) if isinstance(m, torch.nn.Dropout)] == [0.3]
