"""Sites are made of parts, each with handlers and a memory of its own."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from fedgeom.federation.messages import Message, Question
from fedgeom.federation.policy import Policy
from fedgeom.federation.site import Memory, Part, Site, answers
from tests.federation.counting import RUN, Count, CountingSite, Number, make

# --- parts and handlers ---


class Say(Question, frozen=True, kw_only=True):
    kind: ClassVar[str] = "test.say"
    answer: ClassVar[type[Message]] = Number


class Shout(Question, frozen=True, kw_only=True):
    kind: ClassVar[str] = "test.shout"
    answer: ClassVar[type[Message]] = Number


class VoiceMemory(msgspec.Struct, kw_only=True):
    said: int = 0


class Voice(Part[VoiceMemory]):
    name: ClassVar[str] = "voice"

    @answers(Say)
    def say(self, ask: Say) -> Number:
        self.memory.said += 1
        return Number(value=self.memory.said)


class LoudVoice(Part[VoiceMemory]):
    name: ClassVar[str] = "loud"

    @answers(Shout)
    def shout(self, ask: Shout) -> Number:
        self.memory.said += 100
        return Number(value=self.memory.said)


class VoicesMemory(Memory, kw_only=True):
    voice: VoiceMemory = msgspec.field(default_factory=VoiceMemory)
    loud: VoiceMemory = msgspec.field(default_factory=VoiceMemory)


class Speaking(Site[VoicesMemory]):
    memory_type: ClassVar[type[Memory]] = VoicesMemory
    parts: ClassVar[tuple[type[Part[Any]], ...]] = (Voice,)


class Shouting(Site[VoicesMemory]):
    memory_type: ClassVar[type[Memory]] = VoicesMemory
    parts: ClassVar[tuple[type[Part[Any]], ...]] = (LoudVoice,)

    @answers(Count)
    def count(self, ask: Count) -> Number:
        return Number(value=ask.add)


def built(kind: type[Site[Any]]) -> Any:
    _, engine = make(1)
    runner = engine.runners["s0"]
    return kind(runner._data(), runner.identity, RUN, kind.memory_type(run=RUN))


def test_a_part_has_handlers_and_a_memory_of_its_own_inside_the_sites() -> None:
    site = built(Speaking)
    assert [site.answer(Say()).value for _ in range(2)] == [1, 2]
    assert site.memory.voice.said == 2
    assert site.memory.loud.said == 0
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(site.memory), type=VoicesMemory)
    assert again == site.memory
    assert site.voice.site is site
    assert (site.name, site.policy) == ("s0", Policy())


def test_a_second_bases_handlers_and_parts_are_kept() -> None:
    class Both(Speaking, Shouting):
        pass

    class BothOtherwise(Shouting, Speaking):
        parts: ClassVar[tuple[type[Part[Any]], ...]] = ()

    for kind in (Both, BothOtherwise):
        assert set(kind.all_parts) == {Voice, LoudVoice}
        assert dict(kind.understands()) == {"test.say": Say, "test.shout": Shout, "test.count": Count}
        site = built(kind)
        assert [site.answer(ask).value for ask in (Say(), Shout(), Count(add=7))] == [1, 100, 7]


def test_a_part_that_two_bases_list_is_there_once() -> None:
    class More(Speaking):
        parts: ClassVar[tuple[type[Part[Any]], ...]] = (Voice, LoudVoice)

    assert More.all_parts == (Voice, LoudVoice)


def test_a_handler_that_overrides_another_is_found_without_a_mark() -> None:
    class Twice(Shouting):
        def count(self, ask: Count) -> Number:
            return Number(value=2 * super().count(ask).value)

    class LouderVoice(LoudVoice):
        def shout(self, ask: Shout) -> Number:
            return Number(value=1000)

    class Louder(Shouting):
        parts: ClassVar[tuple[type[Part[Any]], ...]] = (LouderVoice,)

    assert built(Twice).answer(Count(add=7)).value == 14
    assert built(Twice).answer(Shout()).value == 100
    assert built(Louder).answer(Shout()).value == 1000


def test_a_site_of_its_own_answers_before_its_part() -> None:
    class Own(Speaking):
        @answers(Say)
        def say(self, ask: Say) -> Number:
            return Number(value=77)

    assert built(Own).answer(Say()).value == 77
    assert built(Speaking).answer(Say()).value == 1


def test_what_a_subclass_adds_its_base_does_not_understand() -> None:
    class More(CountingSite):
        @answers(Say)
        def say(self, ask: Say) -> Number:
            return Number(value=0)

    assert set(More.understands()) == {"test.count", "test.say"}
    assert set(CountingSite.understands()) == {"test.count"}


def test_a_site_that_says_nothing_more_leaves_no_result_and_no_model() -> None:
    site = built(CountingSite)
    assert site.result() == {}
    assert site.model_file() == b""
    site.check(None)
