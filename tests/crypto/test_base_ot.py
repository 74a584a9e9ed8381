"""Base transfers: the group, one key of two, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.crypto import oblivious_transfer
from fedgeom.errors import ProtocolError

PRIME = oblivious_transfer._PRIME


def test_the_prime_is_that_of_rfc_7919() -> None:
    from flint import fmpz

    assert PRIME.bit_length() == 3072
    assert fmpz(PRIME).is_probable_prime()
    assert fmpz((PRIME - 1) // 2).is_probable_prime()
    assert fmpz(2).jacobi(PRIME) == 1
    assert 2**3072 - 2**3008 + (_digits_of_e(2942) + 2625351) * 2**64 - 1 == PRIME


def _digits_of_e(bits: int) -> int:
    """Return floor(2^bits · e)."""
    scale = bits + 64
    term = total = 1 << scale
    k = 1
    while term:
        term //= k
        total += term
        k += 1
    return total >> 64


def test_the_receiver_gets_the_key_of_its_bit_and_no_other() -> None:
    bits = [0, 1, 1, 0, 1]
    secret, announced = oblivious_transfer.announce()
    offers, chosen = oblivious_transfer.choose(announced, bits)
    pairs = oblivious_transfer.key_pairs(secret, announced, offers)
    assert [pair[bit] for pair, bit in zip(pairs, bits, strict=True)] == chosen
    everything = [key for pair in pairs for key in pair]
    assert len(set(everything)) == 2 * len(bits)
    assert all(len(key) == 32 for key in everything)


def test_offers_lie_in_the_group_whatever_the_bit() -> None:
    from flint import fmpz

    _, announced = oblivious_transfer.announce()
    offers, _ = oblivious_transfer.choose(announced, [0] * 20 + [1] * 20)
    numbers = [int.from_bytes(offers[at : at + 384], "big") for at in range(0, len(offers), 384)]
    assert {fmpz(number).jacobi(PRIME) for number in numbers} == {1}
    bits = [np.mean([number >> place & 1 for number in part]) for part in (numbers[:20], numbers[20:])
            for place in range(0, 3000, 100)]  # fmt: skip
    assert abs(np.mean(bits[:30]) - 0.5) < 0.12
    assert abs(np.mean(bits[30:]) - 0.5) < 0.12


@pytest.mark.parametrize("number", [0, 1, PRIME, PRIME + 1, PRIME - 1, PRIME - 2, 2**3072 - 1])
def test_numbers_outside_the_group_are_refused(number: int) -> None:
    secret, announced = oblivious_transfer.announce()
    bad = number.to_bytes(384, "big")
    with pytest.raises(ProtocolError, match="group"):
        oblivious_transfer.choose(bad + announced[384:], [0])
    with pytest.raises(ProtocolError, match="group"):
        oblivious_transfer.choose(announced[:384] + bad, [0])
    with pytest.raises(ProtocolError, match="group"):
        oblivious_transfer.key_pairs(secret, announced, bad)


def test_announcements_of_the_wrong_size_are_refused() -> None:
    _, announced = oblivious_transfer.announce()
    for wrong in (b"", announced[:-1], announced + b"\0", announced[:384]):
        with pytest.raises(ProtocolError):
            oblivious_transfer.choose(wrong, [0, 1])
