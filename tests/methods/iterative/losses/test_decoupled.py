"""FedRoD's two losses, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.errors import InputError
from fedgeom.methods.iterative import Decoupled, TwoHeadSum
from tests.methods.iterative.torching import Given, batch_of, torch


def nll(scores, label):
    return float(-np.log(np.exp(scores[label]) / np.exp(scores).sum()))


def made():
    head = TwoHeadSum().build(2, 2)
    with torch.no_grad():
        for layer, scale in ((head.generic, 1.0), (head.personal, 2.0)):
            layer.weight.copy_(scale * torch.eye(2))
            layer.bias.zero_()
    return head


def test_a_balanced_loss_for_the_generic_head_and_a_plain_one_for_both():
    batch = batch_of([[1.0, 0.5]], [1], counts=(6.0, 2.0), network=Given(head=made()))
    balanced = nll(np.array([1 + np.log(6), 0.5 + np.log(2)]), 1)
    assert Decoupled()(batch).item() == pytest.approx(balanced + nll(np.array([3.0, 1.5]), 1), rel=1e-6)


def test_the_second_loss_moves_the_personal_head_alone():
    head = made()
    batch = batch_of([[1.0, 0.5]], [1], counts=(2.0, 2.0), network=Given(head=head))
    batch.inputs.requires_grad_()
    Decoupled()(batch).backward()
    only_balanced = torch.nn.functional.cross_entropy(batch.inputs.detach(), batch.labels).item()
    moved = batch.inputs.grad.clone()
    alone = batch.inputs.detach().requires_grad_()
    torch.nn.functional.cross_entropy(head.generic(alone), batch.labels).backward()
    assert torch.allclose(moved, alone.grad)  # equal counts shift nothing
    assert only_balanced > 0
    assert head.personal.weight.grad.abs().sum() > 0


def test_one_head_is_not_enough():
    with pytest.raises(InputError, match='head="two"'):
        Decoupled()(batch_of([[1.0]], [0], network=Given(head=torch.nn.Linear(1, 1))))
