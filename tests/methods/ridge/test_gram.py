"""The one large sum: parts, digits, and the same as a direct product."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgeom.methods.ridge.core import cuts, fold_numbers, fraction_bits, packed_gram, starts, trapezoid


@given(st.integers(1, 60), st.integers(2, 9), st.integers(70, 5000))
def test_parts_hold_every_row_once_and_no_more_than_fits(features: int, classes: int, part: int) -> None:
    found, at = cuts(features, classes, part), starts(features, classes)
    assert found[0][0] == 0
    assert found[-1][1] == features + 1
    assert all(one[1] == other[0] for one, other in pairwise(found))
    assert all(at[last] - at[first] <= part for first, last in found)
    assert at[-1] == (features + 1) * (features + 2) // 2 + (features + 1) * classes


def random_problem(n: int = 5000, width: int = 13, classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, width)) + 1, rng.integers(0, classes, n)


def dense(F: np.ndarray, codes: np.ndarray, classes: int, weights: np.ndarray | None) -> np.ndarray:
    A = np.hstack([np.ones((len(F), 1)), F, np.eye(classes)[codes]])
    w = np.ones(len(F)) if weights is None else weights[codes]
    return (A * w[:, None]).T @ A


@pytest.mark.parametrize("weights", [None, np.array([1.0, 2.0, 0.5])])
@pytest.mark.parametrize(("dtype", "off"), [(np.float64, 1e-13), (np.float32, 1.5e-6)])
def test_the_sums_are_those_of_a_direct_product(weights: np.ndarray | None, dtype: type, off: float) -> None:
    F, codes = random_problem()
    packed = packed_gram(lambda rows: F[rows].astype(dtype), codes, 3, 13, weights)
    gram, ties = trapezoid(packed, (0, 14), 13, 3)
    whole = dense(F, codes, 3, weights)
    unit = np.sqrt(np.outer(np.diag(whole)[:14], np.diag(whole)))
    assert np.abs(gram - np.triu(whole[:14, :14])).max() <= off * unit[:, :14].max()
    assert np.abs(ties - whole[:14, 14:]).max() <= off * unit.max()


def test_a_part_is_a_trapezoid_of_the_whole() -> None:
    F, codes = random_problem(50)
    packed, at = packed_gram(lambda rows: F[rows], codes, 3, 13), starts(13, 3)
    whole = dense(F, codes, 3, None)
    gram, ties = trapezoid(packed[at[4] : at[9]], (4, 9), 13, 3)
    np.testing.assert_allclose(gram, np.triu(whole[:14, :14])[4:9, 4:], atol=1e-9)
    np.testing.assert_allclose(ties, whole[4:9, 14:], atol=1e-9)


@given(st.floats(1, 1e9), st.floats(0.1, 1e5), st.integers(2, 500), st.floats(1, 1e3))
def test_no_entry_overflows_and_no_digit_is_wasted(
    rows: float, square: float, sites: int, heaviest: float
) -> None:
    bits = fraction_bits(rows, square, sites, heaviest)
    largest = rows * max(square, 1) * heaviest
    assert largest * 2.0 <= 2.0 ** (62 - bits) / sites
    assert bits == 44 or largest * 8.0 >= 2.0 ** (62 - bits) / sites


def test_folds_follow_from_what_is_in_a_row() -> None:
    X = np.random.default_rng(0).integers(0, 9, (2000, 4))
    found = fold_numbers(X, 2)
    np.testing.assert_array_equal(found[::-1], fold_numbers(X[::-1].astype(np.uint8), 2))
    assert 0.4 < found.mean() < 0.6
