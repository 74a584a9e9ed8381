"""Schedules: what the rate is multiplied by, and how they are named."""

from __future__ import annotations

import itertools
import math

import pytest

from fedgeom import FedAvg
from fedgeom.errors import InputError
from fedgeom.methods.iterative import Constant, Cosine, Decay, Schedule, StepDecay, Warmup


def test_factors():
    assert [Constant().factor(t, 4) for t in range(4)] == [1.0] * 4
    assert [Decay(0.5).factor(t, 4) for t in range(4)] == pytest.approx([1, 0.5, 0.25, 0.125])
    cosine = [Cosine().factor(t, 4) for t in range(4)]
    assert cosine == pytest.approx([0.5 * (1 + math.cos(math.pi * t / 4)) for t in range(4)])
    assert cosine[0] == 1.0
    assert all(a > b > 0 for a, b in itertools.pairwise(cosine))


def test_the_rate_of_a_round():
    assert [
        FedAvg(learning_rate=0.4, schedule=Decay(0.5), n_rounds=4).rate_in(t) for t in range(4)
    ] == pytest.approx([0.4, 0.2, 0.1, 0.05])
    assert FedAvg(learning_rate=0.4, schedule="cosine", n_rounds=2).rate_in(1) == pytest.approx(0.2)


@pytest.mark.parametrize("given", ["decay", {"name": "decay"}, {"name": "decay", "decay": 0.97}, Decay()])
def test_an_object_a_name_and_a_table_are_the_same(given):
    assert FedAvg(schedule=given).schedule == Decay(0.97) == Schedule.read(given, "schedule")
    assert FedAvg(schedule=given).terms()["schedule"] == {"name": "decay", "decay": 0.97}
    assert FedAvg(schedule="cosine").terms()["schedule"] == "cosine"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("linear", "schedule='linear' is unknown; there are: constant, cosine, decay"),
        ({"name": "decay", "rate": 1}, "schedule: 'decay' has no setting 'rate'; it has decay"),
        ({"name": "cosine", "decay": 1}, "schedule: 'cosine' has no setting 'decay'; it has none"),
        ({"decay": 0.5}, r"wanted a name \(constant, cosine, decay, step, warmup\) or a table with a name"),
        (7, r"schedule=7 given; wanted a name \(constant, cosine, decay, step, warmup\)"),
        ({"name": "decay", "decay": -1.0}, r"decay=-1.0 given; wanted a number from 0 \(excluded\) to 10"),
        ({"name": "decay", "decay": 0}, r"decay=0 given; wanted a number from 0 \(excluded\) to 10"),
        ({"name": "decay", "decay": float("nan")}, "decay=nan given"),
    ],
)
def test_refusals(given, message):
    with pytest.raises(InputError, match=message):
        FedAvg(schedule=given)


def test_steps_and_warm_starts():
    step = StepDecay(every=3, decay=0.5)
    assert [step.factor(round, 9) for round in range(7)] == [1, 1, 1, 0.5, 0.5, 0.5, 0.25]
    warm = Warmup(warmup_rounds=3, then="constant")
    assert [warm.factor(round, 9) for round in range(5)] == [0.25, 0.5, 0.75, 1, 1]
    cosine = Warmup(warmup_rounds=2)
    assert cosine.factor(2, 6) == 1
    assert cosine.factor(4, 6) == pytest.approx(0.5)
    assert FedAvg(schedule={"name": "warmup", "warmup_rounds": 2}).rate_in(0) == pytest.approx(0.1 / 3)
