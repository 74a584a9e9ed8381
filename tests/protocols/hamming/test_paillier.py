"""Secure Hamming by Paillier's encryption."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.crypto.paillier import SecretKey
from fedgeom.protocols.hamming import (
    PackedBits,
    Paillier,
    plain_distances,
    variant,
)
from tests.protocols.hamming.words import bits, opened


@pytest.mark.parametrize("kind", [Paillier(slots=3, bits=2048), Paillier(slots=125, bits=2048), Paillier()])
def test_packed_paillier(kind: Paillier) -> None:
    pytest.importorskip("gmpy2")
    asker, helper = bits(8, 12), PackedBits.of(np.vstack([bits(2, 12, 1).unpacked(), np.ones(12), np.zeros(12)]))
    assert np.array_equal(opened(kind, asker, helper), plain_distances(asker, helper))


def test_keys_have_3072_bits_unless_something_else_is_said() -> None:
    pytest.importorskip("gmpy2")
    assert (Paillier().bits, variant("paillier").bits, variant("paillier-unpacked").bits) == (3072, 3072, 3072)
    assert SecretKey.generate().public.n.bit_length() == 3072
