"""TwoHeadSum heads in a network."""

from __future__ import annotations

from fedgeom.methods.iterative import MLP, TwoHeadSum
from fedgeom.methods.iterative.heads import PERSONAL
from fedgeom.methods.iterative.learners.torch_module import NetworkLearner
from tests.methods.iterative.torching import torch


def test_the_personal_heads_arrays_have_their_names_in_a_network():
    learner = NetworkLearner(MLP(), TwoHeadSum())
    assert set(PERSONAL) < set(learner.head)
    assert isinstance(TwoHeadSum().build(2, 2), torch.nn.Module)
