"""The middle of groups' class moments, against the moments themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedgeom
from fedgeom.errors import InputError
from fedgeom.geometry.gaussians import ClassSums, class_moments
from fedgeom.geometry.hyperbolic.poincare import exp0
from fedgeom.methods.iterative import GroupMedian
from fedgeom.methods.moments.core import middle
from fedgeom.testing import Check, example_sites, parametrize_with_checks
from papers.robust.liars import KINDS, lying, with_liars

CLASSES = ("a", "b")
RULES = ("median", "geometric")


def settings(how: Any = "median", **options: Any) -> fedgeom.Moments:
    return fedgeom.Moments(**{"space": "euclidean", "aggregation": GroupMedian(n_groups=5, rule=how)} | options)


def rows(seed: int, count: int = 300) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    y = np.arange(count) % 2
    return rng.normal(size=(count, 3)) @ np.diag([1.0, 2.0, 0.5]) + 2.0 * y[:, None], np.array(CLASSES)[y]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("c", [None, 1.0])
def test_the_middle_of_equal_groups_is_their_sum(rule: Any, c: float | None) -> None:
    X, y = rows(0)
    X = X if c is None else 0.05 * X
    one = class_moments(X, y, CLASSES, c=c)
    for squares in (True, False):
        made = settings(
            rule, rule="gaussian" if squares else "centroid", space="euclidean" if c is None else "ball"
        )
        one = class_moments(X, y, CLASSES, c=c, squares=squares)
        np.testing.assert_allclose(middle(made, [one] * 5, 2, 3), 5 * one, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rule", RULES)
def test_it_is_near_the_truth_whatever_two_groups_of_five_say(rule: Any) -> None:
    honest = [class_moments(*rows(at), CLASSES, c=None) for at in range(3)]
    rng = np.random.default_rng(9)
    for lie in (1e9 * honest[0], -honest[0], np.zeros_like(honest[0]), rng.normal(size=len(honest[0])) * 1e7):
        found = ClassSums(middle(settings(rule), [*honest, lie, lie], 2, 3), CLASSES, 3)
        _, means, covariances = found.gaussians(4.0)
        np.testing.assert_allclose(means, [[0, 0, 0], [2, 2, 2]], atol=0.5)
        np.testing.assert_allclose(np.diagonal(covariances[0]), [1.0, 4.0, 0.25], rtol=0.5)
        assert all((np.linalg.eigvalsh(one) > 0).all() for one in covariances)


def test_a_class_that_some_groups_lack_is_the_middle_of_those_that_have_it() -> None:
    whole = class_moments(*rows(0), CLASSES, c=None)
    X, y = rows(1)
    without = class_moments(X[y == "a"], y[y == "a"], CLASSES, c=None)
    found = ClassSums(middle(settings(), [whole, whole, whole, without, without], 2, 3), CLASSES, 3)
    assert found.counts.tolist() == [750, 450]
    nobody = middle(settings(), [without] * 5, 2, 3)
    assert not nobody.reshape(2, -1)[1].any()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("seed", [0, 1, 6])
def test_centroids_of_points_near_the_edge_lie_where_the_points_do(seed: int, rule: Any) -> None:
    rng = np.random.default_rng(seed)
    y = np.array(["a", "b"] * 10)
    sites = []
    for at in range(11):
        away = rng.normal(size=(20, 2)) + np.where(y == "a", 2, -2)[:, None] * [1, 0.3] + 0.6 * rng.normal(size=2)
        sites.append(fedgeom.SiteData(f"s{at:02d}", np.asarray(exp0(away)), y))
    method = fedgeom.Moments(rule="centroid", aggregation=GroupMedian(n_groups=3, rule=rule, drawn_by="seed"))
    farthest = max(float(np.linalg.norm(site.X, axis=1).max()) for site in sites)
    assert np.linalg.norm(method.plain(sites, seed=seed).model.centroids, axis=1).max() < farthest


@pytest.mark.parametrize("lie", [-1.0, 0.0, 1e9])
def test_no_group_can_lift_a_centroid_out_of_the_ball(lie: float) -> None:
    X, y = rows(0)
    one = class_moments(0.05 * X, y, CLASSES, c=1.0)
    bent = one.reshape(2, -1).copy()
    bent[:, -4] *= lie  # the time coordinate
    bent[:, -3:] *= 1e6
    found = middle(settings(space="ball"), [one, one, one, bent.ravel(), bent.ravel()], 2, 3)
    np.testing.assert_allclose(found, 5 * one, rtol=1e-9, atol=1e-9)


def test_open_aggregations_are_refused() -> None:
    with pytest.raises(InputError, match=r'"mean" or GroupMedian'):
        fedgeom.Moments(aggregation="median")


MEDIAN = fedgeom.Moments(aggregation=GroupMedian(n_groups=3, drawn_by="seed"))


@pytest.mark.full
@parametrize_with_checks({"median": MEDIAN}, lambda: example_sites(10, rows=12))
def test_it_keeps_what_every_method_promises(check: Check) -> None:
    check()


@pytest.mark.parametrize("kind", KINDS)
def test_a_site_that_lies_spoils_the_sum_and_not_the_middle(kind: str) -> None:
    sites = [fedgeom.SiteData(f"s{at}", *rows(at, 40)) for at in range(10)]
    X, y = rows(99, 400)

    def accuracy(method: Any) -> float:
        with lying(["s3"], kind, 10):
            return float(np.mean(fedgeom.run(method, with_liars(sites, ["s3"], kind)).model.predict(X) == y))

    honest = float(np.mean(settings().plain(sites).model.predict(X) == y))
    assert accuracy(settings(aggregation=GroupMedian(n_groups=3))) > honest - 0.03
    if kind in ("scaling", "a copied model"):
        assert accuracy(fedgeom.Moments(space="euclidean")) < honest - 0.1
