"""Lattice encryption (BFV) of bits for a product with a matrix of signs: plain matrix products, and no transforms.

The *owner* has bits a_il of points i, the *helper* signs v_ml of points m, and the owner is to learn Σ_l a_il·v_ml
plus a mask, modulo t = 2^16, for all i and m at once. The ring is Z_q[x] / (x^4096 + 1), q = 2^88 or 2^105. For each
place l one ciphertext holds the bits of all points, one to a coefficient,

    b_l = a_l·s + e_l + (q / t)·Σ_i a_il x^i,

with a_l stretched from a seed that travels instead of it. The helper only adds and subtracts: point m's answer is Σ_l
v_ml·(a_l, b_l). Over all m these are two products of a matrix of signs with a matrix modulo q, V·[a_l] and V·[b_l],
and of the second only the coefficients that hold points. (That sums with known weights need no transform, and become
products of matrices, is from Bae, Cheon, Hanrot, Park and Stehlé, "Plaintext-ciphertext matrix multiplication",
2024.) Numbers modulo q are cut to limbs of 44 or 35 bits, whose sums are exact in floating point (`_ROWS`): the
product is BLAS's. More than 4096 points of the owner's have further secrets s under the same a_l.

The owner knows e_l, and a_l is public: without *closing*, it could compute the helper's signs. Closing has three
parts:

- *Re-randomisation.* u_m·a' + e'_m is added to the first half, u_m·b' to the second, with b' = a'·s + e'' the owner's
  public key, a' from the seed, and u_m, e'_m the helper's, fresh for each point. The first half then looks random
  even to the owner (ring learning with errors, with u_m as the secret).
- *Flooding.* The second half gets a mask of 16 random bits, times q / t, and noise drawn uniformly from a range of q
  / 2t (2^71 or 2^88). What else is in it, Σ v_ml·e_l + u_m·e'' − e'_m·s, has the size 2^8 (`leak_bits`): so the
  owner's view is within 2^8 / 2^71, per coefficient, of one that does not depend on the signs. All coefficients of a
  conversation together must stay below 2^-40: `modulus_for` chooses the modulus that sees to it.
- *Rounding* of both halves to their first 32 bits, which anybody could do and which only shortens the answer. It adds
  less than 2^12 to the 2^14 that flooding comes to, against 2^15 that decryption corrects: distances are exact,
  always.

*Security.* Secrets are ternary, errors centred binomial with standard deviation 3.24, as in Microsoft SEAL. For n =
4096 the Homomorphic Encryption Standard (2018) allows 109 bits of modulus for 128-bit security; newer guidelines
(Bossuat and others, 2024) ask for a few bits less. There are 88, or 105.
Ring learning with errors is as hard modulo a power of two as modulo any other number of that size (Peikert, Regev and
Stephens-Davidowitz, 2017). Secrets, masks and noise come from the operating system, stretched by ChaCha20.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Bits, Floats, Ints
from fedgeom.crypto.masks import KeyStream
from fedgeom.errors import ProtocolError

PLAIN_BITS = 16
"""Messages are modulo t = 2^16."""
SHORT_BITS = 32
"""How many bits of a number an answer has."""

Limbs = Sequence[Ints]
"""A number modulo q to the base 2^bits, lowest first; limbs may be negative or too large until `Modulus.settled`."""
Short = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Modulus:
    """q = 2^(limbs·bits)."""

    limbs: int
    bits: int

    @property
    def flood_bits(self) -> int:
        """How wide the range of noise is, half of what decryption corrects."""
        return self.limbs * self.bits - PLAIN_BITS - 1

    @property
    def high_bytes(self) -> int:
        """Bytes of a number beyond its first eight."""
        return -(-(self.limbs * self.bits - 64) // 8)

    @property
    def size(self) -> int:
        """Bytes of a number when it travels."""
        return 8 + self.high_bytes

    def settled(self, limbs: Limbs) -> list[Ints]:
        """Carry, so that every limb is below 2^bits, and not negative."""
        found = list[Ints]()
        carried = limbs[0]
        for limb in (*limbs[1:], None):
            found.append(carried & np.int64((1 << self.bits) - 1))
            if limb is not None:
                carried = limb + (carried >> self.bits)
        return found

    def add_message(self, limbs: Limbs, message: npt.NDArray[Any]) -> None:
        """Add a message modulo 2^16 in place, times q / t."""
        limbs[-1][...] += message.astype(np.int64) << (self.bits - PLAIN_BITS)

    def rounded(self, limbs: Limbs) -> Short:
        """Return the first 32 bits, to the nearest; what is below the last limb does not decide."""
        last = self.settled(limbs)[-1]
        return ((last + (1 << self.bits - SHORT_BITS - 1)) >> (self.bits - SHORT_BITS)).astype(np.uint32)

    def to_bytes(self, limbs: Limbs) -> bytes:
        """Write numbers: the first eight bytes of all, then the others of all."""
        settled = [limb.astype(np.uint64).reshape(-1) for limb in self.settled(limbs)]
        low = settled[0] | settled[1] << np.uint64(self.bits)
        high = settled[1] >> np.uint64(64 - self.bits)
        if self.limbs == 3:
            high |= settled[2] << np.uint64(2 * self.bits - 64)
        cut = np.ascontiguousarray(high.astype("<u8").view(np.uint8).reshape(-1, 8)[:, : self.high_bytes])
        return low.astype("<u8").tobytes() + cut.tobytes()

    def from_bytes(self, data: bytes, *shape: int) -> list[Ints]:
        """Read numbers; whatever stands there is one, since q is a power of two."""
        count = math.prod(shape)
        bits = self.bits
        low = np.frombuffer(data, "<u8", count).astype(np.uint64)
        wide = np.zeros((count, 8), np.uint8)
        wide[:, : self.high_bytes] = np.frombuffer(data, np.uint8, offset=8 * count).reshape(count, -1)
        high = wide.view("<u8").astype(np.uint64)[:, 0]
        found = [low, low >> np.uint64(bits) | high << np.uint64(64 - bits), high >> np.uint64(2 * bits - 64 & 63)]
        mask = np.uint64((1 << bits) - 1)
        return [(limb & mask).astype(np.int64).reshape(shape) for limb in found[: self.limbs]]


SMALL = Modulus(2, 44)
LARGE = Modulus(3, 35)


def short_words(data: bytes, *shape: int) -> Short:
    """Read one half of answers."""
    return np.frombuffer(data, "<u4").astype(np.uint32).reshape(shape)


DEGREE = 4096
ERROR_BITS = 21
"""Errors are the ones among so many random bits, less those among as many others."""
ERROR_DEVIATION = math.sqrt(ERROR_BITS / 2)
MARGIN_BITS = 40
"""The owner's view of a whole conversation is within 2^-40 of one that does not depend on the helper's signs."""
SEED_BYTES = 32
_ROWS = 256
"""How many numbers are added up in floating point: 256 of 44 bits stay below 2^53, and so are exact."""
_PIECE = 1 << 16
"""How many bytes the cipher makes at a time."""
_COLUMNS = 1024
"""The same where limbs have a sign, and the other factor is −1, 0 or 1."""
_TWIST = np.exp(1j * np.pi * np.arange(DEGREE // 2) / DEGREE)
_AT_ONCE = 512
"""How many of the helper's points are worked on at a time, for the memory's sake."""


def leak_bits(length: int, answers: int, modulus: Modulus = SMALL) -> float:
    """Return −log2 of the statistical distance that flooding leaves for ``answers`` coefficients in all.

    Each has a sum of ``length`` errors with signs, and two of 4096 errors times −1, 0 or 1. Uniform noise of range W
    hides a shift by e up to |e| / W; the mean of |e| is below the standard deviation.
    """
    deviation = ERROR_DEVIATION * math.sqrt(length + 2 * DEGREE * 2 / 3)
    return modulus.flood_bits - math.log2(deviation * answers)


def modulus_for(length: int, answers: int) -> Modulus:
    """Return the modulus that hides so many coefficients (`leak_bits`) well enough; the larger costs half as much more.

    The smaller one does for 2,000 times 2,000 points at 4,096 bits, the larger for as many as a computer can compare.
    """
    for modulus in (SMALL, LARGE):
        if leak_bits(length, answers, modulus) >= MARGIN_BITS:
            return modulus
    raise ProtocolError(
        f"{answers:,} coefficients over {length:,} bits are more than the noise of lattice encryption hides "
        f"(2^-{MARGIN_BITS}): compare fewer rows at a time, or choose the variant 'ot'"
    )


def _fresh() -> KeyStream:
    return KeyStream(secrets.token_bytes(SEED_BYTES))


def _ternary(stream: KeyStream, *shape: int) -> npt.NDArray[np.int8]:
    """Draw −1, 0 and 1, each with probability 1/3: bytes below 255, modulo 3."""
    count = math.prod(shape)
    kept = np.empty(0, np.uint8)
    while len(kept) < count:
        drawn = stream.words(count // 8 + 64).view(np.uint8)
        kept = np.concatenate([kept, drawn[drawn < 255]])
    return (kept[:count] % 3).astype(np.int8).reshape(shape) - np.int8(1)


def _errors(stream: KeyStream, *shape: int) -> Ints:
    words = stream.words(math.prod(shape))
    mask = np.uint64((1 << ERROR_BITS) - 1)
    ones = np.bitwise_count(words & mask)
    others = np.bitwise_count(words >> np.uint64(ERROR_BITS) & mask)
    found: Ints = ones.astype(np.int64) - others.astype(np.int64)
    return found.reshape(shape)


def _uniform(stream: KeyStream, modulus: Modulus, *shape: int) -> list[Ints]:
    """Draw numbers modulo q, limbs between −2^(bits − 1) and 2^(bits − 1)."""
    words = stream.words(modulus.limbs * math.prod(shape)).view(np.int64).reshape(*shape[:-1], modulus.limbs, -1)
    words &= np.int64((1 << modulus.bits) - 1)
    words -= np.int64(1 << modulus.bits - 1)
    return [words[..., limb, :] for limb in range(modulus.limbs)]


def _blocks(seed: bytes, modulus: Modulus, length: int) -> Iterator[tuple[slice, list[Floats]]]:
    """Yield the rows a_l, some at a time, as limbs in floating point; a' comes before them.

    What is yielded is written over by what comes next. Rows are made one by one, in the processor's cache.
    """
    stream = KeyStream(seed)
    limbs = modulus.limbs
    _uniform(stream, modulus, DEGREE)
    drawn = bytearray(8 * limbs * DEGREE)
    pieces = [memoryview(drawn)[at : at + _PIECE] for at in range(0, len(drawn), _PIECE)]
    words = np.frombuffer(drawn, "<i8").reshape(limbs, DEGREE)
    block = np.empty((limbs, _ROWS, DEGREE))
    mask = np.int64((1 << modulus.bits) - 1)
    half = np.int64(1 << modulus.bits - 1)
    for start in range(0, length, _ROWS):
        rows = slice(start, min(start + _ROWS, length))
        for row in range(rows.stop - start):
            for piece in pieces:
                stream.fill(piece)
            np.bitwise_and(words, mask, out=words)
            np.subtract(words, half, out=words)
            block[:, row] = words
        yield rows, list(block[:, : rows.stop - start])


def _turned(poly: npt.NDArray[np.int8], columns: int) -> Floats:
    """Return the matrix of multiplication by a polynomial, (4096, columns): row j has x^j times it in the ring."""
    twice = np.concatenate([-poly, poly]).astype(np.float64)
    return np.lib.stride_tricks.sliding_window_view(twice[1:], columns)[DEGREE - 1 :: -1]


def _far(poly: npt.NDArray[np.int8] | Ints) -> npt.NDArray[np.complex128]:
    """Return a polynomial's values at half of the roots of x^4096 + 1; at the others they are conjugate."""
    low = poly[..., : DEGREE // 2]
    high = poly[..., DEGREE // 2 :]
    return np.fft.ifft((low + 1j * high) * _TWIST, norm="forward")  # at these roots x^2048 is i


def _times(small: npt.NDArray[np.int8], poly: Limbs, modulus: Modulus, columns: int) -> list[Ints]:
    """Multiply polynomials with coefficients −1, 0, 1, (points, 4096), by one modulo q; return the first coefficients.

    By floating-point transforms of half a limb at a time: products stay below 4096·2^22, where their error is
    below 2^-13, so that rounding makes them exact.
    """
    half = modulus.bits // 2
    far = _far(small)
    found = []
    for limb in poly:
        total = np.zeros((len(small), columns), np.int64)
        for shift, part in ((0, limb & ((1 << half) - 1)), (half, limb >> half)):
            product = np.fft.fft(far * _far(part), norm="forward") * _TWIST.conj()
            whole = np.concatenate([product.real, product.imag], axis=1)[:, :columns]
            total += np.rint(whole).astype(np.int64) << shift
        found.append(total)
    return found


class MatrixKeyHolder:
    """The side that has the secrets; ``points`` may be any number."""

    def __init__(self, points: int, secret: bytes | None = None):
        """Make new secrets, or take up those kept as bytes."""
        self.secret = secrets.token_bytes(SEED_BYTES) if secret is None else secret
        self._points = points
        groups = groups_of(points)
        self._keys = _ternary(KeyStream(self.secret), groups, DEGREE)

    def _matrix(self) -> Floats:
        """Return what a row a_l is multiplied by, (4096, points)."""
        widths = [min(DEGREE, self._points - start) for start in range(0, self._points, DEGREE)]
        return np.hstack([_turned(key, width) for key, width in zip(self._keys, widths, strict=True)])

    def encrypt(self, bits: Bits, modulus: Modulus) -> tuple[bytes, bytes, bytes]:
        """Encrypt bits, (points, length): a seed, public keys, (groups, 4096), and ciphertexts, (length, points)."""
        seed = secrets.token_bytes(SEED_BYTES)
        noise = _fresh()
        matrix = self._matrix()
        length = bits.shape[1]
        a = _uniform(KeyStream(seed), modulus, DEGREE)
        public = _times(self._keys, a, modulus, DEGREE)
        public[0] += _errors(noise, len(self._keys), DEGREE)
        numbers = []
        for rows, limbs in _blocks(seed, modulus, length):
            found = [np.zeros((rows.stop - rows.start, self._points), np.int64) for _ in limbs]
            for part in range(0, DEGREE, _COLUMNS):
                some = slice(part, part + _COLUMNS)
                for total, limb in zip(found, limbs, strict=True):
                    total += (limb[:, some] @ matrix[some]).astype(np.int64)
            found[0] += _errors(noise, *found[0].shape)
            modulus.add_message(found, bits[:, rows].T)
            numbers.append(modulus.to_bytes(found))
        return seed, modulus.to_bytes(public), b"".join(numbers)

    def open(self, first: Short, second: Short) -> npt.NDArray[np.uint16]:
        """Decrypt answers, (helper's points, 4096) and (helper's points, points): sums plus masks, modulo 2^16."""
        known = (first.astype(np.float64) @ self._matrix()).astype(np.int64)  # below 2^44: exact
        phase = second.astype(np.int64) - known
        step = SHORT_BITS - PLAIN_BITS
        return ((phase + (1 << step - 1)) >> step).astype(np.uint16)


def groups_of(points: int) -> int:
    """Return how many secrets so many of the owner's points need."""
    return -(-points // DEGREE)


def ciphertext_bytes(points: int, length: int, modulus: Modulus) -> int:
    """Return how many bytes the ciphertexts have."""
    return points * length * modulus.size


def close_products(
    signs: Floats, masks: npt.NDArray[np.uint16], modulus: Modulus, seed: bytes, public: bytes, numbers: bytes
) -> tuple[Short, Short]:
    """Multiply the helper's signs, (points, length), with what the owner encrypted, and close (the helper's side).

    masks (points, owner's points). Returns both halves of the answers, (points, 4096) and (points, owner's points).
    """
    parts = [slice(start, start + _AT_ONCE) for start in range(0, len(signs), _AT_ONCE)]
    closed = [_close_some(signs[some], masks[some], modulus, seed, public, numbers) for some in parts]
    return np.concatenate([first for first, _ in closed]), np.concatenate([second for _, second in closed])


def _close_some(
    signs: Floats, masks: npt.NDArray[np.uint16], modulus: Modulus, seed: bytes, public: bytes, numbers: bytes
) -> tuple[Short, Short]:
    count, length = signs.shape
    points = masks.shape[1]
    noise = _fresh()
    groups = groups_of(points)
    blind = _ternary(noise, count, DEGREE)
    first = _times(blind, _uniform(KeyStream(seed), modulus, DEGREE), modulus, DEGREE)
    first[0] += _errors(noise, count, DEGREE)
    keys = modulus.from_bytes(public, groups, DEGREE)
    at = range(0, points, DEGREE)
    pieces = [
        _times(blind, [limb[group] for limb in keys], modulus, min(DEGREE, points - start))
        for group, start in enumerate(at)
    ]
    second = [np.hstack([piece[limb] for piece in pieces]) for limb in range(modulus.limbs)]
    taken = 0
    for rows, limbs in _blocks(seed, modulus, length):
        size = ciphertext_bytes(points, rows.stop - rows.start, modulus)
        cipher = modulus.from_bytes(numbers[taken : taken + size], rows.stop - rows.start, points)
        taken += size
        some = np.ascontiguousarray(signs[:, rows])
        for total, limb in zip(first, limbs, strict=True):
            total += (some @ limb).astype(np.int64)
        for total, whole in zip(second, cipher, strict=True):
            total += (some @ whole.astype(np.float64)).astype(np.int64)
    _flood(second, noise, modulus)
    modulus.add_message(second, masks)
    return modulus.rounded(first), modulus.rounded(second)


def _flood(limbs: Limbs, noise: KeyStream, modulus: Modulus) -> None:
    """Add noise, uniform between −2^(flood_bits − 1) and 2^(flood_bits − 1)."""
    left = modulus.flood_bits
    for limb in limbs:
        bits = min(left, modulus.bits)
        left -= bits
        drawn = noise.words(limb.size).reshape(limb.shape) & np.uint64((1 << bits) - 1)
        limb += drawn.astype(np.int64)
    limbs[-1][...] -= np.int64(1 << (modulus.flood_bits - 1) % modulus.bits)
