"""Laws of what a run yields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import fedgeom
from fedgeom.federation.settings import Settings
from fedgeom.methods.moments.model import MomentsModel
from fedgeom.methods.moments.site import MomentsSite
from fedgeom.testing import agreement
from fedgeom.testing.examples import example_sites


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
        agreement.sites_have_their_model(Muted(), example_sites(), 0)


def test_settings_that_get_lost_on_the_way_are_found() -> None:
    with pytest.raises(AssertionError, match="do not give the method's settings back"):
        agreement.settings_travel(Forgetful(space="euclidean"))
    with pytest.raises(AssertionError, match="does not exist is accepted"):
        agreement.settings_travel(Forgetful())


def test_settings_of_ours_travel() -> None:
    assert issubclass(fedgeom.Moments, Settings)
    agreement.settings_travel(fedgeom.Moments(classes=("a", "b")))


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
    assert agreement.rows_are_judged_alone(fedgeom.Moments(), example_sites(), 0) == 8
    with pytest.raises(AssertionError, match="into another class when it comes alone"):
        agreement.rows_are_judged_alone(Crowd(), example_sites(), 0)


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
        agreement.rows_are_judged_alone(Vagueness(), example_sites(), 0)
    assert agreement.rows_are_judged_alone(Singleness(), example_sites(), 0) == 8


@pytest.mark.parametrize(
    ("found", "wanted", "same"), [(1.0, 1.0 + 1e-9, True), (1.0, 1.01, False), (["a"], ["b"], False)]
)
def test_facts_are_the_same_and_real_numbers_among_them_to_a_tolerance(found, wanted, same) -> None:
    assert agreement._alike(found, wanted, 1e-6) is same
