"""Power sums as a product of two tables are those of the definition, for every size of modulus."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.codes.fields import next_prime
from fedgeom.codes.scma import FEW, power_sums


def by_definition(positions: list[int], weights: list[int], length: int, q: int) -> list[int]:
    return [sum(v * pow(x, k, q) for x, v in zip(positions, weights, strict=True)) % q for k in range(length)]


@pytest.mark.parametrize("bits", [5, 20, 31, 43, 52, 53, 62, 63])
@pytest.mark.parametrize("length", [1, 2, 10, 101])
def test_sums_are_those_of_the_definition(bits: int, length: int) -> None:
    q, rng = next_prime(2**bits - 200 if bits > 20 else 2 ** (bits - 1)), np.random.default_rng(bits)
    positions = rng.integers(1, q, 7).tolist()
    weights = rng.integers(0, q, 7).tolist()
    assert power_sums(positions, weights, length, q).tolist() == by_definition(positions, weights, length, q)


def test_the_largest_residues_at_the_most_positions_do_not_overflow() -> None:
    q = next_prime(2**63 - 1000)
    assert q < 2**63
    positions, weights = list(range(q - FEW, q)), [q - 1] * FEW
    assert power_sums(positions, weights, 30, q).tolist() == by_definition(positions, weights, 30, q)
