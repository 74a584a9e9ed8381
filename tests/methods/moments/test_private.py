"""Moments with differential privacy: what one row can move, and what comes of the noisy sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedgeom
from fedgeom import DP, Moments, SiteData
from fedgeom.federation.policy import StrictPolicy
from fedgeom.methods.moments import core
from fedgeom.methods.moments.site import SumClassMoments
from fedgeom.protocols.evaluation import SumEvaluation
from fedgeom.protocols.secure_sum.messages import MaskedVector

pytestmark = pytest.mark.usefixtures("fixed_noise")

CLASSES = ("a", "b", "c")


def table(rows: int, name: str, seed: int = 0, spread: float = 0.3) -> SiteData:
    rng = np.random.default_rng([seed, *name.encode()])
    y = rng.integers(0, 3, rows)
    return SiteData(name, rng.normal(size=(rows, 4)) * spread + np.eye(4)[y], np.array(CLASSES)[y])


def job(**settings: Any) -> Moments:
    usual: dict[str, Any] = {"space": "euclidean", "classes": CLASSES, "min_sites": 3}
    return Moments(**usual | {"privacy": DP(epsilon=1, delta=1e-5, clip=1.5)} | settings)


@pytest.mark.parametrize("rule", ["gaussian", "centroid"])
@pytest.mark.parametrize("space", ["euclidean", "ball"])
def test_no_row_moves_the_numbers_by_more_than_is_reckoned_with(rule: str, space: str) -> None:
    rng, settings = np.random.default_rng(0), job(rule=rule, space=space)
    assert core.sensitivity(settings.squares) == pytest.approx(2.0**core.UNIT, rel=0.02)
    X = rng.normal(size=(40, 5))
    X *= (rng.uniform(0, 0.999, 40) if space == "ball" else rng.uniform(0, 50, 40))[:, None] / np.linalg.norm(
        X, axis=1, keepdims=True
    )
    y = np.array(CLASSES)[rng.integers(0, 3, 40)]
    whole = core.bounded_moments(X, y, CLASSES, settings, 1.5)
    assert len(whole) == core.numbers(3, 5, squares=settings.squares)
    longest = 0.0
    for at in range(40):
        kept = np.arange(40) != at
        moved = whole - core.bounded_moments(X[kept], y[kept], CLASSES, settings, 1.5)
        longest = max(longest, float(np.linalg.norm(moved.astype(np.float64))))
    assert 0.8 * core.sensitivity(settings.squares) < longest <= core.sensitivity(settings.squares)


@pytest.mark.parametrize("rule", ["gaussian", "centroid"])
def test_without_noise_it_is_the_model_of_shortened_rows(rule: str) -> None:
    sites, settings = [table(100, name) for name in "nsw"], job(rule=rule, privacy=DP(epsilon=1, clip=100.0))
    X, y = np.vstack([site.X for site in sites]), np.concatenate([site.y for site in sites])
    sums = core.bounded_moments(X, y, CLASSES, settings, 100.0).astype(np.float64)
    bounded = core.private_model(settings, sums, CLASSES, X.shape[1], clip=100.0, spread=0.0)
    usual = Moments(rule=rule, space="euclidean", classes=CLASSES).plain(sites).model
    assert np.allclose(bounded.means, usual.means, atol=0.01)
    test = table(500, "t")
    assert (bounded.predict(test.X) == usual.predict(test.X)).mean() > 0.99


@pytest.mark.parametrize("rule", ["gaussian", "centroid"])
def test_a_run_learns_something_and_with_more_noise_less(rule: str) -> None:
    sites, test = [table(700, name) for name in "nsw"], table(1000, "t")

    def score(epsilon: float) -> float:
        found = [
            (
                fedgeom.run(job(rule=rule, privacy=DP(epsilon=epsilon, clip=1.5)), sites).model.predict(test.X)
                == test.y
            )
            for _ in range(3)
        ]
        return float(np.mean(found))

    usual = (Moments(rule=rule, space="euclidean").plain(sites).model.predict(test.X) == test.y).mean()
    assert score(8.0) > usual - 0.02
    assert score(1.0) > usual - 0.15
    assert score(0.01) < usual - 0.05


def test_in_the_ball_and_under_strict_policies_with_a_test_at_the_end() -> None:
    rng = np.random.default_rng(0)
    sites = []
    for name in "nsw":
        y = rng.integers(0, 2, 300)
        X = 0.1 * rng.normal(size=(300, 2)) + np.where(y[:, None], 0.4, -0.4)
        sites.append(SiteData(name, X, np.array(["a", "b"])[y]))
    method = job(space="ball", classes=("a", "b"), holdout=0.25, privacy=DP(epsilon=2, clip=1.0))
    run = fedgeom.run(method, sites, policy=StrictPolicy())
    assert run.evaluation is not None
    assert run.evaluation["own"].accuracy.value > 0.9
    assert "local" not in run.evaluation
    assert any("noise of deviation" in warning.what for warning in run.warnings)
    sums = {entry.reveals for entry in run.ledger if entry.kind == MaskedVector.kind}
    assert sums == {SumClassMoments.answer_reveals, SumEvaluation.answer_reveals}
    assert not {"names.sealed", "names.vocabulary", "names.held"} & {entry.kind for entry in run.ledger}


def test_a_class_that_nobody_has_is_no_reason_to_stop() -> None:
    """Whether anybody has it must not be told: its noisy count makes a class that is hardly ever answered."""
    sites = [table(300, name) for name in "nsw"]
    run = fedgeom.run(job(rule="centroid", classes=(*CLASSES, "nobody")), sites)
    assert np.isfinite(run.model.means).all()


def test_the_noise_of_labels_that_were_not_agreed_on_is_no_way_out() -> None:
    sites = [table(50, name) for name in "nsw"]
    with pytest.raises(fedgeom.FedgeomError, match="outside the agreed classes"):
        fedgeom.run(job(classes=("a", "b")), sites)


def test_a_model_with_privacy_does_not_say_what_kind_of_numbers_its_columns_had() -> None:
    names = tuple("wxyz")
    sites = [SiteData(one.name, one.X, one.y, columns=names) for one in (table(90, name) for name in "nsw")]
    assert len(fedgeom.run(job(privacy=None), sites).model.column_kinds) == 4
    found = fedgeom.run(job(), sites).model
    assert found.column_names == names
    assert found.column_kinds == ()  # one row could change a flag to a number
