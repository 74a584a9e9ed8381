"""Noise from the operating system has the distribution it should, and comes from nowhere else."""

from __future__ import annotations

import os

import numpy as np
import pytest
from scipy import stats

from fedgeom.crypto import masks
from fedgeom.crypto.masks import SystemDraws


def test_every_order_is_equally_likely() -> None:
    draws = SystemDraws()
    counts = np.zeros((4, 4))
    for _ in range(4000):
        counts[np.arange(4), draws.permutation(4)] += 1
    assert stats.chisquare(counts.ravel()).pvalue > 1e-6
    assert sorted(draws.permutation(1000).tolist()) == list(range(1000))


def test_numpys_seed_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = os.urandom
    monkeypatch.setattr(masks.os, "urandom", lambda n: asked.append(n) or real(n))
    found = []
    for _ in range(2):
        np.random.seed(0)
        found.append(SystemDraws().bytes(32))
    assert asked == [32, 32]
    assert found[0] != found[1]
