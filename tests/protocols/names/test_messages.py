"""What travels about names: bounded, and hashed so that different lists differ."""

from __future__ import annotations

import pytest

from fedgeom.errors import DecodeError
from fedgeom.federation.messages import decode, encode
from fedgeom.protocols.names import (
    SLOTS,
    HoldNames,
    KeepNames,
    NamesHeld,
    OpenNames,
    SealedNames,
    SealNames,
    Vocabulary,
    hash_lists,
    hash_names,
    slots_for,
)


@pytest.mark.parametrize(("names", "slots"), [(0, 1), (1, 1), (SLOTS, 1), (SLOTS + 1, 2), (1000, 4)])
def test_names_are_counted_under_so_many_numbers(names: int, slots: int) -> None:
    assert slots_for([str(at) for at in range(names)]) == slots * SLOTS


def test_hashes_tell_lists_apart() -> None:
    lists = [{"a": b"xy"}, {"a": b"x", "b": b"y"}, {"ax": b"y"}, {"b": b"xy"}, {}]
    assert len({hash_lists(one) for one in lists}) == len(lists)
    assert hash_lists({"a": b"1", "b": b"2"}) == hash_lists({"b": b"2", "a": b"1"})
    assert len({hash_names(names) for names in (["ab"], ["a", "b"], ["b", "a"], [])}) == 4


@pytest.mark.parametrize("slots", [0, 1, SLOTS - 1, 2**24 + 1, -5])
def test_no_other_number_of_slots_is_read(slots: int) -> None:
    with pytest.raises(DecodeError):
        decode(encode(NamesHeld(slots=slots)), NamesHeld)


def test_nothing_that_is_answered_shows_numbers_of_one_site() -> None:
    for question in (SealNames, OpenNames, HoldNames, KeepNames):
        assert question.answer.harmless
    assert {one.answer for one in (OpenNames, KeepNames)} == {Vocabulary}
    assert SealNames.answer is SealedNames
