"""One-time linear tags: who shares a key can tell whether a sum that comes back is the one that was added up.

A site with vector v adds to it the tag a·v + r in the field F_p, p = 2^96 - 17. The coefficients a and each site's pad
r follow from a key that all sites share and the coordinator lacks, and serve one sum. Tags add up like the vectors: the
sum S belongs to the tag a·S + Σr. The pads keep tags from telling anything of a: without them twice the sum would have
twice the tag. The field is larger than any sum, so that no difference is a multiple of p; modulo a power of two, a
flipped top bit would go unnoticed half of the time.

Entry n of piece j of a vector has the coefficient u_j·w_n, u_0 = 1: the same w serve all pieces, so that a long vector
costs no cipher. Whoever does not know them has to guess the tag of any other vector. No residue modulo p is drawn with
a probability above 2^-95. If the other vector differs in the first piece only, by d, then w·d has to be guessed. If it
differs in another piece j, by d, then w·d is 0 with probability 2^-95 at most; where it is not, there is one u_j with
which the guess is right, whatever all else is. A guess so succeeds with probability 2^-94 at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import lshift

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Words
from fedgeom.crypto.keys import fingerprint
from fedgeom.crypto.masks import KeyStream
from fedgeom.memo import memoize, memoize_last

MODULUS = 2**96 - 17
"""p, the largest prime of 96 bits."""

WORDS = 3
"""A tag travels as so many words of 32 bits, each in a ring element of its own: there, their sums do not wrap."""

_FACTOR_LIMBS = 4
_FACTOR_BITS = 24
_VALUE_LIMBS = 4
_VALUE_BITS = 16
_SHIFTS = [_FACTOR_BITS * i + _VALUE_BITS * j for i in range(_FACTOR_LIMBS) for j in range(_VALUE_LIMBS)]
_PIECE = 1 << 13
"""Products of 24 and 16 bits, added up so often, are whole numbers below 2^53: exact in floating point."""


def site_tag(key: bytes, site: str, vector: npt.NDArray[np.int64]) -> Words:
    """Return the tag of one site's vector as words, to be added up over sites.

    vector (length,), i8: whole numbers whose sum over all sites has less than 64 bits; returns (WORDS,), u8.
    """
    tag = (_combine(key, vector) + _pad(key, site)) % MODULUS
    return np.array([tag >> 32 * at & 0xFFFFFFFF for at in range(WORDS)], np.uint64)


def is_sum(key: bytes, sites: Iterable[str], total: npt.NDArray[np.int64], words: Sequence[int]) -> bool:
    """Say whether the words are the tags, added up, of vectors of just these sites whose sum is ``total``.

    total (length,), i8, words (WORDS,).
    """
    given = sum(int(word) << 32 * at for at, word in enumerate(words))
    wanted = _combine_total(key, total) + sum(_pad(key, site) for site in sites)
    return (given - wanted) % MODULUS == 0


def _pad(key: bytes, site: str) -> int:
    return int.from_bytes(fingerprint(b"pad", key, site.encode()), "little") % MODULUS


def _combine(key: bytes, vector: npt.NDArray[np.int64]) -> int:
    """Return a·v in the field."""
    most = min(_PIECE, len(vector))
    factors = _factors(key, most)
    digits = np.empty((most, _VALUE_LIMBS))
    own = 1
    total = 0
    pieces = KeyStream(fingerprint(b"pieces", key)) if len(vector) > most else None
    for at in range(0, len(vector), _PIECE):
        piece = np.ascontiguousarray(vector[at : at + _PIECE], np.int64)
        table = (factors[: len(piece)].T @ _limbs(piece, digits[: len(piece)])).astype(np.int64)
        if at and pieces is not None:  # the first piece needs no factor of its own
            own = int.from_bytes(pieces.take(16), "little")
        total += own * sum(map(lshift, table.ravel().tolist(), _SHIFTS))
    return total % MODULUS


_combine_total = memoize_last(_combine)
"""The same for a sum that came in a message, which all sites of a process check."""


@memoize(1)  # all sites of a process make their tags of one sum with the same key
def _factors(key: bytes, count: int) -> npt.NDArray[np.float64]:
    """Return the factors of a piece's entries as digits to the base 2^24, (count, 4)."""
    drawn = KeyStream(fingerprint(b"factors", key)).words(_FACTOR_LIMBS * count // 2).view(np.uint32)
    return (drawn & np.uint32(2**_FACTOR_BITS - 1)).astype(np.float64).reshape(count, _FACTOR_LIMBS)


def _limbs(values: npt.NDArray[np.int64], digits: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Write whole numbers to the base 2^16 into ``digits``, lowest digit first, the highest with the sign."""
    halves = values.astype("<i8", copy=False).view("<u2").reshape(-1, _VALUE_LIMBS)
    digits[...] = halves
    digits[:, -1] = halves[:, -1].view("<i2")
    return digits
