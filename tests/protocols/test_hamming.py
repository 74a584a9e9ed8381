"""Secure Hamming: every variant equals the plain distances, refuses bad letters, and shows nothing on the way."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from itertools import combinations
from typing import NamedTuple

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare, ks_2samp

from fedgeom.errors import InputError, ProtocolError
from fedgeom.protocols.hamming import (
    DEFAULT,
    PackedBits,
    Paillier,
    Step,
    Variant,
    converse,
    open_shares,
    plain_distances,
    variant,
)
from fedgeom.protocols.hamming.bfv import layout
from fedgeom.protocols.hamming.bits import Letter, read, write

NEEDS = {"bfv": "seal", "paillier": "gmpy2", "paillier-unpacked": "gmpy2", "ot": "flint"}
NAMES = [
    pytest.param(name, marks=pytest.mark.skipif(importlib.util.find_spec(library) is None, reason=f"no {library}"))
    for name, library in NEEDS.items()
]
each = pytest.mark.parametrize("name", NAMES)


def bits(rows: int, length: int, seed: int = 0, density: float = 0.5) -> PackedBits:
    return PackedBits.of(np.random.default_rng([seed, rows, length]).random((rows, length)) < density)


def flat(rows: int, length: int, value: int) -> PackedBits:
    return PackedBits.of(np.full((rows, length), value))


def opened(kind: Variant, asker: PackedBits, helper: PackedBits) -> np.ndarray:
    talk = converse(kind, asker, helper)
    assert len(talk.letters) == kind.passes
    assert talk.asker.shape == talk.helper.shape == (len(asker), len(helper))
    return open_shares(talk.asker, talk.helper, asker.length, kind.group)


def even(data: np.ndarray) -> bool:
    """Whether bytes look uniform (a wrong alarm once in a million)."""
    return bool(chisquare(np.bincount(data.ravel(), minlength=256)).pvalue > 1e-6)


# The plain twin and the shares.


def test_plain_distances_by_hand() -> None:
    one = PackedBits.of([[0, 0, 0, 0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1, 1, 1]])
    two = PackedBits.of([[1, 0, 0, 0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0, 0, 0, 0]])
    assert plain_distances(one, two).tolist() == [[2, 0], [7, 9]]
    assert one.weights().tolist() == [0, 9]
    with pytest.raises(InputError, match="9 and of 8"):
        plain_distances(one, flat(1, 8, 0))


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 9), st.integers(1, 4), st.integers(1, 12))
def test_opening_is_subtraction_of_long_numbers(data: st.DataObject, rows: int, columns: int, group: int) -> None:
    length = 65535
    wanted = np.array(
        data.draw(st.lists(st.integers(0, length), min_size=rows * columns, max_size=rows * columns))
    )
    wanted = wanted.reshape(rows, columns)
    helper = np.empty((rows, columns), np.uint16)
    asker = np.empty((rows, columns), np.uint16)
    for start in range(0, rows, group):
        size = min(group, rows - start)
        for column in range(columns):
            mask = data.draw(st.integers(0, 2 ** (16 * size) - 1))
            word = sum(int(wanted[start + at, column]) << 16 * at for at in range(size))
            for at in range(size):
                helper[start + at, column] = mask >> 16 * at & 0xFFFF
                asker[start + at, column] = (mask + word) >> 16 * at & 0xFFFF
    assert np.array_equal(open_shares(asker, helper, length, group), wanted)


def test_shares_that_do_not_belong_together_are_noticed() -> None:
    share = np.zeros((2, 2), np.uint16)
    with pytest.raises(ProtocolError, match="belong together"):
        open_shares(share, share + np.uint16(1), 100)
    with pytest.raises(ProtocolError, match="one shape"):
        open_shares(share, share[:1], 100)
    with pytest.raises(ProtocolError, match="uint16"):
        open_shares(share, share.astype(np.int64), 100)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rows", "length", "message"),
    [
        (np.zeros((2, 2), np.uint8), 0, "0 bits"),
        (np.zeros((2, 8192), np.uint8), 65536, "65535"),
        (np.zeros((2, 2), np.uint8), 17, "3 uint8"),
        (np.zeros((0, 2), np.uint8), 16, "at least one row"),
        (np.zeros((2, 2), np.uint16), 16, "uint16"),
        (np.ones((2, 2), np.uint8), 15, "must be 0"),
    ],
)
def test_bits_are_checked(rows: np.ndarray, length: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        PackedBits(rows, length)


def test_only_zeros_and_ones_are_packed() -> None:
    with pytest.raises(InputError, match="zeros and ones"):
        PackedBits.of([[0, 2]])
    with pytest.raises(InputError, match="zeros and ones"):
        PackedBits.of([0, 1])


def test_unknown_variants_and_sizes_are_refused() -> None:
    with pytest.raises(InputError, match="bfv"):
        variant("rot13")
    for slots, size in ((0, 2048), (126, 2048), (100, 1024), (190, 3072)):
        with pytest.raises(InputError, match="slots"):
            Paillier(slots=slots, bits=size)
    assert variant().name == DEFAULT


# Every variant is exact.

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


@each
@pytest.mark.parametrize("case", HARD)
def test_hard_vectors(name: str, case: str) -> None:
    asker, helper = HARD[case](19)
    assert np.array_equal(opened(variant(name), asker, helper), plain_distances(asker, helper))


@each
@pytest.mark.parametrize(("one", "other", "length"), [(1, 1, 1), (1, 4, 8), (5, 1, 9)])
def test_small_sizes(name: str, one: int, other: int, length: int) -> None:
    asker, helper = bits(one, length, 3), bits(other, length, 4)
    assert np.array_equal(opened(variant(name), asker, helper), plain_distances(asker, helper))


@pytest.mark.parametrize("name", NAMES[:1] + NAMES[-1:])
@pytest.mark.parametrize(
    ("one", "other", "length"), [(31, 17, 1000), (100, 40, 513), (2, 3, 65535), (10, 70, 4096)]
)
def test_larger_sizes(name: str, one: int, other: int, length: int) -> None:
    asker, helper = bits(one, length, 5), bits(other, length, 6, 0.9)
    assert np.array_equal(opened(variant(name), asker, helper), plain_distances(asker, helper))


def test_the_farthest_possible_distance_is_not_zero() -> None:
    """Modulo L, as the paper has it, these two would be the same."""
    pytest.importorskip("seal")
    length = 65535
    asker, helper = flat(1, length, 0), PackedBits.of(np.vstack([np.zeros(length), np.ones(length)]))
    assert opened(variant("bfv"), asker, helper).tolist() == [[0, length]]


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 400), st.integers(0, 99))
def test_packed_lattice_on_any_size(one: int, other: int, length: int, seed: int) -> None:
    pytest.importorskip("seal")
    asker, helper = bits(one, length, seed), bits(other, length, seed + 1)
    assert np.array_equal(opened(variant("bfv"), asker, helper), plain_distances(asker, helper))


@pytest.mark.parametrize(
    "sizes", [(100, 100, 4096), (1, 1, 1), (1000, 7, 4096), (7, 1000, 100), (5000, 5000, 65535)]
)
def test_layouts_fit_and_cover(sizes: tuple[int, int, int]) -> None:
    plan = layout(*sizes)
    places = plan.places()
    assert places.max() < 8192
    assert len(set(places.tolist())) == plan.rows * plan.columns
    assert plan.depth * plan.pieces >= sizes[2] > plan.depth * (plan.pieces - 1)
    assert plan.rows * plan.row_groups * 3 >= sizes[0]
    assert plan.columns * plan.column_groups >= sizes[1]


@pytest.mark.parametrize("kind", [Paillier(slots=3), Paillier(slots=125), Paillier(slots=7, bits=3072)])
def test_packed_paillier(kind: Paillier) -> None:
    pytest.importorskip("gmpy2")
    asker, helper = bits(8, 12), PackedBits.of(np.vstack([bits(2, 12, 1).unpacked(), np.ones(12), np.zeros(12)]))
    assert np.array_equal(opened(kind, asker, helper), plain_distances(asker, helper))


# Sites come and go.


def test_a_missing_site_leaves_the_others_as_they_were() -> None:
    kind = variant("ot")
    sites = {"a": bits(2, 30, 1), "b": bits(3, 30, 2), "c": bits(4, 30, 3)}

    def pairs(names: str) -> dict[tuple[str, str], list[list[int]]]:
        return {(x, y): opened(kind, sites[x], sites[y]).tolist() for x, y in combinations(names, 2)}

    everybody = pairs("abc")
    assert pairs("ab") == {pair: table for pair, table in everybody.items() if "c" not in pair}


def test_a_turn_may_find_a_new_process() -> None:
    kind, asker, helper = variant("ot"), bits(2, 20), bits(3, 20, 1)
    one = kind.begin(asker, 3)
    two = kind.step_b(helper, 2, None, one.letter or b"")
    program = (
        "import sys, msgspec, numpy as np\n"
        "from fedgeom.protocols.hamming import PackedBits, variant\n"
        "rows, state, letter = msgspec.msgpack.decode(sys.stdin.buffer.read())\n"
        "mine = PackedBits(np.frombuffer(rows, np.uint8).reshape(2, 3), 20)\n"
        "step = variant('ot').step_a(mine, 3, state, letter)\n"
        "sys.stdout.buffer.write(msgspec.msgpack.encode([step.state, step.letter]))\n"
    )
    given = msgspec.msgpack.encode([asker.rows.tobytes(), one.state, two.letter])
    done = subprocess.run([sys.executable, "-c", program], input=given, capture_output=True, check=True)
    state, letter = msgspec.msgpack.decode(done.stdout)
    three = kind.step_b(helper, 2, two.state, letter)
    four = kind.step_a(asker, 3, state, three.letter or b"")
    assert four.share is not None
    assert three.share is not None
    assert np.array_equal(open_shares(four.share, three.share, 20), plain_distances(asker, helper))


# Letters that are not what they should be.


class Turn(NamedTuple):
    """One letter on its way, and how to take it."""

    letter: bytes
    take: Callable[[bytes], Step]


def turns(name: str) -> list[Turn]:
    """Return the turns of one conversation, ready to be played again with other letters."""
    kind, asker, helper = variant(name), bits(4, 20), bits(3, 20, 1)
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


@pytest.mark.parametrize("name", NAMES[:2] + NAMES[-1:])
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


@pytest.mark.parametrize("name", NAMES[:2])
def test_a_flipped_bit_is_refused_or_harmless(name: str) -> None:
    rng = np.random.default_rng(0)
    for turn in turns(name):
        for place in [*range(40), *rng.integers(0, len(turn.letter), 20).tolist()]:
            changed = bytearray(turn.letter)
            changed[place] ^= 1 << int(rng.integers(8))
            try:
                turn.take(bytes(changed))
            except ProtocolError:
                continue


@each
def test_letters_at_the_wrong_turn_are_refused(name: str) -> None:
    kind, asker, helper = variant(name), bits(2, 10), bits(2, 10, 1)
    first = kind.begin(asker, 2)
    with pytest.raises(ProtocolError):
        kind.step_b(helper, 2, b"a state from elsewhere", first.letter or b"")
    with pytest.raises(ProtocolError):
        kind.step_a(asker, 2, first.state or b"", first.letter or b"")
    with pytest.raises(ProtocolError):
        kind.step_b(helper, 4000, None if kind.passes == 2 else b"", first.letter or b"")
    with pytest.raises(ProtocolError):
        kind.step_a(asker, 2, b"", turns(name)[1].letter)


class _Example(Letter, frozen=True, tag="example"):
    one: bytes


def test_sizes_follow_from_the_reader() -> None:
    assert read(write(_Example(b"abc")), _Example, one=3).one == b"abc"
    with pytest.raises(ProtocolError, match="3 bytes; 4 wanted"):
        read(write(_Example(b"abc")), _Example, one=4)
    with pytest.raises(ProtocolError, match="at most"):
        read(bytes(1000), _Example, one=4)


# What each party sees does not depend on the others' bits.


def shares(name: str, asker: PackedBits, helper: PackedBits) -> tuple[np.ndarray, np.ndarray]:
    talk = converse(variant(name), asker, helper)
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
    one, two = (converse(variant(name), asker, helper) for _ in range(2))
    assert not np.array_equal(one.asker, two.asker)
    assert not np.array_equal(one.helper, two.helper)
    for first, second in zip(one.letters, two.letters, strict=True):
        assert first != second


@pytest.mark.parametrize("value", [0, 1])
def test_transfer_letters_are_uniform(value: int) -> None:
    talk = converse(variant("ot"), flat(8, 512, value), flat(20, 512, 1 - value))
    for letter in talk.letters[2:]:
        _, numbers = msgspec.msgpack.decode(letter)
        assert even(np.frombuffer(numbers, np.uint8))


@pytest.mark.parametrize("value", [0, 1])
def test_lattice_letters_are_uniform(value: int) -> None:
    pytest.importorskip("seal")
    talk = converse(variant("bfv"), flat(90, 300, value), flat(60, 300, 1 - value))
    for letter in talk.letters:
        for field in msgspec.msgpack.decode(letter)[-2:]:
            if len(field) == 8 * 6 * 8192:
                continue  # a public key, in part modulo a small prime
            low = np.frombuffer(field, "<u8") & np.uint64(2**16 - 1)  # the top bits follow the primes
            assert even(low.astype("<u2").view(np.uint8))


def test_the_helper_answers_one_letter_twice_with_nothing_in_common() -> None:
    for name, library in (("bfv", "seal"), ("paillier", "gmpy2")):
        pytest.importorskip(library)
        kind, asker, helper = variant(name), bits(3, 16), bits(4, 16, 1)
        begun = kind.begin(asker, 4)
        answers = [kind.step_b(helper, 3, None, begun.letter or b"") for _ in range(2)]
        fields = [msgspec.msgpack.decode(answer.letter or b"")[-1] for answer in answers]
        same = np.mean(np.frombuffer(fields[0], np.uint8) == np.frombuffer(fields[1], np.uint8))
        assert same < 0.03
        for answer in answers:
            share = kind.step_a(asker, 4, begun.state or b"", answer.letter or b"").share
            assert share is not None
            assert answer.share is not None
            found = open_shares(share, answer.share, 16, kind.group)
            assert np.array_equal(found, plain_distances(asker, helper))
