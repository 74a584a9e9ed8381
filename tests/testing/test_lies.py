"""Lies about questions: one place changed, the same whoever is asked."""

from __future__ import annotations

from typing import ClassVar

import msgspec
import numpy as np

import fedgeom
from fedgeom.federation.messages import Array, Message, Names, Question, decode, encode
from fedgeom.methods.iterative.setup import Ready
from fedgeom.methods.moments.site import SumClassMoments
from fedgeom.protocols.secure_sum.messages import hash_question
from fedgeom.testing.adversary import ARRAYS, Lie, lies_about, restamped
from fedgeom.testing.rehearsal import Rehearsal, example_sites

RNG = np.random.default_rng(0)


class Told(Question, frozen=True, kw_only=True):
    """Classes and a scale."""

    kind: ClassVar[str] = "test.told"
    answer: ClassVar[type[Message]] = Ready
    classes: Names
    centre: Array
    spread: Array


ASKED = Told(classes=("a", "b"), centre=Array.of(np.ones(2)), spread=Array.of(np.full(2, 3.0)))


def raw() -> object:
    return msgspec.msgpack.decode(encode(ASKED))


def test_every_field_is_lied_about_and_arrays_as_wholes() -> None:
    lies = lies_about(raw(), RNG)
    assert {lie.path for lie in lies} == {("classes",), ("classes", 0), ("classes", 1), ("centre",), ("spread",)}
    of_centre = [lie for lie in lies if lie.path == ("centre",)]
    assert len(of_centre) == len(ARRAYS) + 1
    assert len({str(lie) for lie in lies}) == len(lies)


def test_a_lie_changes_its_place_and_nothing_else_and_leaves_the_true_one_alone() -> None:
    true = raw()
    changed = 0
    for lie in lies_about(true, RNG):
        told = lie.told(true)
        assert true == raw()
        differs = [name for name in ("classes", "centre", "spread") if told[name] != true[name]]
        assert differs in ([], [lie.path[0]])
        changed += bool(differs)
    assert changed > 20


def test_a_lie_about_what_is_not_there_changes_nothing() -> None:
    assert Lie(("nowhere", 3), "gone", lambda _: 1).told(raw()) == raw()
    assert Lie(("classes", 9), "gone", lambda _: 1).told(raw()) == raw()


def test_the_ticket_of_a_lie_is_made_out_for_it() -> None:
    held = Rehearsal(fedgeom.Moments(), example_sites()).conduct()
    one = next(one for one in held.exchanges if one.frame.kind == SumClassMoments.kind)
    lie = Lie(("classes",), "the other way round", lambda value: value[::-1])
    told = decode(restamped(lie.told(msgspec.msgpack.decode(one.frame.body)), SumClassMoments), SumClassMoments)
    assert told.classes == ("right", "left")
    assert told.ticket.question_hash == hash_question(told)
    assert restamped({"nonsense": 1}, SumClassMoments) == msgspec.msgpack.encode({"nonsense": 1})
