"""Secure Hamming by Paillier's encryption."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.protocols.hamming import (
    PackedBits,
    Paillier,
    plain_distances,
)
from tests.protocols.hamming.words import bits, opened


@pytest.mark.parametrize("kind", [Paillier(slots=3), Paillier(slots=125), Paillier(slots=7, bits=3072)])
def test_packed_paillier(kind: Paillier) -> None:
    pytest.importorskip("gmpy2")
    asker, helper = bits(8, 12), PackedBits.of(np.vstack([bits(2, 12, 1).unpacked(), np.ones(12), np.zeros(12)]))
    assert np.array_equal(opened(kind, asker, helper), plain_distances(asker, helper))
