"""Secure row sums: the sum of the sites' matrices, of which each site learns its own rows and nobody more.

After Section 3.2 of the XCLP paper. Rows are divided among the sites. A site masks its matrix with the masks
it shares with each peer and sends it *without its own rows*. In the coordinator's sum all masks cancel but
those of a block's owner, so every block stays hidden; the coordinator returns each block to its owner, who
takes its masks away and adds its own part.

Nothing is ever unmasked for the coordinator, so there is no recovery: if a vector is missing, the sum starts
anew among the rest, with the keys of another round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Words
from fedgeom.crypto.masks import Ring, add_masks
from fedgeom.errors import ProtocolError, TooFewSitesError
from fedgeom.federation.messages import Array
from fedgeom.federation.site import Part
from fedgeom.protocols.join.coordinator import Joined
from fedgeom.protocols.secure_sum.coordinator import make_out, with_mail
from fedgeom.protocols.secure_sum.messages import MaskedVector, SumQuestion, Ticket
from fedgeom.protocols.secure_sum.site import SumPart

Blocks = Mapping[str, tuple[int, int]]
"""For each site, where its rows begin and end."""


@dataclass(frozen=True)
class MaskedRowSums:
    """What the coordinator holds in the end: for each site, its block of the sum, masked for all but it."""

    blocks: dict[str, Words]
    """(rows·columns,) for each site."""
    ticket: Ticket


Ask = Callable[[str, tuple[str, ...]], SumQuestion]
"""From a site and all participants to the site's question."""


def row_sums(
    joined: Joined,
    rounds: Iterable[int],
    ask: Ask,
    *,
    modulus: int,
    layout: Callable[[tuple[str, ...]], Blocks],
    columns: int,
    participants: Iterable[str],
    min_sites: int = 2,
) -> MaskedRowSums:
    """Ask for masked matrices until all of the sites that are left have sent theirs.

    ``layout`` lays out the rows of the sites that are left.
    """
    ring = Ring(modulus)
    left = tuple(sorted(participants))
    for round in rounds:
        blocks = layout(left)
        height = max(end for _, end in blocks.values())
        ticket = make_out(ask(left[0], left), joined, round, modulus, left).ticket
        questions = {
            name: with_mail(msgspec.structs.replace(ask(name, left), ticket=ticket), joined.mail[name])
            for name in left
        }
        masked = joined.sites.ask(questions, expect=MaskedVector)
        joined.delivered(masked)
        parts = {}
        for name, answer in masked.items():
            part = answer.vector.view()
            begin, end = blocks[name]
            if part.dtype == np.uint64 and part.shape == ((height - end + begin) * columns,):
                parts[name] = part.reshape(-1, columns)
            else:
                masked.missing[name] = "sent a matrix of the wrong size"
                joined.sites.leave_out(name, masked.missing[name])
        if len(parts) == len(left):
            return MaskedRowSums(_add(parts, blocks, height, columns, ring), ticket)
        left = tuple(sorted(parts))
        if len(left) < min_sites:
            masked.came = {name: masked.came[name] for name in left}
            masked.need(min_sites, "with their masked rows")
    raise TooFewSitesError("sites were lost in every attempt at the row sums; nothing was revealed: run again")


def _add(parts: Mapping[str, Words], blocks: Blocks, height: int, columns: int, ring: Ring) -> dict[str, Words]:
    total = np.zeros((height, columns), np.uint64)
    for name, part in parts.items():
        begin, end = blocks[name]
        total[:begin] = ring.add(total[:begin], part[:begin])
        total[end:] = ring.add(total[end:], part[begin:])
    return {name: total[begin:end].ravel() for name, (begin, end) in blocks.items()}


class RowSumsMemory(msgspec.Struct, kw_only=True):
    """What a site remembers of the row sum it took part in last."""

    ticket: Ticket | None = None
    """The ticket, without the mail."""
    own: Array | None = None
    """(own rows, columns), u8: the site's own rows of what it added."""
    own_rows: tuple[int, int] = (0, 0)
    height: int = 0


class RowSums(Part[RowSumsMemory]):
    """Takes part in row sums."""

    name: ClassVar[str] = "row_sums"

    @classmethod
    def unmasked(cls) -> type[Part[Any]]:
        """Return the part that adds to the row sums of a plain run."""
        return OpenRowSums

    @property
    def sums(self) -> SumPart:
        """The part that knows the masks."""
        found: SumPart = self.site.sums  # type: ignore[attr-defined]
        return found

    def mask(self, ticket: Ticket, matrix: npt.NDArray[np.uint64], own: tuple[int, int]) -> MaskedVector:
        """Hide a matrix of ring elements, leave the site's own rows out, and remember those."""
        self.sums.remember_vector(ticket.round, matrix)
        masks = self._masks(ticket, matrix.size)
        hidden = ticket.ring.add(ticket.ring.check(matrix.ravel()), masks).reshape(matrix.shape)
        memory = self.memory
        memory.ticket = _without_mail(ticket)
        memory.own_rows = own
        memory.height = len(matrix)
        memory.own = Array.of(matrix[own[0] : own[1]])
        sent = np.concatenate([hidden[: own[0]], hidden[own[1] :]]).ravel()
        return MaskedVector(vector=Array.of(sent), signature=self.sums.sign_masked(ticket.round))

    def unmask(self, ticket: Ticket, block: Words) -> npt.NDArray[np.uint64]:
        """Take this site's masks off its block of the sum, and add its own part of it."""
        memory = self.memory
        if memory.own is None or memory.ticket != _without_mail(ticket):
            raise ProtocolError("a result came of a sum that this site did not contribute to")
        part = memory.own.numpy()
        begin, end = memory.own_rows
        if block.dtype != np.uint64 or block.shape != (part.size,):
            raise ProtocolError("the block that came back has the wrong size")
        ring = ticket.ring
        columns = part.shape[1]
        masks = self._masks(ticket, memory.height * columns)[begin * columns : end * columns]
        # The others' masks with this site stand in the block with their sign, the opposite of ours.
        whole = ring.add(ring.add(ring.reduce(block), masks), ring.check(part.ravel()))
        return whole.reshape(part.shape)

    def _masks(self, ticket: Ticket, size: int) -> Words:
        plus, minus = self.sums.pair_keys(ticket)
        if not plus and not minus:
            raise ProtocolError("no peer is left to mask with")
        return add_masks(np.zeros(size, np.uint64), ticket.ring, plus=plus, minus=minus)


class OpenRowSums(RowSums):
    """Takes part in the row sums of a plain run, where all masks are zero."""

    def _masks(self, ticket: Ticket, size: int) -> Words:
        return np.zeros(size, np.uint64)


def _without_mail(ticket: Ticket) -> Ticket:
    return msgspec.structs.replace(ticket, letters={})
