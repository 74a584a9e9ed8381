"""The checks at the borders of the geometry room say what was given, what is wanted and what to do."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedgeom.errors import InputError
from fedgeom.geometry._checks import check_curvature, check_points, check_positive, check_radius


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan, math.inf])
def test_curvatures_are_positive_and_finite(wrong: float) -> None:
    assert check_curvature(2) == 2.0
    with pytest.raises(InputError, match=f"c is {wrong!r}"):
        check_curvature(wrong)
    with pytest.raises(InputError, match=f"epsilon is {wrong!r}.*it is a length"):
        check_positive(wrong, "epsilon", "it is a length")


def test_a_radius_lies_strictly_inside_the_ball() -> None:
    assert check_radius(0.5, 1.0) == 0.5
    assert check_radius(1.5, 0.25) == 1.5
    for wrong, c in ((0.0, 1.0), (1.0, 1.0), (0.6, 4.0), (math.nan, 1.0), (np.nextafter(1.0, 2.0), 1.0)):
        with pytest.raises(InputError, match="must lie strictly between 0 and"):
            check_radius(wrong, c)


def test_points_come_back_as_float64_and_an_empty_list_has_none() -> None:
    assert check_points([[0, 0]]).dtype == np.float64
    assert check_points([]).shape == (0, 2)
    assert check_points([], dim=5).shape == (0, 5)
    X = np.array([[0.1, 0.2]])
    assert check_points(X) is X  # what is good already is not copied


@pytest.mark.parametrize(
    ("points", "options", "words"),
    [
        ([["a", "b"]], {}, "real numbers are wanted"),
        ([0.1, 0.2], {}, r"\(n, d\) is wanted"),
        ([[0.1, 0.2]], {"dim": 3}, "points of dimension 3 are wanted"),
        ([[0.1, 0.2], [np.nan, 0.0]], {}, r"points\[1\] is \[nan, 0.0\], but every coordinate must be finite"),
        ([[0.1, 0.2], [1.0, 0.0], [2.0, 0.0]], {"name": "X"}, r"X\[1\] has norm 1.0.*2 rows are refused in all"),
        ([[0.6, 0.0]], {"c": 4.0}, "below 1/√c = 0.5"),
    ],
)
def test_the_first_bad_point_is_named(points: object, options: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        check_points(points, **options)  # type: ignore[arg-type]
