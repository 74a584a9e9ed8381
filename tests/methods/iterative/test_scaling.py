"""The common scale: the mean and deviation of the pooled columns, from sums."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedgeom.methods.iterative.scaling import column_sums, scale_from

tables = st.tuples(st.integers(1, 12), st.integers(1, 4)).flatmap(
    lambda shape: arrays(float, shape, elements=st.integers(-999, 999).map(lambda number: number / 7))
)


def test_sums_by_hand():
    assert column_sums(np.array([[1.0, 2.0], [3.0, -4.0]])).tolist() == [2, 4, -2, 10, 20]


@given(tables, st.integers(1, 11))
def test_sums_add_across_sites_and_give_the_pooled_scale(X, at):
    parts = column_sums(X[:at]) + column_sums(X[at:])
    assert parts == pytest.approx(column_sums(X))
    centre, spread = scale_from(parts)
    assert centre == pytest.approx(X.mean(axis=0), abs=1e-9)
    deviation = X.std(axis=0)
    assert spread == pytest.approx(np.where(deviation < 0.003, 1.0, deviation), abs=1e-6)


@pytest.mark.parametrize("value", [0.0, 1.0, -3.7, 1e4, 1e-6])
def test_a_constant_column_is_divided_by_one(value):
    """Also where the sums were rounded, as secure sums are."""
    X = np.full((7, 1), value)
    sums = column_sums(X)
    for noise in (0.0, 2.0**-20):
        centre, spread = scale_from(sums + noise * np.array([0, 1, 1]))
        assert centre == pytest.approx([value], abs=1e-6)
        assert spread[0] == 1.0


def test_no_rows():
    centre, spread = scale_from(np.zeros(5))
    assert centre.tolist() == [0, 0]
    assert spread.tolist() == [1, 1]
