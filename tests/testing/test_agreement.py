"""Checks of what a run yields."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import msgspec
import numpy as np
import pytest

import fedgeom
from fedgeom.federation.settings import Settings
from fedgeom.methods.moments.model import MomentsModel
from fedgeom.methods.moments.site import MomentsSite
from fedgeom.testing import agreement
from fedgeom.testing.rehearsal import CheckContext


class Mute(MomentsSite):
    """Has a result but no model file."""

    def model_file(self) -> bytes:
        return b""


@dataclass(frozen=True, kw_only=True)
class Muted(fedgeom.Moments):
    name: ClassVar[str] = "test muted"
    site: ClassVar[type[Any]] = Mute


@dataclass(frozen=True, kw_only=True)
class Forgetful(fedgeom.Moments):
    name: ClassVar[str] = "test forgetful"

    @classmethod
    def from_terms(cls, terms: Any) -> Any:
        return cls(**{key: value for key, value in terms.items() if key == "rule"})


def test_a_site_with_a_result_and_no_model_file_is_found() -> None:
    with pytest.raises(AssertionError, match="no model file of its own"):
        agreement.site_files_match_model(CheckContext(Muted()))


def test_settings_that_get_lost_on_the_way_are_found() -> None:
    with pytest.raises(AssertionError, match="do not give the method's settings back"):
        agreement.terms_round_trip(CheckContext(Forgetful(space="euclidean")))
    with pytest.raises(AssertionError, match="does not exist is accepted"):
        agreement.terms_round_trip(CheckContext(Forgetful()))


def test_settings_of_ours_travel() -> None:
    assert issubclass(fedgeom.Moments, Settings)
    agreement.terms_round_trip(CheckContext(fedgeom.Moments(classes=("a", "b"))))


class Relative(MomentsModel):
    """Standardises by the rows it is given."""

    def predict(self, X: Any) -> Any:
        rows = np.asarray(X)
        return super().predict((rows - rows.mean(axis=0)) / 10)


class Crowd(fedgeom.Moments):
    name: ClassVar[str] = "test crowd"

    def conduct(self, sites: Any) -> Any:
        return Relative(**{k: v for k, v in vars(super().conduct(sites)).items() if k != "method"})


def test_a_model_that_looks_at_the_other_rows_is_found() -> None:
    assert agreement.rows_are_predicted_alone(CheckContext(fedgeom.Moments())) == 8
    with pytest.raises(AssertionError, match="into another class when it comes alone"):
        agreement.rows_are_predicted_alone(CheckContext(Crowd()))


class Vague(MomentsModel):
    """Has other probabilities for one row than for many, in the eighth digit."""

    def predict_proba(self, X: Any) -> Any:
        return super().predict_proba(X) + (1e-8 if len(X) == 1 else 0)


class Single(Vague):
    single = True


class Vagueness(fedgeom.Moments):
    name: ClassVar[str] = "test vagueness"
    made: ClassVar[type[MomentsModel]] = Vague

    def conduct(self, sites: Any) -> Any:
        return self.made(**{k: v for k, v in vars(super().conduct(sites)).items() if k != "method"})


class Singleness(Vagueness):
    name: ClassVar[str] = "test singleness"
    made: ClassVar[type[MomentsModel]] = Single


def test_only_single_precision_may_differ_in_the_eighth_digit() -> None:
    with pytest.raises(AssertionError, match="probabilities of a row differ by 1e-08 when it comes alone"):
        agreement.rows_are_predicted_alone(CheckContext(Vagueness()))
    assert agreement.rows_are_predicted_alone(CheckContext(Singleness())) == 8


@pytest.mark.parametrize(
    ("found", "wanted", "same"), [(1.0, 1.0 + 1e-9, True), (1.0, 1.01, False), (["a"], ["b"], False)]
)
def test_facts_are_the_same_and_real_numbers_among_them_to_a_tolerance(found, wanted, same) -> None:
    assert agreement._alike(found, wanted, 1e-6) is same


class Drawn(fedgeom.Moments):
    """Yields another model each time."""

    name: ClassVar[str] = "test drawn"

    def conduct(self, sites: Any) -> Any:
        model = super().conduct(sites)
        return replace(
            model, means=model.means + 1e-9 * np.random.default_rng().standard_normal(model.means.shape)
        )


def test_a_method_that_draws_without_the_seed_is_found() -> None:
    with pytest.raises(
        AssertionError, match="other bytes than in the first run, with the same seed, on: embedded"
    ):
        agreement.same_seed_same_model(CheckContext(Drawn()))


class Unwritten(fedgeom.Moments):
    """Strikes the last entry out of the ledger."""

    name: ClassVar[str] = "test unwritten"

    def conduct(self, sites: Any) -> Any:
        model = super().conduct(sites)
        sites.ledger.entries.pop()
        return model


class Unexplained(fedgeom.Moments):
    """Does not say what its last message reveals."""

    name: ClassVar[str] = "test unexplained"

    def conduct(self, sites: Any) -> Any:
        model = super().conduct(sites)
        last = sites.ledger.entries.pop()
        sites.ledger.entries.append(msgspec.structs.replace(last, reveals=""))
        return model


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (Unwritten, "does not hold just the messages"),
        (Unexplained, "does not say what these messages reveal: model"),
    ],
)
def test_a_ledger_that_leaves_something_out_is_found(method: type[fedgeom.Moments], words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        agreement.ledger_is_complete(CheckContext(method))


class OtherModel(MomentsSite):
    """Evaluates a model that takes one class for the other."""

    def model_file(self) -> bytes:
        own = self.handed.read(super().model_file())
        return replace(own, means=own.means[::-1], centroids=own.centroids[::-1]).to_bytes()


class Miscounted(fedgeom.Moments):
    name: ClassVar[str] = "test miscounted"
    site: ClassVar[type[Any]] = OtherModel


def test_an_evaluation_of_another_model_is_found() -> None:
    with pytest.raises(AssertionError, match=r"of 24 rows are called rightly, not"):
        agreement.evaluation_equals_plain_count(CheckContext(Miscounted()))
    with pytest.raises(AssertionError, match=r"predicts otherwise than model.for_site"):
        agreement.site_files_match_model(CheckContext(Miscounted()))
