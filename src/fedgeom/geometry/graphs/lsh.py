"""Random-hyperplane hashing: angles between rows become Hamming distances between bit strings.

Bit l of a row v says on which side of the hyperplane with normal u_l it lies, b_l = 1 where ⟨v, u_l⟩ ≥ 0. Two
rows at angle θ differ in a bit with probability θ/π, so that cos(π·h/L) estimates their cosine (XCLP, Equation
3). Lengths play no part: b(c·v) = b(v) for every c > 0.

The normals are Gaussian and come from a 256-bit seed that the sites share. They are learning randomness, not a
mask: whoever knows the seed can hash too, and nothing here relies on its secrecy. (XCLP keeps it from the
coordinator, who could otherwise look for rows that explain given bits.)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from fedgeom.arrays import Bits, Floats
from fedgeom.errors import InputError

__all__ = ["ByteSource", "cosine_from_hamming", "debias", "flip_bits", "hamming", "hash_bits", "projection_blocks"]


SEED_BYTES = 32
_NORMALS = 2**20  # numbers of the projection that exist at a time, unless the caller says otherwise: 8 MiB
_ROWS = 8192  # rows of data multiplied at a time, so that a product stays below 32 MiB
_PAIRS = 2048  # rows and columns of a tile of Hamming distances


class ByteSource(Protocol):
    """Anything that gives random bytes: a NumPy ``Generator`` in experiments, a stream cipher at a site."""

    def bytes(self, length: int, /) -> bytes:
        """Return this many random bytes."""
        ...


def projection_blocks(seed: bytes, L: int, d: int, block: int = 512) -> Iterator[Floats]:
    """Yield the L Gaussian normals of dimension d, ``block`` rows at a time (the last block may be smaller).

    Row l is the same on every machine and for every block size. NumPy promises that for the raw words of a bit
    generator but not for its normal distribution, so Philox words become Gaussians through the inverse
    distribution function. The seed's first half is Philox's key, its second half the upper half of the counter.
    """
    if len(seed) != SEED_BYTES:
        raise InputError(f"the seed has {len(seed)} bytes; wanted {SEED_BYTES}, from secrets.token_bytes say")
    if L < 1 or d < 1 or block < 1:
        raise InputError(f"L={L}, d={d}, block={block} given; wanted positive numbers")
    counter = int.from_bytes(seed[16:], "little") << 128
    words = np.random.Philox(key=int.from_bytes(seed[:16], "little"), counter=counter)
    for first in range(0, L, block):
        rows = min(block, L - first)
        raw = words.random_raw(rows * d) >> np.uint64(11)
        yield np.asarray(ndtri((raw + 0.5) * 2.0**-53), np.float64).reshape(rows, d)


def hash_bits(X: ArrayLike, seed: bytes, L: int, *, block: int | None = None) -> Bits:
    """Hash every row to L bits, packed eight to a byte: shape (n, L/8), most significant bit first.

    Laws: scaling a row by a positive number changes no bit; -v has all bits of v turned (where no product is 0).
    A row of zeros lies on every hyperplane and gets ones only: its cosine to other rows is estimated as about 0. Only
    ``block`` of the L hyperplanes are in memory at a time; without it, as many as make up some megabytes.
    """
    rows = _table(X)
    _check_length(L)
    if block is None:
        block = 8 * max(1, min(64, _NORMALS // (8 * rows.shape[1])))
    if block % 8:
        raise InputError(f"block={block} given; wanted a multiple of 8, so that blocks fill whole bytes")
    out = np.empty((len(rows), L // 8), np.uint8)
    at = 0
    for normals in projection_blocks(seed, L, rows.shape[1], block):
        width = len(normals) // 8
        for first in range(0, len(rows), _ROWS):
            part = slice(first, first + _ROWS)
            out[part, at : at + width] = np.packbits(rows[part] @ normals.T >= 0, axis=1)
        at += width
    return out


def hamming(A: ArrayLike, B: ArrayLike, L: int) -> NDArray[Any]:
    """Return the Hamming distances between packed rows of A and of B, as uint16 (uint32 beyond L = 65535).

    h = (L - ⟨a, b⟩)/2 for bits written as ±1: a product of float32 matrices, exact as long as L < 2^24.
    """
    left = _packed(A, L, "A")
    right = _packed(B, L, "B")
    out = np.empty((len(left), len(right)), np.uint16 if L <= 65535 else np.uint32)
    for j in range(0, len(right), _PAIRS):
        turned = _signs(right[j : j + _PAIRS], L).T
        for i in range(0, len(left), _PAIRS):
            product = _signs(left[i : i + _PAIRS], L) @ turned
            out[i : i + _PAIRS, j : j + _PAIRS] = (L - product) / 2
    return out


def cosine_from_hamming(H: ArrayLike, L: int) -> Floats:
    """Estimate cosines from Hamming distances: cos(π·h/L), Algorithm 1 line 6.

    H (…), whole numbers of 0 to L; returns (…), f8.

    The angle's estimate is unbiased with standard error at most π/(2√L): 0.025 for L = 4096, 0.1 for L = 256.
    """
    return np.asarray(np.cos(np.asarray(H, np.float64) * (math.pi / L)), np.float64)


def flip_bits(bits: ArrayLike, rate: float, rng: ByteSource) -> Bits:
    """Turn every bit with probability ``rate``: randomised response, ε = ln((1-rate)/rate) for a single bit.

    bits (…), 0 or 1; returns the same shape.

    Flip a row once and use the result ever after; fresh flips of one row would average out. The rate is rounded
    to a multiple of 2^-16. The guarantee is per bit: a row has L bits, so that the whole row's ε is L times that.
    """
    rounded = _rate(rate)
    packed = np.asarray(bits, np.uint8)
    if rounded == 0:
        return packed.copy()
    out = np.empty_like(packed)
    for i, row in enumerate(packed):
        drawn = np.frombuffer(rng.bytes(16 * row.size), np.uint16)
        out[i] = row ^ np.packbits(drawn < np.uint16(round(rounded * 65536)))
    return out


def debias(H: ArrayLike, L: int, rate: float, *, both: bool = True) -> Floats:
    """Undo what flipping bits does to Hamming distances, on average; the result is kept in [0, L].

    A pair of bits that differs with probability p differs with p(1-2f)² + 2f(1-f) after both were flipped with
    probability f, and with p(1-2f) + f after one of them was (``both=False``). Noise grows: the standard error is
    multiplied by up to 1/(1-2f)².
    """
    f = _rate(rate)
    f = 2 * f * (1 - f) if both else f
    h = (np.asarray(H, np.float64) - f * L) / (1 - 2 * f)
    return np.asarray(np.clip(h, 0.0, L), np.float64)


def _rate(rate: float) -> float:
    if not 0.0 <= rate < 0.5:
        raise InputError(f"a flip rate of {rate!r} was given; wanted at least 0 and less than 0.5, pure noise")
    return min(round(rate * 65536), 32767) / 65536


def _check_length(L: int) -> None:
    if L < 8 or L % 8 or L >= 2**24:
        raise InputError(f"L={L} bits given; wanted a multiple of 8 below 2^24 (the paper takes 4096)")


def _table(X: ArrayLike) -> Floats:
    rows = np.asarray(X, np.float64)
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise InputError(f"X has shape {rows.shape}; wanted (n, d), one row per point")
    if not np.isfinite(rows).all():
        raise InputError("X has missing or infinite values; drop or impute them, a hash needs all coordinates")
    return rows


def _packed(bits: ArrayLike, L: int, name: str) -> Bits:
    _check_length(L)
    packed = np.asarray(bits)
    if packed.dtype != np.uint8 or packed.ndim != 2 or packed.shape[1] != L // 8:
        raise InputError(
            f"{name} is {packed.dtype} of shape {packed.shape}; wanted hash_bits' uint8 (n, {L // 8})"
        )
    return packed


def _signs(packed: Bits, L: int) -> NDArray[np.float32]:
    return np.unpackbits(packed, axis=1, count=L).astype(np.float32) * np.float32(2) - np.float32(1)
