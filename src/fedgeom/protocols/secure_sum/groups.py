"""Groups of sites that are summed apart and side by side, drawn so that nobody chooses his own.

Who is in which group follows from the terms: from the numbers to which all sites committed before they saw each other
(`fedgeom.protocols.joining.ring`), or from the run's seed. Every site draws for itself, and sums with no others. Groups
stay as they are for the whole run, and no site is in two: of two sums one holds the other, or they are apart.

A sum over a group is checked by all sites, also those of other groups: the question, and with it the key of the tags,
follows from the terms and from who was asked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from fedgeom.crypto.keys import fingerprint
from fedgeom.crypto.neighbours import COMPLETE_UP_TO, ring_order
from fedgeom.crypto.tags import WORDS, is_sum
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.messages import Names
from fedgeom.protocols.fixed_point import RING
from fedgeom.protocols.secure_sum.bounds import bound_of, check_sum
from fedgeom.protocols.secure_sum.messages import SumQuestion, SumResult, Ticket, hash_question, tag_key

LEAST_GROUPS = 3
"""With fewer, a median is a mean."""

Groups = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class GroupDraw:
    """How many groups the terms have, and what they are drawn by."""

    count: int
    by: Literal["sites", "seed"]

    def groups(self, members: Iterable[str], seed: int, cohort_seed: bytes) -> Groups:
        """Return the groups: arcs of a ring on which the members stand in an order that the draw settles.

        Where there are many sites, each masks with those near it on the ring of the same order: sites of one arc mask
        with each other.
        """
        names = sorted(members)
        if len(names) < self.count:
            raise InputError(f"{self.count} groups of {len(names)} sites given; wanted a site in each at least")
        drawn = cohort_seed if self.by == "sites" else fingerprint(b"groups", str(seed).encode())
        return _arcs(tuple(names), drawn, self.count)

    def check_sizes(self, sites: int, min_cohort: int) -> None:
        """Raise `InputError`, which says how many sites are needed, where groups are smaller than policies ask for."""
        if sites < self.count * min_cohort:
            most = sites // min_cohort
            other = f", or groups={most} at most" if most >= LEAST_GROUPS else ""
            raise InputError(
                f"{sites} sites in {self.count} groups given: some group has {sites // self.count}, and policies ask "
                f"for {min_cohort} in each sum (min_cohort). Wanted {self.count * min_cohort} sites or more{other}"
            )
        if self.by == "seed" and sites > COMPLETE_UP_TO:
            raise InputError(
                f'drawn_by="seed" with {sites} sites given; above {COMPLETE_UP_TO}, sites mask with those near them on '
                'a ring that they draw themselves: wanted drawn_by="sites"'
            )


@lru_cache(maxsize=4)  # the same for all sites of a process, and for every question
def _arcs(names: tuple[str, ...], seed: bytes, count: int) -> Groups:
    order = ring_order(names, seed)
    parts = np.array_split(np.arange(len(order)), count)
    return tuple(tuple(sorted(order[at] for at in part.tolist())) for part in parts)


class GroupSum(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A checked sum over one of the groups."""

    group: Annotated[int, msgspec.Meta(ge=0)]
    asked: Names
    """The sites of the group that were asked; whose vectors came, the result says."""
    result: SumResult


def draw_of(settings: Any) -> GroupDraw | None:
    """Return the draw that a method's settings have; None: all sites are summed together."""
    found: GroupDraw | None = getattr(settings, "group_draw", None)
    return found


def drawn_groups(site: Any) -> Groups:
    """Return the groups of a run as a site draws them; none where its terms have none."""
    joined, draw = site.joining.memory, draw_of(site.settings)
    return () if draw is None else draw.groups(joined.order, joined.seed, joined.cohort_seed)


def own_group(site: Any) -> int:
    """Return the number of a site's group, from 0."""
    return next(at for at, group in enumerate(drawn_groups(site)) if site.name in group)


def group_of(site: Any, kind: str, participants: Collection[str]) -> tuple[str, ...]:
    """Return the group over which a sum of a kind goes, or refuse participants that are of several; () for no group."""
    question = site.understands().get(kind)
    if question is None or not question.in_groups or draw_of(site.settings) is None:
        return ()
    wanted = set(participants)
    for group in drawn_groups(site):
        if wanted <= set(group):
            return group
    raise ProtocolError("the sites of this sum are not of one of the groups that were drawn")


def check_group_sums(site: Any, sums: Sequence[GroupSum], ask: type[SumQuestion], **fields: Any) -> None:
    """Refuse sums that are not what the sites of the groups have added up, each group's once.

    ``fields`` are those of the question. Those that are missing were dropped: the coordinator can leave sites out, but
    show no other sum.
    """
    joined, groups = site.joining.memory, drawn_groups(site)
    numbers = [one.group for one in sums]
    if numbers != sorted(set(numbers)) or len(numbers) < LEAST_GROUPS or numbers[-1] >= len(groups):
        raise ProtocolError(
            f"sums of at least {LEAST_GROUPS} different groups of {len(groups)} are wanted, in order"
        )
    for one in sums:
        result, asked = one.result, set(one.asked)
        if list(one.asked) != sorted(asked) or not asked <= set(groups[one.group]):
            raise ProtocolError("the sum that came is not one of a group that was drawn")
        if list(result.sites) != sorted(set(result.sites) & asked):
            raise ProtocolError("the sum that came is not one of the sites that were asked for it")
        site.joining.check_many_enough(result.sites)
        if result.round >= len(joined.sums) or joined.sums[result.round] != ask.kind:
            raise ProtocolError(f"round {result.round} of this run is not for {ask.kind!r}")
        if result.total.dtype != "u8" or len(result.total.shape) != 1:
            raise ProtocolError("the sum that came is no list of ring elements")
        if (result.tag.dtype, result.tag.shape) != ("u8", (WORDS,)):
            raise ProtocolError("the sum that came has no tag")
        members = tuple(sorted(joined.order))
        ticket = Ticket(round=result.round, modulus=str(RING.modulus), members=members, participants=one.asked)
        key = tag_key(joined.secret, result.round, hash_question(ask(ticket=ticket, group=one.group, **fields)))  # type: ignore[call-arg]
        if not is_sum(key, result.sites, result.total.view().view(np.int64), result.tag.numpy().tolist()):
            raise ProtocolError("the sum that came is not the one that the group added up: its tag does not fit")
        check_sum(ask, result.total.view(), len(result.sites), bound_of(site.settings))
