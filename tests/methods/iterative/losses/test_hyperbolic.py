"""Hyperbolic losses against their formulas in float64, by hand, and what they refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedgeom.errors import InputError
from fedgeom.geometry.hyperbolic import poincare, prototypes
from fedgeom.methods.iterative.heads import Linear, Poincare
from fedgeom.methods.iterative.losses import (
    Batch,
    Geodesic,
    GeodesicSoftmax,
    Loss,
    PublicTriplet,
    TreeSoftmax,
    TreeTargets,
    Triplet,
    drawn_negatives,
)

torch = pytest.importorskip("torch")

ROWS, DIM, CLASSES = 8, 5, 4
Z = np.random.default_rng(0).normal(size=(ROWS, DIM))
Y = np.arange(ROWS) % CLASSES
TREE = Poincare(tree=("a < x", "b < x", "c < y", "d < y", "x < r", "y < r"), classes=("a", "b", "c", "d"))


class Identity:
    """A network whose body hands rows through."""

    def __init__(self, head):
        self.head = head

    def features(self, inputs):
        return inputs

    def scores(self, features):
        return self.head(features)


def batch(head=None, seed=0, weights=None):
    """A batch of rows that are their own features."""
    network = Identity((head or Poincare()).build(DIM, CLASSES))
    return Batch(
        inputs=torch.from_numpy(Z).float().requires_grad_(),
        labels=torch.from_numpy(Y),
        network=network,
        counts=torch.bincount(torch.from_numpy(Y), minlength=CLASSES).float(),
        generator=torch.Generator().manual_seed(seed),
        joint=network,
        weights=weights,
    )


def value(loss, one):
    """The loss as a number."""
    return float(loss(one).detach())


def distances(head=None):
    """The distances in float64."""
    return prototypes.distances(poincare.exp0(Z), (head or Poincare()).points(DIM, CLASSES))


def log_softmax(x):
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


OWN = distances()[np.arange(ROWS), Y]


@pytest.mark.parametrize("margin", [0.0, 1.0, 3.0])
def test_the_triplet_is_equation_7(margin):
    other = drawn_negatives(batch(seed=5)).numpy()
    wanted = np.maximum(OWN - distances()[np.arange(ROWS), other] + margin, 0).mean()
    assert value(Triplet(margin=margin), batch(seed=5)) == pytest.approx(wanted, rel=1e-5, abs=1e-6)


def test_all_negatives_are_the_mean_over_the_other_classes():
    wanted = 0.0
    for row in range(ROWS):
        others = [c for c in range(CLASSES) if c != Y[row]]
        wanted += np.mean([max(OWN[row] - distances()[row, c] + 3, 0) for c in others]) / ROWS
    assert value(Triplet(negatives="all"), batch()) == pytest.approx(wanted, rel=1e-5)


def test_negatives_are_other_classes_and_all_of_them_come():
    drawn = np.array([drawn_negatives(batch(seed=seed)).numpy() for seed in range(200)])
    assert not (drawn == Y).any()
    for row in range(ROWS):
        counts = np.bincount(drawn[:, row], minlength=CLASSES)
        assert counts[Y[row]] == 0
        assert (np.delete(counts, Y[row]) > 40).all()
    np.testing.assert_array_equal(drawn_negatives(batch(seed=7)), drawn_negatives(batch(seed=7)))


def test_the_geodesic_alone_and_the_geodesic_softmax():
    assert value(Geodesic(), batch()) == pytest.approx(OWN.mean(), rel=1e-5)
    for temperature in (0.5, 1.0):
        wanted = -log_softmax(-distances() / temperature)[np.arange(ROWS), Y].mean()
        assert value(GeodesicSoftmax(temperature=temperature), batch()) == pytest.approx(wanted, rel=1e-5)


def test_on_the_edge_the_triplet_is_the_limit():
    near = value(Triplet(), batch(Poincare(slope=1 - 1e-5), seed=1))
    assert value(Triplet(), batch(Poincare(slope=1.0), seed=1)) == pytest.approx(near, abs=1e-2)


def test_the_public_code_adds_twice_a_mixed_cross_entropy_of_cosines():
    seed = 3
    draw = torch.Generator().manual_seed(seed)
    other = Y + torch.randint(1, CLASSES, (ROWS,), generator=draw).numpy()
    partner = torch.randperm(ROWS, generator=draw).numpy()
    share = np.random.default_rng(int(torch.randint(2**31, (1,), generator=draw))).beta(0.5, 0.5)
    plain = np.maximum(OWN - distances()[np.arange(ROWS), other % CLASSES] + 1, 0).mean()
    mixed = share * Z + (1 - share) * Z[partner]
    logits = mixed / np.linalg.norm(mixed, axis=1, keepdims=True) @ Poincare().points(DIM, CLASSES).T
    chances = log_softmax(logits)
    cross = -(share * chances[np.arange(ROWS), Y] + (1 - share) * chances[np.arange(ROWS), Y[partner]]).mean()
    assert value(PublicTriplet(), batch(seed=seed)) == pytest.approx(plain + 2 * cross, rel=1e-4)


def test_losses_on_a_tree_by_hand():
    chances = np.exp(log_softmax(-distances(TREE)))
    branch = np.array([chances[:, :2].sum(axis=1), chances[:, 2:].sum(axis=1)]).T
    wanted = -(np.log(chances[np.arange(ROWS), Y]) + np.log(branch[np.arange(ROWS), Y // 2])).mean() / 2
    assert value(TreeSoftmax(), batch(TREE)) == pytest.approx(wanted, rel=1e-4)
    # Siblings are 2 apart, cousins 4: targets are proportional to 1, exp(-2/t) and exp(-4/t).
    t = 1.5
    row = np.array([1, math.exp(-2 / t), math.exp(-4 / t), math.exp(-4 / t)]) / (
        1 + math.exp(-2 / t) + 2 * math.exp(-4 / t)
    )
    order = [[0, 1, 2, 3], [1, 0, 2, 3], [2, 3, 0, 1], [3, 2, 0, 1]]
    targets = np.zeros((ROWS, CLASSES))
    for at, y in enumerate(Y):
        targets[at, order[y]] = row
    wanted = -(targets * np.log(chances)).sum(axis=1).mean()
    assert value(TreeTargets(softness=t), batch(TREE)) == pytest.approx(wanted, rel=1e-4)


OWN_TREE = {"tree": TREE.tree, "classes": TREE.classes}


@pytest.mark.parametrize("loss", [TreeSoftmax, TreeTargets])
def test_a_tree_of_the_losss_own_serves_any_head(loss):
    assert value(loss(**OWN_TREE), batch(TREE)) == pytest.approx(value(loss(), batch(TREE)), rel=1e-6)
    torch.manual_seed(0)
    assert math.isfinite(value(loss(**OWN_TREE), batch(Linear())))
    assert Loss.read(loss(**OWN_TREE).plain(), "loss") == loss(**OWN_TREE)
    with pytest.raises(InputError, match="3 classes; the sites agreed on 4"):
        loss(tree=TREE.tree, classes=("a", "b", "c"))(batch(Linear()))
    with pytest.raises(InputError, match="classes in order"):
        loss(tree=TREE.tree)


ALL = (
    Triplet(),
    Triplet(negatives="all"),
    PublicTriplet(),
    Geodesic(),
    GeodesicSoftmax(),
    TreeSoftmax(),
    TreeTargets(),
)


@pytest.mark.parametrize("loss", ALL, ids=lambda loss: str(loss.plain()))
def test_every_loss_travels_has_a_gradient_and_minds_the_rows_weights(loss):
    assert Loss.read(loss.plain(), "loss") == loss
    one = batch(TREE)
    found = loss(one)
    found.backward()
    assert torch.isfinite(found)
    assert torch.isfinite(one.inputs.grad).all()
    even = value(loss, batch(TREE, weights=torch.full((ROWS,), 3.0)))
    assert even == pytest.approx(3 * float(found.detach()), rel=1e-5)


@pytest.mark.parametrize("loss", [PublicTriplet(), TreeSoftmax(), TreeTargets()], ids=lambda loss: loss.name)
def test_losses_on_prototypes_refuse_another_head(loss):
    with pytest.raises(InputError, match="poincare"):
        loss(batch(Linear()))


@pytest.mark.parametrize("loss", [TreeSoftmax(), TreeTargets()], ids=lambda loss: loss.name)
def test_losses_on_a_tree_want_a_tree(loss):
    with pytest.raises(InputError, match="class_tree"):
        loss(batch())
