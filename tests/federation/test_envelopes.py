"""Large vectors travel where they stand: the same bytes as ever, and nothing but the room around them is written."""

from __future__ import annotations

from typing import ClassVar

import msgspec
import numpy as np
import pytest

from fedgeom.federation.messages import (
    LARGE,
    ROOM,
    Array,
    Message,
    encode,
    lengthened,
    pack,
    pack_body,
    pack_large,
    pieces,
    put_together,
    roomy_words,
    unpack,
)
from fedgeom.methods.ridge.messages import CheckPart
from fedgeom.protocols.secure_sum.messages import MaskedVector, SumResult

RUN = bytes(range(32))
WORDS = LARGE // 8


def masked(vector):
    return MaskedVector(vector=Array.of(vector, copy=False), signature=bytes(64))


@pytest.mark.parametrize("count", [0, 1, 31, 32, 8191, 8192, WORDS - 1, WORDS, WORDS + 1])
@pytest.mark.parametrize("make", [roomy_words, lambda count: np.empty(count, np.uint64)])
def test_a_frame_has_the_same_bytes_however_its_vector_came_into_it(count, make):
    vector = make(count)
    vector[:] = np.random.default_rng(count).integers(0, 2**64, count, np.uint64)
    numbers, message = vector.copy(), masked(vector)
    wanted = pack_body(RUN, "a method", message.kind, encode(message))
    assert pack(RUN, "a method", message) == wanted  # in its room, where it has any
    assert pack_large(RUN, "a method", message) == wanted  # the room is used: a copy
    assert np.array_equal(vector, numbers)
    assert unpack(wanted).kind == message.kind


@pytest.mark.parametrize("count", [0, 31, WORDS - 1, WORDS, 3 * WORDS])
def test_a_sum_within_a_question_travels_in_the_same_bytes_and_is_not_copied_to_be_hashed(count):
    vector = np.random.default_rng(count).integers(0, 2**64, count, np.uint64)
    total, tag = Array.of(vector, copy=False), Array.of(np.arange(3, dtype=np.uint64))
    question = CheckPart(number=3, result=SumResult(round=7, sites=("a", "b"), total=total, tag=tag))
    wanted = pack_body(RUN, "a method", question.kind, encode(question))
    assert pack(RUN, "a method", question) == pack_large(RUN, "a method", question) == wanted
    made = pieces(question)
    assert b"".join(made) == encode(question)
    assert any(one is total.data for one in made) == (count >= WORDS)


class Numbered(msgspec.Struct, frozen=True, array_like=True):
    """A struct that is no map of its fields where it travels."""

    vector: Array


class Named(msgspec.Struct, frozen=True, tag="named"):
    """A struct with one field more where it travels."""

    vector: Array


class Telling(Message, frozen=True, kw_only=True):
    """A message with such a struct in it."""

    kind: ClassVar[str] = "test.telling"
    reveals: ClassVar[str] = "nothing"
    inner: Numbered | Named


@pytest.mark.parametrize("kind", [Numbered, Named])
def test_structs_that_are_no_plain_maps_travel_as_ever(kind):
    message = Telling(inner=kind(Array.of(np.zeros(WORDS))))
    assert pack_large(RUN, "m", message) == pack_body(RUN, "m", message.kind, encode(message))


def test_a_large_vector_is_not_copied_and_its_room_serves_once():
    vector = roomy_words(WORDS)
    vector[:] = 7
    frame = pack_large(RUN, "first", masked(vector))
    assert np.shares_memory(np.frombuffer(frame, np.uint8), vector)
    before = bytes(frame)
    again = pack_large(RUN, "another and longer method", masked(vector))
    assert not np.shares_memory(np.frombuffer(again, np.uint8), vector)
    assert bytes(frame) == before
    with pytest.raises(TypeError):
        frame[0] = 0


def test_what_stands_around_a_part_of_another_array_is_left_alone():
    whole = np.full(3 * WORDS, 5, np.uint64)
    pack_large(RUN, "m", masked(whole[WORDS : 2 * WORDS]))
    part = roomy_words(3 * WORDS)
    part[:] = 5
    pack_large(RUN, "m", masked(part[WORDS : 2 * WORDS]))
    assert (whole == 5).all()
    assert (part == 5).all()


def test_a_vector_grows_into_its_room_and_no_further():
    vector = roomy_words(WORDS)
    vector[:] = 1
    longer = lengthened(vector, np.array([2, 3], np.uint64))
    assert np.shares_memory(longer, vector)
    assert longer[-3:].tolist() == [1, 2, 3]
    assert len(longer) == WORDS + 2
    assert not np.shares_memory(lengthened(vector, np.zeros(ROOM // 8 + 1, np.uint64)), vector)
    small = np.ones(3, np.uint64)
    assert lengthened(small, np.array([4], np.uint64)).tolist() == [1, 1, 1, 4]


def test_many_parts_are_put_one_after_the_other():
    large = bytes(range(256)) * (LARGE // 256)
    assert bytes(put_together([b"a", large, b"b", memoryview(large), b"c"])) == b"a" + large + b"b" + large + b"c"
    assert put_together([b"a", b"b"]) == b"ab"


def test_a_large_message_without_a_large_array_is_bytes():
    made = pack_large(RUN, "m", MaskedVector(vector=Array.of(np.empty(0, np.uint64)), signature=bytes(64)))
    assert isinstance(made, bytes)
    question = Wordy(text="x" * LARGE)
    assert isinstance(pack_large(RUN, "m", question), bytes)
    assert pack_large(RUN, "m", question) == pack(RUN, "m", question)


class Wordy(Message, frozen=True, kw_only=True):
    kind: ClassVar[str] = "wordy"
    text: str
