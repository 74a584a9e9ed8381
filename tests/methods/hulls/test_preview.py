"""The corners that a preview shows are those that the site's answer holds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedgeom
from fedgeom import Hulls
from fedgeom.data.sites import SiteData
from fedgeom.methods.hulls.encoding import HullPlan
from fedgeom.methods.hulls.method import corners
from fedgeom.protocols.plan import shape_of

SQUARE = np.array([[0.2, 0.2], [-0.2, 0.2], [-0.2, -0.2], [0.2, -0.2]])


def test_a_square_with_points_inside_has_four_corners():
    plan = HullPlan(epsilon=0.05, radius=0.9, curvature=1.0, classes=2, blocks=2, capacity=16, h=1)
    inside = np.array([[0.0, 0.0], [0.05, 0.02], [-0.04, 0.03]])
    X = np.vstack([SQUARE, inside, 2 * SQUARE])
    found = {one.label: one for one in corners(X, np.array(["small"] * 7 + ["large"] * 4), plan, 0.0)}
    assert {label: (one.rows, one.corners) for label, one in found.items()} == {"small": (7, 4), "large": (4, 4)}
    assert found["small"].share == 4 / 7
    np.testing.assert_array_equal(found["small"].points, X[:7])
    for one, exact in ((found["small"], SQUARE), (found["large"], 2 * SQUARE)):
        nearest = np.linalg.norm(one.sent[:, None] - exact[None], axis=2)
        assert sorted(nearest.argmin(axis=1).tolist()) == [0, 1, 2, 3]
        assert nearest.min(axis=1).max() < 0.05  # rounded to the grid


def tables(columns: int) -> list[SiteData]:
    rng = np.random.default_rng(columns)
    y = np.repeat(["a", "b"], 40)
    shift = np.where(y == "a", 0.0, 3.0)[:, None]
    return [SiteData(name, rng.normal(size=(80, columns)) + shift, y) for name in ("ann", "bob", "cat")]


@pytest.mark.parametrize(
    "method",
    [
        Hulls(embedding="discriminant", names="shared"),
        Hulls(embedding="discriminant", names="shared", scale="joint", holdout=0.25),
        Hulls(embedding="map", epsilon=0.1, names="shared"),
    ],
    ids=["discriminant", "joint scale, tested", "map"],
)
def test_what_all_sites_would_show_together_is_what_the_run_learnt(method):
    """Under shared names the coordinator learns the corners of all sites, class by class."""
    sites = tables(4)
    shape = shape_of(method, sites)
    shown = {name: set() for name in ("a", "b")}
    for site in sites:
        for one in method.rows_shown(replace(shape, site=site.name)):
            shown[one.label] |= set(map(tuple, np.round(one.sent, 9)))
    found = fedgeom.run(method, sites).metrics
    assert sum(map(len, shown.values())) == found["hull_points"]


def test_a_method_shows_what_its_trim_leaves():
    rng = np.random.default_rng(0)
    X = np.vstack([0.1 * rng.normal(size=(100, 2)), [[0.85, 0.0]]])
    labels = np.array(["a"] * 50 + ["b"] * 50 + ["a"])
    sites = [SiteData(name, X, labels) for name in ("ann", "bob")]
    farthest = {}
    for trim in (0.0, 0.05):
        method = Hulls(trim=trim)
        shown = method.rows_shown(replace(shape_of(method, sites), site="ann"))
        farthest[trim] = max(np.linalg.norm(one.sent, axis=1).max() for one in shown)
    assert farthest[0.0] > 0.8 > farthest[0.05]
