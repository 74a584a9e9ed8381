"""Ridge with differential privacy: what one row can move, what comes of the noisy sum, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedgeom
from fedgeom import DP, InputError, Ridge, SiteData
from fedgeom.federation.policy import StrictPolicy
from fedgeom.methods.ridge import private
from fedgeom.methods.ridge.messages import SumBounded
from fedgeom.protocols.evaluation import SumEvaluation
from fedgeom.protocols.secure_sum.messages import MaskedVector

pytestmark = pytest.mark.usefixtures("fixed_noise")

CLASSES = ("a", "b", "c")


def table(rows: int, name: str) -> SiteData:
    rng = np.random.default_rng([0, *name.encode()])
    y = rng.integers(0, 3, rows)
    return SiteData(name, rng.normal(size=(rows, 4)) * 0.3 + np.eye(4)[y], np.array(CLASSES)[y])


def job(**settings: Any) -> Ridge:
    usual: dict[str, Any] = {"classes": CLASSES, "min_sites": 3, "privacy": DP(epsilon=1, delta=1e-5, clip=1.5)}
    return Ridge(**usual | settings)


def test_no_row_moves_the_numbers_by_more_than_is_reckoned_with() -> None:
    rng = np.random.default_rng(0)
    X, codes = 3 * rng.normal(size=(40, 5)), rng.integers(0, 3, 40)
    whole, bounds = private.bounded_sums(X, codes, 3, 1.5), private.bounds(3, 5)
    assert len(whole) == bounds["numbers"]
    moved = []
    for at in range(40):
        kept = np.arange(40) != at
        without = private.bounded_sums(X[kept], codes[kept], 3, 1.5)
        moved.append(float(np.linalg.norm((whole - without).astype(np.float64))))
    assert 0.8 * bounds["sensitivity"] < max(moved) <= bounds["sensitivity"]


@pytest.mark.parametrize("rule", ["ridge", "discriminant"])
def test_without_noise_it_is_the_ridge_of_the_rows(rule: str) -> None:
    sites = [table(200, name) for name in "nsw"]
    X, y = np.vstack([site.X for site in sites]), np.concatenate([site.y for site in sites])
    codes = np.searchsorted(CLASSES, y)
    settings = job(rule=rule, privacy=DP(epsilon=1, clip=20.0), alpha=1e-3)
    total = private.bounded_sums(X, codes, 3, 20.0).astype(np.float64)
    model = private.private_model(settings, total, CLASSES, 4, 0, 0.0)
    usual = Ridge(features="linear", rule=rule, classes=CLASSES, alpha=1e-3).plain(sites).model
    test = table(1000, "t")
    assert (model.predict(test.X) == usual.predict(test.X)).mean() > 0.98


@pytest.mark.parametrize("rule", ["ridge", "discriminant"])
def test_a_run_learns_and_is_tested_under_strict_policies_by_one_sum(rule: str) -> None:
    sites, test = [table(600, name) for name in "nsw"], table(1000, "t")
    run = fedgeom.run(job(rule=rule, holdout=0.2, privacy=DP(epsilon=2, clip=1.5)), sites, policy=StrictPolicy())
    assert (run.model.predict(test.X) == test.y).mean() > 0.9
    assert run.evaluation["own"].accuracy.value > 0.85
    sums = {entry.reveals for entry in run.ledger if entry.kind == MaskedVector.kind}
    assert sums == {SumBounded.answer_reveals, SumEvaluation.answer_reveals}
    assert not {"names.sealed", "names.vocabulary", "names.held"} & {entry.kind for entry in run.ledger}
    assert run.model.predict_proba(test.X).sum(axis=1) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"features": "binned"}, r"features=\('binned',\) given; wanted features=\"linear\" or \"fourier\""),
        ({"personal": True}, "personal=True given; wanted personal=False"),
        ({"balanced": True}, "wanted balanced=False"),
        ({"updatable": True}, "wanted updatable=False"),
        ({"classes": None}, "needs the label names"),
    ],
)
def test_what_the_one_sum_does_not_cover_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        job(**settings)


def test_the_plain_twin_says_that_it_has_no_noise() -> None:
    with pytest.raises(InputError, match="the plain run adds no noise"):
        job().plain([table(30, name) for name in "nsw"])


def test_fourier_features_learn_what_no_line_divides() -> None:
    def rings(rows: int, name: str) -> SiteData:
        rng = np.random.default_rng([1, *name.encode()])
        outer = rng.random(rows) < 0.5
        angle, radius = rng.uniform(0, 2 * np.pi, rows), rng.normal(np.where(outer, 1.8, 0.5), 0.15)
        X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
        return SiteData(name, X, np.where(outer, "b", "a"))

    sites, test = [rings(1500, name) for name in "nsw"], rings(1000, "t")
    maps = ["linear", {"name": "fourier", "n_components": 24, "bandwidth": 0.7}]
    usual = {"classes": ("a", "b"), "min_sites": 3}
    flat = fedgeom.run(Ridge(**usual, privacy=DP(epsilon=4, clip=2.0)), sites, seed=1).model
    bent = fedgeom.run(Ridge(**usual, features=maps, privacy=DP(epsilon=4, clip=5.0)), sites, seed=1).model
    assert (flat.predict(test.X) == test.y).mean() < 0.75
    assert (bent.predict(test.X) == test.y).mean() > 0.93
