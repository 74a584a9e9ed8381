"""Protocols between pairs of sites, over sealed messages that the coordinator relays."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from fedgeom.arrays import Floats, Ints, Words
from fedgeom.crypto.bfv import (
    DEGREE,
    FEWEST_PRIMES,
    MARGIN_BITS,
    MOST_PRIMES,
    PLAIN_BITS,
    Helper,
    KeyHolder,
    flood_bits,
)
from fedgeom.crypto.keys import derive, fingerprint, seal, unseal
from fedgeom.errors import ProtocolError
from fedgeom.protocols.hamming.bits import PairMessage, read, write
from fedgeom.protocols.join.site import JoinPart


def asks_first(one: str, other: str) -> bool:
    """Say whether ``one`` begins with ``other``: each site begins with about half of its partners."""
    first, second = sorted((one, other))
    swap = fingerprint(b"first", first.encode(), second.encode())[0] & 1
    return (one == first) != bool(swap)


def deliver(sent: Mapping[str, Mapping[str, bytes]], alive: Iterable[str]) -> dict[str, dict[str, bytes]]:
    """Sort letters by recipient; letters to and from sites that were lost are left out."""
    living = set(alive)
    post: dict[str, dict[str, bytes]] = {}
    for sender, letters in sent.items():
        for recipient, letter in letters.items():
            if sender in living and recipient in living:
                post.setdefault(recipient, {})[sender] = letter
    return post


def seal_for(
    joining: JoinPart, partner: str, purpose: bytes, number: int, text: bytes, *, repeatable: bool = False
) -> bytes:
    """Seal the ``number``-th letter of this site to a partner; a ``repeatable`` one is the same each time."""
    if not joining.site.masked:
        return text
    key, envelope = _key(joining, joining.site.name, partner, purpose, number)
    return seal(key, text, envelope, repeatable=repeatable)


def open_from(joining: JoinPart, partner: str, purpose: bytes, number: int, letter: bytes) -> bytes:
    """Open the ``number``-th letter from a partner; a letter out of order does not open."""
    if not joining.site.masked:
        return letter
    key, envelope = _key(joining, partner, joining.site.name, purpose, number)
    return unseal(key, letter, envelope, sender=partner)


def _key(joining: JoinPart, sender: str, recipient: str, purpose: bytes, number: int) -> tuple[bytes, bytes]:
    """Return the key of a letter, and what the letter is bound to."""
    memory = joining.memory
    site = joining.site
    partner = recipient if sender == site.name else sender
    if partner not in memory.cohort or partner == site.name:
        raise ProtocolError(f"{partner!r} is not a partner of this site")
    envelope = (b"pair", purpose, site.run, str(number).encode(), sender.encode(), recipient.encode())
    return derive(joining.agreed_with(partner), *envelope), fingerprint(*envelope)


FRACTION_BITS = 18
"""Unit vectors are rounded to multiples of 2^-18."""
DEPTH = DEGREE - 1
"""Numbers of a vector in one polynomial."""
MODULUS = 1 << PLAIN_BITS
_LAST = np.array([DEGREE - 1], np.intp)


class AskerState(NamedTuple):
    """What the asker has after its first turn."""

    secret: bytes
    """For the site's own memory."""
    letter: bytes


class HelperState(NamedTuple):
    """What the helper has after its only turn."""

    letter: bytes
    share: int
    """For the coordinator."""


class EncryptedVector(PairMessage, frozen=True, tag="inner.ciphertexts"):
    """The asker's public key and encrypted vector."""

    public: bytes
    numbers: bytes


class Answer(PairMessage, frozen=True, tag="inner.answer"):
    """A closed sum of products: c0 at the place of the inner product, and all of c1."""

    first: bytes
    second: bytes


def quantise(vector: Floats) -> Ints:
    """Return a vector scaled to norm 1 in multiples of 2^-18, (length,), i8; one of norm 0 stays 0."""
    norm = float(np.linalg.norm(vector))
    if not norm or not math.isfinite(norm):
        return np.zeros(len(vector), np.int64)
    return np.rint(vector * (2.0**FRACTION_BITS / norm)).astype(np.int64)


def cosines(vectors: Floats) -> Floats:
    """Return what the protocol yields for all pairs of rows, (rows, rows): in one process, for open runs."""
    whole = np.array([quantise(vector) for vector in vectors])
    found = np.array([[int(one @ other) for other in whole] for one in whole])
    np.fill_diagonal(found, 4**FRACTION_BITS)
    return found / 4.0**FRACTION_BITS


def primes_for(length: int, answers: int) -> int:
    """Return how many primes the modulus needs, so that flooding hides the helper's vector in so many answers.

    An answer's noise carries 3.3·‖b‖ of encryption errors, ‖b‖₁/2 at most of rounding, and that of re-randomisation;
    ‖b‖ is 2^18 and ‖b‖₁ at most √length times that.
    """
    carried = 2.0**FRACTION_BITS * (3.3 + math.sqrt(length) / 2) + pieces(length) + 32
    for primes in range(FEWEST_PRIMES, MOST_PRIMES + 1):
        if flood_bits(primes) - math.log2(carried * max(answers, 1)) >= MARGIN_BITS:
            return primes
    raise ProtocolError(f"{answers:,} inner products of {length:,} numbers are more than lattice noise hides")


def pieces(length: int) -> int:
    """Return how many polynomials hold a vector."""
    return max(1, -(-length // DEPTH))


def letter_bytes(length: int, answers: int) -> tuple[int, int]:
    """Return about how many bytes the asker's and the helper's letter have."""
    primes = primes_for(length, answers)
    first = 2 * (primes + 1) * DEGREE + 2 * primes * DEGREE * pieces(length)
    return 8 * first + 200, 8 * (DEGREE + 1) + 200


def begin(mine: Ints, answers: int) -> AskerState:
    """Encrypt the asker's vector under a new key; the same letter serves all partners of one round."""
    owner = KeyHolder(primes=primes_for(len(mine), answers))
    numbers = [owner.encrypt(piece).astype("<u8").tobytes() for piece in _polynomials(mine, free=0)]
    public = owner.public().astype("<u8").tobytes()
    return AskerState(owner.secret, write(EncryptedVector(public, b"".join(numbers))))


def respond(mine: Ints, answers: int, letter: bytes) -> HelperState:
    """Multiply, add up and close (helper)."""
    primes = primes_for(len(mine), answers)
    count = pieces(len(mine))
    key = (2, primes + 1, DEGREE)
    cipher = (2, primes, DEGREE)
    got = read(letter, EncryptedVector, public=8 * math.prod(key), numbers=8 * math.prod(cipher) * count)
    helper = Helper(_words(got.public).reshape(key))
    factors = [helper.factor(one) for one in _words(got.numbers).reshape(count, *cipher)]
    plains = [helper.plain_factor(piece[::-1]) for piece in _polynomials(mine, free=1)]
    mask = secrets.randbits(PLAIN_BITS)
    first, second = helper.close(helper.sum_of_products(factors, plains), _LAST, np.array([mask], np.uint64))
    answer = Answer(first.astype("<u8").tobytes(), second.astype("<u8").tobytes())
    return HelperState(write(answer), mask)


def finish(length: int, answers: int, secret: bytes, letter: bytes) -> int:
    """Decrypt the masked inner product: the asker's share, for the coordinator."""
    got = read(letter, Answer, first=8, second=8 * DEGREE)
    owner = KeyHolder(secret, primes_for(length, answers))
    return int(owner.open(_LAST, _words(got.first), _words(got.second))[0])


class OpenProducts:
    """The same turns in a plain run: the asker's vector travels as it is, and the helper's share is the product."""

    @staticmethod
    def begin(mine: Ints, answers: int) -> AskerState:
        """Send the asker's vector."""
        return AskerState(b"", mine.tobytes())

    @staticmethod
    def respond(mine: Ints, answers: int, letter: bytes) -> HelperState:
        """Multiply (helper)."""
        return HelperState(b"", -int(np.frombuffer(letter, np.int64) @ mine) % MODULUS)

    @staticmethod
    def finish(length: int, answers: int, secret: bytes, letter: bytes) -> int:
        """Return the asker's share, which is nothing."""
        return 0


def open_shares(asker: int, helper: int) -> float:
    """Return the cosine from both shares, or raise `ProtocolError` where they make none."""
    found = (asker - helper) % MODULUS
    signed = found - MODULUS if found >= MODULUS // 2 else found
    cosine = signed / 4.0**FRACTION_BITS
    if abs(cosine) > 1.01:  # rounding makes a unit vector a little longer
        raise ProtocolError("two shares of an inner product do not fit together")
    return cosine


def _polynomials(vector: Ints, free: int) -> Words:
    """Return a vector as coefficients modulo 2^48, (pieces, degree), with ``free`` in the last place of each."""
    count = pieces(len(vector))
    padded = np.zeros(count * DEPTH, np.int64)
    padded[: len(vector)] = vector
    whole = np.full((count, DEGREE), free, np.int64)
    whole[:, :DEPTH] = padded.reshape(count, DEPTH)
    return whole.astype(np.uint64) & np.uint64(MODULUS - 1)


def _words(data: bytes) -> Words:
    return np.frombuffer(data, "<u8").astype(np.uint64)
