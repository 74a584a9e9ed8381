"""Batches: what a site looks at in each step of a round."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedgeom.methods.iterative.effort import Effort


@given(st.integers(1, 60), st.integers(1, 4), st.integers(1, 70))
def test_an_epoch_sees_every_row_once(rows, epochs, batch):
    effort = Effort(epochs=epochs, batch=batch)
    batches = list(effort.batches(rows, np.random.default_rng(0)))
    assert len(batches) == effort.count(rows) == epochs * math.ceil(rows / min(batch, rows))
    per_epoch = len(batches) // epochs
    for epoch in range(epochs):
        seen = np.concatenate(batches[epoch * per_epoch : (epoch + 1) * per_epoch])
        assert sorted(seen.tolist()) == list(range(rows))


def test_steps_instead_of_epochs():
    batches = list(Effort(steps=5, batch=3).batches(7, np.random.default_rng(0)))
    assert [len(batch) for batch in batches] == [3, 3, 1, 3, 3]
    assert [len(batch) for batch in Effort(steps=2, batch=None).batches(7, np.random.default_rng(0))] == [7, 7]
    only = np.array([1, 4])
    assert [b.tolist() for b in Effort(steps=2, only=only).batches(7, np.random.default_rng(0))] == [[1, 4]] * 2


def test_no_rows_no_steps():
    assert Effort().count(0) == 0
    assert list(Effort().batches(0, np.random.default_rng(0))) == []


def test_batch_size_is_bounded_by_the_rows():
    assert [Effort(batch=32).batch_size(rows) for rows in (7, 32, 99)] == [7, 32, 32]
    assert Effort(batch=None).batch_size(99) == 99
