"""Sites and settings on which every algorithm is compared with its paper: three rounds of four full steps."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.methods.iterative import Effort, Task, Tree
from tests.methods.iterative import twin
from tests.methods.iterative.making import Bowl, unlike, whole

SITES = unlike()
CLIENTS = twin.clients_of(SITES)
ZERO = np.zeros(3)
STEPS = {"n_rounds": 3, "learning_rate": 0.3, "steps": 4, "batch_size": None}
WORK, PLAIN = twin.Work(**STEPS), STEPS | {"scale": "none"}
NEAR = {"rel": 0, "abs": 2e-7}
"""Sums are rounded to 2⁻²⁸ at every site."""


def downhill(site) -> np.ndarray:
    """Twelve full steps of the twin on one site's loss."""
    return twin.descend(twin.clients_of([site])[0].slope, ZERO, 0.3, [slice(None)] * 12)


def lowest(algorithm, sites) -> float:
    """The number that training on bowls ends with."""
    return float(whole(algorithm.plain(sites).model)[0])


def same(one, other, **near) -> None:
    assert one == pytest.approx(other, **(near or {"abs": 1e-12}))


def bowl_task(*rows, rate=0.1, batch=None) -> Task:
    """One round of two steps at one site with these rows (a, h)."""
    table = np.array(rows, float)
    effort, rng = Effort(steps=2, batch_size=batch, learning_rate=rate), np.random.default_rng(0)
    return Task(Bowl(), table, np.zeros(len(table), np.int64), effort, rng, 2, one(0.0))


def one(number: float) -> Tree:
    """A bowl's model."""
    return Tree(w=np.array([number]))
