"""Bit vectors for the tests of secure Hamming, and whole conversations about them."""

from __future__ import annotations

import numpy as np
from scipy.stats import chisquare

from fedgeom.protocols.hamming import PackedBits, Variant, converse, open_shares


def bits(rows: int, length: int, seed: int = 0, density: float = 0.5) -> PackedBits:
    return PackedBits.of(np.random.default_rng([seed, rows, length]).random((rows, length)) < density)


def flat(rows: int, length: int, value: int) -> PackedBits:
    return PackedBits.of(np.full((rows, length), value))


def opened(kind: Variant, asker: PackedBits, helper: PackedBits) -> np.ndarray:
    talk = converse(kind, asker, helper)
    assert len(talk.letters) == kind.passes
    assert talk.asker.shape == talk.helper.shape == (len(asker), len(helper))
    return open_shares(talk.asker, talk.helper, asker.length, kind.group)


def even(data: np.ndarray) -> bool:
    """Whether bytes look uniform (a wrong alarm once in a million)."""
    return bool(chisquare(np.bincount(data.ravel(), minlength=256)).pvalue > 1e-6)
