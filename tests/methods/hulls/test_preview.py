"""The corners that a preview shows are those that the site's answer holds."""

from __future__ import annotations

import numpy as np

from fedgeom import Hulls
from fedgeom.data.sites import SiteData
from fedgeom.federation.messages import Array
from fedgeom.methods.hulls import embedding as joint_map
from fedgeom.methods.hulls.encoding import HullPlan
from fedgeom.methods.hulls.messages import EncodeHulls, TakeHullModel
from fedgeom.methods.hulls.method import corners

SQUARE = np.array([[0.2, 0.2], [-0.2, 0.2], [-0.2, -0.2], [0.2, -0.2]])


def question(*, embedding=None):
    plan = HullPlan(epsilon=0.05, radius=0.9, curvature=1.0, classes=2, blocks=2, capacity=16, h=1)
    return EncodeHulls(plan=plan, embedding=embedding)


def test_a_square_with_points_inside_has_four_corners():
    inside = np.array([[0.0, 0.0], [0.05, 0.02], [-0.04, 0.03]])
    X = np.vstack([SQUARE, inside, 2 * SQUARE])
    site = SiteData("anna", X, ["small"] * 7 + ["large"] * 4)
    found = {one.label: one for one in corners(site, question(), 0.0)}
    assert {label: (one.rows, one.corners) for label, one in found.items()} == {"small": (7, 4), "large": (4, 4)}
    assert found["small"].share == 4 / 7
    np.testing.assert_array_equal(found["small"].points, X[:7])
    for one, exact in ((found["small"], SQUARE), (found["large"], 2 * SQUARE)):
        nearest = np.linalg.norm(one.sent[:, None] - exact[None], axis=2)
        assert sorted(nearest.argmin(axis=1).tolist()) == [0, 1, 2, 3]
        assert nearest.min(axis=1).max() < 0.05  # rounded to the grid


def test_rows_of_a_table_are_shown_where_the_joint_map_takes_them():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    matrix = rng.normal(size=(3, 2)) / 8
    (one,) = corners(SiteData("anna", X, ["a"] * 40), question(embedding=Array.of(matrix)), 0.0)
    np.testing.assert_allclose(one.points, joint_map.embed(X, matrix, joint_map.column_scales(X), c=1.0))
    assert 3 <= one.corners <= 40


def test_a_method_shows_what_its_trim_leaves_and_other_questions_show_no_row():
    rng = np.random.default_rng(0)
    site = SiteData("anna", np.vstack([0.1 * rng.normal(size=(100, 2)), [[0.85, 0.0]]]), ["a"] * 101)
    shown = {trim: Hulls(trim=trim).rows_shown(site, question()) for trim in (0.0, 0.05)}
    farthest = {trim: np.linalg.norm(one.sent, axis=1).max() for trim, (one,) in shown.items()}
    assert farthest[0.0] > 0.8 > farthest[0.05]
    assert Hulls().rows_shown(site, TakeHullModel(groups=(), model=b"")) == []
