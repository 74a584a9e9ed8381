"""Sums that one row moves by no more than is said, whatever the other rows are."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.privacy.bounded_sums import (
    BITS,
    FINE,
    FINE_ONE,
    ONE,
    BoundedVector,
    in_whole_numbers,
    products,
    row_products,
    shortened,
    summed,
    unit_rows,
)


def test_rows_keep_their_direction_and_are_no_longer_than_the_bound() -> None:
    rows = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0], [1e300, 0.0]])
    short = shortened(rows, 1.0)
    assert np.allclose(short, [[0.6, 0.8], [0.3, 0.4], [0, 0], [1, 0]])
    assert (np.linalg.norm(short, axis=1) <= 1).all()


def test_whole_numbers_are_never_longer_than_one() -> None:
    rng = np.random.default_rng(0)
    for columns in (1, 2, 50, 784):
        whole = in_whole_numbers(rng.normal(size=(200, columns)) * 10, 2.5)
        assert (whole == np.rint(whole)).all()
        assert (np.linalg.norm(whole, axis=1) <= ONE).all()


def test_one_row_moves_sums_and_products_by_itself_exactly() -> None:
    rng = np.random.default_rng(1)
    whole = in_whole_numbers(rng.normal(size=(5000, 20)), 3.0)
    all_, fewer = products(whole, whole), products(whole[1:], whole[1:])
    assert (all_ - fewer == np.outer(whole[0], whole[0]).astype(np.int64)).all()
    assert (summed(whole) - summed(whole[1:]) == whole[0].astype(np.int64)).all()
    assert np.linalg.norm((all_ - fewer)[np.triu_indices(20)]) <= 4**BITS


@pytest.mark.parametrize("length", [1e-3, 0.999, 1.0, 40.0, 1e200])
def test_a_long_vector_is_shortened_as_a_row_is(length: float) -> None:
    vector = np.random.default_rng(3).normal(size=20_001)
    vector *= length / np.linalg.norm(vector)
    found = BoundedVector(vector, 1.0).whole()
    assert np.abs(found - in_whole_numbers(vector[None, :], 1.0, FINE)[0]).max() <= 1
    assert sum(int(one) ** 2 for one in found.tolist()) <= FINE_ONE**2  # exactly, in whole numbers


@pytest.mark.parametrize("times", [2.0**-12, 2.0**-6, 1.0, 2.0**3])
def test_on_every_grid_a_vector_is_no_longer_than_its_bound(times: float) -> None:
    vector = np.random.default_rng(4).normal(size=5000) * 1e3
    found, room = np.empty(5000, np.int64), np.empty(5000)
    BoundedVector(vector, 0.7).cut_to_whole(0, 5000, times, room, found)
    assert sum(int(one) ** 2 for one in found.tolist()) <= (FINE_ONE * times) ** 2
    assert np.linalg.norm(found.astype(np.float64)) > 0.9 * FINE_ONE * times - 5000**0.5


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 1e308])
def test_what_is_no_number_does_not_undo_the_bound(wrong: float) -> None:
    vector = np.ones(100)
    vector[7] = wrong
    found = BoundedVector(vector, 2.0).whole()
    assert 0 < sum(int(one) ** 2 for one in found.tolist()) <= FINE_ONE**2


HUGE = [[1e200, -3.0], [1e308, 1e308], [-1e155, 0.0]]


def on_the_edge(count: int) -> np.ndarray:
    """Rows of which a number, in whole numbers, would be another one with the last digit of the row changed."""
    rows = []
    for at in range(count):
        low, high = 1.0 + at, 2.0 + at
        while np.nextafter(low, high) < high:
            middle = (low + high) / 2
            same = in_whole_numbers([[middle, 7.0]], 1.0)[0, 0] == in_whole_numbers([[low, 7.0]], 1.0)[0, 0]
            low, high = (middle, high) if same else (low, middle)
        rows += [[low, 7.0], [high, 7.0], [np.nextafter(high, 99), 7.0]]
    return np.array(rows)


def test_no_row_has_a_part_in_what_another_one_is_even_if_it_is_huge() -> None:
    rows = on_the_edge(200)
    for more in HUGE:
        with_it = in_whole_numbers(np.vstack([rows, [more]]), 1.0)
        assert (with_it[:-1] == in_whole_numbers(rows, 1.0)).all()
        assert 0 < np.linalg.norm(with_it[-1]) <= ONE


def test_products_of_a_row_are_its_own_to_the_last_bit() -> None:
    rng = np.random.default_rng(0)
    for rows, columns, wide in ((101, 40, 1), (1001, 196, 10), (3, 1, 2)):
        X, W = rng.normal(size=(rows, columns)) * 30, rng.normal(size=(columns, wide))
        found = row_products(X, W)
        assert np.abs(found - X @ W).max() < 1e-4 * np.sqrt(columns)
        assert (row_products(X[1:], W) == found[1:]).all()
        assert (row_products(X[:1], W) == found[:1]).all()
        X[0] = 1e300
        assert (row_products(X, W)[1:] == found[1:]).all()
        assert np.isfinite(row_products(X, W * 1e200)).all()
    assert (row_products(np.zeros((2, 3)), np.full((3, 1), np.nan)) == 0).all()


def test_unit_rows_are_finite_whatever_the_rows_are() -> None:
    units, lengths = unit_rows([[3.0, 4.0], [0.0, 0.0], *HUGE])
    assert np.allclose(np.linalg.norm(units, axis=1), [1, 0, 1, 1, 1])
    assert lengths[0, 0] == 5.0
    assert np.isfinite(lengths).all()
