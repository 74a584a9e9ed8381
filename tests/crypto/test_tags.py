"""Tags: they add up like vectors, and no other sum, no other list of sites and no multiple has one that is known."""

from __future__ import annotations

import os

import flint
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgeom.crypto import tags
from fedgeom.crypto.keys import fingerprint
from fedgeom.crypto.masks import KeyStream
from fedgeom.crypto.tags import MODULUS, WORDS, is_sum, site_tag

KEY = bytes(range(32))
NAMES = ("anna", "bert", "carl")

wide = st.integers(-(2**61), 2**61)


def add(vectors: dict[str, np.ndarray], key: bytes = KEY) -> tuple[np.ndarray, np.ndarray]:
    """Return the sum of vectors and that of their tags, as a coordinator gets them."""
    total = np.sum(list(vectors.values()), axis=0)
    return total, np.sum([site_tag(key, name, vector) for name, vector in vectors.items()], axis=0)


def some(length: int = 5, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.integers(-(2**60), 2**60, length) for name in NAMES}


def slowly(key: bytes, vector: np.ndarray) -> int:
    """Return a·v by the definition, with Python's integers."""
    words = (
        KeyStream(fingerprint(b"factors", key)).words(2 * min(len(vector), tags._PIECE)).view(np.uint32).tolist()
    )
    factors = [
        sum((word & 0xFFFFFF) << 24 * i for i, word in enumerate(words[at : at + 4]))
        for at in range(0, len(words), 4)
    ]
    more = KeyStream(fingerprint(b"pieces", key))
    total = 0
    for at in range(0, len(vector), tags._PIECE):
        own = int.from_bytes(more.take(16), "little") if at else 1
        piece = vector[at : at + tags._PIECE].tolist()
        total += own * sum(factor * value for factor, value in zip(factors, piece, strict=False))
    return total % MODULUS


@given(st.lists(wide, min_size=0, max_size=20))
def test_the_fast_product_is_the_definition(values: list[int]) -> None:
    vector = np.array(values, np.int64)
    assert tags._combine(KEY, vector) == slowly(KEY, vector)


@pytest.mark.parametrize("length", [8, 9, 1000])
def test_pieces_have_factors_of_their_own(monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    vector = np.random.default_rng(1).integers(-(2**62), 2**62, length)
    whole = tags._combine(KEY, vector)
    assert whole == slowly(KEY, vector)
    monkeypatch.setattr(tags, "_PIECE", 8)
    assert tags._combine(KEY, vector) == slowly(KEY, vector)
    assert (tags._combine(KEY, vector) == whole) == (length <= 8)


@pytest.mark.parametrize("value", [-(2**63), -1, 2**63 - 1])
def test_the_largest_numbers_add_up_exactly(value: int) -> None:
    vector = np.full(tags._PIECE + 1, value, np.int64)
    assert tags._combine(KEY, vector) == slowly(KEY, vector)


def test_the_largest_factors_add_up_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tags, "_factors", lambda key, count: np.full((count, 4), 2.0**24 - 1))
    vector = np.full(tags._PIECE, -1, np.int64)  # all digits but the highest are as large as they can be
    assert tags._combine(KEY, vector) == -tags._PIECE * (2**96 - 1) % MODULUS


def test_entries_that_change_places_between_pieces_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tags, "_PIECE", 2)  # entries 1, 3 and 5 have the same factor within their pieces
    vectors = some(length=6)
    total, words = add(vectors)
    assert is_sum(KEY, NAMES, total, words.tolist())
    for one, other in ((1, 3), (3, 5)):
        changed = total.copy()
        changed[[one, other]] = total[[other, one]]
        assert not is_sum(KEY, NAMES, changed, words.tolist())


@given(st.lists(st.tuples(wide, wide, wide), min_size=1, max_size=10))
def test_the_tags_of_vectors_add_up_to_the_tag_of_their_sum(rows: list[tuple[int, int, int]]) -> None:
    vectors = {name: np.array([row[at] for row in rows], np.int64) for at, name in enumerate(NAMES)}
    total, words = add(vectors)
    assert len(words) == WORDS
    assert is_sum(KEY, NAMES, total, words.tolist())


@given(st.integers(0, 4), st.integers(1, 2**62))
def test_any_other_sum_is_noticed(at: int, by: int) -> None:
    total, words = add(some())
    total[at] = np.int64((int(total[at]) + by + 2**63) % 2**64 - 2**63)
    assert not is_sum(KEY, NAMES, total, words.tolist())


def test_a_flipped_top_bit_is_noticed_every_time() -> None:
    for trial in range(50):
        key = os.urandom(32)
        total, words = add(some(seed=trial), key)
        total[trial % 5] ^= np.int64(-(2**63))
        assert not is_sum(key, NAMES, total, words.tolist())


def test_twice_the_sum_has_not_twice_the_tag() -> None:
    vectors = {name: vector >> 3 for name, vector in some().items()}
    total, words = add(vectors)
    assert not is_sum(KEY, NAMES, 2 * total, (2 * words).tolist())
    assert not is_sum(KEY, NAMES, 0 * total, (0 * words).tolist())


def test_without_pads_it_would_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tags, "_pad", lambda key, site: 0)
    monkeypatch.setattr(tags, "_pads", lambda key, sites: 0)
    total, words = add({name: vector >> 3 for name, vector in some().items()})
    assert is_sum(KEY, NAMES, 2 * total, (2 * words).tolist())


@pytest.mark.parametrize("sites", [("anna", "bert"), ("anna", "bert", "carl", "dora"), ("anna", "bert", "dora")])
def test_the_sum_of_other_sites_is_noticed(sites: tuple[str, ...]) -> None:
    total, words = add(some())
    assert not is_sum(KEY, sites, total, words.tolist())


@given(st.integers(1, 40))
def test_a_tag_is_bound_to_the_length(more: int) -> None:
    total, words = add(some())
    longer = np.concatenate([total, np.zeros(more, np.int64)])
    assert not is_sum(KEY, NAMES, longer, words.tolist())
    ending = {name: np.concatenate([vector[:-1], np.zeros(1, np.int64)]) for name, vector in some().items()}
    total, words = add(ending)
    assert not is_sum(KEY, NAMES, total[:-1], words.tolist())


def test_lengths_have_pads_of_their_own() -> None:
    """Tags of zeros are pads: those of one length do not help with another."""
    none = [site_tag(KEY, "anna", np.zeros(length, np.int64)).tolist() for length in range(5)]
    assert len(set(map(tuple, none))) == 5


def test_another_key_has_other_tags() -> None:
    total, words = add(some())
    assert not is_sum(fingerprint(KEY), NAMES, total, words.tolist())


def test_words_do_not_wrap_in_a_ring_of_64_bits() -> None:
    vectors = {f"site-{at}": np.array([at, -at]) for at in range(500)}
    total, words = add(vectors)
    assert words.max() < 500 * 2**32
    assert is_sum(KEY, vectors, total, words.tolist())


def test_the_modulus_is_a_prime_above_every_sum() -> None:
    assert 2**64 < MODULUS < 2 ** (32 * WORDS)
    assert flint.fmpz(MODULUS).is_prime()  # proven, not only probable


def test_a_sum_that_was_checked_vouches_for_no_other() -> None:
    total, words = add(some())
    total.flags.writeable = False
    for _ in range(2):
        assert is_sum(KEY, NAMES, total, words.tolist())
    other = total + 1
    other.flags.writeable = False
    assert not is_sum(KEY, NAMES, other, words.tolist())
    assert is_sum(KEY, NAMES, total, words.tolist())
    assert not is_sum(fingerprint(KEY), NAMES, total, words.tolist())


def test_a_sum_that_can_be_written_to_is_not_remembered() -> None:
    total, words = add(some())
    assert is_sum(KEY, NAMES, total, words.tolist())
    total[0] += 1
    assert not is_sum(KEY, NAMES, total, words.tolist())
