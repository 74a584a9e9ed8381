"""The check that refusals reveal nothing finds sites that do tell, and passes those that leave."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import fedgeom
from fedgeom.errors import InputError, ProtocolError
from fedgeom.extend import Method, answers
from fedgeom.methods.moments.site import MomentsSite, SumClassMoments
from fedgeom.protocols.model_delivery import ModelTaken, TakeResult
from fedgeom.testing.agreement import refusals_reveal_nothing
from fedgeom.testing.rehearsal import CheckContext, example_sites
from tests.methods.xclp.making import cones

SITES = example_sites()


def odd(data: fedgeom.SiteData, what: str) -> bool:
    """Say whether a site's data are not those of the example, in one respect."""
    usual = next(site for site in SITES if site.name == data.name)
    if what == "number":
        return len(data) != len(usual)
    if what == "sizes":
        return len(data) == len(usual) and data.class_counts() != usual.class_counts()
    if what == "labels":
        return len(data) == len(usual) and bool((data.y != usual.y).any())
    return bool(np.linalg.norm(data.X, axis=1).max() > 0.99)


def telling(what: str, error: type[Exception], step: str) -> Method:
    """Return Moments whose sites fail at one step where their data are odd."""

    class Telling(MomentsSite):
        @answers(SumClassMoments)
        def sum_moments(self, ask: SumClassMoments) -> Any:
            if step == "sum" and odd(self.whole, what):
                raise error("odd")
            return super().sum_moments(ask)

        @answers(TakeResult)
        def make(self, ask: TakeResult) -> ModelTaken:
            if step == "lie" and odd(self.whole, what):
                return ModelTaken()  # takes any nonsense, where the others look at it
            return self.handed.make(ask)

    fields = {"name": f"test telling {what} {error.__name__} {step}", "site": Telling}
    cls = type("TellingMoments", (fedgeom.Moments,), fields)
    return dataclass(frozen=True, kw_only=True)(cls)()


@pytest.mark.parametrize("what", ["number", "sizes", "labels", "rim"])
def test_a_refusal_that_depends_on_data_is_found_whatever_it_depends_on(what: str) -> None:
    with pytest.raises(AssertionError, match=r"'moments.sum' .* depends on the data: 'answered', but .*: 'odd'"):
        refusals_reveal_nothing(CheckContext(telling(what, ProtocolError, "sum"), SITES))


@pytest.mark.parametrize("error", [InputError, ValueError, MemoryError, ZeroDivisionError])
def test_a_site_that_leaves_tells_one_thing_only(error: type[Exception], caplog: pytest.LogCaptureFixture) -> None:
    """Whatever goes wrong, foreseen or not, ends in the same words, and the site's own log has where it was."""
    assert refusals_reveal_nothing(CheckContext(telling("labels", error, "sum"), SITES)) > 100
    assert "odd" in caplog.text


def test_a_lie_that_only_some_sites_see_through_is_found() -> None:
    with pytest.raises(AssertionError, match=r"'model.result' .*with result.* depends on the data"):
        refusals_reveal_nothing(CheckContext(telling("sizes", ProtocolError, "lie"), SITES))


@pytest.mark.full
@pytest.mark.parametrize("hide", [False, True])
def test_labels_that_are_hidden_or_missing_are_not_told_by_refusals(hide: bool) -> None:
    logging.disable(logging.WARNING)
    try:
        method = fedgeom.XCLP(
            hash_bits=64, hamming="ot", hidden_projection=False, hide_labelled=hide, classes=("0", "1", "2")
        )
        assert refusals_reveal_nothing(CheckContext(method, cones(4, rows=8, labelled=0.5))) > 300
    finally:
        logging.disable(logging.NOTSET)
