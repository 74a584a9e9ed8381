"""Secure runs of Moments against `twin.py`, which was written from the definitions and shares no line with fedgeom."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import NearestCentroid

import fedgeom
from fedgeom.methods.iterative import GroupMedian
from tests.methods.coordinators import kill
from tests.methods.moments import twin

Tables = dict[str, tuple[np.ndarray, np.ndarray]]
NAMES = np.array(["ape", "bee", "cat"])
NEAR = {"rtol": 1e-6, "atol": 1e-6}
"""Sums are rounded to 2⁻²⁸ at each site."""
SPACES = {"euclidean": None, "ball": 1.0, "a narrow ball": 2.5}


def tables(sites: int = 4, rows: int = 30, seed: int = 0, c: float | None = None) -> Tables:
    """Draw three classes of unlike shapes and sizes in three columns; no site has the classes as the others have."""
    rng = np.random.default_rng(seed)
    middles = rng.normal(size=(3, 3))
    shapes = rng.normal(size=(3, 3, 3)) * 0.6
    found = {}
    for at in range(sites):
        chances = rng.dirichlet([6, 4, 2])
        y = np.concatenate([[0, 0, 1, 1, 2, 2], rng.choice(3, rows + 5 * at, p=chances)])
        X = (
            middles[y]
            + np.einsum("nij,nj->ni", shapes[y], rng.normal(size=(len(y), 3)))
            + 0.3 * rng.normal(size=3)
        )
        if c is not None:  # into the ball, some of the rows near its edge
            X = X / np.sqrt(c) * (np.tanh(0.4 * np.linalg.norm(X, axis=1)) / np.linalg.norm(X, axis=1))[:, None]
        found[f"s{at}"] = (X, NAMES[y])
    return found


def secure(
    drawn: Tables, c: float | None, policy: fedgeom.Policy | None = None, seed: int = 0, **settings: Any
) -> Any:
    """Run tables through the whole protocol."""
    space = {"space": "euclidean"} if c is None else {"space": "ball", "curvature": c}
    sites = [fedgeom.SiteData(name, X, y) for name, (X, y) in drawn.items()]
    run = fedgeom.run(fedgeom.Moments(**space, **settings), sites, seed=seed, policy=policy)
    assert "sum.masked" in {entry.kind for entry in run.ledger}
    return run.model


def new_rows(c: float | None) -> np.ndarray:
    """Draw rows that no model has seen."""
    return twin.pool(tables(3, 60, seed=9, c=c))[0]


def assert_same(model: Any, expected: twin.Found, **tolerance: float) -> None:
    """Numbers and what they say of new rows are the same; covariances only where there are some."""
    near = NEAR | tolerance
    assert model.names == expected.names
    np.testing.assert_allclose(np.exp(model.log_priors), expected.shares, **near)
    np.testing.assert_allclose(model.means, expected.means, **near)
    np.testing.assert_allclose(model.centroids, expected.centroids, **near)
    X = new_rows(expected.c)
    if model.rule == "centroid":
        assert model.predict(X).tolist() == expected.nearest(X).tolist()
        return
    np.testing.assert_allclose(model.covariances, expected.covariances, **near)
    np.testing.assert_allclose(model.predict_proba(X), expected.probabilities(X), atol=50 * near["atol"])


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("rule", ["gaussian", "centroid"])
def test_the_secure_model_is_that_of_all_rows(rule: str, space: str) -> None:
    c = SPACES[space]
    drawn = tables(c=c)
    assert_same(secure(drawn, c, rule=rule), twin.fit(drawn, c))


@pytest.mark.parametrize("shrinkage", [0.0, 2.5, 40.0])
def test_shrinkage_is_so_many_rows_of_the_covariance_inside_all_classes(shrinkage: float) -> None:
    drawn = tables()
    assert_same(secure(drawn, None, shrinkage=shrinkage), twin.fit(drawn, shrinkage=shrinkage))


def test_endless_shrinkage_and_centroids_are_scikit_learns() -> None:
    """An endless pull is linear discriminant analysis, and centroids are the nearest ones."""
    drawn = tables()
    X, y = twin.pool(drawn)
    new = new_rows(None)
    own = LinearDiscriminantAnalysis(solver="lsqr", store_covariance=True).fit(X, y)
    model = secure(drawn, None, shrinkage=1e9)
    for covariance in model.covariances:  # scikit-learn divides by all rows, we by those less the classes
        np.testing.assert_allclose(covariance, own.covariance_ * len(y) / (len(y) - 3), **NEAR)
    model = secure(drawn, None, rule="centroid")
    assert model.predict(new).tolist() == NearestCentroid().fit(X, y).predict(new).tolist()


def test_classes_that_the_terms_name_keep_their_order() -> None:
    drawn = tables()
    names = ("cat", "ape", "bee")
    assert_same(secure(drawn, None, classes=names), twin.fit(drawn, names=names))


def with_rare(sites: int, rows: int) -> Tables:
    """Return tables of which the first few have rows of one more class."""
    drawn = tables(5)
    rng = np.random.default_rng(4)
    for name in list(drawn)[:sites]:
        X, y = drawn[name]
        drawn[name] = (np.vstack([X, rng.normal(size=(rows, 3)) + 3]), np.append(y, ["asp"] * rows))
    return drawn


@pytest.mark.parametrize("given", [None, ("ape", "asp", "bee", "cat")])
@pytest.mark.parametrize(("sites", "rows", "kept"), [(1, 30, False), (2, 30, False), (3, 3, False), (3, 4, True)])
def test_rows_of_classes_that_few_have_are_in_no_number(
    sites: int, rows: int, kept: bool, given: tuple[str, ...] | None
) -> None:
    drawn = with_rare(sites, rows)
    policy = fedgeom.Policy(single_site_classes=False, min_sites=3, min_rows=10)
    names = twin.frequent(drawn, 3, 10)
    assert ("asp" in names) == kept
    assert_same(secure(drawn, None, policy, classes=given), twin.fit(drawn, names=names))


def test_the_rows_of_a_site_that_is_lost_are_in_no_number() -> None:
    drawn = tables()
    sites = [fedgeom.SiteData(name, X, y) for name, (X, y) in drawn.items()]
    method = fedgeom.Moments(space="euclidean")
    run = fedgeom.run(method, sites, interfere=kill("s1", "moments.sum"))
    assert_same(run.model, twin.fit({name: drawn[name] for name in drawn if name != "s1"}))
    run = fedgeom.run(method, sites, interfere=kill("s1", "sum.unmask"))  # its numbers were in already
    assert_same(run.model, twin.fit(drawn))


TYPICAL = {"median": lambda points: np.median(points, axis=0), "geometric": twin.geometric_median}


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("rule", ["gaussian", "centroid"])
@pytest.mark.parametrize("how", TYPICAL)
def test_medians_over_groups_are_of_means_and_covariances(how: Any, rule: str, space: str) -> None:
    c = SPACES[space]
    seed = 5
    drawn = tables(13, 12, c=c)
    robust = GroupMedian(n_groups=4, rule=how, drawn_by="seed")
    model = secure(drawn, c, seed=seed, rule=rule, aggregation=robust)
    tolerance = 1e-6 if how == "median" else 5e-4  # both searches for a geometric median end a little beside it
    assert_same(model, twin.fit_medians(drawn, 4, seed, c, TYPICAL[how]), atol=tolerance, rtol=tolerance)


def test_medians_that_are_no_covariances_are_mended() -> None:
    """Of three rows at each site; an eigenvalue of the first class's median of covariances is negative."""
    drawn = {name: (X[[0, 2, 4]], y[[0, 2, 4]]) for name, (X, y) in tables(13, 0, seed=10).items()}
    parts = [twin.pool({site: drawn[site] for site in group}) for group in twin.groups(list(drawn), 4, 5)]
    median = np.median([np.cov(X[y == "ape"].T, ddof=0) for X, y in parts], axis=0)
    assert np.linalg.eigvalsh(median)[0] < -0.05
    model = secure(drawn, None, seed=5, min_rows=1, aggregation=GroupMedian(n_groups=4, drawn_by="seed"))
    assert_same(model, twin.fit_medians(drawn, 4, 5))


def test_a_site_scores_each_fold_of_its_rows_by_a_model_without_them(tmp_path: Path) -> None:
    drawn = tables()
    sites = [fedgeom.SiteData(name, X, y) for name, (X, y) in drawn.items()]
    fedgeom.run(fedgeom.Moments(space="euclidean"), sites, record=tmp_path / "run")
    own = fedgeom.load_model(tmp_path / "run" / "sites" / "s1.safetensors")
    X, y = drawn["s1"]
    fold = np.random.default_rng(0).permutation(len(y)) % 5
    scores = np.empty(len(y))
    for number in range(5):
        out = fold == number
        scores[out] = -twin.fit(drawn | {"s1": (X[~out], y[~out])}).outlyingness(X[out])
    np.testing.assert_allclose(own.known.scores, np.sort(scores), rtol=1e-5)


@pytest.mark.usefixtures("fixed_noise")
@pytest.mark.parametrize("space", ["euclidean", "ball"])
@pytest.mark.parametrize("rule", ["gaussian", "centroid"])
def test_with_little_noise_a_private_model_is_that_of_shortened_rows(rule: str, space: str) -> None:
    """ε = 40 is noise of a third of a row on each number, of some 1,000 rows in each class."""
    c = SPACES[space]
    clip = 1.2
    drawn = tables(4, 1500, c=c)
    privacy = fedgeom.DP(epsilon=40.0, delta=0.01, clip=clip)
    model = secure(drawn, c, rule=rule, classes=tuple(NAMES), min_sites=4, privacy=privacy)
    short = twin.fit(twin.shortened(drawn, clip, c))
    assert max(np.linalg.norm(twin.tangent(X, c), axis=1).max() for X, _ in drawn.values()) > clip
    np.testing.assert_allclose(np.exp(model.log_priors), short.shares, atol=2e-3)
    np.testing.assert_allclose(model.means, short.means, atol=2e-3)
    middles = short.means
    if c is not None:  # the mean in the tangent space, taken back to the ball
        lengths = np.linalg.norm(middles, axis=1, keepdims=True)
        middles = middles * np.tanh(np.sqrt(c) * lengths) / (np.sqrt(c) * lengths)
    np.testing.assert_allclose(model.centroids, middles, atol=2e-3)
    if rule == "gaussian":
        np.testing.assert_allclose(model.covariances, short.covariances, atol=4e-3)


def test_the_cases_are_not_too_easy() -> None:
    """Spaces, pulls, groups and who is in them matter by far more than the tolerance, and classes overlap."""
    drawn = tables()
    usual = twin.fit(drawn)
    new = new_rows(None)
    assert np.abs(usual.covariances - twin.fit(drawn, shrinkage=5).covariances).max() > 1e-3
    assert (usual.probabilities(new).max(axis=1) < 0.9).mean() > 0.1
    many = tables(13, 12, c=1.0)
    one = twin.fit_medians(many, 4, 5, 1.0)
    others = (twin.fit_medians(many, 4, 6, 1.0), twin.fit(many, 1.0))
    for other in (*others, twin.fit_medians(many, 4, 5, 1.0, twin.geometric_median)):
        assert np.abs(one.means - other.means).max() > 1e-3
        assert np.abs(one.centroids - other.centroids).max() > 1e-3
