"""The site of Shrunk: its folds, its own model, and joint models that it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from fedgeom import Shrunk
from fedgeom.federation.messages import Array
from fedgeom.methods.shrunk.choosing import Evidence
from fedgeom.methods.shrunk.core import personal
from fedgeom.methods.shrunk.messages import Settle, SumEvidence, SumTerms
from fedgeom.methods.shrunk.site import as_model, fold_of, own_model
from tests.methods.coordinators import fresh, refusals, stamped
from tests.methods.laws import assert_model_files_are_the_sites_own
from tests.methods.shrunk.making import QUICK, hospitals, outcomes

METHOD = Shrunk(**QUICK)  # type: ignore[arg-type]


def test_sites_do_not_even_understand_questions_that_show_a_model() -> None:
    understood = set(Shrunk.site.understands())
    assert {"shrunk.terms", "shrunk.evidence", "shrunk.settle", "train.columns", "train.begin"} <= understood
    assert not {"train.open", "train.masked", "train.finish"} & understood


@pytest.mark.parametrize("scale", ["joint", "site", "none"])
def test_each_site_keeps_its_own_model(scale: Any) -> None:
    method = Shrunk(**QUICK, scale=scale)  # type: ignore[arg-type]
    assert_model_files_are_the_sites_own(method, hospitals(), seed=2)
    site = fresh(method, hospitals()[0])
    assert (site.result(), site.model_file()) == ({}, b"")


@pytest.mark.parametrize("seed", range(3))
def test_folds_are_even_in_each_class_and_the_same_whenever_asked(seed: int) -> None:
    _, y = outcomes(seed)
    fold = fold_of(y, 3, seed, "h0")
    np.testing.assert_array_equal(fold, fold_of(y, 3, seed, "h0"))
    assert not np.array_equal(fold, fold_of(y, 3, seed, "h1"))
    for label in (0, 1):
        counts = np.bincount(fold[y == label], minlength=3)
        assert counts.max() - counts.min() <= 1


def test_all_weight_on_one_candidate_is_that_candidate() -> None:
    X, y = outcomes()
    joint = np.vstack([np.zeros(3), np.ones(3)] * 3)
    quality = np.zeros((6, 5))
    quality[1, 2] = 10.0
    own = Evidence(quality, 10.0, np.zeros(6), 60.0)
    w, b = own_model(METHOD, X, y, joint, own, own, np.ones((6, 5)))
    wanted, offset = personal(X, y, joint[1], float(METHOD.strengths[2]))
    np.testing.assert_allclose(w, wanted)
    assert b == pytest.approx(offset)


def test_direction_and_intercept_are_a_logistic_model() -> None:
    X = np.array([[1.0, 2.0], [-3.0, 0.5]])
    model = as_model(("no", "yes"), np.array([0.5, -1.0]), 0.25, np.zeros(2), np.ones(2))
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-(X @ [0.5, -1.0] + 0.25))))


def directions(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Any], Any]:
    """Return a lie about the joint models, stamped where the question is for a sum."""

    def lie(ask: Any) -> Any:
        wrong = Array.of(change(ask.directions.numpy().copy()))
        if isinstance(ask, Settle):
            return msgspec.structs.replace(ask, directions=wrong)
        return stamped(ask, directions=wrong)

    return lie


@pytest.mark.parametrize("kind", [SumTerms, SumEvidence, Settle])
@pytest.mark.parametrize(
    "change",
    [lambda d: d[:, :-1], lambda d: d[..., :-1], lambda d: d + np.nan, lambda d: d + 1e7, lambda d: d.ravel()],
)
def test_joint_models_that_do_not_fit_are_refused(kind: type[Any], change: Callable[[Any], Any]) -> None:
    (reason,) = refusals(METHOD, hospitals(), kind, directions(change))
    assert "do not fit this table, or are not finite" in reason


@pytest.mark.parametrize("wrong", [np.zeros(3), np.full(6 * 5 + 6 + 2, np.nan), np.full(6 * 5 + 6 + 2, np.inf)])
def test_evidence_that_makes_no_sense_is_refused(wrong: np.ndarray) -> None:
    (reason,) = refusals(
        METHOD, hospitals(), Settle, lambda ask: msgspec.structs.replace(ask, evidence=Array.of(wrong))
    )
    assert "the evidence is not (38,) finite numbers" in reason


def test_a_site_does_not_settle_before_it_gave_its_evidence() -> None:
    def early(ask: SumTerms) -> Settle:
        return Settle(directions=ask.directions, evidence=Array.of(np.zeros(38)), agreed=ask.agreed)

    (reason,) = refusals(METHOD, hospitals(), SumTerms, early)
    assert "asked to settle before it gave its evidence" in reason


def test_another_sum_in_the_same_round_is_refused() -> None:
    """Round 2 again with other directions would show the loss at models of the coordinator's choice."""

    def back(ask: SumTerms) -> Any:
        if ask.ticket.round != 3:
            return None
        return stamped(ask, ticket=msgspec.structs.replace(ask.ticket, round=2))

    (reason,) = refusals(METHOD, hospitals(), SumTerms, back)
    assert "round 2" in reason
