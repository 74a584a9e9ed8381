"""Ellipses from end to end: names are matched, at one depth or several; secure is plain; pooled is equal."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis

import fedgeom
from fedgeom.testing import Check, example_sites, parametrize_with_checks
from tests.methods.ellipses.making import at_depth, cloud, own_words

METHODS = {
    "own": fedgeom.Ellipses(),
    "shared": fedgeom.Ellipses(names="shared"),
    "ball": fedgeom.Ellipses(n_classes=2, space="ball", rule="linear"),
    "mixed": fedgeom.Ellipses(n_classes=2, depth="mixed"),
    "n_components": fedgeom.Ellipses(n_components=2, min_rows=3, scale="site"),
}


@pytest.mark.full
@parametrize_with_checks(METHODS)
def test_it_keeps_what_every_method_promises(check: Check) -> None:
    check()


@pytest.mark.full
@parametrize_with_checks([fedgeom.Ellipses(n_classes=4, depth="mixed")], at_depth)
def test_depth_keeps_it_too(check: Check) -> None:
    check()


def test_own_words_are_matched_and_answered_in() -> None:
    run = fedgeom.run(fedgeom.Ellipses(n_classes=4), own_words(), seed=0)
    names = run.local["s0"]["names"]
    assert sorted(names.values()) == [0, 1, 2, 3]
    assert run.local["s1"]["names"] == {
        "vier": names["a"],
        "drei": names["b"],
        "zwei": names["c"],
        "eins": names["d"],
    }
    assert run.local["s3"]["names"] == {"p": names["b"], "q": names["c"], "r": names["d"]}
    model = run.model.for_site(run.local["s1"])
    assert np.mean(model.predict(cloud(8, 3)) == "eins") > 0.95
    assert {one["verdict"] for one in run.local["s0"]["evidence"].values()} == {"certain"}
    assert not run.warnings


@pytest.mark.parametrize("rows", ["alike", "few"])
@pytest.mark.parametrize("settings", [{"names": "shared"}, {}, {"depth": "mixed", "n_classes": 3}], ids=str)
def test_a_class_too_small_for_its_covariance_loses_no_site(rows: str, settings: dict[str, object]) -> None:
    """Two rows in eight columns, or a class whose rows are all one: covariances of which sums hold no inverse."""
    sites = []
    for at in range(3):
        rng = np.random.default_rng(at)
        X = np.concatenate([rng.normal(size=(n, 8)) + 4 * k for k, n in enumerate((30, 20, 2))])
        y = np.repeat(["a", "b", "c"], (30, 20, 2))
        if rows == "alike":
            X = np.repeat([[0.0], [4.0], [8.0]], (30, 20, 2), axis=0) + np.zeros(8)
        sites.append(fedgeom.SiteData(f"s{at}", X, y))
    method = fedgeom.Ellipses(min_rows=2, rows_per_column=0, shrinkage=0, **settings)  # type: ignore[arg-type]
    run = fedgeom.run(method, sites)
    assert not run.lost
    assert set(run.local["s0"]["names"]) == {"a", "b", "c"}
    assert np.isfinite(run.model.class_scores(sites[0].X)).all()
    home = fedgeom.run(fedgeom.Ellipses(min_rows=3, names="shared"), sites)
    assert home.model.names == ("a", "b")
    assert not home.lost


def test_words_at_different_depth_find_their_places() -> None:
    run = fedgeom.run(fedgeom.Ellipses(n_classes=4, depth="mixed"), at_depth(), seed=0)
    a, b, c, d = (run.local["s0"]["names"][word] for word in "abcd")
    lower, upper = sorted([a, b]), sorted([c, d])
    assert run.local["s1"]["covers"] == {"k": [a], "l": [b], "upper": upper}
    assert run.local["s2"]["covers"] == {"m": [c], "n": [d], "below": lower}
    assert run.local["s3"]["covers"] == {"low": lower, "high": upper}
    assert run.local["s3"]["tree"] == sorted([lower, upper])
    assert run.artifacts["tree"].sum(axis=1).tolist() == [2, 2]
    model = run.model.for_site(run.local["s3"])
    assert np.mean(model.predict(np.vstack([cloud(8, 2), cloud(8, 3)])) == "high") > 0.95
    assert set(model.deeper().predict(cloud(8, 2)).tolist()) == {f"high › class {c}"}


def test_flat_matching_of_the_same_sites_goes_wrong() -> None:
    run = fedgeom.run(fedgeom.Ellipses(n_classes=4), at_depth(), seed=0)
    assert all(isinstance(group, int) for group in run.local["s3"]["names"].values())


@pytest.mark.parametrize("depth", ["same", "mixed"])
def test_rows_kept_aside_are_tested_at_the_depth_of_each_site(depth: str) -> None:
    sites = at_depth() if depth == "mixed" else own_words()
    run = fedgeom.run(fedgeom.Ellipses(n_classes=4, depth=depth), sites, seed=0, holdout=0.25)
    assert run.evaluation is not None
    assert {one.model: one.accuracy.value for one in run.evaluation.scores}["own"] > 0.95


def pooled_wine() -> tuple[list[fedgeom.SiteData], np.ndarray, np.ndarray]:
    sites = fedgeom.load_set("wine", n_sites=3).train
    return sites, np.vstack([one.X for one in sites]), np.concatenate([one.y.astype(str) for one in sites])


def test_with_shared_names_it_is_the_quadratic_discriminant_of_the_pooled_table() -> None:
    sites, X, y = pooled_wine()
    method = fedgeom.Ellipses(names="shared", shrinkage=0, min_rows=2, rows_per_column=0)
    model = fedgeom.run(method, sites, seed=0).model
    V = (X - model.scales[0]) / model.scales[1]
    for at, word in enumerate(model.names):
        assert np.allclose(model.means[at], V[y == word].mean(axis=0), atol=1e-6)
        assert np.allclose(model.covariances[at], np.cov(V[y == word].T), atol=1e-6)
    pooled = QuadraticDiscriminantAnalysis().fit(X, y)  # its covariances have n, not n - 1, below
    assert np.allclose(model.predict_proba(X), pooled.predict_proba(X), atol=0.03)


def test_with_shared_names_it_is_the_linear_discriminant_of_the_pooled_table() -> None:
    sites, X, y = pooled_wine()
    method = fedgeom.Ellipses(names="shared", rule="linear", shrinkage=0, min_rows=2, rows_per_column=0)
    model = fedgeom.run(method, sites, seed=0).model
    V = (X - model.scales[0]) / model.scales[1]
    pooled = LinearDiscriminantAnalysis(solver="lsqr").fit(V, y)
    assert np.allclose(model.covariances[0] * (len(X) - 3) / len(X), pooled.covariance_, atol=1e-6)
    assert model.predict(X).tolist() == pooled.predict(V).tolist()


def test_a_site_lost_on_the_way_costs_its_own_words_only() -> None:
    run = fedgeom.run(fedgeom.Ellipses(), example_sites(), seed=0)
    assert run.model.classes == 2
