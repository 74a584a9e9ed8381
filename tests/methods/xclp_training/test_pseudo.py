"""Pseudo-labels: what each source finds, and how much it counts."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.errors import InputError
from fedgeom.methods.iterative.effort import Effort
from fedgeom.methods.iterative.learners.logistic import Logistic
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.tree import Tree
from fedgeom.methods.xclp_training.pseudo import (
    MOST,
    FromNetwork,
    FromOwnGraph,
    FromXCLP,
    NoPseudoLabels,
    PseudoLabels,
    capped,
    scaled,
)
from papers.xclp.plain import per_client


def task(X, classes=3):
    learner, rng = Logistic(), np.random.default_rng(0)
    first = Tree(learner.start(X.shape[1], classes, rng))
    return Task(learner, X, np.zeros(len(X), np.int64), Effort(), rng, classes, first)


def cloud(rows=40, seed=0):
    rng = np.random.default_rng(seed)
    truth = np.arange(rows) % 3
    return np.eye(4)[truth] + 0.2 * rng.normal(size=(rows, 4)), truth


def test_confidences_are_scaled_by_hand():
    """Two rows are certain, one is half-sure: the largest is 1, and n/(C·n_c) is 3/(2·2) and 3/(2·1)."""
    found = scaled(np.array([[1.0, 0.0], [1.0, 0.0], [0.25, 0.75]]), np.full(3, -1))
    assert found.codes.tolist() == [0, 0, 1]
    half = 1 + (0.25 * np.log2(0.25) + 0.75 * np.log2(0.75))
    np.testing.assert_allclose(found.weights, [0.75, 0.75, 1.5 * half])


def test_no_row_counts_more_than_ten_labelled_ones():
    scores = np.vstack([np.tile([1.0, 0.0], (99, 1)), [[0.0, 1.0]]])
    assert scaled(scores, np.full(100, -1)).weights[-1] == MOST < 100 / 2
    assert capped(np.array([0.5, 50.0])).tolist() == [0.5, MOST]


def test_the_network_labels_as_it_predicts():
    X, truth = cloud()
    one = task(X)
    model = one.part(np.arange(40)).learner.fit(one.first, X, truth, effort=Effort(epochs=20), rng=one.rng)
    found = FromNetwork().at_site(one, model, np.full(40, -1))
    np.testing.assert_array_equal(found.codes, one.learner.predict_proba(model, X).argmax(axis=1))
    assert (found.weights > 0).all()
    assert not FromNetwork().lasting
    assert FromNetwork(once=True).lasting


@pytest.mark.parametrize("variant", ["ours", "paper", "code"])
def test_a_sites_own_graph_is_that_of_per_client_propagation(variant):
    X, truth = cloud()
    known = np.where(np.arange(40) % 5 == 0, truth, -1)
    one = task(X)
    found = FromOwnGraph(variant=variant).at_site(one, one.first, known)
    (wanted,) = per_client([(X, known)], variant=variant, classes=range(3))
    np.testing.assert_array_equal(found.codes, np.where(known >= 0, known, wanted.codes))
    np.testing.assert_allclose(found.weights, scaled(wanted.scores, known).weights, atol=1e-9)
    assert (found.weights[known >= 0] == 1).all()
    assert np.mean(found.codes == truth) > 0.9
    none = FromOwnGraph().at_site(one, one.first, np.full(40, -1))
    assert (none.codes == -1).all()
    assert not none.weights.any()


def test_many_rows_are_compared_in_tiles(monkeypatch):
    X, truth = cloud(90)
    known = np.where(np.arange(90) % 5 == 0, truth, -1)
    one = task(X)
    whole = FromOwnGraph().at_site(one, one.first, known)
    monkeypatch.setattr("fedgeom.methods.xclp_training.pseudo.TILE", 32)
    tiled = FromOwnGraph().at_site(one, one.first, known)
    np.testing.assert_array_equal(tiled.codes, whole.codes)
    np.testing.assert_allclose(tiled.weights, whole.weights, atol=1e-9)


def test_choices_travel_and_say_what_there_is():
    for choice in (NoPseudoLabels(), FromNetwork(once=True), FromOwnGraph(alpha=0.5), FromXCLP(n_anchors=7)):
        assert PseudoLabels.read(choice.plain(), "labels") == choice
    assert NoPseudoLabels().at_site(task(np.ones((2, 2))), Tree(), np.zeros(2, np.int64)) is None
    with pytest.raises(InputError, match="labels='magic' is unknown; there are: "):
        PseudoLabels.read("magic", "labels")


def test_the_settings_of_a_propagation_are_those_of_xclp():
    made = FromXCLP(n_anchors=7, steps=4, alpha=0.99, n_neighbors=10).settings(("a", "b"), 3)
    assert (made.graph, made.n_anchors, made.n_rounds, made.classes, made.min_sites) == (
        "anchors",
        7,
        4,
        ("a", "b"),
        3,
    )
    assert (made.setting.k, made.setting.alpha) == (10, 0.99)
    with pytest.raises(InputError, match="multiple of 8"):
        FromXCLP(hash_bits=30).settings(None, 2)
