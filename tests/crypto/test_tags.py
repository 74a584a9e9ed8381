"""Tags: they add up like vectors, and no other sum, no other list of sites and no multiple has one that is known."""

from __future__ import annotations

import os

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
    words = KeyStream(fingerprint(b"coefficients", key)).words(-(-6 * len(vector) // 4)).view(np.uint16)
    total = 0
    for at, value in enumerate(vector.tolist()):
        limbs = [int(word) & 0x7FFF for word in words[6 * at : 6 * at + 6]]
        total += value * sum(limb << 15 * i for i, limb in enumerate(limbs))
    return total % MODULUS


@given(st.lists(wide, min_size=0, max_size=20))
def test_the_fast_product_is_the_definition(values: list[int]) -> None:
    vector = np.array(values, np.int64)
    assert tags._combine(KEY, vector) == slowly(KEY, vector)


def test_the_product_does_not_depend_on_how_a_vector_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    vector = np.random.default_rng(1).integers(-(2**62), 2**62, 1000)
    whole = tags._combine(KEY, vector)
    monkeypatch.setattr(tags, "_PIECE", 8)
    assert tags._combine(KEY, vector) == whole == slowly(KEY, vector)


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
    total, words = add({name: vector >> 3 for name, vector in some().items()})
    assert is_sum(KEY, NAMES, 2 * total, (2 * words).tolist())


@pytest.mark.parametrize("sites", [("anna", "bert"), ("anna", "bert", "carl", "dora"), ("anna", "bert", "dora")])
def test_the_sum_of_other_sites_is_noticed(sites: tuple[str, ...]) -> None:
    total, words = add(some())
    assert not is_sum(KEY, sites, total, words.tolist())


def test_another_key_has_other_tags() -> None:
    total, words = add(some())
    assert not is_sum(fingerprint(KEY), NAMES, total, words.tolist())


def test_words_do_not_wrap_in_a_ring_of_64_bits() -> None:
    vectors = {f"site-{at}": np.array([at, -at]) for at in range(500)}
    total, words = add(vectors)
    assert words.max() < 500 * 2**32
    assert is_sum(KEY, vectors, total, words.tolist())


def test_the_modulus_is_a_prime_above_every_sum() -> None:
    assert MODULUS > 2**64
    assert pow(3, MODULUS - 1, MODULUS) == 1
    lucas = 4  # the test of Lucas and Lehmer: 2^89 - 1 is prime just if the 87th number is 0
    for _ in range(87):
        lucas = (lucas * lucas - 2) % MODULUS
    assert lucas == 0


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
