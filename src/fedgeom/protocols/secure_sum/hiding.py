"""Over whom a site lets its vector be summed: every site on a list must hide among enough others.

The rules look at what is signed, so participants and witnesses keep to the same ones: a coordinator could otherwise ask
those that see less. What a site's policy asks for is signed with its keys, and its neighbours hold the coordinator to
it: whoever is enough to unmask a site need not ask the site itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache

import msgspec
import numpy as np

from fedgeom.crypto.keys import hash_names
from fedgeom.crypto.neighbours import COMPLETE_UP_TO, smallest_part
from fedgeom.errors import ProtocolError
from fedgeom.protocols.joining.cohorts import strictest_policy
from fedgeom.protocols.joining.name_lists import NO_NAMES, in_order, name_set, read_names
from fedgeom.protocols.joining.site import Joining
from fedgeom.protocols.secure_sum.messages import SumQuestion

MIXED = 0.8
"""A weighted sum must mix at least this share of as many sites as the policy asks for."""


class SumRound(msgspec.Struct, kw_only=True):
    """What a site remembers of one round: no mask serves twice."""

    question_hash: bytes = b""
    """The question that was admitted, or witnessed."""
    content: bytes = b""
    """What it asks for, whichever round and sites it is for (`hash_content`)."""
    participants_bytes: memoryview = NO_NAMES
    """The sites that it was masked for, encoded."""
    vector_hash: bytes = b""
    """A keyed hash of the vector that was masked."""
    confirmed: bytes = b""
    """The list of the living that was signed."""
    factors: dict[str, float] = {}
    """The sites' weights in the sum, where they are not all alike."""
    everybody: bool = False
    """Whether it is a sum over all sites still there: who is lost in it stays away from the next."""

    @property
    def participants(self) -> tuple[str, ...]:
        """The sites that it was masked for; none before a question was admitted or witnessed."""
        return read_names(self.participants_bytes)


class SumsMemory(msgspec.Struct, kw_only=True):
    """What a site remembers of its secure sums, by round. Sets of sites are bits, in the order of members' names."""

    rounds: dict[int, SumRound] = {}
    contents: dict[bytes, bytes] = {}
    """For what was asked, by a hash that leaves the ticket out, a hash of the sites that it was to be summed over."""
    signed: dict[bytes, bytes] = {}
    """For what was asked, the living under whose list the site put its signature."""
    summed: tuple[bytes, ...] = ()
    """All sets of the living that the site signed, each once."""
    living: bytes = b""
    """Those who are left of the sums over all sites; empty: nobody was lost so far."""


@lru_cache(maxsize=16)  # the same for all sites of a process
def _bits(members: tuple[str, ...], names: frozenset[str]) -> bytes:
    return np.packbits([name in names for name in sorted(members)]).tobytes()


class Hiding:
    """Checks over whom is summed, by what the site has signed so far."""

    def __init__(self, joining: Joining, memory: SumsMemory):
        self.joining, self.memory = joining, memory

    def check_participants(
        self,
        question: SumQuestion,
        content: bytes,
        expected: Collection[str] | None,
        group: Collection[str] = (),
    ) -> None:
        """Refuse a sum over other sites than the terms say, or over some that hide this site too little.

        ``expected`` are those that the terms draw for it; None: all that are left of the sums before. ``group``: the
        drawn group that it is a sum of, if it is one.
        """
        joined, me = self.joining.memory, self.joining.site.name
        participants = name_set(question.ticket.participants)
        self.check_many_enough(participants)
        if not in_order(question.ticket.participants):
            raise ProtocolError("the participants must be named once each, in alphabetical order")
        near = {me, *joined.peers} & participants
        if len(near) < min(self.joining.site.policy.min_cohort, 1 + len(joined.peers)):
            raise ProtocolError(
                f"only {len(near) - 1} of this site's peers are summed with it; they hide it too little"
            )
        if expected is None and self.memory.living:
            expected = self.names(self.memory.living)
        strange = sorted(participants - set(expected)) if expected is not None else []
        if strange:
            raise ProtocolError(
                f"{', '.join(strange[:8])} cannot be in this sum, which by the terms, the seed and the sums before is "
                f"over {len(set(expected or ()))} other sites: lost sites only make a sum smaller"
            )
        if question.row_sum:  # of which nobody sees a sum
            return
        over = hash_names(question.ticket.participants)[:16]
        if self.memory.contents.setdefault(content[:16], over) != over:
            raise ProtocolError(
                "the same was summed over other sites in this run; the difference would show who is missing"
            )
        self.check_difference(participants, group)

    def check_living(self, page: SumRound, alive: Collection[str], group: Collection[str] = ()) -> None:
        """Refuse to sign a list under which some site would hide among too few, alone or by the difference of two sums.

        That is so where the weights of the living make the sum nearly one site's own, where the graph of masks over
        the living falls apart, and where a sum was signed before that differs by few sites.
        """
        alive = name_set(tuple(alive))
        least = self.check_many_enough(alive)
        if page.factors:
            self.check_mixture({name: page.factors.get(name, 0.0) for name in alive}, least)
        joined = self.joining.memory
        if len(joined.cohort) > COMPLETE_UP_TO:  # with fewer sites, everybody masks with everybody
            few = self.joining.settings.smallest_sum(len(joined.cohort))
            part = smallest_part(tuple(sorted(joined.cohort)), joined.cohort_seed, tuple(sorted(set(alive))), few)
            if part < least:
                raise ProtocolError(
                    f"of the living sites {part} share masks with each other only; the policy asks for {least}"
                )
        signed = self.memory.signed.get(page.content[:16])
        if signed is not None and signed != self.bits(alive):
            raise ProtocolError(
                "a sum of the same was signed with other living sites; the difference would show who is missing"
            )
        self.check_difference(alive, group)

    def remember(self, page: SumRound, alive: Collection[str]) -> None:
        """Take note of a list of the living that is signed."""
        living, memory = self.bits(alive), self.memory
        memory.signed[page.content[:16]] = living
        if living not in memory.summed:
            memory.summed = (*memory.summed, living)
        if page.everybody:
            memory.living = living

    def check_many_enough(self, alive: Iterable[str]) -> int:
        """Refuse what would be summed over fewer sites than a policy of theirs asks for; return how many that are."""
        names, joined = frozenset(alive), self.joining.memory  # of a frozen set, no copy
        self.joining.check_many_enough(names)
        strictest, wanted = strictest_policy(joined.cohort_seed, names, joined.cohort)
        least = max(wanted, self.joining.site.policy.min_cohort)
        if len(names) < least:
            raise ProtocolError(
                f"{len(names)} sites are left; the policy of {strictest!r} asks for at least {least}"
            )
        return least

    def check_mixture(self, factors: Mapping[str, float], least: int = 0) -> None:
        """Refuse weights under which the sum is nearly one site's own vector.

        (Σf)²/Σf² is how many sites a weighted sum really mixes.
        """
        values = np.array([value for value in factors.values() if value > 0])
        mixed = float(values.sum() ** 2 / max(float((values**2).sum()), 1e-300))
        least = max(least, self.joining.site.policy.min_cohort)
        if len(values) < least or mixed < MIXED * least:
            raise ProtocolError(
                f"the weights make this a sum of {mixed:.1f} sites; the policy asks for {least}. Weigh the sites alike "
                '(such as closeness=False, trust="none"), or take fewer clusters or more sites'
            )

    def check_difference(self, alive: Iterable[str], group: Collection[str] = ()) -> None:
        """Refuse a sum that differs by a few sites from one before: the difference is a sum over these few.

        Sums of different kinds have things in common, such as the number of rows, so all are looked at. So says the
        policy of this site, or of one of the few, unless it has ``sums_after_losses``. Of two sums one must then hold
        the other, or they must be apart: with x, x - v - a - b, x - v - c - d and x - a - b - c - d, no two of which
        differ by fewer than three sites, v follows all the same. The differences of sums that hold each other are sums
        over sites that are apart, and nothing smaller follows from them. So who was lost stays away, and where a share
        of the sites is drawn in each round, a second draw is refused.

        Where the others are summed in groups of their own, a sum over all less those of all groups is a sum over who is
        missing in this group: who must not be few.
        """
        new = int.from_bytes(self.bits(alive), "big")
        inside = int.from_bytes(self.bits(group), "big")
        for bits in self.memory.summed:
            known = int.from_bytes(bits, "big")
            if known == new or not known & new:
                continue
            crossing = bool(known & ~new and new & ~known)
            for few in (known ^ new, known & inside & ~new):
                self._check_few(self.names(few.to_bytes(len(bits), "big")), crossing=crossing)

    def _check_few(self, names: list[str], *, crossing: bool) -> None:
        """Refuse two sums whose difference is a sum over these sites, where that are too few; none are none."""
        cohort, policy = self.joining.memory.cohort, self.joining.site.policy
        least = 0 if policy.sums_after_losses else policy.min_cohort
        least = max([least, *(cohort[name].min_difference for name in names if name in cohort)])
        if not names or not least or (len(names) >= least and not crossing):
            return
        why = (
            "neither holds the other, so that with a third one less than these would follow"
            if crossing and len(names) >= least
            else f"the difference of both is a sum over these; a policy asks for {least}"
        )
        raise ProtocolError(
            f"this sum differs from one before by {len(names)} sites ({', '.join(names[:8])}): {why} "
            "(sums_after_losses = false). Resume the run when lost sites are back, or run again with those "
            "that are left, and with share=1 where a share of the sites is drawn; or set "
            "sums_after_losses = true in the site.toml of those sites"
        )

    def bits(self, names: Iterable[str]) -> bytes:
        """Return a set of members as bits."""
        return _bits(self.joining.memory.order, frozenset(names))

    def names(self, bits: bytes) -> list[str]:
        """Return the members that bits stand for."""
        members = sorted(self.joining.memory.order)
        marked = np.unpackbits(np.frombuffer(bits, np.uint8), count=len(members))
        return [name for name, mark in zip(members, marked.tolist(), strict=True) if mark]
