"""Batches are half labelled, half pseudo-labelled, and an epoch is a pass over the latter."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.methods.iterative.effort import Effort
from fedgeom.methods.xclp_training.site import HalvedEffort


def drawn(labelled, seed=0, **settings):
    effort = HalvedEffort(labelled=np.asarray(labelled, bool), **settings)
    return list(effort.batches(len(labelled), np.random.default_rng(seed))), effort


@pytest.mark.parametrize(
    ("known", "others", "batch"), [(4, 30, 8), (20, 20, 10), (3, 7, 100), (50, 9, 6), (1, 1, 2)]
)
def test_each_step_has_as_many_of_both_and_an_epoch_sees_every_pseudo_label_once(known, others, batch):
    labelled = np.arange(known + others) < known
    found, effort = drawn(labelled, batch_size=batch, epochs=2)
    half = min(batch // 2, known, others)
    assert len(found) == effort.count(len(labelled)) == 2 * max(others // half, 1)
    for at in found:
        assert labelled[at].sum() == half
        assert half <= (~labelled[at]).sum() < 2 * half
    for epoch in (found[: len(found) // 2], found[len(found) // 2 :]):
        rows = np.concatenate(epoch)
        assert sorted(rows[~labelled[rows]].tolist()) == list(range(known, known + others))
    seen = np.concatenate(found)
    times = np.bincount(seen[labelled[seen]], minlength=known)[:known]
    assert times.max() - times.min() <= 1  # labelled rows come round in turn


@pytest.mark.parametrize(
    ("labelled", "settings"),
    [
        ([True] * 12, {}),
        ([False] * 12, {}),
        ([True, False] * 6, {"batch_size": None}),
        ([True] + [False] * 11, {"least": 4}),
        ([True, False] * 6, {"sampling": "balanced"}),
    ],
)
def test_where_halves_make_no_sense_batches_are_the_usual_ones(labelled, settings):
    found, _ = drawn(labelled, **({"batch_size": 4} | settings))
    usual = list(Effort(**({"batch_size": 4} | settings)).batches(12, np.random.default_rng(0)))
    assert len(found) == len(usual)
    assert all((one == other).all() for one, other in zip(found, usual, strict=True))


def test_a_part_of_the_rows_is_a_task_of_its_own():
    effort = HalvedEffort(labelled=np.array([True, False] * 6), batch_size=4)
    assert sum(map(len, effort.batches(5, np.random.default_rng(0)))) == 5 * effort.epochs


def test_steps_take_the_place_of_epochs():
    assert len(drawn([True, False] * 6, batch_size=4, steps=7)[0]) == 7
