"""The draw of the ring: with many sites, who masks with whom is settled by numbers that were committed to before.

So are groups of sites that are summed apart, of however many sites (`fedgeom.protocols.secure_sum.groups`).

The order on the ring is a hash of everybody's keys and of one number from each site. A site commits to its numbers when
it shows its keys (the end of a chain of hashes), and shows the next one only after it has seen the whole cohort: who
shows keys last cannot try keys until the ring suits. A site that is lost in a draw means another draw over those that
are left, with the next numbers; there are `DRAWS` of them, so that losing sites on purpose buys so many rings at most.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import ClassVar

import msgspec

from fedgeom.crypto.neighbours import COMPLETE_UP_TO
from fedgeom.errors import ProtocolError
from fedgeom.federation.site import Part, answers
from fedgeom.protocols.joining.cohorts import broken_commitments, hash_cohort, hash_each, pack_cohort
from fedgeom.protocols.joining.messages import DRAWS, DrawRing, PublicKeys, RingNumber, follow_chain


class RingMemory(msgspec.Struct, kw_only=True):
    """What a site remembers of the draws."""

    secret: bytes = b""
    """Where the chain of numbers begins."""
    draws: dict[int, bytes] = {}
    """For each draw a hash of the cohort for which the number was shown."""
    cohort: dict[str, bytes] = {}
    """The cohort of the last draw: a hash of each site's keys."""


class RingDraw(Part[RingMemory]):
    """Commits to numbers, shows each for one cohort, and checks those of the others."""

    name: ClassVar[str] = "ring"

    def commit(self) -> bytes:
        """Return the end of this site's chain, which is made once."""
        memory = self.memory
        memory.secret = memory.secret or secrets.token_bytes(32)
        return follow_chain(memory.secret, DRAWS)

    @answers(DrawRing)
    def show_number(self, ask: DrawRing) -> RingNumber:
        """Show the number of a draw, for one cohort and no other."""
        memory, joining = self.memory, self.site.joining  # type: ignore[attr-defined]
        if not 0 <= ask.draw < DRAWS:
            raise ProtocolError(f"draw {ask.draw + 1} of the ring is asked for; a run has {DRAWS}")
        joining.check_cohort(ask.cohort)
        if not self._is_drawn(len(ask.cohort)):
            raise ProtocolError(
                f"{len(ask.cohort)} sites need no ring; it is drawn for more than {COMPLETE_UP_TO}"
            )
        packed = pack_cohort(ask.cohort)
        over = hash_cohort(packed)
        if ask.draw not in memory.draws:
            shown = dict(hash_each(packed))
            anew = not memory.draws or (ask.draw > max(memory.draws) and shown.items() < memory.cohort.items())
            if joining.memory.cohort or not anew:
                raise ProtocolError(
                    "the ring was drawn; it is drawn anew, with the next number, when a site was lost"
                )
            memory.draws[ask.draw], memory.cohort = over, shown
        if memory.draws[ask.draw] != over:
            raise ProtocolError(f"the number of draw {ask.draw + 1} was shown for another cohort")
        return RingNumber(number=follow_chain(memory.secret, DRAWS - 1 - ask.draw))

    def _is_drawn(self, sites: int) -> bool:
        """Whether the order of so many sites is drawn: that of many is, and wherever the terms have drawn groups."""
        draw = getattr(self.site.joining.settings, "group_draw", None)  # type: ignore[attr-defined]
        return sites > COMPLETE_UP_TO or (draw is not None and draw.by == "sites")

    def check(self, cohort: Mapping[str, PublicKeys], numbers: Mapping[str, bytes], draw: int) -> None:
        """Refuse a ring that does not follow from the numbers to which the sites of this cohort have committed."""
        if not self._is_drawn(len(cohort)):
            if numbers or draw:
                raise ProtocolError(f"{len(cohort)} sites need no ring, but came with numbers for one")
            return
        draws, packed = self.memory.draws, pack_cohort(cohort)
        if not draws or draw != max(draws) or draws[draw] != hash_cohort(packed):
            raise ProtocolError(
                "this is not the cohort, or not the draw, for which this site showed its last number"
            )
        if set(numbers) != set(cohort):
            raise ProtocolError("the ring's numbers are not those of the sites of the cohort, one from each")
        wrong = broken_commitments(packed, msgspec.msgpack.encode(dict(numbers), order="sorted"), draw)
        if wrong:
            raise ProtocolError(f"the ring's numbers of {', '.join(wrong[:8])} are not those committed to")
