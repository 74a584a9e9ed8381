"""Descriptions of shapes, and what follows from them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedgeom import PTopoFL
from fedgeom.geometry.topology.distances import site_barycentre, wasserstein
from fedgeom.geometry.topology.persistence import Diagrams
from fedgeom.methods.ptopofl.shapes import NONE, NOTHING, describe_rows, judge_shapes, merge_small

pytest.importorskip("gudhi", reason="needs the topology extra")


def test_small_clusters_join_the_nearest_before_a_secure_sum() -> None:
    labels = np.array([0, 0, 0, 1, 2, 2, 2])
    gaps = np.ones((7, 7))
    gaps[3, 4:] = gaps[4:, 3] = 0.1
    assert merge_small(labels, gaps, 3).tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert merge_small(labels, gaps, 1).tolist() == [0, 0, 0, 1, 2, 2, 2]
    assert merge_small(np.array([0, 1]), np.ones((2, 2)), 3).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, {"descriptor"}),
        ({"cluster_by": "classes", "trust": "classes"}, {"by_class"}),
        ({"cluster_by": "diagrams", "trust": "merges"}, {"h0", "h1", "merges"}),
        ({"cluster_by": "none", "trust": "classes"}, {"by_class"}),
    ],
)
def test_only_what_the_settings_need_is_described(settings, wanted) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), np.repeat(["a", "b"], 20)
    method = PTopoFL(n_points=20, **settings)
    said = describe_rows(method, X, y, ("a", "b"), lambda: np.random.default_rng(1))
    empty = {"descriptor": NONE, "by_class": NONE, "h0": NOTHING, "h1": NOTHING, "merges": 0.0}
    assert {name for name, nothing in empty.items() if getattr(said, name) != nothing} == wanted


def test_what_is_not_asked_for_is_not_judged() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b"], 20)
    method = PTopoFL(n_points=20, cluster_by="none", closeness=True, trust="merges")
    given = [
        describe_rows(method, rng.normal(size=(40, 3)), y, ("a", "b"), lambda: np.random.default_rng(1))
        for _ in range(4)
    ]
    judged = judge_shapes(method, given, np.zeros(4, np.int64))
    assert (judged.clusters, judged.closeness) == (None, None)
    assert judged.z is not None
    assert judged.z.shape == (4,)


def test_with_diagrams_closeness_follows_the_diagrams() -> None:
    """Rings and blobs: sites of one cluster count by W_2 to its barycentre (Eq. 12), not by descriptors."""
    rng = np.random.default_rng(3)
    y, method = np.repeat(["a", "b"], 20), PTopoFL(n_points=40, cluster_by="diagrams", trust="none", n_clusters=2)
    turn = rng.uniform(0, 6.3, (3, 40, 1))
    clouds = [*rng.normal(size=(3, 40, 2)), *(5 * np.concatenate([np.cos(turn), np.sin(turn)], axis=2))]
    given = [describe_rows(method, X, y, ("a", "b"), lambda: np.random.default_rng(1)) for X in clouds]
    judged = judge_shapes(method, given, np.zeros(6, np.int64))
    assert judged.clusters.tolist() == [0, 0, 0, 1, 1, 1]
    diagrams = [Diagrams(one.h0.numpy(), one.h1.numpy(), 40) for one in given]
    for start in (0, 3):
        cluster = diagrams[start : start + 3]
        centre = site_barycentre(cluster)
        gaps = [np.hypot(wasserstein(one.h0, centre.h0), wasserstein(one.h1, centre.h1)) for one in cluster]
        logs = -np.log(judged.closeness[start : start + 3])
        np.testing.assert_allclose(logs / logs.sum(), np.array(gaps) / np.sum(gaps))
    assert np.ptp(judged.closeness) > 0.01
    warmer = judge_shapes(replace(method, temperature=2.0), given, np.zeros(6, np.int64))
    assert np.corrcoef(np.log(warmer.closeness), np.log(judged.closeness))[0, 1] > 1 - 1e-9
