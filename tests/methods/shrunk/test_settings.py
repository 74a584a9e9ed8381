"""The settings of Shrunk: what they may be, and tables that do not fit them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedgeom import Shrunk
from fedgeom.errors import InputError
from fedgeom.methods.iterative.setup import SumTrainingColumns
from fedgeom.methods.shrunk.settings import RIDGES
from fedgeom.methods.shrunk.site import ShrunkSite, SumRankingEvidence, SumTerms
from fedgeom.protocols.doubts import SumDoubts
from fedgeom.protocols.names import CountNames
from fedgeom.protocols.preparation import SumFloors


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_rounds": 0}, "n_rounds=0 given; wanted a whole number from 1 to 500"),
        ({"n_folds": 1}, "n_folds=1"),
        ({"n_folds": 21}, "n_folds=21"),
        ({"prior_rows": -1}, "prior_rows=-1"),
        ({"temperature": 0.0}, "temperature=0.0"),
        ({"scale": "minmax"}, "scale='minmax'"),
        ({"classes": ("one",)}, "2 of them or more"),
    ],
)
def test_wrong_settings_say_what_is_wanted(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Shrunk(**changes)


def test_terms_travel_and_come_back() -> None:
    method = Shrunk(n_rounds=np.int64(4), prior_rows=np.float64(50), classes=("no", "yes"))  # type: ignore[arg-type]
    assert Shrunk.from_terms(method.terms()) == method


def test_candidates_go_from_little_to_much() -> None:
    method = Shrunk()
    assert method.ridges.tolist() == sorted(RIDGES)
    for outcomes in (1, 3):
        strengths = method.strengths(outcomes).tolist()
        assert strengths == sorted(strengths)
        assert np.isinf(strengths[-1])  # the joint model itself is among them
    assert len(method.strengths(3)) == len(method.strengths())  # the plan counts on it


def test_a_hundred_columns_and_four_million_numbers_are_the_most() -> None:
    Shrunk().check_shape(2, 100)
    Shrunk().check_shape(20, 100)
    with pytest.raises(InputError, match="the sites have 1: wanted two or more"):
        Shrunk().check_shape(1, 5)
    with pytest.raises(InputError, match=r"30 classes and 100 columns.*4,000,000.*Ridge"):
        Shrunk().check_shape(30, 100)
    with pytest.raises(InputError, match=r"101 columns.*at most 100 columns"):
        Shrunk().check_shape(2, 101)


@pytest.mark.parametrize(("scale", "first"), [("joint", (SumTrainingColumns,)), ("site", ()), ("none", ())])
def test_the_planned_sums_follow_from_the_settings(scale: Any, first: tuple[type[Any], ...]) -> None:
    steps = (SumTerms, SumTerms, SumRankingEvidence, SumDoubts)
    planned = ShrunkSite.all_sums(Shrunk(n_rounds=2, scale=scale))
    assert tuple(planned) == (CountNames, SumFloors, *first, *steps)
