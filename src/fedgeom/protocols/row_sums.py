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
from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.crypto.masks import add_masks
from fedgeom.crypto.rings import Ring, Vector
from fedgeom.errors import ProtocolError, TooFewSitesError
from fedgeom.federation.messages import Array, Question
from fedgeom.protocols.cohort import Cohort, SecureMemory
from fedgeom.protocols.secure_sum import MaskedVector, Ticket, about, pair_key
from fedgeom.protocols.summing_site import SummingSite

Blocks = Mapping[str, tuple[int, int]]
"""For each site, where its rows begin and end."""


@dataclass(frozen=True)
class Hidden:
    """What the coordinator holds in the end: for each site, its block of the sum, masked for all but it."""

    blocks: dict[str, Vector]
    ticket: Ticket


Ask = Callable[[str, Ticket], Question]


def row_sums(
    cohort: Cohort,
    rounds: Iterable[int],
    ask: Ask,
    *,
    modulus: int,
    rows_of: Callable[[tuple[str, ...]], Blocks],
    columns: int,
    among: Iterable[str],
    smallest: int = 2,
) -> Hidden:
    """Ask for masked matrices until all of the sites that are left have sent theirs.

    ``ask`` makes a site's question from its ticket; ``rows_of`` lays out the rows of the sites that are left.
    """
    ring, left = Ring(modulus), tuple(sorted(among))
    for round in rounds:
        layout = rows_of(left)
        height = max(end for _, end in layout.values())
        ticket = Ticket(round=round, modulus=str(modulus), members=cohort.names, participants=left)
        ticket = msgspec.structs.replace(ticket, about=about(ask(left[0], ticket)))
        questions = {name: ask(name, msgspec.structs.replace(ticket, letters=cohort.mail[name])) for name in left}
        masked = cohort.sites.ask(questions, expect=MaskedVector)
        parts = {}
        for name, answer in masked.items():
            part = answer.vector.numpy()
            begin, end = layout[name]
            if part.dtype == np.uint64 and part.shape == ((height - end + begin) * columns,):
                parts[name] = part.reshape(-1, columns)
            else:
                masked.missing[name] = "sent a matrix of the wrong size"
        if len(parts) == len(left):
            return Hidden(_add(parts, layout, height, columns, ring), ticket)
        left = tuple(sorted(parts))
        if len(left) < smallest:
            masked.came = {name: masked.came[name] for name in left}
            masked.need(smallest, "with their masked rows")
    raise TooFewSitesError("sites were lost in every attempt at the row sums; nothing was revealed: run again")


def _add(parts: Mapping[str, Vector], layout: Blocks, height: int, columns: int, ring: Ring) -> dict[str, Vector]:
    total = np.zeros((height, columns), np.uint64)
    for name, part in parts.items():
        begin, end = layout[name]
        total[:begin] = ring.add(total[:begin], part[:begin])
        total[end:] = ring.add(total[end:], part[begin:])
    return {name: total[begin:end].ravel() for name, (begin, end) in layout.items()}


Mem = TypeVar("Mem", bound=SecureMemory)


class RowSite(SummingSite[Mem]):
    """A site that can take part in row sums."""

    def mask_rows(self, ticket: Ticket, matrix: npt.NDArray[np.uint64], own: tuple[int, int]) -> MaskedVector:
        """Hide a matrix of ring elements and leave the site's own rows out (`admit` comes first)."""
        self.remember_vector(ticket.round, matrix)
        masks = self._row_masks(ticket, matrix.size)
        hidden = ticket.ring.add(ticket.ring.check(matrix.ravel()), masks).reshape(matrix.shape)
        return MaskedVector(vector=Array.of(np.concatenate([hidden[: own[0]], hidden[own[1] :]]).ravel()))

    def unmask_rows(
        self, ticket: Ticket, block: Vector, part: npt.NDArray[np.uint64], own: tuple[int, int], height: int
    ) -> Vector:
        """Take this site's masks off its block of the sum, and add its own part of it."""
        begin, end = own
        if block.dtype != np.uint64 or block.shape != (part.size,) or len(part) != end - begin:
            raise ProtocolError("the block that came back has the wrong size")
        ring, columns = ticket.ring, part.shape[1]
        masks = self._row_masks(ticket, height * columns)[begin * columns : end * columns]
        # The others' masks with this site stand in the block with their sign, the opposite of ours.
        return ring.add(ring.add(ring.reduce(block), masks), ring.check(part.ravel()))

    def _row_masks(self, ticket: Ticket, size: int) -> Vector:
        memory, me = self.memory, self.badge.name
        plus: list[bytes] = []
        minus: list[bytes] = []
        for peer in set(memory.peers) & set(ticket.participants):
            public = memory.cohort[peer].masks[ticket.round]
            key = pair_key(memory.mask_secrets[ticket.round], public, self.run, ticket.about, me, peer)
            (plus if me < peer else minus).append(key)
        if not plus and not minus:
            raise ProtocolError("no peer is left to mask with")
        return add_masks(np.zeros(size, np.uint64), ticket.ring, plus=plus, minus=minus)
