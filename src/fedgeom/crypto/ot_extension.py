"""Hundreds of thousands of oblivious transfers from 128, with symmetric cryptography only.

The extension of Ishai, Kilian, Nissim and Petrank ("Extending oblivious transfers efficiently", CRYPTO
2003) with the shorter message of Asharov, Lindell, Schneider and Zohner (CCS 2013), for parties that
follow the protocol. In the base transfers the roles are turned round: the extension's *receiver* has
both keys of each of the 128, its *sender* one, chosen by the bits of a secret Δ of its own.

- The receiver stretches the keys of base transfer j to columns t_j and t'_j of N bits and sends
  u_j = t_j ⊕ t'_j ⊕ x, where x are its N choice bits.
- The sender has t_j (if Δ_j = 0) or t'_j, and so q_j = t_j ⊕ Δ_j·x.
- Read along rows: q_i = t_i ⊕ x_i·Δ. Hashed, row i of the sender gives two strings, the hashes of q_i and of
  q_i ⊕ Δ, of which the receiver can compute the first if x_i = 0 and the second if x_i = 1.

Columns are ChaCha20 key streams. The hash of row x under tweak i is π(π(x) ⊕ i) ⊕ π(x), with π = AES-128 under a
public key: TMMO of Guo, Katz, Wang and Yu ("Efficient and secure multiparty computation from fixed-key
block ciphers", S&P 2020), who show it to be tweakable correlation robust with π as an ideal
permutation. A string longer than a block is the hashes under successive tweaks; each pair of row and
block has a tweak of its own. The key of π is fresh for each extension, so that work spent on one does
not serve another.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

from fedgeom.arrays import Bits
from fedgeom.crypto.masks import KeyStream

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
