"""Methods are registered by their names, and say what leaves a site."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation.messages import Message, Question
from fedgeom.federation.method import METHODS, Method
from fedgeom.federation.plain import Plain
from fedgeom.federation.site import Memory, Site, answers
from tests.federation.counting import Count, Counting, CountingSite


@pytest.fixture
def clean() -> Iterator[None]:
    """Forget the methods that a test defines."""
    before = dict(METHODS._known)
    yield
    METHODS._known.clear()
    METHODS._known.update(before)


@pytest.mark.usefixtures("clean")
def test_a_subclass_with_a_name_is_known_from_then_on() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Fresh(Method):
        name: ClassVar[str] = "fresh"
        site: ClassVar[type[Site[Any]]] = CountingSite
        rounds: int = 1

    class Nameless(Fresh):
        pass

    assert METHODS["fresh"] is Fresh
    assert Nameless not in METHODS.values()
    assert Fresh.from_terms({"rounds": 3}) == Fresh(rounds=3)
    assert Fresh(rounds=3).terms() == {"rounds": 3, "holdout": None, "prepare": None}


@pytest.mark.usefixtures("clean")
def test_a_name_that_is_taken_cannot_be_taken_again() -> None:
    ours = fedgeom.Moments
    with pytest.raises(InputError, match="there is a method 'moments' already"):

        class Moments(Method):
            name: ClassVar[str] = "moments"

    assert METHODS["moments"] is ours


def test_what_a_method_does_not_do_it_says() -> None:
    method, data = Counting(), SiteData("a", np.zeros((1, 1)), np.zeros(1))
    with pytest.raises(NotImplementedError, match="Counting does not conduct"):
        method.conduct(None)  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError, match="Counting does not conduct"):
        method.plain([data])
    assert method.normalise_labels(data) is data
    assert method.check([data], fedgeom.Policy()) == []


def test_a_plain_twin_leaves_what_a_run_leaves() -> None:
    assert Plain("model").local == {}
    assert Plain("model").local is not Plain("model").local


class Quiet(Message, frozen=True, kw_only=True):
    kind: ClassVar[str] = "leaving.quiet"
    reveals: ClassVar[str] = "nothing: a receipt"


class Told(Message, frozen=True, kw_only=True):
    kind: ClassVar[str] = "leaving.told"
    reveals: ClassVar[str] = "a number"


def question(name: str, answered: type[Message], reveals: str = "") -> type[Question]:
    space = {"kind": f"leaving.{name}", "answer": answered, "answer_reveals": reveals}
    annotations = {"kind": ClassVar[str], "answer": ClassVar[type[Message]], "answer_reveals": ClassVar[str]}
    made: Any = type(Question)(
        name, (Question,), {**space, "__annotations__": annotations}, frozen=True, kw_only=True
    )
    return made


class LeavingSite(Site[Memory]):
    @answers(question("one", Told))
    def one(self, ask: Any) -> Told:
        return Told()

    @answers(question("two", Told))
    def two(self, ask: Any) -> Told:
        return Told()

    @answers(question("three", Told, "a sum"))
    def three(self, ask: Any) -> Told:
        return Told()

    @answers(question("four", Quiet))
    def four(self, ask: Any) -> Quiet:
        return Quiet()

    @answers(Count)
    def count(self, ask: Count) -> Told:  # a protocol's question, not the method's
        return Told()
