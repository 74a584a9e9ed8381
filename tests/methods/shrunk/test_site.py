"""The site of Shrunk: its folds, its own model, and joint models that it refuses."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from fedgeom import Shrunk
from fedgeom.federation.messages import Array
from fedgeom.methods.shrunk.core import RankingEvidence, personal
from fedgeom.methods.shrunk.site import SumRankingEvidence, SumTerms, TakeRankingEvidence, fold_of, own_model
from fedgeom.protocols.secure_sum.messages import SumResult
from tests.methods.coordinators import fresh, refusals, stamped
from tests.methods.laws import assert_model_files_are_the_sites_own
from tests.methods.shrunk.making import QUICK, hospitals, outcomes

replace = msgspec.structs.replace
METHOD = Shrunk(**QUICK)  # type: ignore[arg-type]


def test_sites_do_not_even_understand_questions_that_show_a_model() -> None:
    understood = set(Shrunk.site.understands())
    assert {
        "shrunk.terms",
        "shrunk.evidence",
        "shrunk.take-evidence",
        "train.columns",
        "train.begin",
    } <= understood
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
    own = RankingEvidence(quality, 10.0, np.zeros(6), 60.0)
    w, b = own_model(METHOD, X, y[None], joint, [own], [own], np.ones((1, 6, 5)))
    wanted, offset = personal(X, y, joint[1], float(METHOD.strengths()[2]))
    np.testing.assert_allclose(w[:, 0], wanted)
    assert b == pytest.approx([offset])


def later(ask: Any, **changes: Any) -> Any:
    """Change a question for a sum after the first of its kind, which has no sum before it."""
    return None if ask.last is None else stamped(ask, **changes)


def bent(result: SumResult) -> SumResult:
    """Return a sum that nobody added up."""
    return replace(result, total=Array.of(result.total.numpy() + np.uint64(1)))


@pytest.mark.parametrize("kind", [SumTerms, SumRankingEvidence])
def test_joint_models_follow_from_sums_that_were_added_up(kind: type[Any]) -> None:
    lie = refusals(METHOD, hospitals(), kind, lambda ask: ask.last and later(ask, last=bent(ask.last)))
    assert lie == {"the sum that came is not the one that the sites added up: its tag does not fit"}


def test_sums_are_taken_one_after_the_other() -> None:
    assert refusals(METHOD, hospitals(), SumTerms, lambda ask: later(ask, last=None)) == {
        "the sum that came is not the one that was taken last"
    }

    def old(ask: SumRankingEvidence) -> Any:
        return stamped(ask, last=replace(ask.last, round=ask.last.round - 1))

    assert refusals(METHOD, hospitals(), SumRankingEvidence, old) == {
        "the sum that came is not the one that was taken last"
    }


def test_evidence_that_nobody_added_up_is_refused() -> None:
    lie = refusals(METHOD, hospitals(), TakeRankingEvidence, lambda ask: replace(ask, evidence=bent(ask.evidence)))
    assert lie == {"the sum that came is not the one that the sites added up: its tag does not fit"}


def test_a_site_does_not_settle_before_it_gave_its_evidence() -> None:
    zeros = Array.of(np.zeros(38, np.uint64))

    def early(ask: SumTerms) -> TakeRankingEvidence:
        nothing = SumResult(round=0, sites=(), total=zeros, tag=Array.of(np.zeros(3, np.uint64)))
        return TakeRankingEvidence(evidence=nothing, agreed=ask.agreed)

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
