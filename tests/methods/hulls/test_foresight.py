"""How long the words of a run become is known beforehand; what is refused elsewhere is not refused here."""

from __future__ import annotations

import numpy as np
import pytest
from fedgeom.methods.hulls.costs import joint_points, joint_reach, longest_word, word_length

import fedgeom
from fedgeom import SiteData
from fedgeom.methods.hulls import costs


def discs(n: int = 3) -> list[SiteData]:
    return fedgeom.load_set("synthetic", n_sites=n, points=120).train


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


def test_no_word_is_longer_than_if_all_rows_were_corners(monkeypatch: pytest.MonkeyPatch) -> None:
    sites = discs()
    assert longest_word(fedgeom.Hulls(capacity=7), sites) == 2 * 7 * 3 + 2
    assert longest_word(fedgeom.Hulls(), sites) >= 2 * max(map(len, sites)) * 3
    assert word_length(fedgeom.Hulls(), sites, lambda _: pytest.fail("nobody asked")) == longest_word(
        fedgeom.Hulls(), sites
    )
    monkeypatch.setattr(costs, "SHORT", 0)
    method = fedgeom.Hulls()
    planned = method._plan(joint_reach(method, [site.X for site in sites], sites), 3)
    assert word_length(method, sites, lambda reach: method._plan(reach, 3)) == planned.length


def test_few_rows_need_no_look_at_hulls_before_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    monkeypatch.setattr(costs, "SHORT", 0)
    monkeypatch.setattr(costs, "joint_reach", lambda *given: looked.append(given) or [2, 20, 30, 60])
    fedgeom.check(fedgeom.Hulls(), discs())
    assert not looked
    few = fedgeom.Policy(max_message_bytes=8_000)  # less than the levels take
    fedgeom.check(fedgeom.Hulls(), discs(), few)
    assert looked


def test_what_a_run_refuses_has_no_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "SHORT", 0)
    method = fedgeom.Hulls()
    outside = [SiteData(site.name, site.X * 5, site.y) for site in discs()]
    assert word_length(method, outside, lambda reach: method._plan(reach, 3)) == 0
    one = [SiteData(site.name, site.X, np.repeat("a", len(site))) for site in discs()]
    assert word_length(method, one, lambda reach: method._plan(reach, 3)) == 0
