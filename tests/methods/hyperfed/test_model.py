"""A model with a class tree: as deep as it is sure, at any depth, and how far its mistakes are."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom import HyperFed
from fedgeom.errors import InputError
from tests.methods.hyperfed.making import clinics

pytest.importorskip("torch")

TREE = {"a": "ab", "b": "ab", "ab": "all", "c": "all"}


@pytest.fixture(scope="module")
def run():
    method = HyperFed.measured(
        n_rounds=6,
        epochs=3,
        learning_rate=0.3,
        network={"name": "mlp", "embedding_dim": 4},
        class_tree=TREE,
        secure=False,
    )
    return fedgeom.run(method, clinics(rows=60))


def test_confident_predictions_are_nodes_that_are_likely_enough(run):
    X = clinics()[0].X
    for confidence in (0.5, 0.9, 0.999):
        nodes, chances = run.model.predict_confident(X, confidence)
        assert set(nodes) <= {"a", "b", "c", "ab", "all"}
        assert (chances[nodes != "all"] >= confidence).all()
    sure, _ = run.model.predict_confident(X, 0.0)
    assert set(sure) <= {"a", "b", "c"}
    careful, _ = run.model.predict_confident(X, 0.999)
    assert np.mean(careful == "all") > np.mean(sure == "all")


def test_a_branch_is_as_likely_as_its_classes_together(run):
    X = clinics()[0].X
    chances = run.model.predict_proba(X)
    wanted = np.where(chances[:, 0] + chances[:, 1] > chances[:, 2], "ab", "c")
    np.testing.assert_array_equal(run.model.predict_at_depth(X, 1), wanted)
    np.testing.assert_array_equal(run.model.predict_at_depth(X, 2), run.model.predict(X))


def test_the_nearest_class_has_the_least_expected_distance(run):
    X = clinics()[0].X
    expected = run.model.predict_proba(X) @ np.array([[0, 2, 3], [2, 0, 3], [3, 3, 0]])
    np.testing.assert_array_equal(run.model.predict_nearest(X), np.array(list("abc"))[expected.argmin(axis=1)])
    nodes = run.model.predict_nearest(X, groups=True)
    assert (
        nodes.tolist()
        == np.array(run.model.tree.nodes)[run.model.tree.nearest_node(run.model.predict_proba(X))].tolist()
    )


def test_the_tree_error_counts_edges(run):
    site = clinics()[0]
    said = run.model.predict(site.X)
    apart = {("a", "b"): 2, ("b", "a"): 2}
    total = sum(apart.get((t, s), 3) for t, s in zip(site.y, said, strict=True) if t != s)
    error, per_mistake = run.model.tree_error(site.X, site.y)
    assert error == pytest.approx(total / len(site.y))
    assert per_mistake == pytest.approx(total / max((said != site.y).sum(), 1))
    with pytest.raises(InputError, match="stranger"):
        run.model.tree_error(site.X[:1], ["stranger"])


def test_the_tree_comes_back_from_the_file_and_points_lie_in_the_ball(run):
    again = fedgeom.methods.catalogue.read_model(run.model.to_bytes())
    assert again.tree.nodes == run.model.tree.nodes
    points = again.points(clinics()[0].X)
    assert points.shape == (40, 4)
    assert (np.linalg.norm(points, axis=1) < 1).all()
    own = run.model.for_site(run.local["clinic 0"])
    assert own.tree.nodes == again.tree.nodes


def test_without_a_tree_there_is_none():
    run = fedgeom.run(HyperFed.measured(n_rounds=1, steps=1, secure=False), clinics())
    with pytest.raises(InputError, match="class_tree"):
        run.model.predict_confident(clinics()[0].X)
