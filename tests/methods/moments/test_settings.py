"""The settings of Moments: what they may be, and what follows from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fedgeom import Moments
from fedgeom.errors import InputError


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rule": "median"}, "rule='median' given; wanted one of 'gaussian', 'centroid'"),
        ({"space": "sphere"}, "space='sphere'"),
        ({"curvature": 0}, "curvature=0"),
        ({"curvature": np.inf}, "curvature=inf"),
        ({"shrinkage": -1.0}, "shrinkage=-1.0"),
        ({"classes": ("a",)}, "2 of them or more"),
        ({"classes": ("a", "a")}, "all different"),
        ({"classes": ("a", "b\nc")}, "one line each"),
        ({"classes": "ab"}, "classes='ab' given; wanted a list"),
        ({"min_rows": -1}, "min_rows=-1"),
        ({"min_sites": 0}, "min_sites=0"),
    ],
)
def test_wrong_settings_say_what_is_wanted(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Moments(**changes)


def test_terms_travel_and_come_back() -> None:
    method = Moments(rule="centroid", classes=["b", "a"], shrinkage=np.float64(2))  # type: ignore[arg-type]
    assert method.classes == ("b", "a")
    assert Moments.from_terms(method.terms()) == method


def test_euclidean_space_has_no_curvature() -> None:
    assert Moments(curvature=2.0).c == 2.0
    assert Moments(curvature=2.0, space="euclidean").c is None
