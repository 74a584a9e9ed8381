"""Shamir's secret sharing of 256-bit secrets: any ``threshold`` shares give it back, fewer give nothing.

A secret is the value at 0 of a random polynomial of degree ``threshold - 1`` over the prime field of
2^256 + 297 elements, the smallest that holds every 256-bit string. The share of holder x is the value
at x; with fewer than ``threshold`` values every secret is equally likely.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence

from fedgeom.errors import InputError, ProtocolError
from fedgeom.memo import memoize

PRIME = 2**256 + 297
SECRET_BYTES = 32
SHARE_BYTES = 33


def share(secret: bytes, threshold: int, holders: Sequence[int]) -> dict[int, bytes]:
    """Split ``secret`` among ``holders`` (distinct positive numbers)."""
    return {x: shares[0] for x, shares in share_each([secret], threshold, holders).items()}


def share_each(given: Sequence[bytes], threshold: int, holders: Sequence[int]) -> dict[int, tuple[bytes, ...]]:
    """Split several secrets among ``holders``, each by a polynomial of its own; return for each holder all its shares.

    The values of all polynomials at x are worked out in one long number, side by side in slots: Horner's rule takes its
    steps once for all, and since x is small, each value is reduced once, in the end.
    """
    for secret in given:
        if len(secret) != SECRET_BYTES:
            raise InputError(f"a secret of {len(secret)} bytes was given; {SECRET_BYTES} wanted")
    if len(set(holders)) != len(holders) or min(holders, default=0) < 1:
        raise InputError("holders must be distinct positive numbers: 0 is where the secret sits")
    if not 1 <= threshold <= len(holders):
        raise InputError(f"a threshold of {threshold} cannot be met by {len(holders)} holders")
    # A value is below PRIME·(1 + x + … + x**(threshold - 1)) <= PRIME·(x + 1)**(threshold - 1): slots never overlap.
    slot = SHARE_BYTES + -(-(max(holders) + 1).bit_length() * (threshold - 1) // 8)
    drawn = iter(_uniform(len(given) * (threshold - 1)))
    rows = [[next(drawn) for _ in given] for _ in range(threshold - 1)]  # from the highest power on
    steps = [_side_by_side(row, slot) for row in rows]
    constants = _side_by_side([int.from_bytes(secret, "big") for secret in given], slot)
    shares = {}
    for x in holders:
        value = 0
        for step in steps:
            value = (value + step) * x
        found = (value + constants).to_bytes(slot * len(given), "little")
        values = (int.from_bytes(found[at : at + slot], "little") for at in range(0, len(found), slot))
        shares[x] = tuple((one % PRIME).to_bytes(SHARE_BYTES, "big") for one in values)
    return shares


def _side_by_side(values: Sequence[int], slot: int) -> int:
    """Put numbers into one, each in a slot of so many bytes."""
    return int.from_bytes(b"".join([value.to_bytes(slot, "little") for value in values]), "little")


def _uniform(count: int) -> list[int]:
    """Draw uniform elements of the field: numbers of 257 bits, of which those that are none are left out, half of all.

    To ask the operating system for many at once takes a fifth of the time of one after the other.
    """
    found: list[int] = []
    while len(found) < count:
        drawn = secrets.token_bytes(SHARE_BYTES * (2 * (count - len(found)) + 8))
        numbers = (
            int.from_bytes(drawn[at : at + SHARE_BYTES], "little") >> 7 for at in range(0, len(drawn), SHARE_BYTES)
        )
        found += [one for one in numbers if one < PRIME]
    return found[:count]


def weights_at_zero(holders: Sequence[int]) -> list[int]:
    """Return Lagrange's weights: the secret is the weighted sum of the shares of these holders."""
    return list(_weights_at_zero(tuple(holders)))


@memoize(1 << 12)  # a site's holders are the same in every sum
def _weights_at_zero(holders: tuple[int, ...]) -> tuple[int, ...]:
    """Weigh holder x by Π other/(other - x) = Π all/(x·Π(other - x)); one inversion serves all (Montgomery's trick)."""
    below = []
    products = [1]
    product = 1
    for x in holders:
        below.append(x * math.prod([other - x for other in holders if other != x]) % PRIME)
        product = product * below[-1] % PRIME
        products.append(product)
    inverse = pow(product, -1, PRIME)
    every = math.prod(holders)
    weights = []
    for bottom, before in zip(reversed(below), reversed(products[:-1]), strict=True):
        weights.append(every * inverse * before % PRIME)
        inverse = inverse * bottom % PRIME
    return tuple(reversed(weights))


def recover(shares: Mapping[int, bytes], threshold: int) -> bytes:
    """Put a secret together from at least ``threshold`` shares.

    Wrong shares cannot be told from right ones here; callers that can check the secret (a private
    key against its public half) do so.
    """
    if len(shares) < threshold:
        raise ProtocolError(f"{len(shares)} shares came, {threshold} are needed")
    holders = sorted(shares)[:threshold]
    values = (int.from_bytes(shares[x], "big") for x in holders)
    secret = sum(w * v for w, v in zip(weights_at_zero(holders), values, strict=True)) % PRIME
    if secret >> (8 * SECRET_BYTES):
        raise ProtocolError("the shares do not belong together: no 256-bit secret fits them")
    return secret.to_bytes(SECRET_BYTES, "big")
