"""Local only: every site for itself, by hand on bowls."""

from __future__ import annotations

import pytest

import fedgeom
from fedgeom import LocalOnly
from fedgeom.methods.iterative import Decay
from fedgeom.protocols.plan import leaves
from tests.methods.iterative.making import BOWLS, bowls, own, unlike, whole


def test_by_hand():
    done = LocalOnly(n_rounds=2, learning_rate=0.1, **BOWLS).plain(bowls((10, 1), (2, 1)))
    assert whole(done.model) == pytest.approx([0.0])
    assert [own(done, name)[0] for name in ("s0", "s1")] == pytest.approx([1.9, 0.38])


def test_it_follows_the_schedule():
    done = LocalOnly(n_rounds=2, learning_rate=0.1, schedule=Decay(0.5), **BOWLS).plain(bowls((10, 1), (2, 1)))
    assert own(done, "s0") == pytest.approx([1 + 0.05 * 9])


def test_it_sends_nothing_but_column_sums():
    sites = unlike()
    run = fedgeom.run(LocalOnly(n_rounds=2, epochs=1), sites)
    assert "train.update" not in {entry.kind for entry in run.ledger}
    sums = [entry for entry in run.ledger if entry.kind == "sum.masked"]
    assert len(sums) == len(sites)
    assert all("mean and variance of each column" in entry.reveals for entry in sums)
    assert "trained parameters" not in " ".join(leaves(LocalOnly()))
