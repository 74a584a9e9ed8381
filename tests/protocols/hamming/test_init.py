"""Secure Hamming: every variant equals the plain distances, refuses bad letters, and shows nothing on the way."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
from scipy.stats import ks_2samp

from fedgeom.errors import InputError, ProtocolError
from fedgeom.protocols.hamming import (
    DEFAULT,
    PackedBits,
    Paillier,
    PairTurn,
    Variant,
    converse,
    open_shares,
    plain_distances,
    variant,
)
from tests.protocols.hamming.words import bits, even, flat, opened

NEEDS = {"bfv": "seal", "lattice": "numpy", "paillier": "gmpy2", "paillier-unpacked": "gmpy2", "ot": "flint"}
NAMES = [
    pytest.param(name, marks=pytest.mark.skipif(importlib.util.find_spec(library) is None, reason=f"no {library}"))
    for name, library in NEEDS.items()
]
each = pytest.mark.parametrize("name", NAMES)


def quick(name: str) -> Variant:
    """Return a variant; Paillier's with the smaller key, as these tests are about the protocol."""
    kind = variant(name)
    return dataclasses.replace(kind, bits=2048, slots=min(kind.slots, 100)) if isinstance(kind, Paillier) else kind


def test_unknown_variants_and_sizes_are_refused() -> None:
    with pytest.raises(InputError, match="bfv"):
        variant("rot13")
    for slots, size in ((0, 2048), (126, 2048), (100, 1024), (190, 3072)):
        with pytest.raises(InputError, match="slots"):
            Paillier(slots=slots, bits=size)
    assert variant().name == DEFAULT


HARD: dict[str, Callable[[int], tuple[PackedBits, PackedBits]]] = {
    "all zero": lambda length: (flat(2, length, 0), flat(3, length, 0)),
    "all one": lambda length: (flat(2, length, 1), flat(3, length, 1)),
    "complementary": lambda length: (flat(4, length, 0), flat(2, length, 1)),
    "complementary the other way": lambda length: (flat(4, length, 1), flat(2, length, 0)),
    "equal": lambda length: (bits(3, length), bits(3, length)),
    "mixed": lambda length: (
        PackedBits.of(np.vstack([np.zeros(length), np.ones(length), bits(3, length, 1).unpacked()])),
        PackedBits.of(np.vstack([np.ones(length), bits(2, length, 2).unpacked(), np.zeros(length)])),
    ),
}


@pytest.mark.full
@each
@pytest.mark.parametrize("case", HARD)
def test_hard_vectors(name: str, case: str) -> None:
    asker, helper = HARD[case](19)
    assert np.array_equal(opened(quick(name), asker, helper), plain_distances(asker, helper))


@each
@pytest.mark.parametrize(("one", "other", "length"), [(1, 1, 1), (1, 4, 8), (5, 1, 9)])
def test_small_sizes(name: str, one: int, other: int, length: int) -> None:
    asker, helper = bits(one, length, 3), bits(other, length, 4)
    assert np.array_equal(opened(quick(name), asker, helper), plain_distances(asker, helper))


@pytest.mark.parametrize("name", NAMES[:1] + NAMES[-1:])
@pytest.mark.parametrize(
    ("one", "other", "length"), [(31, 17, 1000), (100, 40, 513), (2, 3, 65535), (10, 70, 4096)]
)
def test_larger_sizes(name: str, one: int, other: int, length: int) -> None:
    asker, helper = bits(one, length, 5), bits(other, length, 6, 0.9)
    assert np.array_equal(opened(quick(name), asker, helper), plain_distances(asker, helper))


class Turn(NamedTuple):
    """One letter on its way, and how to take it."""

    letter: bytes
    take: Callable[[bytes], PairTurn]


def turns(name: str) -> list[Turn]:
    """Return the turns of one conversation, ready to be played again with other letters."""
    kind, asker, helper = quick(name), bits(4, 20), bits(3, 20, 1)
    step = kind.begin(asker, 3)
    own, memory, found = step.state or b"", None, []
    letter = step.letter
    while letter is not None:
        if len(found) % 2:
            found.append(Turn(letter, lambda sent, own=own: kind.step_a(asker, 3, own, sent)))
            own, letter, _ = found[-1].take(letter)
        else:
            found.append(Turn(letter, lambda sent, memory=memory: kind.step_b(helper, 4, memory, sent)))
            memory, letter, _ = found[-1].take(letter)
    return found


@each
def test_malformed_letters_are_refused(name: str) -> None:
    played = turns(name)
    for at, turn in enumerate(played):
        tag, *fields = msgspec.msgpack.decode(turn.letter)
        wrong: list[bytes] = [
            b"",
            b"\xc1",
            turn.letter[:-1],
            turn.letter + b"\0",
            turn.letter + bytes(10**6),
            bytes(len(turn.letter)),
            msgspec.msgpack.encode({"kind": tag}),
            msgspec.msgpack.encode([tag]),
            msgspec.msgpack.encode(["other", *fields]),
            msgspec.msgpack.encode([tag, *fields, b"more"]),
            msgspec.msgpack.encode([tag, *("text" for _ in fields)]),
            msgspec.msgpack.encode([tag, *(7 for _ in fields)]),
            msgspec.msgpack.encode([tag, *(b"" for _ in fields)]),
            b"\x92" + msgspec.msgpack.encode(tag) + b"\xc6\xff\xff\xff\xff",  # claims 4 GB
            b"\xdd\xff\xff\xff\xff",
            b"\x91" * 5000,
        ]
        for place in range(len(fields)):
            for other in (fields[place][:-1], fields[place] + b"\0", fields[place] * 2):
                changed = [*fields[:place], other, *fields[place + 1 :]]
                wrong.append(msgspec.msgpack.encode([tag, *changed]))
        wrong += [other.letter for number, other in enumerate(played) if number != at]
        for letter in wrong:
            with pytest.raises(ProtocolError):
                turn.take(letter)


@pytest.mark.parametrize("name", NAMES[:1] + NAMES[2:3] + NAMES[-1:])
@pytest.mark.parametrize("fill", [0, 255])
def test_numbers_out_of_range_are_refused(name: str, fill: int) -> None:
    """Lattice and group elements have bounds; all zeros are a ciphertext or correction like any other."""
    for turn in turns(name):
        tag, *fields = msgspec.msgpack.decode(turn.letter)
        letter = msgspec.msgpack.encode([tag, *(bytes([fill]) * len(field) for field in fields)])
        if tag in ("ot.columns", "ot.corrections") or (tag == "bfv.answers" and not fill):
            turn.take(letter)
        else:
            with pytest.raises(ProtocolError):
                turn.take(letter)


@pytest.mark.parametrize("fill", [0, 255])
def test_numbers_modulo_a_power_of_two_have_no_bounds(fill: int) -> None:
    """Any bytes are ciphertexts or answers: they lead to a wrong share, of the right form."""
    for turn in turns("lattice"):
        tag, *fields = msgspec.msgpack.decode(turn.letter)
        honest = turn.take(turn.letter)
        step = turn.take(msgspec.msgpack.encode([tag, *(bytes([fill]) * len(field) for field in fields)]))
        assert len(step.letter or b"") == len(honest.letter or b"")
        assert np.shape(step.share) == np.shape(honest.share)


@pytest.mark.parametrize("name", NAMES[:3])
def test_a_flipped_bit_is_refused_or_harmless(name: str) -> None:
    """What is not refused leads to a wrong share at worst: of the right form, and no longer letter than usual."""

    def form(step: PairTurn) -> tuple[Any, ...]:
        return step.state is None, len(step.letter or b""), None if step.share is None else np.shape(step.share)

    rng = np.random.default_rng(0)
    for turn in turns(name):
        honest = form(turn.take(turn.letter))
        for place in [*range(40), *rng.integers(0, len(turn.letter), 20).tolist()]:
            changed = bytearray(turn.letter)
            changed[place] ^= 1 << int(rng.integers(8))
            try:
                step = turn.take(bytes(changed))
            except ProtocolError:
                continue
            assert form(step) == honest


@each
def test_letters_at_the_wrong_turn_are_refused(name: str) -> None:
    kind, asker, helper = quick(name), bits(2, 10), bits(2, 10, 1)
    first = kind.begin(asker, 2)
    with pytest.raises(ProtocolError):
        kind.step_b(helper, 2, b"a state from elsewhere", first.letter or b"")
    with pytest.raises(ProtocolError):
        kind.step_a(asker, 2, first.state or b"", first.letter or b"")
    with pytest.raises(ProtocolError):
        kind.step_b(helper, 4000, None if kind.passes == 2 else b"", first.letter or b"")
    with pytest.raises(ProtocolError):
        kind.step_a(asker, 2, b"", turns(name)[1].letter)


def shares(name: str, asker: PackedBits, helper: PackedBits) -> tuple[np.ndarray, np.ndarray]:
    talk = converse(quick(name), asker, helper)
    return talk.asker, talk.helper


@pytest.mark.parametrize("name", NAMES[:2] + NAMES[-1:])
@pytest.mark.parametrize(("a", "b"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_shares_are_uniform_whatever_the_bits(name: str, a: int, b: int) -> None:
    rows, columns = (60, 50)
    for share in shares(name, flat(rows, 16, a), flat(columns, 16, b)):
        assert even(share.view(np.uint8))


@pytest.mark.parametrize("name", NAMES[:2] + NAMES[-1:])
def test_the_askers_share_is_the_same_for_near_and_far_points(name: str) -> None:
    """The paper's masks fail this: with r below L, far points have larger shares."""
    asker = flat(60, 24, 0)
    near, far = (shares(name, asker, flat(50, 24, value))[0].ravel() for value in (0, 1))
    assert ks_2samp(near, far).pvalue > 1e-6
    assert abs(np.corrcoef(near, far)[0, 1]) < 0.1


@each
def test_nothing_is_used_twice(name: str) -> None:
    asker, helper = bits(3, 16), bits(3, 16, 1)
    one, two = (converse(quick(name), asker, helper) for _ in range(2))
    assert not np.array_equal(one.asker, two.asker)
    assert not np.array_equal(one.helper, two.helper)
    for first, second in zip(one.letters, two.letters, strict=True):
        assert first != second


def test_the_helper_answers_one_letter_twice_with_nothing_in_common() -> None:
    for name, library in (("bfv", "seal"), ("lattice", "numpy"), ("paillier", "gmpy2")):
        pytest.importorskip(library)
        kind, asker, helper = quick(name), bits(20, 16), bits(30, 16, 1)
        begun = kind.begin(asker, 30)
        answers = [kind.step_b(helper, 20, None, begun.letter or b"") for _ in range(2)]
        fields = [msgspec.msgpack.decode(answer.letter or b"")[-1] for answer in answers]
        same = np.mean(np.frombuffer(fields[0], np.uint8) == np.frombuffer(fields[1], np.uint8))
        assert same < 0.03  # of 2,400 bytes or more, 1/256 by chance
        for answer in answers:
            share = kind.step_a(asker, 30, begun.state or b"", answer.letter or b"").share
            assert share is not None
            assert answer.share is not None
            found = open_shares(share, answer.share, 16, kind.group)
            assert np.array_equal(found, plain_distances(asker, helper))


@pytest.mark.full
@each
@pytest.mark.parametrize(("one", "other", "length"), [(3, 5, 16), (40, 7, 100)])
def test_letters_are_as_long_as_was_said_before(name: str, one: int, other: int, length: int) -> None:
    kind = quick(name)
    talk = converse(kind, bits(one, length), bits(other, length, 1))
    said = kind.sizes(one, other, length)
    assert len(said) == len(talk.letters) == kind.passes
    for size, letter in zip(said, talk.letters, strict=True):
        assert size == len(letter)
