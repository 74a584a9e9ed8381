"""How long the words of a run become is known beforehand, where one process has all tables."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom import SiteData
from fedgeom.federation.plan import Shape
from fedgeom.methods.hulls import method as hulls_method
from fedgeom.methods.hulls.core import count_of_level
from fedgeom.methods.hulls.method import foreseen_levels, joint_points, joint_reach


def discs(n: int = 3, points: int = 120) -> list[SiteData]:
    return fedgeom.load_set("synthetic", n_sites=n, points=points).train


def test_rows_of_the_disc_stay_where_they_are() -> None:
    points, mapped = joint_points(fedgeom.Hulls(), discs())
    assert mapped == (None, None)
    np.testing.assert_array_equal(points[0], discs()[0].X)


def test_levels_are_the_largest_of_all_sites() -> None:
    method, sites = fedgeom.Hulls(), discs()
    alone = [joint_reach(method, [site.X], [site]) for site in sites]
    *levels, corners = joint_reach(method, [site.X for site in sites], sites)
    assert levels == np.max(alone, axis=0)[:-1].tolist()
    assert corners == sum(one[-1] for one in alone)


def test_without_tables_every_row_may_be_a_corner() -> None:
    shape = Shape(("a", "b", "c"), 2, ("x", "y"), rows=100)
    levels, decides = foreseen_levels(fedgeom.Hulls(), shape)
    assert count_of_level(levels[1]) >= 100
    assert levels[3] == 3 * count_of_level(levels[1])
    assert "at most one for each row" in decides
    settled = fedgeom.Hulls(n_classes=2, capacity=50, radius=0.9)
    assert foreseen_levels(settled, shape)[1] == ""


def test_few_rows_need_no_look_at_hulls_before_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    monkeypatch.setattr(hulls_method, "joint_reach", lambda *given: looked.append(given) or [2, 20, 30, 60])
    fedgeom.check(fedgeom.Hulls(), discs())
    assert not looked
    few = fedgeom.Policy(max_message_bytes=20_000)  # a bound on the words is larger
    fedgeom.check(fedgeom.Hulls(), discs(points=3000), few)
    assert looked
