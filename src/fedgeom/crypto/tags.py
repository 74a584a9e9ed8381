"""One-time linear tags: who shares a key can tell whether a sum that comes back is the one that was added up.

A site with vector v adds to it the tag a·v + r in the field F_p, p = 2^96 - 17. The coefficients a and each site's pad
r follow from a key that all sites share and the coordinator lacks. Tags add up like the vectors: the sum S belongs to
the tag a·S + Σr. Entry n of piece j of a vector has the coefficient u_j·w_n, u_0 = 1: the same w serve all pieces, so
that a long vector costs no cipher.

**What a tag is bound to.** a and r follow from (secret of the run, round, hash of the question, length of the vector).
The hash covers the question's kind, content, ring, members and participants (`hash_question`), and one key serves one
sum. The length is part of the key because the product does not show it: a·(v, 0, …, 0) = a·v.

**For which vectors.** Entries are whole numbers of 64 bits with sign, and the true sum has no overflow. Two different
vectors of one length then differ by numbers below 2^64 < p, so that no difference is a multiple of p; modulo a power of
two, a flipped top bit would go unnoticed half of the time. At least one site is in the sum.

**The bound.** A coordinator that has no site on its side sees, under one key, the sum S and the word-wise sum of the
tags T_i = a·v_i + r_i. It shows (S', sites', tag'), not all as they were. Take a, r as uniform (they come from SHA-256
and ChaCha20; of the 256 bits of a pad, reduced modulo p, nobody notices the bias of 2^-160). No residue is drawn for an
entry of u or w with a probability above 2^-95. The pads are independent of a, so that all T_i together tell nothing of
a, whatever the v_i are. It is accepted with probability of at most

- 2^-95, where no sum of that round, question and length was seen: nothing is known of that key, and its pads make
  every tag equally likely. A result of another question that is shown again is just some S', sites' and tag' here;
- 2^-94, where only S' is another, with the tag that belongs to it: tag' - T = a·(S' - S) has to be guessed. If S' - S
  is 0 but for the first piece, d, then w·d has to be guessed. If it has d ≠ 0 in another piece j, then w·d is 0 with
  probability 2^-95 at most; where it is not, there is one u_j with which the guess is right, whatever all else is;
- 2^-93, where sites' are others than those in the sum. With one that is not in the sum, its pad is unknown. Else let
  i be in sites' and k be missing there: given all other tags, T_i has to be guessed from the three sums of the 32-bit
  words of T_i and T_k. There are fewer than 2^99 such sums, and no pair (T_i, T_k) has more than 1/p², 2^-192.

So each attempt succeeds with probability 2^-93 at most, and q attempts with q·2^-93. Who knows the key, as any site
does, can make a tag for anything: a coordinator with a site on its side is not held by tags.
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
    own = _key_for(key, len(vector))
    tag = (_combine(own, vector) + _pad(own, site)) % MODULUS
    return np.array([tag >> 32 * at & 0xFFFFFFFF for at in range(WORDS)], np.uint64)


def is_sum(key: bytes, sites: Iterable[str], total: npt.NDArray[np.int64], words: Sequence[int]) -> bool:
    """Say whether the words are the tags, added up, of vectors of just these sites whose sum is ``total``.

    total (length,), i8, words (WORDS,); one site at least.
    """
    own = _key_for(key, len(total))
    given = sum(int(word) << 32 * at for at, word in enumerate(words))
    wanted = _combine_total(own, total) + _pads(own, tuple(sites))
    return (given - wanted) % MODULUS == 0


def _key_for(key: bytes, length: int) -> bytes:
    """Derive the key for vectors of one length: with zeros behind it, a vector has the same product."""
    return fingerprint(b"length", key, str(length).encode())


def _pad(key: bytes, site: str) -> int:
    return int.from_bytes(fingerprint(b"pad", key, site.encode()), "little") % MODULUS


@memoize(4)  # all sites of a process check the same sums
def _pads(key: bytes, sites: tuple[str, ...]) -> int:
    """Return the pads of all sites of a sum, added up."""
    return sum(_pad(key, site) for site in sites)


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
