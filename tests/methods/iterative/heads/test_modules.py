"""The heads' modules: cosines, and the sum of two."""

from __future__ import annotations

import numpy as np
import pytest

from tests.methods.iterative.torching import torch

modules = pytest.importorskip("fedgeom.methods.iterative.head_modules")


def test_scores_are_cosines_with_fixed_directions():
    head = modules.FixedDirections(np.eye(2, 3))
    found = head(torch.tensor([[3.0, 4.0, 0.0], [0.0, 0.0, 2.0]]))
    assert torch.allclose(found, torch.tensor([[0.6, 0.8], [0.0, 0.0]]))
    assert not list(head.parameters())
    assert not head.state_dict()


def test_the_personal_head_starts_at_zero_and_is_added():
    head = modules.TwoHeads(2, 3)
    Z = torch.tensor([[1.0, 2.0]])
    assert torch.equal(head(Z), head.generic(Z))
    torch.nn.init.ones_(head.personal.bias)
    assert torch.equal(head(Z), head.generic(Z) + 1)
