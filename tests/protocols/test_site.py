"""The base of summing sites: what a method's author can forget, it does not let out of the site."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import msgspec
import numpy as np
import pytest

from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.messages import Array, Message, Question
from fedgeom.federation.method import Method
from fedgeom.federation.site import Memory, Part, Site, answers
from fedgeom.protocols.fixed_point import to_fixed
from fedgeom.protocols.secure_sum.messages import MaskedVector, SumQuestion
from fedgeom.protocols.site import Contribution, SecureMemory, SummingPart, SummingSite
from tests.protocols.lying import ME, Lying, stamped
from tests.protocols.summing import ColumnSite, SumColumn, make_sites
from tests.unlisted import unlisted


class Told(Message, frozen=True, kw_only=True):
    kind: ClassVar[str] = "test.told"
    vector: Array


class Tell(Question, frozen=True, kw_only=True):
    kind: ClassVar[str] = "test.tell"
    answer: ClassVar[type[Message]] = Told


def one_sum(cls: type[Any], settings: Any) -> Sequence[type[SumQuestion]]:
    return (SumColumn,)


def run_with(site_class: type[Site[Any]], n: int = 4) -> Lying:
    """Return a run of a method with this site class, joined."""

    @unlisted
    @dataclass(frozen=True, kw_only=True)
    class Tried(Method):
        name: ClassVar[str] = "tried"
        site: ClassVar[type[Site[Any]]] = site_class

    return Lying(n, method=Tried()).hello().share()


def raw(site: Any) -> np.ndarray:
    return np.asarray(site.data.X[:, 0].astype(np.uint64))


RETURNED: dict[str, Any] = {
    "a masked vector that is not masked": lambda site: MaskedVector(
        vector=Array.of(raw(site)), signature=bytes(64)
    ),
    "another message": lambda site: Told(vector=Array.of(raw(site))),
    "an array": raw,
    "nothing": lambda site: None,
}


@pytest.mark.parametrize("returned", RETURNED)
def test_a_sum_is_answered_with_a_contribution_or_nothing_leaves(returned: str) -> None:
    class Careless(SummingSite[SecureMemory]):
        all_sums = classmethod(one_sum)  # type: ignore[assignment]

        @answers(SumColumn)
        def column(self, ask: SumColumn) -> Any:
            return RETURNED[returned](self)

    lie = run_with(Careless)
    before = lie.memories[ME]
    with pytest.raises(TypeError, match=r"the handler of 'test.column' must return self.contribute"):
        lie.ask(ME, lie.column(ME))
    assert lie.memories[ME] == before


@pytest.mark.parametrize("returned", ["contribution", "masked"])
def test_what_belongs_in_a_sum_does_not_leave_by_another_question(returned: str) -> None:
    class Careless(ColumnSite):
        all_sums = classmethod(one_sum)  # type: ignore[assignment]

        @answers(Tell)
        def tell(self, ask: Tell) -> Any:
            return (
                Contribution(raw(self))
                if returned == "contribution"
                else MaskedVector(vector=Array.of(raw(self)), signature=bytes(64))
            )

    lie = run_with(Careless)
    with pytest.raises(TypeError, match=r"'test.tell' is no question for a sum"):
        lie.ask(ME, Tell())


def test_a_question_answered_with_masked_vectors_must_be_a_sum_question() -> None:
    class Give(Question, frozen=True, kw_only=True):
        kind: ClassVar[str] = "test.give"
        answer: ClassVar[type[Message]] = MaskedVector

    with pytest.raises(TypeError, match="Give is answered with masked vectors: make it a SumQuestion"):

        class Careless(ColumnSite):
            @answers(Give)
            def give(self, ask: Give) -> Contribution:
                return Contribution(raw(self))

    class GivingPart(SummingPart[msgspec.Struct]):
        name: ClassVar[str] = "giving"

        @answers(Give)
        def give(self, ask: Give) -> Contribution:
            return Contribution(raw(self.site))

    with pytest.raises(TypeError, match="make it a SumQuestion"):

        class CarelessToo(ColumnSite):
            parts: ClassVar[tuple[type[Part[Any]], ...]] = (GivingPart,)


def test_no_planned_sums_means_no_sum_at_all() -> None:
    class Quiet(ColumnSite):
        @classmethod
        def all_sums(cls, settings: Any) -> Sequence[type[SumQuestion]]:
            return ()

    lie = run_with(Quiet)
    lie.refused(ME, lie.column(ME), "round 0 was not announced when joining")
    lie.refused(ME, lie.invitation(rounds=1), "these terms need 0 sums, not 1")


def test_a_sum_of_another_kind_than_planned_is_refused() -> None:
    class SumOther(SumQuestion, frozen=True, kw_only=True):
        kind: ClassVar[str] = "test.other"

    class Two(ColumnSite):
        @classmethod
        def all_sums(cls, settings: Any) -> Sequence[type[SumQuestion]]:
            return (SumColumn, SumOther)

        @answers(SumOther)
        def other(self, ask: SumOther) -> Contribution:
            return self.contribute(ask, raw(self))

    lie = run_with(Two)
    lie.refused(ME, lie.column(ME, round=1), "round 1 of this run is for 'test.other', not 'test.column'")
    other = stamped(SumOther(ticket=lie.ticket(ME, round=0)))
    lie.refused(ME, other, "round 0 of this run is for 'test.column', not 'test.other'")
    lie.get(ME, lie.column(ME), MaskedVector)


def test_a_handler_is_not_even_called_for_a_sum_that_is_not_admitted() -> None:
    called: list[str] = []

    class Watched(ColumnSite):
        all_sums = classmethod(one_sum)  # type: ignore[assignment]

        def column(self, ask: SumColumn) -> Contribution:
            called.append(self.name)
            return super().column(ask)

    lie = run_with(Watched)
    lie.refused(ME, lie.column(ME, participants=lie.names[:2]), "2 sites are left")
    lie.refused(ME, lie.column(ME, round=1), "not announced")
    assert called == []
    lie.get(ME, lie.column(ME), MaskedVector)
    assert called == [ME]  # a handler that overrides another answers the same question


def test_a_handler_that_refuses_leaves_the_round_open() -> None:
    class Choosy(ColumnSite):
        all_sums = classmethod(one_sum)  # type: ignore[assignment]

        def column(self, ask: SumColumn) -> Contribution:
            if ask.times == 2:
                raise ProtocolError("not twice")
            return super().column(ask)

    lie = run_with(Choosy)
    lie.refused(ME, lie.column(ME, times=2), "not twice")
    lie.get(ME, lie.column(ME), MaskedVector)


def test_row_sums_are_stated_by_their_question() -> None:
    """A round whose masks are never removed is one that the terms make so, not a handler's whim."""

    class Rowish(ColumnSite):
        all_sums = classmethod(one_sum)  # type: ignore[assignment]

        def column(self, ask: SumColumn) -> Contribution:
            return self.contribute(ask, raw(self)[:, None], own_rows=(0, 1))

    lie = run_with(Rowish)
    with pytest.raises(TypeError, match="own_rows are given where row_sum = True is stated"):
        lie.ask(ME, lie.column(ME))


def test_what_a_site_contributes_by_the_kind_of_its_numbers() -> None:
    lie = Lying(4).hello().share()
    site, ask = lie.as_site(ME), lie.column(ME)
    reals = np.array([[0.5, -0.25], [3.0, 0.0]])
    assert np.array_equal(
        site.contribute(ask, reals).vector, to_fixed(reals, fraction_bits=28, sites=4).reshape(2, 2)
    )
    assert site.contribute(ask, np.array([-1, 2])).vector.view(np.int64).tolist() == [-1, 2]
    assert site.contribute(ask, np.array([True, False])).vector.tolist() == [1, 0]
    assert site.contribute(ask, np.array([2**64 - 1], np.uint64)).vector.tolist() == [2**64 - 1]
    assert site.contribute(ask, reals[0], own_rows=(1, 2)).own_rows == (1, 2)
    with pytest.raises(InputError, match="sums over 4 sites"):
        site.contribute(ask, np.array([1e300]))


def test_what_leaves_is_masked_and_not_the_contribution() -> None:
    lie = Lying(4).hello().share()
    sent = lie.get(ME, lie.column(ME), MaskedVector).vector.numpy()
    assert (sent != make_sites(4)[0].X[:, 0].astype(np.uint64)).all()


class CounterMemory(msgspec.Struct, kw_only=True):
    asked: int = 0


class CountedMemory(SecureMemory, kw_only=True):
    counter: CounterMemory = msgspec.field(default_factory=CounterMemory)


class Counter(SummingPart[CounterMemory]):
    name: ClassVar[str] = "counter"

    @answers(SumColumn)
    def column(self, ask: SumColumn) -> Contribution:
        self.memory.asked += 1
        assert self.joining is self.site.joining
        assert self.settings == self.site.settings
        return self.contribute(ask, raw(self.site))


class CountedSite(SummingSite[CountedMemory]):
    memory_type: ClassVar[type[Memory]] = CountedMemory
    parts: ClassVar[tuple[type[Part[Any]], ...]] = (Counter,)
    all_sums = classmethod(one_sum)  # type: ignore[assignment]


def test_a_methods_part_has_its_own_memory_and_contributes() -> None:
    lie = run_with(CountedSite)
    first = lie.get(ME, lie.column(ME), MaskedVector)
    assert lie.get(ME, lie.column(ME), MaskedVector) == first
    assert lie.as_site(ME).memory.counter.asked == 2
    assert lie.as_site(ME).memory.sums.rounds[0].question_hash == lie.column(ME).ticket.question_hash
    assert lie.as_site(ME).seed == 0


class Ask(Question, frozen=True, kw_only=True):
    kind: ClassVar[str] = "test.ask"
    answer: ClassVar[type[Message]] = Told
    round: int = 0
    times: int = 1


class AskingSite(ColumnSite):
    all_sums = classmethod(one_sum)  # type: ignore[assignment]

    @answers(Ask)
    def ask(self, ask: Ask) -> Told:
        if ask.times == 13:
            raise ProtocolError("not thirteen")
        return Told(vector=Array.of(raw(self) * np.uint64(ask.times)))


def test_one_question_of_a_kind_and_round_is_answered_and_the_same_again() -> None:
    lie = run_with(AskingSite)
    first = lie.get(ME, Ask(times=3), Told)
    lie.refused(ME, Ask(times=2), "another question 'test.ask 0' was answered in this run already")
    assert lie.ask(ME, Ask(times=3)) == first
    assert lie.get(ME, Ask(round=1, times=2), Told) != first
    lie.refused(ME, Ask(round=1, times=3), "another question 'test.ask 1'")
    assert lie.ask(ME, Ask(times=3)) == first


def test_a_question_that_was_refused_was_not_answered() -> None:
    lie = run_with(AskingSite)
    lie.refused(ME, Ask(times=13), "not thirteen")
    lie.get(ME, Ask(times=2), Told)


def test_a_site_of_secure_sums_only_sends_nothing_that_shows_its_numbers() -> None:
    lie = run_with(AskingSite)
    runner = lie.engine.runners[ME]
    strict = msgspec.structs.replace(runner.identity.policy, secure_only=True)
    runner.identity = replace(runner.identity, policy=strict)
    lie.refused(ME, Ask(), "secure_only = true, or the terms have privacy), and 'test.told' would")
    lie.get(ME, lie.column(ME), MaskedVector)
