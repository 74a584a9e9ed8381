"""Rules of secure sums that both halves know: who may be in one, bounds of what sites add, and drawn groups."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Words
from fedgeom.crypto.keys import fingerprint, hash_names
from fedgeom.crypto.neighbours import COMPLETE_UP_TO, ring_order, smallest_part
from fedgeom.crypto.tags import WORDS, is_sum
from fedgeom.errors import FedgeomError, InputError, ProtocolError
from fedgeom.federation.messages import Names
from fedgeom.federation.plan import Plan, Shape, Steps, Sum, words
from fedgeom.memo import memoize
from fedgeom.protocols.fixed_point import RING, numbers_of, to_fixed
from fedgeom.protocols.join.site import NO_NAMES, JoinPart, in_order, name_set, read_names, strictest_policy
from fedgeom.protocols.secure_sum.messages import (
    GroupPart,
    SumQuestion,
    SumResult,
    Ticket,
    hash_question,
    tag_key,
)

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


@memoize(16)  # the same for all sites of a process
def _bits(members: tuple[str, ...], names: frozenset[str]) -> bytes:
    return np.packbits([name in names for name in sorted(members)]).tobytes()


class CohortRules:
    """Checks over whom is summed, by what the site has signed so far."""

    def __init__(self, joining: JoinPart, memory: SumsMemory):
        self.joining = joining
        self.memory = memory

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
        joined = self.joining.memory
        me = self.joining.site.name
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
        signed = self.memory.signed.get(_asked_of(page, group))
        if signed is not None and signed != self.bits(alive):
            raise ProtocolError(
                "a sum of the same was signed with other living sites; the difference would show who is missing"
            )
        self.check_difference(alive, group)

    def remember(self, page: SumRound, alive: Collection[str], group: Collection[str] = ()) -> None:
        """Take note of a list of the living that is signed."""
        living = self.bits(alive)
        memory = self.memory
        memory.signed[_asked_of(page, group)] = living
        if living not in memory.summed:
            memory.summed = (*memory.summed, living)
        if page.everybody:
            memory.living = living

    def check_many_enough(self, alive: Iterable[str]) -> int:
        """Refuse what would be summed over fewer sites than a policy of theirs asks for; return how many that are."""
        # of a frozen set, no copy
        names = frozenset(alive)
        joined = self.joining.memory
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
        cohort = self.joining.memory.cohort
        policy = self.joining.site.policy
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
            "that are left, and with participation=1 where a share of the sites is drawn; or set "
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


def _asked_of(page: SumRound, group: Collection[str]) -> bytes:
    """Return a name for what was asked, which each drawn group is asked apart."""
    return fingerprint(page.content, hash_names(tuple(sorted(group))))[:16] if group else page.content[:16]


log = logging.getLogger(__name__)

ROOM = 2**62
"""No sum of words that each site kept within its share of the ring reaches this, up to its sign."""


def bound_of(settings: Any) -> float | None:
    """Return the terms' bound of a real number of one site (``max_abs_value``); None: what a sum has room for."""
    found: float | None = getattr(settings, "max_abs_value", None)
    return found


def bounded(ask: SumQuestion, values: npt.NDArray[Any], largest: float | None, site: str) -> Words:
    """Return numbers as ring elements, cut off at the terms' bound where they are real and there is one.

    values (…), whole or real numbers; returns (numbers,), u8. The site's log says how many were cut off.
    """
    digits = 0 if values.dtype.kind in "iub" else ask.fraction_bits
    largest = largest if ask.reals else None
    # Two passes without a copy, where nothing is cut off; else one more tells how much.
    if largest is not None and values.size and (values.max() > largest or values.min() < -largest):
        cut = int(np.count_nonzero(np.abs(values) > largest))
        log.warning(
            "site %r: %d of %d numbers for %r are larger than max_abs_value = %g and were cut off",
            site, cut, values.size, ask.kind, largest,
        )  # fmt: skip
    return to_fixed(values, fraction_bits=digits, sites=len(ask.ticket.participants), largest=largest)


def most_in_sum(question: type[SumQuestion], sites: int, largest: float | None) -> int:
    """Return the largest word, up to its sign, of a sum over so many sites that keep to the bounds.

    ``largest``: the terms' bound of one real number of one site; None: as much as the ring has room for.
    """
    if largest is None or not question.reals:
        return ROOM - 1
    return min(ROOM - 1, sites * round(largest * 2.0**question.fraction_bits))


def check_sum(question: type[SumQuestion], total: Words, sites: int, largest: float | None) -> None:
    """Raise `ProtocolError`, which names what happened, where a sum is larger than the bounds allow.

    total (length,), u8: elements of Z_2^64. Packed words are tested where they are read (`Packing`).
    """
    if question.packed or question.row_sum:
        return
    words = total.view(np.int64)
    most = most_in_sum(question, sites, largest)
    if not len(words) or (int(words.max()) <= most and int(words.min()) >= -most):
        return
    wrong = np.flatnonzero((words > most) | (words < -most))
    digits = question.fraction_bits if question.reals else 0
    found = int(words[wrong[0]]) / 2.0**digits
    bound = most / 2.0**digits
    raise beyond_bound(
        f"the sum {question.kind!r} over {sites} sites: {len(wrong)} of {len(words)} numbers are beyond {bound:.6g}, "
        f"the most that sites within their bounds add up to (entry {wrong[0]} is {found:.6g})"
    )


def beyond_bound(what: str) -> ProtocolError:
    """Return the error for a sum that has a vector in it which did not keep to the bounds."""
    return ProtocolError(
        f"{what}. A site added what the terms do not allow, or its answer was changed on the way; masks hide which. "
        "Nothing was learnt from this sum. Run again without sites you doubt, or with "
        "aggregation=GroupMedian(n_groups=…), which such a site spoils one group of"
    )


@contextlib.contextmanager
def following_from_sums(what: str) -> Iterator[None]:
    """Raise `ProtocolError` where no result can be worked out from sums: some site added what no rows have.

    A site that keeps to the bounds can still add numbers that fit to no rows, such as a covariance without a root.
    """
    try:
        yield
    except FedgeomError:
        raise
    except (ValueError, ArithmeticError) as error:  # of NumPy's: a singular matrix is a ValueError
        raise ProtocolError(
            f"no {what} follows from the sums ({error}). A site added numbers that no rows have; masks hide which. Run "
            "again without sites you doubt"
        ) from error


LEAST_GROUPS = 3
"""With fewer, a median is a mean."""

Groups = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class GroupDraw:
    """How many groups the terms have, and what they are drawn by."""

    count: int
    by: Literal["sites", "seed"]

    @property
    def decides(self) -> str:
        """What decides who is in which group; "" where the terms do."""
        return "the sites draw the groups when they have joined" if self.by == "sites" else ""

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

    def planned(self, names: Sequence[str], shape: Shape) -> Groups:
        """Return the groups for a plan: as the seed draws them, or else so that no draw has longer messages.

        There are as many for any shape: sums follow from the settings alone.
        """
        if not shape.known or len(names) < self.count:
            return (tuple(names),) * self.count
        if self.by == "seed":
            return self.groups(names, shape.seed, b"")
        longest = sorted(names, key=lambda name: (-len(name.encode()), name))  # the largest groups come first
        return tuple(tuple(sorted(part.tolist())) for part in np.array_split(np.array(longest), self.count))

    def check_sizes(self, sites: int, min_cohort: int) -> None:
        """Raise `InputError`, which says how many sites are needed, where groups are smaller than policies ask for."""
        if sites < self.count * min_cohort:
            most = sites // min_cohort
            other = f", or n_groups={most} at most" if most >= LEAST_GROUPS else ""
            raise InputError(
                f"{sites} sites in {self.count} groups given: some group has {sites // self.count}, and policies ask "
                f"for {min_cohort} in each sum (min_cohort). Wanted {self.count * min_cohort} sites or more{other}"
            )
        if self.by == "seed" and sites > COMPLETE_UP_TO:
            raise InputError(
                f'drawn_by="seed" with {sites} sites given; above {COMPLETE_UP_TO}, sites mask with those near them on '
                'a ring that they draw themselves: wanted drawn_by="sites"'
            )


@memoize(4)  # the same for all sites of a process, and for every question
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


def first_rounds(site: type[Any], settings: Any, planned: Sequence[str]) -> list[int]:
    """Return the number of the first of each step's sums: one that groups take apart is as many sums as groups.

    ``planned`` are the kinds of all sums, in order; ``site`` the method's site class.
    """
    draw = draw_of(settings)
    known = site.understands()
    found = []
    at = 0
    while at < len(planned):
        found.append(at)
        at += draw.count if draw is not None and known[planned[at]].in_groups else 1
    return found


def drawn_groups(site: Any) -> Groups:
    """Return the groups of a run as a site draws them; none where its terms have none."""
    joined = site.joining.memory
    draw = draw_of(site.settings)
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

    def hashed(ticket: Ticket, group: int) -> bytes:
        return hash_question(ask(ticket=ticket, group=group, **fields))  # type: ignore[call-arg]

    parts = [
        GroupPart(
            group=one.group,
            round=one.result.round,
            asked=one.asked,
            sites=one.result.sites,
            total=one.result.total,
            tag=one.result.tag,
        )
        for one in sums
    ]
    check_parts(site, parts, ask, hashed)


def check_parts(
    site: Any, parts: Sequence[GroupPart], ask: type[SumQuestion], hashed: Callable[[Ticket, int], bytes]
) -> None:
    """Refuse sums that are not what the sites of the groups have added up; ``hashed``: a question's hash, by ticket."""
    if not site.masked:  # a plain run's sums have no tags
        return
    joined = site.joining.memory
    groups = drawn_groups(site)
    numbers = [one.group for one in parts]
    if numbers != sorted(set(numbers)) or len(numbers) < LEAST_GROUPS or numbers[-1] >= len(groups):
        raise ProtocolError(
            f"sums of at least {LEAST_GROUPS} different groups of {len(groups)} are wanted, in order"
        )
    for one in parts:
        asked = set(one.asked)
        if list(one.asked) != sorted(asked) or not asked <= set(groups[one.group]):
            raise ProtocolError("the sum that came is not one of a group that was drawn")
        if list(one.sites) != sorted(set(one.sites) & asked):
            raise ProtocolError("the sum that came is not one of the sites that were asked for it")
        site.joining.check_many_enough(one.sites)
        if one.round >= len(joined.sums) or joined.sums[one.round] != ask.kind:
            raise ProtocolError(f"round {one.round} of this run is not for {ask.kind!r}")
        if one.total.dtype != "u8" or len(one.total.shape) != 1:
            raise ProtocolError("the sum that came is no list of ring elements")
        if (one.tag.dtype, one.tag.shape) != ("u8", (WORDS,)):
            raise ProtocolError("the sum that came has no tag")
        members = tuple(sorted(joined.order))
        ticket = Ticket(round=one.round, modulus=str(RING.modulus), members=members, participants=one.asked)
        key = tag_key(joined.secret, one.round, hashed(ticket, one.group))
        if not is_sum(key, one.sites, one.total.view().view(np.int64), one.tag.numpy().tolist()):
            raise ProtocolError("the sum that came is not the one that the group added up: its tag does not fit")
        check_sum(ask, one.total.view(), len(one.sites), bound_of(site.settings))


POWER = 8
"""Of the mean over numbers that says how far a group is from the others: one wild number among thousands counts."""


def agreed_total(ask: type[SumQuestion], totals: Sequence[Words], sites: Sequence[int]) -> Words:
    """Return what most groups' sums say that all groups together add up to: the larger half that lies nearest together.

    The sums of the groups that are farthest from the others, up to (G - 1)/2 of G, are replaced by those nearest to
    the middle. So every number is a sum over groups that are there, in whole numbers, the same on any machine, and what
    follows from it, such as a matrix without negative eigenvalues, follows as from any sum.

    Counts that decide what is too rare are not put together: all groups' stand one behind the other, since what is
    summed in each group must have enough rows in each.

    totals: of each group (words,), u8; sites: how many sites each is over.
    """
    if ask.decides_floors:
        return np.concatenate(totals)
    order = _from_the_middle(ask, totals, sites)
    kept = order[: len(order) - (len(order) - 1) // 2]
    chosen = [*kept, *kept[: len(order) - len(kept)]]
    found = totals[chosen[0]].copy()
    for at in chosen[1:]:
        RING.add_to(found, totals[at])
    return found


def _from_the_middle(ask: type[SumQuestion], totals: Sequence[Words], sites: Sequence[int]) -> list[int]:
    """Return the groups, those first whose sums are nearest to the median of all groups'.

    Sums are compared for each site, and as shares of their own size: groups may differ in their number of rows.
    """
    numbers = np.array([numbers_of(total, ask.words_per_number) for total in totals])
    shares = numbers / np.maximum(np.abs(numbers).sum(axis=1, keepdims=True), 1e-300)
    values = np.hstack([numbers / np.array(sites, np.float64)[:, None], shares])
    middle = np.median(values, axis=0)
    away = np.abs(values - middle)
    unit = np.median(away, axis=0) + 0.01 * np.abs(middle)
    ratio = np.minimum(away / np.maximum(unit, 1e-12 * np.maximum(away.max(axis=0), 1e-300)), 1e30)
    return [int(at) for at in np.argsort((ratio**POWER).mean(axis=1), kind="stable")]


def in_groups(plan: Plan, shape: Shape, private: bool, draw: GroupDraw) -> Plan:
    """Yield a plan's steps with each sum that is taken in groups once for each group."""
    value: Any = None
    try:
        while True:
            step = plan.send(value)
            if isinstance(step, Steps):
                value = yield from in_groups(step.steps(shape, private), shape, private, draw)
            elif isinstance(step, Sum) and type(step.specimen()).in_groups and step.to is None:
                value = yield from _each_group(step, shape, draw)
            else:
                value = yield step
    except StopIteration as end:
        return end.value


def _each_group(step: Sum, shape: Shape, draw: GroupDraw) -> Plan:
    """Yield a sum once for each group; return the result as it travels."""
    if step.times == 0:
        return (yield replace(step, spare=draw.count * step.spare))
    groups = draw.planned(shape.sites, shape)
    bound = step.bound or draw.decides
    parts = []
    for at, names in enumerate(groups):
        spare = draw.count * step.spare if at == draw.count - 1 else 0
        result = yield replace(step, to=names, bound=bound, spare=spare)
        parts.append(
            GroupPart(group=at, round=result.round, asked=names, sites=names, total=result.total, tag=result.tag)
        )
    first = parts[0]
    total = words(len(parts) * step.length) if type(step.specimen()).decides_floors else first.total
    return SumResult(round=first.round, sites=shape.sites, total=total, tag=first.tag, groups=tuple(parts))
