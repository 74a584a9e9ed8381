"""Shrunk: the joint optimum by sums, personal optima around it, and a choice that borrows evidence."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import fedgeom
from fedgeom import Shrunk, SiteData
from fedgeom.errors import InputError, TooFewSitesError
from fedgeom.methods.shrunk.choosing import Evidence, blend, gather, shares
from fedgeom.methods.shrunk.fits import (
    TAU,
    Terms,
    descend,
    intercept,
    personal,
    profile,
    rank_quality,
    site_terms,
    terms_length,
)
from fedgeom.methods.shrunk.plain import plain
from fedgeom.methods.shrunk.site import fold_of

QUICK = {"rounds": 6, "folds": 3}


def hospitals(n: int = 4, rows: int = 50, columns: int = 3, seed: int = 0, differ: float = 0.0) -> list[SiteData]:
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=columns)
    found = []
    for at in range(n):
        X = rng.normal(size=(rows + 5 * at, columns))
        own = truth + differ * rng.normal(size=columns)
        y = np.where(X @ own + 0.5 * at - 1 + rng.logistic(size=len(X)) > 0, "yes", "no")
        found.append(SiteData(f"h{at}", X, y))
    return found


def table(seed: int = 0, rows: int = 60) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3))
    return X, (X[:, 0] - X[:, 1] + rng.logistic(size=rows) > 0.3).astype(np.int64)


def test_a_run_equals_its_plain_twin() -> None:
    sites, method = hospitals(), Shrunk(**QUICK)  # type: ignore[arg-type]
    run, twin = fedgeom.run(method, sites, seed=4), plain(method, sites, seed=4)
    assert run.model.to_bytes() == twin.model.to_bytes()
    for name, model in twin.personal.items():
        assert run.model.at(run.local[name]).to_bytes() == model.to_bytes()


@pytest.mark.parametrize("ridge", [0.5, 10.0, 300.0])
def test_sums_descend_to_the_pooled_optimum(ridge: float) -> None:
    X, y = table(rows=90)
    sites = [(X[at::3], y[at::3]) for at in range(3)]

    def summed(directions: np.ndarray) -> Terms:
        parts = [site_terms(a, b, np.zeros(len(b), np.int64), directions) for a, b in sites]
        flat = np.sum([part.flat() for part in parts], axis=0)
        assert len(flat) == terms_length((1, 2), 3)
        return Terms.read(flat, (1, 2), 3)

    found = descend(summed, np.array([ridge]), 2, 3, 12)[0, 1]
    slope = ridge * found + np.sum([profile(a, b, found)[1] for a, b in sites], axis=0)
    assert np.abs(slope).max() < 1e-8
    assert not descend(summed, np.array([ridge]), 2, 3, 12)[
        0, 0
    ].any()  # all rows of fold 0 left out: nothing to learn


def test_one_site_is_scikit_learns_ridge() -> None:
    X, y = table()
    w, b = personal(X, y, np.zeros(3), 2.0)
    known = LogisticRegression(C=0.5, tol=1e-10, max_iter=1000).fit(X, y)
    assert w == pytest.approx(known.coef_[0], abs=2e-3)  # ours has a trace of a penalty on the intercept
    assert b == pytest.approx(float(known.intercept_[0]), abs=2e-3)


def test_the_gradient_and_hessian_of_the_profile() -> None:
    X, y = table()
    w, step = np.array([0.3, -0.2, 0.1]), 1e-5
    _, slope, curve = profile(X, y, w)
    for at in range(3):
        unit = np.eye(3)[at] * step
        up, down = profile(X, y, w + unit), profile(X, y, w - unit)
        assert slope[at] == pytest.approx((up[0] - down[0]) / (2 * step), rel=1e-6)
        assert curve[at] == pytest.approx((up[1] - down[1]) / (2 * step), rel=1e-5)


@pytest.mark.parametrize("outcome", [0, 1])
def test_a_site_with_one_class_has_a_finite_intercept(outcome: int) -> None:
    X = np.ones((5, 1))
    b = intercept(X, np.full(5, outcome), np.zeros(1))
    assert np.isfinite(b)
    assert 5 * (1 / (1 + np.exp(-b)) - outcome) + TAU * b == pytest.approx(0, abs=1e-7)


def test_strength_goes_from_local_to_joint() -> None:
    X, y = table()
    centre = np.array([5.0, 5.0, 5.0])
    gaps = [np.linalg.norm(personal(X, y, centre, s)[0] - centre) for s in (0.1, 1.0, 10.0, 1e3, np.inf)]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] == 0
    assert personal(X, y, centre, 1e-6)[0] == pytest.approx(personal(X, y, np.zeros(3), 1e-6)[0], abs=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_rank_quality_is_the_auc(seed: int) -> None:
    rng = np.random.default_rng(seed)
    y, scores = rng.integers(0, 2, 40), np.round(rng.normal(size=40), 1)
    assert rank_quality(y, scores) == pytest.approx(roc_auc_score(y, scores))
    assert rank_quality(np.zeros(4, np.int64), scores[:4]) == 0.5


def test_a_small_site_follows_the_others_and_a_large_one_itself() -> None:
    one, none = np.array([[1.0, 0.0]]), np.zeros(1)

    def weights(rows: float) -> np.ndarray:
        own = Evidence(one * 10, 10.0, none, rows)
        everybody = Evidence(one * 10 + np.array([[0.0, 1.0]]) * 90, 100.0, none, rows + 500)
        return shares(own, everybody, borrowed=100.0, temperature=0.05)[0]

    assert weights(1.0)[1] > 0.99
    assert weights(1e5)[0] > 0.99
    assert weights(100.0) == pytest.approx([0.5, 0.5])
    equal = shares(None, Evidence(one, 1.0, none, 1.0), borrowed=1.0, temperature=1e9)
    assert equal == pytest.approx(np.full((1, 2), 0.5))


def test_models_are_mixed_on_a_common_spread() -> None:
    weights, spread = np.array([[0.5, 0.5]]), np.array([[1.0, 3.0]])
    directions = np.array([[[1.0, 0.0], [0.0, 3.0]]])
    w, b = blend(weights, spread, directions, np.array([[1.0, 3.0]]))
    assert w == pytest.approx([1.0, 1.0])
    assert b == pytest.approx(2.0)


def test_evidence_is_from_rows_that_were_held_out() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 30)), rng.integers(0, 2, 60)  # nothing to learn, and enough columns to learn it
    fold = fold_of(y, 5, 0, "h0")
    assert sorted(set(fold.tolist())) == [0, 1, 2, 3, 4]
    evidence, _ = gather(X, y, fold, np.zeros((1, 6, 30)), np.array([0.1]))
    assert abs(evidence.quality[0, 0] / evidence.weight - 0.5) < 0.2
    w, b = personal(X, y, np.zeros(30), 0.1)
    assert rank_quality(y, X @ w + b) > 0.95


def test_hospitals_that_differ_get_models_that_differ() -> None:
    alike, apart = hospitals(rows=200, differ=0.0), hospitals(rows=200, differ=2.0)
    spread = []
    for sites in (alike, apart):
        run = fedgeom.run(Shrunk(**QUICK), sites, seed=0)  # type: ignore[arg-type]
        vectors = np.array([run.local[site.name]["model"][1:] for site in sites])
        spread.append(np.linalg.norm(vectors - vectors.mean(axis=0)) / np.linalg.norm(vectors))
        right = [np.mean(run.model.at(run.local[s.name]).predict(s.X) == s.y) for s in sites]
        assert np.mean(right) > 0.6
    assert spread[1] > 3 * spread[0]


def test_only_sums_leave_the_sites() -> None:
    run = fedgeom.run(Shrunk(**QUICK), hospitals())  # type: ignore[arg-type]
    assert not {"train.update", "topo.description"} & {entry.kind for entry in run.ledger}
    assert any("held-out" in entry.reveals for entry in run.ledger)


def test_sites_do_not_even_understand_questions_that_show_a_model() -> None:
    understood = set(Shrunk.site.understands())
    assert {"shrunk.terms", "shrunk.evidence", "shrunk.settle", "train.columns", "train.begin"} <= understood
    assert not {"train.open", "train.masked", "train.finish"} & understood


@pytest.mark.parametrize("step", ["shrunk.terms", "shrunk.evidence", "shrunk.settle"])
def test_a_site_may_be_lost(step: str) -> None:
    def lose(name: str, request: bytes) -> str | None:
        return "power cut" if name == "h1" and step.encode() in request else None

    run = fedgeom.run(Shrunk(**QUICK), hospitals(), interfere=lose)  # type: ignore[arg-type]
    assert "h1" in run.lost
    assert "model" in run.local["h0"]
    assert "model" not in run.local.get("h1", {})


def test_wrong_use_is_refused_in_words() -> None:
    with pytest.raises(InputError, match="rounds=0"):
        Shrunk(rounds=0)
    with pytest.raises(InputError, match="folds"):
        Shrunk(folds=1)
    three = [SiteData(s.name, s.X, np.where(np.arange(len(s)) % 5 == 0, "maybe", s.y)) for s in hospitals()]
    with pytest.raises(InputError, match="two classes"):
        fedgeom.run(Shrunk(**QUICK), three)  # type: ignore[arg-type]
    wide = [SiteData(s.name, np.random.default_rng(0).normal(size=(len(s), 101)), s.y) for s in hospitals()]
    with pytest.raises((InputError, TooFewSitesError), match="100 columns"):
        fedgeom.run(Shrunk(**QUICK), wide)  # type: ignore[arg-type]
