"""What a step of preparation is."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom.errors import InputError
from fedgeom.federation.steps import PRESETS, Columns, Step, StepFit, read_steps


def test_every_preset_is_made_of_steps_there_are():
    for name, steps in PRESETS.items():
        assert [step.name for step in fedgeom.Ridge(features="linear", prepare=name).prepare] == list(steps)
        assert all(step in Step.registry for step in steps)


def test_what_is_no_preset_is_said():
    with pytest.raises(InputError, match=r'"counts" .log-counts, .*"table"'):
        read_steps("tables")
    assert read_steps(None) == ()


def test_some_columns_are_kept_with_what_belongs_to_them():
    columns = Columns(width=3, names=("a", "b", "c"), categories={0: ("u",), 2: ("v",)}, together=(2,))
    assert columns.kept(np.arange(columns.width)) == columns
    kept = columns.kept(np.array([1, 2]))
    assert kept == Columns(width=2, names=("b", "c"), categories={1: ("v",)}, together=(1,))
    assert columns.title(1) == "'b'"
    assert Columns(width=3).title(1) == "number 1"


def test_a_fit_keeps_and_forgets_arrays():
    fit = StepFit()
    fit.put(a=np.arange(3), b=np.ones(2))
    fit.drop("a")
    assert list(fit.arrays) == ["b"]
    assert StepFit().arrays == {}
