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
    shortened,
    summed,
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
