"""Oblivious transfer of random keys, a few at a time, in a group of prime order.

The sender ends with two random keys for each transfer, the receiver with one of the two, chosen by a
bit of its own; the sender does not learn the bit, the receiver nothing about the other key. This is
the transfer of Naor and Pinkas ("Efficient oblivious transfer protocols", SODA 2001; the idea is
Bellare and Micali's) without its last message, as random keys need no encryption:

1. The sender announces C = g^c and G = g^r.
2. For a bit b the receiver takes a random k and sends P = g^k if b = 0, P = C / g^k if b = 1. It keeps
   the hash of G^k.
3. The sender's keys are the hashes of P^r (for 0) and of (C / P)^r (for 1).

P shows nothing about b, as g^k and C / g^k look alike; the receiver cannot know both powers without
solving Diffie and Hellman's problem on C and G. Parties are assumed to follow the protocol.

The group is that of squares modulo the 3072-bit safe prime ffdhe3072 of RFC 7919 (128-bit security;
g = 2 generates it). Exponents have 320 bits, above the 275 which that document asks for; that powers
with short exponents look like any others is the usual assumption (Gennaro 2000). The hash is SHA-256 over
length-prefixed parts: a label, both announcements, the number of the transfer, P and the power. It is
taken as a random oracle. Big-number arithmetic here does not run in constant time.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from fedgeom.crypto.keys import fingerprint
from fedgeom.errors import ProtocolError

ELEMENT_BYTES = 384
EXPONENT_BITS = 320
EXPONENT_BYTES = EXPONENT_BITS // 8

_PRIME = int(
    "FFFFFFFFFFFFFFFFADF85458A2BB4A9AAFDC5620273D3CF1D8B9C583CE2D3695A9E13641146433FBCC939DCE249B3EF97D2FE36363"
    "0C75D8F681B202AEC4617AD3DF1ED5D5FD65612433F51F5F066ED0856365553DED1AF3B557135E7F57C935984F0C70E0E68B77E2A6"
    "89DAF3EFE8721DF158A136ADE73530ACCA4F483A797ABC0AB182B324FB61D108A94BB2C8E3FBB96ADAB760D7F4681D4F42A3DE394D"
    "F4AE56EDE76372BB190B07A7C8EE0A6D709E02FCE1CDF7E2ECC03404CD28342F619172FE9CE98583FF8E4F1232EEF28183C3FE3B1B"
    "4C6FAD733BB5FCBC2EC22005C58EF1837D1683B2C6F34A26C1B2EFFA886B4238611FCFDCDE355B3B6519035BBC34F4DEF99C023861"
    "B46FC9D6E6C9077AD91D2691F7F7EE598CB0FAC186D91CAEFE130985139270B4130C93BC437944F4FD4452E2D74DD364F2E21E71F5"
    "4BFF5CAE82AB9C9DF69EE86D2BC522363A0DABC521979B0DEADA1DBF9A42D5C4484E0ABCD06BFA53DDEF3C1B20EE3FD59D7C25E41D"
    "2B66C62E37FFFFFFFFFFFFFFFF",
    16,
)


@lru_cache(maxsize=1)
def _field() -> Any:
    from flint import fmpz_mod_ctx  # python-flint: slow to import

    return fmpz_mod_ctx(_PRIME)


def _bytes(element: Any) -> bytes:
    return int(element).to_bytes(ELEMENT_BYTES, "big")


def _element(data: bytes) -> Any:
    """Read an element of the group other than 1, or raise `ProtocolError`."""
    from flint import fmpz  # python-flint: slow to import

    number = int.from_bytes(data, "big")
    if len(data) != ELEMENT_BYTES or not 1 < number < _PRIME or fmpz(number).jacobi(_PRIME) != 1:
        raise ProtocolError("a number in an oblivious transfer is not in the group of squares modulo ffdhe3072")
    return _field()(number)


def _exponent() -> int:
    return secrets.randbits(EXPONENT_BITS) | 1 << (EXPONENT_BITS - 1)


def _key(announced: bytes, at: int, offer: bytes, power: Any) -> bytes:
    return fingerprint(
        b"fedgeom/1 base oblivious transfer", announced, at.to_bytes(4, "big"), offer, _bytes(power)
    )


def announce() -> tuple[bytes, bytes]:
    """Begin as the sender: return a secret to keep (r) and an announcement to send (C, G)."""
    base, r, c = _field()(2), _exponent(), _exponent()
    return r.to_bytes(EXPONENT_BYTES, "big"), _bytes(base**c) + _bytes(base**r)


def choose(announced: bytes, bits: Sequence[int]) -> tuple[bytes, list[bytes]]:
    """Answer as the receiver: return the offers to send (all P in a row) and the keys of the chosen bits."""
    c, g = _element(announced[:ELEMENT_BYTES]), _element(announced[ELEMENT_BYTES:])
    base, offers, keys = _field()(2), [], []
    for at, bit in enumerate(bits):
        k = _exponent()
        plain = base**k
        other = c / plain  # computed in both cases
        offers.append(_bytes(other if bit else plain))
        keys.append(_key(announced, at, offers[-1], g**k))
    return b"".join(offers), keys


def key_pairs(secret: bytes, announced: bytes, offers: bytes) -> list[tuple[bytes, bytes]]:
    """End as the sender: return both keys of each transfer."""
    r = int.from_bytes(secret, "big")
    power_of_c = _element(announced[:ELEMENT_BYTES]) ** r
    pairs = []
    for at in range(len(offers) // ELEMENT_BYTES):
        offer = offers[at * ELEMENT_BYTES : (at + 1) * ELEMENT_BYTES]
        power = _element(offer) ** r
        pairs.append((_key(announced, at, offer, power), _key(announced, at, offer, power_of_c / power)))
    return pairs
