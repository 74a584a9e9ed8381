"""Batches, schedules, objectives and layouts."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgeom.errors import InputError
from fedgeom.methods.iterative.effort import Effort, scheduled
from fedgeom.methods.iterative.objective import Objective
from fedgeom.methods.iterative.vectors import Layout


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


def test_schedules():
    assert [scheduled(0.4, "constant", 0.5, t, 4) for t in range(4)] == [0.4] * 4
    assert [scheduled(0.4, "decay", 0.5, t, 4) for t in range(4)] == pytest.approx([0.4, 0.2, 0.1, 0.05])
    cosine = [scheduled(0.4, "cosine", 0.5, t, 4) for t in range(4)]
    assert cosine == pytest.approx([0.2 * (1 + math.cos(math.pi * t / 4)) for t in range(4)])
    assert cosine[0] == 0.4
    assert all(a > b > 0 for a, b in itertools.pairwise(cosine))


def test_objective_value_and_slope_agree():
    rng = np.random.default_rng(0)
    linear, centre, w = rng.normal(size=(3, 4))
    for objective in (
        Objective(),
        Objective(linear=linear),
        Objective(strength=0.7),
        Objective(linear=linear, strength=0.7, centre=centre),
    ):
        steps = 1e-6 * np.eye(4)
        slope = [(objective.value(w + step) - objective.value(w - step)) / 2e-6 for step in steps]
        assert objective.gradient(w) == pytest.approx(slope, abs=1e-7)
        assert objective.plain == (objective.linear is None and objective.strength == 0)


def test_layout_there_and_back():
    arrays = {"b": np.arange(3.0), "a": np.arange(4.0).reshape(2, 2), "c": np.array(7.0)}
    layout = Layout.of(arrays)
    assert layout.size == 8
    vector = layout.pack(arrays)
    assert vector.tolist() == [0, 1, 2, 3, 0, 1, 2, 7]
    assert all((layout.unpack(vector)[name] == value).all() for name, value in arrays.items())
    assert layout.mask(["b"]).tolist() == [False] * 4 + [True] * 3 + [False]
    with pytest.raises(InputError, match=r"arrays \['a'\] were given; wanted \['a', 'b', 'c'\]"):
        layout.pack({"a": arrays["a"]})
    with pytest.raises(InputError, match=r"shape \(3,\) was given; this learner has 8 entries"):
        layout.unpack(np.zeros(3))
    with pytest.raises(InputError, match="there are no arrays z; there are: a, b, c"):
        layout.mask(["z"])
