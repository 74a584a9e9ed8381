"""Oblivious transfer: a few transfers with public keys, extended to many with symmetric ones."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

from fedgeom.arrays import Bits
from fedgeom.crypto.keys import fingerprint
from fedgeom.crypto.masks import KeyStream
from fedgeom.errors import ProtocolError
from fedgeom.memo import memoize

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


@memoize(1)
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
    base = _field()(2)
    r = _exponent()
    c = _exponent()
    return r.to_bytes(EXPONENT_BYTES, "big"), _bytes(base**c) + _bytes(base**r)


def choose(announced: bytes, bits: Sequence[int]) -> tuple[bytes, list[bytes]]:
    """Answer as the receiver: return the offers to send (all P in a row) and the keys of the chosen bits."""
    c = _element(announced[:ELEMENT_BYTES])
    g = _element(announced[ELEMENT_BYTES:])
    base = _field()(2)
    offers = []
    keys = []
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


COLUMNS = 128
"""Base transfers, and bits of Δ: the computational security parameter."""

ROW_BYTES = COLUMNS // 8
BLOCK_BYTES = 16


def new_delta() -> Bits:
    """Draw the sender's secret Δ as 128 zeros and ones."""
    return np.unpackbits(np.frombuffer(secrets.token_bytes(ROW_BYTES), np.uint8))


def _columns(keys: Sequence[bytes], width: int) -> Bits:
    """Stretch each key to ``width`` bytes."""
    stretched = [KeyStream(key).words(-(-width // 8)).astype("<u8").view(np.uint8)[:width] for key in keys]
    return np.stack(stretched)


def transpose(columns: Bits) -> Bits:
    """Turn 8m × n packed bytes (rows of 8n bits) into the 8n × m packed bytes of the transposed bits.

    Squares of 8 × 8 bits sit in one 64-bit word each and are transposed there in three exchanges
    (Warren, *Hacker's Delight*, 7-3).
    """
    high, width = columns.shape
    squares = np.ascontiguousarray(columns.reshape(high // 8, 8, width).transpose(2, 0, 1))
    x = squares.view(">u8").astype(np.uint64)  # (width, high / 8, 1)
    for shift, mask in ((7, 0x00AA00AA00AA00AA), (14, 0x0000CCCC0000CCCC), (28, 0x00000000F0F0F0F0)):
        swapped = (x ^ (x >> np.uint64(shift))) & np.uint64(mask)
        x ^= swapped ^ (swapped << np.uint64(shift))
    turned = x.astype(">u8").view(np.uint8).reshape(width, high // 8, 8)
    return np.ascontiguousarray(turned.transpose(0, 2, 1)).reshape(8 * width, high // 8)


def receiver_columns(pairs: Sequence[tuple[bytes, bytes]], choices: Bits) -> Bits:
    """Return the message u, (128, width) bytes, for choice bits packed in ``width`` bytes."""
    width = len(choices)
    first = _columns([zero for zero, _ in pairs], width)
    first ^= _columns([one for _, one in pairs], width)
    first ^= choices
    return first


def receiver_rows(keys: Sequence[bytes], width: int) -> Bits:
    """Return the receiver's rows t_i, (8·width, 16) bytes, from the first key of each pair."""
    return transpose(_columns(keys, width))


def sender_rows(delta: Bits, keys: Sequence[bytes], message: Bits) -> Bits:
    """Return the sender's rows q_i, (8·width, 16) bytes."""
    columns = _columns(keys, message.shape[1])
    columns ^= message * delta[:, None]
    return transpose(columns)


class RowHash:
    """The hash that turns rows into strings, for many rows at once."""

    def __init__(self, key: bytes, length: int):
        self._encryptor = Cipher(AES(key), ECB()).encryptor()
        self.length = length
        """Bytes of a string."""
        self._blocks = -(-length // BLOCK_BYTES)
        self._room = np.empty((3, 0), np.uint64)

    def _permute(self, blocks: npt.NDArray[np.uint64], out: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """Apply π to 128-bit blocks; ``out`` has two words to spare, as the cipher asks for."""
        self._encryptor.update_into(blocks.data.cast("B"), out.data.cast("B"))
        return out[:-2].reshape(blocks.shape)

    def __call__(self, rows: Bits, first: int) -> Bits:
        """Hash the rows numbered from ``first``; return (rows, length) bytes, good until the next call.

        Fresh memory for each call would cost several times the hash.
        """
        count = len(rows)
        size = 2 * count * self._blocks + 2
        if self._room.shape[1] != size:
            self._room = np.empty((3, size), np.uint64)
        inner = self._permute(np.ascontiguousarray(rows).view(np.uint64), self._room[0, : 2 * count + 2])
        tweaked = self._room[1, :-2].reshape(-1, 2)
        tweaked[:] = np.repeat(inner, self._blocks, axis=0)
        tweaks = np.arange(first * self._blocks, (first + count) * self._blocks, dtype="<u8").view(np.uint64)
        tweaked[:, 0] ^= tweaks
        hashed = self._permute(tweaked, self._room[2])
        tweaked[:, 0] ^= tweaks  # π(x) again
        hashed ^= tweaked
        return hashed.view(np.uint8).reshape(count, -1)[:, : self.length]
