"""Checks of losses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

import fedgeom
from fedgeom.federation.coordinator import Coordinator
from fedgeom.testing import rehearsal
from fedgeom.testing.rehearsal import CheckContext


@dataclass(frozen=True, kw_only=True)
class Fragile(fedgeom.Moments):
    name: ClassVar[str] = "test fragile"

    def conduct(self, sites: Coordinator) -> Any:
        model = super().conduct(sites)
        if sites.lost:
            raise ZeroDivisionError("nobody thought of that")
        return model


def test_a_method_that_dies_of_a_lost_site_is_found() -> None:
    with pytest.raises(AssertionError, match="the run died of it: ZeroDivisionError"):
        rehearsal.survives_dropout(CheckContext(Fragile()))


@dataclass(frozen=True, kw_only=True)
class FragileTest(fedgeom.Moments):
    name: ClassVar[str] = "test fragile test"

    def conduct(self, sites: Coordinator) -> Any:
        model = super().conduct(sites)
        evaluate = sites.last_step

        def evaluate_all(made: Any) -> None:
            assert evaluate is not None
            evaluate(made)
            if sites.lost:
                raise ZeroDivisionError("nobody thought of that")

        if evaluate is not None:
            sites.last_step = evaluate_all
        return model


def test_a_method_that_dies_of_a_site_lost_in_its_evaluation_is_found() -> None:
    context = CheckContext(FragileTest())
    with pytest.raises(AssertionError, match="while the model was tested, and the run died of it: ZeroDivision"):
        rehearsal.evaluation_survives_dropout(context)


@dataclass(frozen=True, kw_only=True)
class Counting(fedgeom.Moments):
    """Remembers, in the coordinator's process, how often it was run."""

    name: ClassVar[str] = "test counting"
    times: ClassVar[int] = 0

    def conduct(self, sites: Coordinator) -> Any:
        type(self).times += 1
        model = super().conduct(sites)
        return replace(model, means=model.means + self.times)


def test_a_method_that_resumes_to_another_model_is_found() -> None:
    with pytest.raises(AssertionError, match="died after step 1; the resumed run yields another model"):
        rehearsal.survives_restart(CheckContext(Counting()))


def test_one_site_is_lost_and_one_run_resumed_at_the_level_smoke() -> None:
    context = CheckContext(fedgeom.Moments(), level="smoke")
    assert rehearsal.survives_dropout(context) == 1
    assert rehearsal.survives_restart(context) == 1
    assert rehearsal.evaluation_survives_dropout(context) == 1


def test_every_site_is_killed_at_every_step() -> None:
    assert rehearsal.survives_dropout(CheckContext(fedgeom.Moments(), level="full")) == 4 * 12


def test_the_coordinator_dies_after_every_step() -> None:
    assert rehearsal.survives_restart(CheckContext(fedgeom.Moments(), level="full")) == 12
