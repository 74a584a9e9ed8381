"""Sparse power sums: what goes in comes out, sums come out summed, everything else is refused."""

import itertools
import random
from typing import Any

import numpy as np
import pytest
from flint import nmod_poly
from hypothesis import given
from hypothesis import strategies as st

from fedgeom.codes.fields import is_prime
from fedgeom.codes.scma import ScmaCode, _half_euclid, roots_of_split_polynomial
from fedgeom.codes.sidon import bose_chowla
from fedgeom.errors import DecodeError, InputError
from tests.tiers import examples


def slow_word(code: ScmaCode, vector: dict[int, int]) -> list[int]:
    """Compute the power sums by their definition in Section 5.5."""
    q = code.modulus
    return [sum(v * pow(b, power, q) for b, v in vector.items()) % q for power in range(code.length)]


def slow_decode(code: ScmaCode, word: list[int]) -> list[dict[int, int]]:
    """Find every vector with at most one or two non-empty bins that explains a word, by trying all."""
    q = code.modulus
    vectors = [{}] + [{b: v} for b in range(1, code.bins + 1) for v in range(1, q)]
    if code.capacity > 1:
        vectors += [a | b for a in vectors[1:] for b in vectors[1:] if min(a) < min(b)]
    return [vector for vector in vectors if slow_word(code, vector) == word]


def encode(code: ScmaCode, vector: dict[int, int]) -> Any:
    return code.encode(list(vector), list(vector.values()))


def decode(code: ScmaCode, word: Any) -> dict[int, int]:
    bins, values = code.decode(word)
    assert bins.dtype == np.int64
    assert values.dtype == np.uint64
    assert bins.tolist() == sorted(bins.tolist())
    return dict(zip(bins.tolist(), values.tolist(), strict=True))


def prime_above(lower: int, *, two_power: int = 0) -> int:
    """Return the smallest prime q > lower with q ≡ 1 mod 2**two_power."""
    step = 1 << two_power
    return next(q for q in itertools.count(lower - (lower - 1) % step + step, step) if is_prime(q))


def add(a: Any, b: Any, modulus: int) -> Any:
    """Add vectors of residues below 2**63, which do not overflow."""
    return (a + b) % np.uint64(modulus)


MODULI = [2, 3, 7, 17, 101, 257, 65537, prime_above(2**40), prime_above(2**45, two_power=8), 2**63 - 25]


@st.composite
def codes(draw: st.DrawFn, largest_capacity: int = 12) -> ScmaCode:
    q = draw(st.sampled_from(MODULI))
    bins = draw(st.integers(1, min(q - 1, 50_000_000)))
    return ScmaCode(q, draw(st.integers(1, largest_capacity)), bins, draw(st.integers(0, 3)))


@st.composite
def vectors(draw: st.DrawFn, code: ScmaCode, most: int) -> dict[int, int]:
    return draw(
        st.dictionaries(st.integers(1, code.bins), st.integers(1, code.modulus - 1), max_size=min(most, code.bins))
    )


def test_a_word_computed_by_hand():
    code = ScmaCode(modulus=101, capacity=2, bins=50, checks=1)
    # 20·3^l + 10·7^l for l = 0 … 4: 30, 130, 670, 3970, 25630 modulo 101.
    word = code.encode([7, 3], [10, 20])
    assert word.tolist() == [30, 29, 64, 31, 77]
    assert decode(code, word) == {3: 20, 7: 10}


@given(st.data())
def test_encoding_matches_the_definition(data: st.DataObject):
    code = data.draw(codes())
    vector = data.draw(vectors(code, 20))
    assert encode(code, vector).tolist() == slow_word(code, vector)


@examples(300)
@given(st.data())
def test_round_trip(data: st.DataObject):
    code = data.draw(codes())
    vector = data.draw(vectors(code, code.capacity))
    assert decode(code, encode(code, vector)) == vector


@pytest.mark.parametrize("two_power", [0, 1, 2, 5, 8, 20])
@pytest.mark.parametrize("count", [0, 1, 2, 95, 96, 97, 300, 301])
def test_round_trip_of_longer_words(count: int, two_power: int):
    """Enough bins for the recursive Euclid, full and nearly empty words, primes of every shape."""
    rng = random.Random(count)
    code = ScmaCode(prime_above(2**44, two_power=two_power), 301, 10**7)
    vector = {b: rng.randrange(1, code.modulus) for b in rng.sample(range(1, code.bins + 1), count)}
    assert decode(code, encode(code, vector)) == vector


def test_neighbouring_bins_and_equal_values():
    """Structured vectors make Euclid's quotients jump; the answer must not care."""
    code = ScmaCode(prime_above(2**40), 400, 1000)
    for vector in (
        dict.fromkeys(range(1, 401), 1),
        dict.fromkeys(range(601, 1001), 5),
        {b: b for b in range(2, 801, 2)},
        {b: (-1) ** b % code.modulus for b in range(1, 400)},
    ):
        assert decode(code, encode(code, vector)) == vector


def test_values_come_back_reduced():
    code = ScmaCode(101, 3, 10)
    assert decode(code, code.encode([1, 2, 3], [-1, 205, 101])) == {1: 100, 2: 3}
    assert decode(code, code.encode(np.array([4], dtype=np.int32), np.array([2**64 - 1], dtype=np.uint64))) == {
        4: (2**64 - 1) % 101
    }


@examples(150)
@given(st.data())
def test_words_of_several_sites_add_up(data: st.DataObject):
    """Linearity: the sum of the words is the word of the sum, and bins that cancel are empty."""
    code = data.draw(codes())
    sites = data.draw(st.lists(vectors(code, 5), min_size=1, max_size=4))
    word = np.zeros(code.length, dtype=np.uint64)
    total: dict[int, int] = {}
    for vector in sites:
        word = add(word, encode(code, vector), code.modulus)
        for b, v in vector.items():
            total[b] = (total.get(b, 0) + v) % code.modulus
    total = {b: v for b, v in total.items() if v}
    assert word.tolist() == slow_word(code, total)
    if len(total) <= code.capacity:
        assert decode(code, word) == total


def test_values_that_cancel_leave_an_empty_bin():
    code = ScmaCode(101, 2, 50)
    word = add(code.encode([5, 9], [40, 1]), code.encode([5, 30], [61, 2]), 101)
    assert decode(code, word) == {9: 1, 30: 2}
    empty = add(code.encode([5], [40]), code.encode([5], [61]), 101)
    assert not empty.any()
    assert decode(code, empty) == {}


@examples(150)
@given(st.data())
def test_a_corrupted_symbol_is_noticed(data: st.DataObject):
    q = data.draw(st.sampled_from([prime_above(2**40), prime_above(2**61, two_power=8)]))
    code = ScmaCode(q, data.draw(st.integers(1, 12)), 10**6)
    vector = data.draw(vectors(code, code.capacity))
    word = encode(code, vector)
    place = data.draw(st.integers(0, code.length - 1))
    word[place] = (int(word[place]) + data.draw(st.integers(1, q - 1))) % q
    with pytest.raises(DecodeError):
        code.decode(word)


@examples(150)
@given(st.data())
def test_too_many_bins_are_noticed(data: st.DataObject):
    code = ScmaCode(prime_above(2**40), data.draw(st.integers(1, 8)), 10**6)
    count = data.draw(st.integers(code.capacity + 1, 3 * code.capacity + 5))
    bins = data.draw(st.lists(st.integers(1, code.bins), min_size=count, max_size=count, unique=True))
    with pytest.raises(DecodeError, match=f"more than capacity = {code.capacity} bins"):
        code.decode(code.encode(bins, [1 + b % 7 for b in bins]))


@pytest.mark.parametrize("checks", [0, 1, 2])
@pytest.mark.parametrize(("q", "bins"), [(5, 4), pytest.param(7, 5, marks=pytest.mark.full), (3, 2)])
def test_every_word_of_a_tiny_code_agrees_with_a_search(q: int, bins: int, checks: int):
    """All words over a small field: the decoder finds what a search finds and refuses the rest."""
    code = ScmaCode(q, 1, bins, checks)
    for number in range(q**code.length):
        word = [number // q**i % q for i in range(code.length)]
        expected = slow_decode(code, word)
        assert len(expected) <= 1
        try:
            found = [decode(code, np.array(word, dtype=np.uint64))]
        except DecodeError:
            found = []
        assert found == expected


def test_words_of_a_tiny_code_of_capacity_two_agree_with_a_search():
    code = ScmaCode(5, 2, 4, 0)
    rng = random.Random(1)
    for _ in range(80):
        word = [rng.randrange(5) for _ in range(4)]
        expected = slow_decode(code, word)
        try:
            assert [decode(code, np.array(word, dtype=np.uint64))] == expected
        except DecodeError:
            assert expected == []


@pytest.mark.parametrize("extra", [1, 2])
def test_a_few_bins_too_many_are_always_noticed(extra: int):
    """Up to capacity + checks bins the distance of the code promises it, even over a small field."""
    code = ScmaCode(31, 4, 30, checks=2)
    rng = random.Random(2)
    for _ in range(200):
        bins = rng.sample(range(1, 31), 4 + extra)
        with pytest.raises(DecodeError):
            code.decode(code.encode(bins, [rng.randrange(1, 31) for _ in bins]))


def test_bad_parameters_are_refused():
    tries = [(100, 2, 50), (2**64 + 13, 2, 50), (101, 0, 50), (101, 2, 0), (101, 2, 101), (101, 2, 9, -1)]
    for wrong in tries:
        with pytest.raises(InputError, match=str(wrong[0])):
            ScmaCode(*wrong)


def test_bad_vectors_are_refused():
    code = ScmaCode(101, 2, 50)
    for bins, values, message in (
        ([0], [1], "from 0 to 0"),
        ([51], [1], "wanted 1 … 50"),
        ([-1, 3], [1, 1], "from -1"),
        ([3, 3], [1, 2], "more than once"),
        ([3], [1, 2], "one value per bin"),
        ([3.0], [1], "no integer"),
        (np.array([3]), np.array([1.5]), "no integer"),
        (np.array([[3]]), [1], "no integer"),
    ):
        with pytest.raises(InputError, match=message):
            code.encode(bins, values)  # type: ignore[arg-type]


def test_bad_words_are_refused():
    code = ScmaCode(101, 2, 50)
    with pytest.raises(InputError, match=r"shape \(3,\)"):
        code.decode(np.zeros(3, dtype=np.uint64))
    with pytest.raises(InputError, match="int64"):
        code.decode(np.zeros(6, dtype=np.int64))  # type: ignore[arg-type]
    with pytest.raises(DecodeError, match="symbol 4 is not below the modulus 101"):
        code.decode(np.array([0, 0, 0, 0, 101, 0], dtype=np.uint64))


@pytest.mark.parametrize("q", [2, 3, 5, 13, 17, 97, 257])
def test_roots_of_the_product_of_everything(q: int):
    """x**q − x has every element as a root, zero included."""
    f = nmod_poly([0, -1] + [0] * (q - 2) + [1], q)
    assert sorted(roots_of_split_polynomial(f, q)) == list(range(q))


@examples(100)
@given(st.data())
def test_roots_agree_with_flint(data: st.DataObject):
    q = data.draw(st.sampled_from([13, 97, 257, prime_above(2**45), prime_above(2**45, two_power=8)]))
    expected = data.draw(st.sets(st.integers(0, q - 1), min_size=1, max_size=12))
    f = nmod_poly([data.draw(st.integers(1, q - 1))], q)
    for b in expected:
        f *= nmod_poly([-b, 1], q)
    assert sorted(roots_of_split_polynomial(f, q)) == sorted(expected) == sorted(int(r) for r, _ in f.roots())


@pytest.mark.parametrize(
    ("q", "coefficients"), [(7, [1, 0, 1]), (7, [1, 2, 1]), (2, [1, 1, 1]), (2, [1, 0, 1]), (7, [0])]
)
def test_polynomials_that_do_not_split_are_refused(q: int, coefficients: list[int]):
    with pytest.raises(DecodeError):
        roots_of_split_polynomial(nmod_poly(coefficients, q), q)


def test_constants_have_no_roots():
    assert roots_of_split_polynomial(nmod_poly([3], 7), 7) == []


@examples(60)
@given(
    q=st.sampled_from([2, 3, 101, prime_above(2**45)]),
    degrees=st.lists(st.integers(1, 60), min_size=2, max_size=12),
    seed=st.integers(0, 2**32),
)
def test_half_euclid_stops_where_plain_euclid_does(q: int, degrees: list[int], seed: int):
    """Build a and b from quotients of any degrees, and compare with long division step by step."""
    rng = random.Random(seed)
    a, b = nmod_poly([1], q), nmod_poly([0], q)
    for degree in degrees:
        quotient = nmod_poly([*(rng.randrange(q) for _ in range(degree)), 1], q)
        a, b = quotient * a + b, a
    m00, m01, m10, m11 = _half_euclid(a, b, q)
    c, d, middle = a, b, (a.degree() + 1) // 2
    while d.degree() >= middle:
        c, d = d, c % d
    assert m00 * a + m01 * b == c
    assert m10 * a + m11 * b == d


def test_labels_and_code_together():
    """Three sites, two classes each: what the coordinator decodes is who was in which bin."""
    counted = bose_chowla(6, 3).counted(6)
    bins = 10_000
    code = ScmaCode(prime_above(max(counted.largest_total, bins)), 30, bins)
    rng = random.Random(4)
    members: dict[int, list[int]] = {}
    word = np.zeros(code.length, dtype=np.uint64)
    for label in range(6):
        chosen = [17, *rng.sample(range(100, bins), 4)] if label < 3 else rng.sample(range(100, bins), 4)
        for b in chosen:
            members.setdefault(b, []).append(label)
        word = add(word, code.encode(chosen, [counted.labels[label]] * len(chosen)), code.modulus)
    found_bins, totals = code.decode(word)
    found = dict(zip(found_bins.tolist(), counted.decode_many(totals.tolist()), strict=True))
    assert found == {b: tuple(sorted(labels)) for b, labels in members.items()}
    assert found[17] == (0, 1, 2)


def test_thousands_of_bins():
    """A word of realistic size, far above every threshold in the code."""
    rng = random.Random(9)
    code = ScmaCode(prime_above(2**45), 2000, 48_700_000)
    vector = {b: rng.randrange(1, code.modulus) for b in rng.sample(range(1, code.bins), 2000)}
    assert decode(code, encode(code, vector)) == vector
