"""Inner products of two sites' vectors: exact for what was rounded, masked for each alone, refused when spoilt."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest

from fedgeom.crypto.bfv import DEGREE, MARGIN_BITS, flood_bits
from fedgeom.errors import ProtocolError
from fedgeom.protocols import pairwise as inner

ROUNDS = 15


def vector(length, seed=0):
    return np.random.default_rng(seed).normal(size=length)


def shares(one, other):
    pytest.importorskip("seal")
    asker, helper = inner.quantise(one), inner.quantise(other)
    asked = inner.begin(asker, ROUNDS)
    helped = inner.respond(helper, ROUNDS, asked.letter)
    return inner.finish(len(asker), ROUNDS, asked.secret, helped.letter), helped.share


@pytest.mark.parametrize("length", [1, 3, 1000, DEGREE - 1, DEGREE, 20_000])
def test_the_inner_product_is_exact_and_near_the_cosine(length):
    one, other = vector(length), vector(length, 1) + 0.5 * vector(length)
    found = inner.open_shares(*shares(one, other))
    exact = int(inner.quantise(one) @ inner.quantise(other)) / 4**18
    assert found == exact
    cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
    assert found == pytest.approx(cosine, abs=math.sqrt(length) * 2.0**-18)
    assert found == pytest.approx(cosine, abs=5e-5)


def test_opposite_equal_and_vanishing_vectors():
    one = vector(100)
    assert inner.open_shares(*shares(one, -3 * one)) == pytest.approx(-1, abs=1e-5)
    assert inner.open_shares(*shares(one, one)) == pytest.approx(1, abs=1e-5)
    assert inner.open_shares(*shares(one, 0 * one)) == 0
    assert inner.open_shares(*shares(0 * one, one)) == 0


def test_each_share_alone_is_random():
    pairs = [shares(np.ones(4), np.ones(4)) for _ in range(3)]
    assert len({asker for asker, _ in pairs}) == 3
    assert len({helper for _, helper in pairs}) == 3
    assert len({inner.open_shares(*pair) for pair in pairs}) == 1


def test_the_twin_in_one_process_equals_the_protocol():
    table = np.array([vector(50, seed) for seed in range(3)])
    found = inner.cosines(table)
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_array_equal(np.diag(found), 1.0)
    assert found[0, 1] == inner.open_shares(*shares(table[0], table[1]))
    assert inner.cosines(np.zeros((2, 3))).tolist() == [[1, 0], [0, 1]]


def test_one_letter_serves_several_partners():
    pytest.importorskip("seal")
    mine = inner.quantise(vector(30))
    asked = inner.begin(mine, ROUNDS)
    for seed in (1, 2):
        other = inner.quantise(vector(30, seed))
        helped = inner.respond(other, ROUNDS, asked.letter)
        share = inner.finish(30, ROUNDS, asked.secret, helped.letter)
        assert inner.open_shares(share, helped.share) == int(mine @ other) / 4**18


def test_letters_have_the_sizes_announced():
    pytest.importorskip("seal")
    mine = inner.quantise(vector(9000))
    asked = inner.begin(mine, ROUNDS)
    helped = inner.respond(mine, ROUNDS, asked.letter)
    for letter, most in zip((asked.letter, helped.letter), inner.letter_bytes(9000, ROUNDS), strict=True):
        assert most - 200 <= len(letter) <= most


@pytest.mark.parametrize(("length", "answers"), [(10, 1), (60_000, 15), (10**6, 500), (10**8, 2000)])
def test_flooding_leaves_the_promised_margin(length, answers):
    primes = inner.primes_for(length, answers)
    carried = 2.0**18 * (3.3 + math.sqrt(length) / 2)
    assert flood_bits(primes) - math.log2(carried * answers) >= MARGIN_BITS
    assert inner.primes_for(10, 1) == 2


def test_more_than_noise_can_hide_is_refused():
    with pytest.raises(ProtocolError, match="hides"):
        inner.primes_for(10**20, 10**20)


def test_spoilt_letters_are_refused():
    pytest.importorskip("seal")
    mine = inner.quantise(vector(10))
    asked = inner.begin(mine, ROUNDS)
    public, numbers = msgspec.msgpack.decode(asked.letter)[1:]
    spoilt = [
        b"",
        b"\xff" * 100,
        asked.letter[:-1],
        asked.letter + bytes(1000),
        msgspec.msgpack.encode(["inner.ciphertexts", public[:-8], numbers]),
        msgspec.msgpack.encode(["inner.ciphertexts", public, numbers[8:]]),
        msgspec.msgpack.encode(["inner.ciphertexts", public, b"\xff" * len(numbers)]),
        msgspec.msgpack.encode(["inner.answer", public, numbers]),
    ]
    for letter in spoilt:
        with pytest.raises(ProtocolError):
            inner.respond(mine, ROUNDS, letter)
    with pytest.raises(ProtocolError):
        inner.respond(inner.quantise(vector(DEGREE)), ROUNDS, asked.letter)
    with pytest.raises(ProtocolError):
        inner.finish(10, ROUNDS, asked.secret, asked.letter)


def test_shares_that_do_not_fit_are_refused():
    with pytest.raises(ProtocolError, match="fit"):
        inner.open_shares(0, 1 << 40)
