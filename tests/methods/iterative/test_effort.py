"""Batches: what a site looks at in each step of a round."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgeom.errors import InputError
from fedgeom.methods.iterative.effort import Effort, balance


@given(st.integers(1, 60), st.integers(1, 4), st.integers(1, 70))
def test_an_epoch_sees_every_row_once(rows, epochs, batch):
    effort = Effort(epochs=epochs, batch_size=batch)
    batches = list(effort.batches(rows, np.random.default_rng(0)))
    assert len(batches) == effort.count(rows) == epochs * math.ceil(rows / min(batch, rows))
    per_epoch = len(batches) // epochs
    for epoch in range(epochs):
        seen = np.concatenate(batches[epoch * per_epoch : (epoch + 1) * per_epoch])
        assert sorted(seen.tolist()) == list(range(rows))


def test_steps_instead_of_epochs():
    batches = list(Effort(steps=5, batch_size=3).batches(7, np.random.default_rng(0)))
    assert [len(batch) for batch in batches] == [3, 3, 1, 3, 3]
    assert [len(batch) for batch in Effort(steps=2, batch_size=None).batches(7, np.random.default_rng(0))] == [
        7,
        7,
    ]
    only = np.array([1, 4])
    assert [b.tolist() for b in Effort(steps=2, only=only).batches(7, np.random.default_rng(0))] == [[1, 4]] * 2


def test_no_rows_no_steps():
    assert Effort().count(0) == 0
    assert list(Effort().batches(0, np.random.default_rng(0))) == []


def test_batch_size_is_bounded_by_the_rows():
    assert [Effort(batch_size=32).step_rows(rows) for rows in (7, 32, 99)] == [7, 32, 32]
    assert Effort(batch_size=None).step_rows(99) == 99


@given(rows=st.integers(1, 90), batch=st.integers(1, 40), least=st.integers(1, 12))
def test_no_step_has_fewer_rows_than_the_policy_says_and_every_row_is_seen(rows, batch, least):
    effort = Effort(epochs=2, batch_size=max(batch, least), least=least)
    if rows < least:
        with pytest.raises(
            InputError, match=f"{rows} rows are there to train on; the policy says min_batch_size = {least}"
        ):
            list(effort.batches(rows, np.random.default_rng(0)))
        return
    steps = list(effort.batches(rows, np.random.default_rng(0)))
    assert min(map(len, steps)) >= least
    assert len(steps) == effort.count(rows) == 2 * effort.per_epoch(rows)
    for epoch in (steps[: len(steps) // 2], steps[len(steps) // 2 :]):
        assert sorted(np.concatenate(epoch).tolist()) == list(range(rows))


@given(rows=st.integers(1, 90), batch=st.integers(1, 40), least=st.integers(1, 12))
def test_where_the_rest_is_large_enough_the_policy_changes_nothing(rows, batch, least):
    usual, careful = Effort(batch_size=batch), Effort(batch_size=batch, least=least)
    if min(batch, rows) >= least and (rows % min(batch, rows) == 0 or rows % min(batch, rows) >= least):
        both = [list(effort.batches(rows, np.random.default_rng(1))) for effort in (usual, careful)]
        assert all((one == other).all() for one, other in zip(*both, strict=True))


def test_rows_that_an_algorithm_chooses_itself_are_enough_or_none():
    few = Effort(only=np.arange(3), least=4)
    with pytest.raises(InputError, match="3 rows are there"):
        next(few.batches(50, np.random.default_rng(0)))
    assert [
        len(step) for step in Effort(only=np.arange(3), least=3, steps=2).batches(50, np.random.default_rng(0))
    ] == [3, 3]


def test_balanced_batches_show_all_classes_equally_often():
    labels = np.array([0] * 90 + [1] * 9 + [4])
    assert balance(labels)[[0, 90, 99]] == pytest.approx([1 / 270, 1 / 27, 1 / 3])
    effort = Effort(epochs=20, batch_size=10, sampling="balanced")
    drawn = np.concatenate(list(effort.batches(100, np.random.default_rng(0), labels)))
    shares = np.bincount(labels[drawn]) / len(drawn)
    assert shares[[0, 1, 4]] == pytest.approx([1 / 3] * 3, abs=0.04)


def test_long_gradients_are_shortened():
    effort = Effort(max_grad_norm=2.0)
    assert effort.shortened(np.array([3.0, 4.0])) == pytest.approx([1.2, 1.6])
    assert effort.shortened(np.array([0.3, 0.4])).tolist() == [0.3, 0.4]
    assert Effort().shortened(np.array([3.0, 4.0])).tolist() == [3.0, 4.0]
