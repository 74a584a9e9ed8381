"""Noise from the operating system has the distribution it should, and comes from nowhere else."""

from __future__ import annotations

import os

import numpy as np
import pytest
from scipy import stats

from fedgeom.crypto import noise
from fedgeom.crypto.noise import SystemDraws


def test_normals_are_normal_and_independent() -> None:
    values = SystemDraws().standard_normal(40_000)
    assert stats.kstest(values, "norm").pvalue > 1e-6
    assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 0.03
    assert np.isfinite(values).all()


def test_every_order_is_equally_likely() -> None:
    draws = SystemDraws()
    counts = np.zeros((4, 4))
    for _ in range(4000):
        counts[np.arange(4), draws.permutation(4)] += 1
    assert stats.chisquare(counts.ravel()).pvalue > 1e-6
    assert sorted(draws.permutation(1000).tolist()) == list(range(1000))


@pytest.mark.parametrize("byte", [b"\x00", b"\xff"])
def test_the_ends_are_finite_and_by_hand(monkeypatch: pytest.MonkeyPatch, byte: bytes) -> None:
    monkeypatch.setattr(noise.os, "urandom", lambda n: byte * n)
    wanted = stats.norm.ppf(2.0**-53) * (1 if byte == b"\x00" else -1)
    assert SystemDraws().standard_normal(2) == pytest.approx([wanted, wanted], rel=1e-6)


def test_numpys_seed_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = os.urandom
    monkeypatch.setattr(noise.os, "urandom", lambda n: asked.append(n) or real(n))
    found = []
    for _ in range(2):
        np.random.seed(0)
        found.append(SystemDraws().standard_normal(8))
    assert asked == [64, 64]
    assert not np.array_equal(*found)
