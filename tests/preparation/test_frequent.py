"""The number that most rows have."""

from __future__ import annotations

import numpy as np

from fedgeom.federation.steps import StepFit
from fedgeom.preparation.impute import BUCKETS, buckets, count_frequent, frequent_length, take_frequent


def test_whole_numbers_have_buckets_of_their_own():
    places = buckets(np.arange(-64.0, 960.0))
    assert sorted(set(places.tolist())) == list(range(1024))
    assert (buckets(np.array([0.5, 960.0, -65.0, 1e9])) >= 1024).all()


def test_the_value_is_that_of_most_rows_and_the_smallest_of_equals():
    X = np.array([[3.0, 0.125], [3.0, 0.125], [9.0, -7.5], [9.0, 0.125], [2.0, 4.0]])
    fit, there = StepFit(), np.ones(X.shape, bool)
    for done in (0, 1):
        total = count_frequent(X, there, fit, done)
        assert len(total) == frequent_length(2, done)
        take_frequent(fit, total, done)
    assert fit.get("value").tolist() == [3.0, 0.125]
    assert frequent_length(1, 0) == BUCKETS
