"""The sites that joined a run, as a method sees them: it numbers its secure sums and knows who is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Words
from fedgeom.crypto.tags import WORDS
from fedgeom.errors import ContractError, InputError, ProtocolError, TooFewSitesError
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.holdout import by_group
from fedgeom.federation.messages import Array
from fedgeom.federation.method import Method
from fedgeom.federation.plan import Ask, Shape, Sum, only_steps
from fedgeom.federation.preparation import Preparation
from fedgeom.federation.privacy import privacy_of
from fedgeom.federation.results import RunWarning
from fedgeom.privacy.mechanism import SumNoise
from fedgeom.protocols.doubts import judge
from fedgeom.protocols.evaluation import evaluate
from fedgeom.protocols.fixed_point import RING, from_fixed
from fedgeom.protocols.join.coordinator import Joined, invite
from fedgeom.protocols.join.messages import class_floors
from fedgeom.protocols.noise import sum_noise
from fedgeom.protocols.preparation import names_step, prepare
from fedgeom.protocols.row_sums import MaskedRowSums, row_sums
from fedgeom.protocols.secure_sum.coordinator import Collected, SumRequest, Total, collect, request_sum, unmask
from fedgeom.protocols.secure_sum.messages import GroupPart, SumQuestion, SumResult, blank_result
from fedgeom.protocols.secure_sum.rules import (
    LEAST_GROUPS,
    GroupDraw,
    GroupSum,
    agreed_total,
    bound_of,
    check_sum,
    draw_of,
    first_rounds,
)


@dataclass(frozen=True)
class Reals:
    """A sum of real numbers, and whose numbers it contains."""

    values: Floats
    """(length,)"""
    sites: tuple[str, ...]


def sums_of(method: Method, shape: Shape) -> Iterator[tuple[int, Sum]]:
    """Yield the sums of a method's plan with their numbers in the run."""
    number = 0
    private = privacy_of(method) is not None

    def result(step: Ask | Sum) -> SumResult | None:
        return blank_result(max(number - 1, 0), shape.sites) if isinstance(step, Sum) else None

    for step in only_steps(method.site.whole_plan(method, shape), shape, private, result):  # type: ignore[attr-defined]
        if isinstance(step, Sum):
            yield from ((at, step) for at in range(number, number + step.times))
            number += step.times + step.spare


def join(sites: Coordinator, method: Method) -> Cohort:
    """Bring the sites together on a method's terms; those that fail to answer stay outside.

    The method's plan says which secure sums there will be (`Method.plan`). Where the terms prepare
    rows, that is done before anything else; where they keep rows aside, the model is tested on them in the end.
    """
    planned = method.site.all_sums(method)  # type: ignore[attr-defined]
    min_sites = int(getattr(method, "min_sites", 2)) if sites.masked else 1  # one hides nothing in a plain run
    draw = draw_of(method)
    joined = invite(
        sites,
        rounds=len(planned),
        terms=method.terms(),
        min_sites=min_sites,
        prepares=bool(method.preparing),
        draw=draw is not None and draw.by == "sites",
        smallest_sum=method.smallest_sum,
        sum_sites=method.sum_sites,
    )
    cohort = Cohort(joined, [question.kind for question in planned], min_sites, method)
    last: list[Callable[[Any], None]] = [partial(judge, cohort)] if method.asks_for_doubts else []
    if method.holdout is not None:
        last.append(partial(evaluate, cohort, by_group(method)))
    sites.last_step = partial(_each, last) if last else None
    steps = method.planned_steps
    if method.preparing or (steps and cohort.class_floors != (1, 1)):
        names = names_step(method)
        if names is not None:  # rows of classes that are too rare are in no sum, those of preparation included
            names.conduct(cohort)
        cohort.preparation = sites.preparation = prepare(cohort, steps, prepares=bool(method.preparing))
    return cohort


def _each(steps: Sequence[Callable[[Any], None]], model: Any) -> None:
    for step in steps:
        step(model)


NO_TAG = Array.of(np.zeros(WORDS, np.uint64))
"""Of a total that was put together from groups' sums, which have tags."""


def _result(round: int, total: Total) -> SumResult:
    """Divide a checked sum into numbers and tag."""
    numbers, tag = np.split(total.vector, [-WORDS])
    # Nobody writes to the sum once it is there: it need not be copied.
    return SumResult(
        round=round, sites=total.sites, total=Array.of(numbers, copy=False), tag=Array.of(tag, copy=False)
    )


class Cohort:
    """The sites of a run after joining."""

    def __init__(self, joined: Joined, planned: Sequence[str], min_sites: int = 2, settings: Any = None):
        self.joined = joined
        self.sites = joined.sites
        self.min_sites = min_sites
        self.settings = settings
        self.left: tuple[str, ...] = joined.names
        """The sites that are still there; every sum over all of them leaves out those that were lost in it."""
        self.missed_sums: set[str] = set()
        """The sites whose numbers are missing in some sum that they were asked for."""
        self._planned = list(planned)
        self._next = 0
        self._bound = bound_of(settings)
        self.classes: tuple[str, ...] | None = None
        """The classes of the run, once they are agreed on."""
        self._shape: Shape | None = None
        self._sums: dict[int, Sum] = {}
        """The sums of the plan by their number, as far as it was walked."""
        self._walk: Iterator[tuple[int, Sum]] = iter(())
        self.preparation: Preparation | None = None
        """How the sites prepared their rows; None where they are taken as they are."""

    @property
    def planned(self) -> tuple[str, ...]:
        """The kinds of all sums that are planned, in order; one that groups take apart counts once."""
        return tuple(self._planned[at] for at in self._first_rounds())

    def _first_rounds(self) -> list[int]:
        return first_rounds(self.settings.site, self.settings, self._planned)

    @cached_property
    def groups(self) -> SiteGroups:
        """The groups that the terms draw."""
        draw = draw_of(self.settings)
        assert draw is not None
        return SiteGroups(self, draw)

    @property
    def names(self) -> tuple[str, ...]:
        """All sites that joined, those that were lost since included."""
        return self.joined.names

    @property
    def columns(self) -> int:
        """How many columns the sites' tables have, once they are prepared."""
        if self.preparation is not None:
            return self.preparation.columns.width
        return self.joined.keys[self.names[0]].columns

    @property
    def class_floors(self) -> tuple[int, int]:
        """How many sites and rows in all a class must have to be summed; (1, 1): any class is."""
        return (1, 1) if privacy_of(self.settings) else class_floors(self.joined.keys)

    def noise(self, **sum: Any) -> SumNoise:
        """Return the noise that the sites put into a sum (`sum_noise`)."""
        return sum_noise(self.settings, self.joined.keys, **sum)

    @property
    def mail(self) -> Mapping[str, Mapping[str, bytes]]:
        """For each site, the sealed letters that wait for it."""
        return self.joined.mail

    def next_round(self, kind: str) -> int:
        """Return the number of the next planned sum of a kind; those in between are left out for good."""
        for number in range(self._next, len(self._planned)):
            if self._planned[number] == kind:
                self._next = number + 1
                return number
        raise ProtocolError(f"no further sum of kind {kind!r} is planned in this run")

    def planned_length(self, number: int, given: int | None = None) -> int:
        """Return how long a sum is by the plan; raise `ContractError` where the run asks for another length."""
        if given is not None and self.classes is None:
            return given
        shape = Shape(self.names, self.columns, self.classes or (), seed=self.sites.seed)
        if shape != self._shape:
            self._shape = shape
            self._sums = {}
            self._walk = sums_of(self.settings, shape)
        while number not in self._sums and (found := next(self._walk, None)) is not None:
            self._sums[found[0]] = found[1]
        step = self._sums.get(number)
        draw = draw_of(self.settings)
        who = "" if draw is None else draw.decides  # which sites are summed is no matter of length
        if step is None or step.bound not in ("", who):
            if given is None:
                raise ContractError(f"the plan does not say how long sum {number} ({self._planned[number]!r}) is")
            return given
        if given is not None and given != step.length:
            raise ContractError(
                f"{self._planned[number]!r} sums {given} numbers, but the plan of {type(self.settings).__name__} says "
                f"{step.length}; mend its plan"
            )
        return step.length

    def skip_to(self, number: int) -> None:
        """Leave out, for good, the planned sums before a number."""
        self._next = max(self._next, number)

    def skip_to_step(self, number: int) -> None:
        """Leave out, for good, those of the `planned` sums before a number."""
        self.skip_to(self._first_rounds()[number])

    def sum_reals(self, question: SumQuestion, *, length: int | None = None) -> Floats:
        """Return the sum of the real numbers that all sites still there contribute."""
        if question.checked:
            return self.sum_checked(question, length=length).reals(type(question))
        if self._in_groups(question):
            return from_fixed(self._agreed(question, length).total.view(), fraction_bits=question.fraction_bits)
        found = self.sum_group(question, length=length, participants=self.left)
        self.left = found.sites
        return found.values

    def sum_checked(
        self, question: SumQuestion, *, length: int | None = None, participants: Sequence[str] | None = None
    ) -> SumResult:
        """Return the sum over all sites still there, or some, so that sites can check it (`SumQuestion.checked`).

        Where the terms draw groups, one over all is put together from the groups' sums (`agreed_total`).
        """
        if participants is None and self._in_groups(question):
            return self._agreed(question, length)
        asked = self.left if participants is None else participants
        total = self._sum(question, RING.modulus, length, asked)
        lost = set(asked) - set(total.sites)
        self.left = tuple(name for name in self.left if name not in lost)
        return _result(self._next - 1, total)

    def _in_groups(self, question: SumQuestion) -> bool:
        return question.in_groups and draw_of(self.settings) is not None

    def _agreed(self, question: SumQuestion, length: int | None) -> SumResult:
        """Return what the sums of most groups agree on, with these; groups that fail are dropped, with their sites."""
        groups = self.groups
        first = self.next_round(question.kind)
        parts: list[GroupPart] = []
        for number in range(len(groups.all)):
            self._next = first + number
            asked = groups.left(number, set(self.left))
            if not asked:
                continue
            try:
                total = self._sum(question, RING.modulus, length, asked)
            except (TooFewSitesError, ProtocolError) as error:
                groups.drop(number, str(error))
                continue
            own = _result(first + number, total) if question.checked else None
            words = Array.of(total.vector, copy=False) if own is None else own.total
            tag = NO_TAG if own is None else own.tag
            parts.append(
                GroupPart(group=number, round=first + number, asked=asked, sites=total.sites, total=words, tag=tag)
            )
        self._next = first + len(groups.all)
        sites = tuple(sorted(name for one in parts for name in one.sites))
        self.left = tuple(name for name in self.left if name in set(sites))
        found = agreed_total(
            type(question), [one.total.view() for one in parts], [len(one.sites) for one in parts]
        )
        return SumResult(
            round=first, sites=sites, total=Array.of(found, copy=False), tag=NO_TAG, groups=tuple(parts)
        )

    def sum_parts(self, questions: Sequence[SumQuestion]) -> list[SumResult]:
        """Return several checked sums over the very same sites: parts of one vector that no message could hold.

        All masked vectors are collected before anything is unmasked. A site that is lost on the way is in none.
        """
        if self._in_groups(questions[0]):
            if len(questions) > 1:  # each part would be of other groups
                raise InputError(
                    f"{len(questions)} parts of a sum in groups given; wanted one: raise max_sum_length, or take fewer "
                    'features, or aggregation="mean"'
                )
            return [self.sum_checked(questions[0])]
        collected: list[Collected] = []
        for question in questions:
            request = self._request(question, RING.modulus, None, self.left)
            found = collect(self.joined, request, min_sites=self.min_sites)
            self.left = tuple(sorted(found.masked))
            collected.append(found)
        while len({tuple(sorted(found.masked)) for found in collected}) > 1:
            for at, found in enumerate(collected):
                if set(found.masked) != set(self.left):
                    collected[at] = collect(self.joined, found.again(self.left), min_sites=self.min_sites)
                    self.left = tuple(sorted(collected[at].masked))
        results = []
        for found in collected:
            total = unmask(self.joined, found, min_sites=self.min_sites)
            asked = found.request.asked
            self._test(asked, total, RING.modulus)
            results.append(_result(asked.ticket.round, total))
        return results

    def sum_counts(self, question: SumQuestion, *, length: int | None = None) -> npt.NDArray[np.int64]:
        """Return the sum of the whole numbers that all sites still there contribute."""
        return self.sum_elements(question, modulus=RING.modulus, length=length).view(np.int64)

    def sum_elements(self, question: SumQuestion, *, modulus: int, length: int | None = None) -> Words:
        """Return the sum, in a ring, of what all sites still there contribute."""
        total = self._sum(question, modulus, length, self.left)
        self.left = total.sites
        return total.vector

    def sum_group(self, question: SumQuestion, *, length: int | None = None, participants: Sequence[str]) -> Reals:
        """Return the sum of real numbers over some of the sites, and over whom it was in the end."""
        total = self._sum(question, RING.modulus, length, participants)
        return Reals(from_fixed(total.vector, fraction_bits=question.fraction_bits), total.sites)

    def sum_words(self, question: SumQuestion, *, length: int | None = None, participants: Sequence[str]) -> Total:
        """Return the sum in Z_2^64 of the words that some of the sites contribute, and over whom it was in the end."""
        return self._sum(question, RING.modulus, length, participants)

    def _request(
        self, question: SumQuestion, modulus: int, length: int | None, participants: Sequence[str]
    ) -> SumRequest:
        """Return the next planned sum of a kind, as it is put to the participants."""
        number = self.next_round(question.kind)
        planned = self.planned_length(number, length)
        return request_sum(
            self.joined,
            number,
            question,
            modulus=modulus,
            length=planned + (WORDS if question.checked else 0),
            participants=participants,
        )

    def _sum(self, question: SumQuestion, modulus: int, length: int | None, participants: Sequence[str]) -> Total:
        request = self._request(question, modulus, length, participants)
        found = collect(self.joined, request, min_sites=self.min_sites)
        total = unmask(self.joined, found, min_sites=self.min_sites)
        self.missed_sums |= set(participants) - set(total.sites)
        self._test(question, total, modulus)
        return total

    def _test(self, question: SumQuestion, total: Total, modulus: int) -> None:
        """Refuse a sum that is larger than so many sites within their bounds can make it."""
        if modulus == RING.modulus:
            numbers = total.vector[:-WORDS] if question.checked else total.vector
            check_sum(type(question), numbers, len(total.sites), self._bound)

    def sum_rows(
        self,
        ask: Callable[[str, tuple[str, ...]], SumQuestion],
        *,
        attempts: int,
        layout: Callable[[tuple[str, ...]], Mapping[str, tuple[int, int]]],
        columns: int,
    ) -> MaskedRowSums:
        """Add up the sites' matrices so that each site learns its own rows of the sum (see `row_sums`)."""
        kind = ask(self.left[0], self.left).kind
        return row_sums(
            self.joined,
            (self.next_round(kind) for _ in range(attempts)),
            ask,
            modulus=RING.modulus,
            layout=layout,
            columns=columns,
            participants=self.left,
            min_sites=self.min_sites,
        )

    def lost_since(self, answers: Any) -> None:
        """Leave out the sites that did not answer a question that was put to all still there."""
        self.left = tuple(name for name in self.left if name in answers)


class SiteGroups:
    """The groups of a run: who is in which, and which are still summed."""

    def __init__(self, cohort: Cohort, draw: GroupDraw):
        self.cohort = cohort
        self.sites = cohort.sites
        keys = cohort.joined.keys
        draw.check_sizes(len(cohort.names), max(keys[name].min_cohort for name in cohort.names))
        self.all = draw.groups(cohort.names, self.sites.seed, cohort.joined.seed)
        self.dropped: dict[int, str] = {}
        """The groups that are no longer summed, and why."""
        self.sites.metrics["groups"] = len(self.all)

    def drop(self, number: int, why: str) -> None:
        """Sum a group no longer, and say so in the run's warnings."""
        if number in self.dropped:
            return
        self.dropped[number] = why
        self.sites.metrics["groups dropped"] = sorted(self.dropped)
        names = ", ".join(self.all[number])
        self.sites.notices.append(
            RunWarning(
                f"group {number + 1} of {len(self.all)} ({names}) is in no further sum: {why}",
                remedy="the median is over the other groups; look at these sites, and run again with them mended",
            )
        )
        self.need()

    def need(self) -> None:
        """Raise `TooFewSitesError` where so few groups are left that a median would be a mean."""
        if len(self.all) - len(self.dropped) < LEAST_GROUPS:
            reasons = "".join(f"\n  group {at + 1}: {why}" for at, why in sorted(self.dropped.items()))
            raise TooFewSitesError(
                f"{len(self.all) - len(self.dropped)} groups are left; a median over groups needs {LEAST_GROUPS}. "
                f"Dropped:{reasons}"
            )

    def left(self, number: int, living: set[str]) -> tuple[str, ...]:
        """Return who of a group can be summed: nobody where it was dropped, or is now, as too few are left."""
        if number in self.dropped:
            return ()
        keys = self.cohort.joined.keys
        group = self.all[number]
        there = tuple(name for name in group if name in living)
        gone = sorted(set(group) - set(there))
        wanted = max([keys[name].min_cohort for name in there], default=1)
        strict = any(keys[name].min_difference for name in group)
        why = "; ".join(f"{name}: {self.sites.lost.get(name, 'left out')}" for name in gone)
        if len(there) < wanted:
            self.drop(number, f"{len(there)} of its sites are left, and policies ask for {wanted} (lost: {why})")
        elif gone and strict:
            self.drop(number, f"policies allow no sum without lost sites (sums_after_losses; lost: {why})")
        else:
            return there
        return ()

    def sum_checked(self, ask: Callable[[int], SumQuestion], *, length: int | None = None) -> list[GroupSum]:
        """Return the sum over each group, in a form that all sites can check; groups that fail are dropped."""
        found = []
        for number in range(len(self.all)):
            asked = self.left(number, set(self.cohort.left))
            if not asked:
                continue
            try:
                result = self.cohort.sum_checked(ask(number), length=length, participants=asked)
            except (TooFewSitesError, ProtocolError) as error:
                self.drop(number, str(error))
                continue
            found.append(GroupSum(group=number, asked=asked, result=result))
        return found
