"""Medians by counting bins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgeom.federation.steps import StepFit
from fedgeom.preparation.quantiles import count_bins, from_keys, medians, rounds, sort_keys, take_bins

NUMBERS = st.lists(st.floats(-(2.0**90), 2.0**90, width=32), min_size=1, max_size=40)


def found_median(parts, bits):
    fit = StepFit()
    for done in range(rounds(bits)):
        total = sum(count_bins(sort_keys(part), np.ones(part.shape, bool), fit, done) for part in parts)
        take_bins(fit, total, done)
    return medians(fit, bits)


@given(NUMBERS)
def test_keys_keep_the_order_and_come_back(values):
    numbers = np.array(values, np.float32)
    keys = sort_keys(numbers)
    assert (np.diff(keys[np.argsort(numbers, kind="stable")].astype(np.int64)) >= 0).all()
    np.testing.assert_array_equal(from_keys(keys), numbers.astype(np.float64))


@given(NUMBERS, st.integers(1, 4))
def test_with_all_bits_a_median_is_exact(values, sites):
    X = np.array(values, np.float32)[:, None]
    wanted = np.median(X.astype(np.float64), axis=0)
    np.testing.assert_array_equal(found_median([X[i::sites] for i in range(sites)], 32), wanted)


@pytest.mark.parametrize("bits", [12, 16, 20, 24, 28])
def test_with_fewer_bits_it_is_off_by_a_bin_at_most(bits):
    X = np.random.default_rng(0).lognormal(3, 2, (201, 5)).astype(np.float32)
    found, wanted = found_median([X[:70], X[70:]], bits), np.median(X, axis=0)
    assert (np.abs(found - wanted) <= 2.0 ** -(bits - 9) * np.abs(wanted)).all()
