"""Hamming distances by oblivious transfer: one transfer for each of the asker's bits.

After Bringer, Chabanne and Patey ("SHADE", 2013) and Section 3.2 of the XCLP paper, with two changes. One
transfer carries the strings of *all* the helper's points, so that sites of 100 points with L = 4096 need 4·10^5
transfers and not 4·10^7. And the strings are correlated: for bit a of the asker and bits b_m of the helper
the asker should get r_m + a·(1 − 2·b_m), where r_m is random. The helper takes r from the first hash of
the row (see `fedgeom.crypto.oblivious_transfer`) and sends the one correction that turns the second hash into
r + (1 − 2b). Modulo 2^16, summed over the L bits,

    T − R = Σ_l [r_l + a_l·(1 − 2·b_l)] − Σ_l r_l + Σ_l b_l = Σ_l (a_l ⊕ b_l) = h(a, b).

Letters: the announcement of the base transfers (asker), the offers (helper), the columns of the extension (asker),
the corrections (helper): 128 bits and 2·n_B bytes for each of the asker's bits. No library beyond those the
package needs anyway.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fedgeom.crypto import oblivious_transfer
from fedgeom.crypto.keys import KEY_BYTES, fingerprint
from fedgeom.crypto.oblivious_transfer import (
    COLUMNS,
    RowHash,
    new_delta,
    receiver_columns,
    receiver_rows,
    sender_rows,
)
from fedgeom.protocols.hamming.bits import (
    PackedBits,
    PairMessage,
    PairTurn,
    Share,
    letter_size,
    read,
    recall,
    write,
)


class Announcement(PairMessage, frozen=True, tag="ot.announcement"):
    """The asker's part of the base transfers."""

    elements: bytes


class Offers(PairMessage, frozen=True, tag="ot.offers"):
    """The helper's part of the base transfers."""

    elements: bytes


class ExtensionColumns(PairMessage, frozen=True, tag="ot.columns"):
    """The extension's message: choice bits under one key stream that the helper lacks, column by column."""

    columns: bytes


class Corrections(PairMessage, frozen=True, tag="ot.corrections"):
    """For each of the asker's bits and each of the helper's points, a number modulo 2^16."""

    numbers: bytes


class _Announced(PairMessage, frozen=True, tag="ot.announced"):
    secret: bytes
    announcement: bytes


class _Chosen(PairMessage, frozen=True, tag="ot.chosen"):
    delta: bytes
    keys: bytes
    hash_key: bytes


class _Extended(PairMessage, frozen=True, tag="ot.extended"):
    keys: bytes
    hash_key: bytes


_ANNOUNCEMENT = 2 * oblivious_transfer.ELEMENT_BYTES
_OFFERS = COLUMNS * oblivious_transfer.ELEMENT_BYTES


def _hash_key(announcement: bytes, offers: bytes) -> bytes:
    return fingerprint(b"fedgeom/1 row hash", announcement, offers)[:16]


def _cut(keys: bytes) -> list[bytes]:
    return [keys[at : at + KEY_BYTES] for at in range(0, len(keys), KEY_BYTES)]


class ObliviousTransfer:
    """The variant ``ot``: fast everywhere, at the price of traffic."""

    name: ClassVar[str] = "ot"
    passes: ClassVar[int] = 4
    group: int = 1

    def sizes(self, asker: int, helper: int, length: int) -> tuple[int, ...]:
        """Return how many bytes each letter has."""
        width = -(-length // 8)
        return (
            letter_size(Announcement, elements=_ANNOUNCEMENT),
            letter_size(Offers, elements=_OFFERS),
            letter_size(ExtensionColumns, columns=COLUMNS * asker * width),
            letter_size(Corrections, numbers=2 * asker * 8 * width * helper),
        )

    def begin(self, mine: PackedBits, theirs: int) -> PairTurn:
        """Announce the base transfers (asker)."""
        secret, announcement = oblivious_transfer.announce()
        return PairTurn(write(_Announced(secret, announcement)), write(Announcement(announcement)), None)

    def step_b(self, mine: PackedBits, theirs: int, state: bytes | None, letter: bytes) -> PairTurn:
        """Make the offers, then answer the columns with corrections (helper)."""
        if state is None:
            return self._offer(letter)
        return self._correct(mine, theirs, recall(state, _Chosen), letter)

    def step_a(self, mine: PackedBits, theirs: int, state: bytes, letter: bytes) -> PairTurn:
        """Answer the offers with the columns, then end with the corrections (asker)."""
        own = recall(state, _Announced | _Extended)
        if isinstance(own, _Announced):
            return self._extend(mine, own, letter)
        return self._end(mine, theirs, own, letter)

    def _offer(self, letter: bytes) -> PairTurn:
        announcement = read(letter, Announcement, elements=_ANNOUNCEMENT).elements
        delta = new_delta()
        offers, keys = oblivious_transfer.choose(announcement, delta.tolist())
        state = _Chosen(np.packbits(delta).tobytes(), b"".join(keys), _hash_key(announcement, offers))
        return PairTurn(write(state), write(Offers(offers)), None)

    def _extend(self, mine: PackedBits, own: _Announced, letter: bytes) -> PairTurn:
        offers = read(letter, Offers, elements=_OFFERS).elements
        pairs = oblivious_transfer.key_pairs(own.secret, own.announcement, offers)
        columns = receiver_columns(pairs, mine.rows.ravel())
        kept = _Extended(b"".join(zero for zero, _ in pairs), _hash_key(own.announcement, offers))
        return PairTurn(write(kept), write(ExtensionColumns(columns.tobytes())), None)

    def _correct(self, mine: PackedBits, theirs: int, own: _Chosen, letter: bytes) -> PairTurn:
        count = len(mine)
        width = mine.rows.shape[1]
        message = read(letter, ExtensionColumns, columns=COLUMNS * theirs * width).columns
        delta = np.frombuffer(own.delta, np.uint8)
        rows = sender_rows(
            np.unpackbits(delta), _cut(own.keys), np.frombuffer(message, np.uint8).reshape(COLUMNS, -1)
        )
        strings = RowHash(own.hash_key, 2 * count)
        places = 8 * width
        signs = np.uint16(1) - np.uint16(2) * np.unpackbits(mine.rows, axis=1).T.astype(np.uint16, order="C")
        corrections = np.empty((theirs, places, count), "<u2")
        share = np.empty((theirs, count), np.uint16)
        for at in range(theirs):  # one of the asker's points at a time: memory stays small
            block = rows[at * places : (at + 1) * places]
            corrections[at] = strings(block, at * places).view("<u2")
            share[at] = corrections[at].sum(axis=0, dtype=np.uint16)
            corrections[at] += signs
            corrections[at] -= strings(block ^ delta, at * places).view("<u2")
        return PairTurn(None, write(Corrections(corrections.tobytes())), share - mine.weights())

    def _end(self, mine: PackedBits, theirs: int, own: _Extended, letter: bytes) -> PairTurn:
        count = len(mine)
        width = mine.rows.shape[1]
        places = 8 * width
        numbers = read(letter, Corrections, numbers=2 * count * places * theirs).numbers
        corrections = np.frombuffer(numbers, "<u2").reshape(count, places, theirs)
        rows = receiver_rows(_cut(own.keys), mine.rows.size)
        strings = RowHash(own.hash_key, 2 * theirs)
        bits = np.unpackbits(mine.rows, axis=1)
        share: Share = np.empty((count, theirs), np.uint16)
        for at in range(count):
            got = strings(rows[at * places : (at + 1) * places], at * places).view("<u2")
            share[at] = got.sum(axis=0, dtype=np.uint16)
            share[at] += corrections[at][bits[at] == 1].sum(axis=0, dtype=np.uint16)
        return PairTurn(None, None, share)
