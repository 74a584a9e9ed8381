"""Words that hold several numbers add up as these do, and nothing honest overflows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgeom.crypto.tags import is_sum, site_tag
from fedgeom.errors import InputError
from fedgeom.protocols.fixed_point import Packing
from tests.tiers import examples

PACKINGS = [Packing(32, 64.0), Packing(21, 64.0), Packing(32, 1.0), Packing(21, 0.3), Packing(32, 2.0**15)]


def test_how_numbers_are_written():
    assert [p.per_word for p in PACKINGS] == [2, 3, 2, 3, 2]
    assert [p.fraction_bits for p in PACKINGS] == [25, 14, 31, 21, 16]
    assert [PACKINGS[0].length(n) for n in (0, 1, 2, 3)] == [0, 1, 1, 2]
    assert [PACKINGS[1].length(n) for n in (0, 1, 3, 4)] == [0, 1, 1, 2]


def test_by_hand():
    """Two numbers in a word: 0.5 and -0.25 with 25 digits; the negative one takes the upper half."""
    words, cut = PACKINGS[0].write(np.array([0.5, -0.25]), share=1.0, sites=1)
    assert words.view(np.int64).tolist() == [2**24 - 2**23 * 2**32]
    assert cut == 0
    assert PACKINGS[0].read(words, 2).tolist() == [0.5, -0.25]


@pytest.mark.parametrize("packing", PACKINGS)
@examples(30)
@given(st.integers(1, 40), st.integers(0, 50), st.integers(0, 2**32), st.sampled_from([1e-6, 0.1, 1.0, 1e12]))
def test_a_sum_of_words_has_the_sums_of_the_numbers(packing, sites, numbers, seed, size):
    """Whatever comes: numbers at the bound or beyond it, all of one sign or of both; to half a digit for each site."""
    rng = np.random.default_rng(seed)
    vectors = size * packing.largest * rng.choice([-1.0, 0.0, 1.0], (sites, numbers)) * rng.random((sites, 1))
    if seed % 2:
        vectors = np.abs(vectors) * (1 if seed % 4 == 1 else -1)  # all at the bound of one side: the worst case
    shares = rng.random(sites)
    shares /= shares.sum()
    total = np.zeros(packing.length(numbers), np.uint64)
    for vector, share in zip(vectors, shares.tolist(), strict=True):
        total += packing.write(vector, share=share, sites=sites)[0]
    wanted = shares @ np.clip(vectors, -packing.limit(sites), packing.limit(sites))
    assert np.abs(packing.read(total, numbers) - wanted).max(initial=0) <= packing.error(sites) * (1 + 1e-6)


def test_what_is_cut_off_is_counted():
    packing = PACKINGS[0]
    words, cut = packing.write(np.array([1e9, -65.0, 1.0, 63.9]), share=1.0, sites=3)
    assert cut == 2
    assert packing.read(words, 4) == pytest.approx([packing.limit(3), -packing.limit(3), 1.0, 63.9], abs=1e-7)
    assert packing.limit(3) == pytest.approx(64, rel=1e-4)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_number(bad):
    with pytest.raises(InputError, match="the training diverged; lower the rate"):
        PACKINGS[0].write(np.array([0.0, bad, 0.0]), share=0.1, sites=3)


@pytest.mark.parametrize("share", [-0.1, 1.1, np.nan])
def test_shares(share):
    with pytest.raises(InputError, match="wanted one from 0 to 1"):
        PACKINGS[0].write(np.zeros(2), share=share, sites=3)


def test_words_can_be_checked_by_tags():
    """A tag is linear over whole numbers, and words of honest sites add up without leaving 64 bits."""
    rng, packing, key = np.random.default_rng(1), PACKINGS[0], bytes(32)
    names, total, tags = ("a", "b", "c"), np.zeros(5, np.uint64), np.zeros(3, np.uint64)
    for name in names:
        words, _ = packing.write(1e6 * rng.normal(size=9), share=1 / 3, sites=3)
        total, tags = total + words, tags + site_tag(key, name, words.view(np.int64))
    assert is_sum(key, names, total.view(np.int64), tags.tolist())
    assert not is_sum(key, names, (total + np.uint64(2**32)).view(np.int64), tags.tolist())
