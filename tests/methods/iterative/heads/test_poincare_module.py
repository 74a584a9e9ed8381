"""The module of prototypes: scores are minus distances, nothing fixed is trained or sent."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom.geometry.hyperbolic import poincare, prototypes
from fedgeom.geometry.hyperbolic.isometry import sgd_step
from fedgeom.methods.iterative import MLP
from fedgeom.methods.iterative.effort import Effort
from fedgeom.methods.iterative.heads import Poincare

torch = pytest.importorskip("torch")

Z = np.random.default_rng(0).normal(size=(6, 5))


@pytest.mark.parametrize(
    ("slope", "trained"), [(0.5, False), (0.9, False), (1.0, False), (0.5, True), (0.9, True)]
)
def test_scores_are_minus_the_distances(slope, trained):
    head = Poincare(slope=slope, prototypes="trained" if trained else "fixed")
    found = head.build(5, 4)(torch.from_numpy(Z).float()).detach().numpy()
    wanted = -prototypes.distances(poincare.exp0(Z), head.points(5, 4))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_the_nearest_prototype_of_equal_norms_has_the_largest_cosine():
    head = Poincare()
    scores = head.build(5, 4)(torch.from_numpy(Z).float()).numpy()
    np.testing.assert_array_equal(scores.argmax(axis=1), (Z @ head.points(5, 4).T).argmax(axis=1))


def test_fixed_prototypes_are_no_parameters_and_not_in_the_state():
    module = Poincare().build(5, 4)
    assert not list(module.parameters())
    assert not module.state_dict()


def test_trained_prototypes_are_tangent_vectors_and_stay_in_the_ball():
    module = Poincare(prototypes="trained").build(5, 4)
    assert [name for name, _ in module.named_parameters()] == ["tangents"]
    np.testing.assert_allclose(module.prototypes.detach(), Poincare().points(5, 4), atol=1e-6)
    step = torch.optim.SGD(module.parameters(), 10.0)
    for _ in range(5):
        step.zero_grad()
        module(torch.from_numpy(Z).float()).sum().backward()
        step.step()
    assert (module.prototypes.norm(dim=1) <= 1).all()
    assert torch.isfinite(module(torch.from_numpy(Z).float())).all()


def test_own_prototypes_are_an_array_of_the_model_that_is_not_trained():
    module = Poincare(prototypes="own").build(5, 4)
    assert not list(module.parameters())
    assert list(module.state_dict()) == ["points"]


def test_branches_and_distances_of_a_tree():
    module = Poincare(tree=("a < x", "b < x", "x < r", "c < r"), classes=("a", "b", "c")).build(3, 3)
    rows = sorted(module.branches.int().tolist())
    assert rows == sorted([[0, 0, 1], [1, 1, 0], [1, 0, 0], [0, 1, 0]])
    assert module.apart.int().tolist() == [[0, 2, 3], [2, 0, 3], [3, 3, 0]]
    assert not module.state_dict()
    assert len(Poincare().build(3, 3).branches) == 0


def test_prototypes_in_the_ball_take_riemannian_steps_and_the_body_plain_ones():
    X, y = np.random.default_rng(1).normal(size=(12, 5)).astype(np.float32), np.arange(12) % 3
    after = {}
    for steps in ("plain", "riemannian"):
        head = Poincare(prototypes="trained", steps=steps)
        method = fedgeom.FedAvg(network=MLP(hidden=4, embedding_dim=3), head=head, loss="geodesic-softmax")
        learner = method.build_learner()
        first = learner.start(5, 3, np.random.default_rng(0))
        effort = Effort(steps=1, batch_size=None, learning_rate=0.2)
        after[steps] = learner.fit(first, X, y, effort=effort, rng=np.random.default_rng(0))
    plain, riemannian = after["plain"], after["riemannian"]
    for name in set(first) - {"head.tangents"}:
        np.testing.assert_array_equal(plain[name], riemannian[name])
    gradient = (first["head.tangents"] - plain["head.tangents"]) / 0.2  # a plain step tells it
    wanted = sgd_step(first["head.tangents"], gradient, 0.2)
    np.testing.assert_allclose(riemannian["head.tangents"], wanted, atol=1e-5)
    assert np.abs(wanted - plain["head.tangents"]).max() > 1e-3
