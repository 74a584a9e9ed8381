"""The secure maximum is the plain maximum, and the sum tells nothing of who or how many stand below."""

from __future__ import annotations

import hashlib
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, ks_2samp, kstest

from fedgeom.errors import InputError
from fedgeom.protocols.fixed_point import MAXIMUM_RING, MODULUS, read_levels, write_levels
from tests.tiers import examples


def key(*parts: object) -> bytes:
    return hashlib.sha256(repr(parts).encode()).digest()


def total(vectors: list[np.ndarray]) -> np.ndarray:
    out = np.zeros_like(vectors[0])
    for vector in vectors:
        out = MAXIMUM_RING.add(out, vector)
    return out


@examples(100)
@given(data=st.data())
def test_the_secure_maximum_is_the_plain_maximum(data: st.DataObject) -> None:
    levels = data.draw(st.lists(st.integers(0, 30), min_size=1, max_size=4))
    sites = data.draw(st.lists(st.tuples(*(st.integers(0, n) for n in levels)), min_size=1, max_size=6))
    written = [write_levels(list(zip(reached, levels, strict=True)), os.urandom(32)) for reached in sites]
    assert read_levels(total(written), levels) == [max(column) for column in zip(*sites, strict=True)]


@pytest.mark.parametrize("level", [-1, 6])
def test_a_level_out_of_range_is_refused(level: int) -> None:
    with pytest.raises(InputError, match="wanted 0 … 5"):
        write_levels([(level, 5)], key(0))


def test_levels_above_the_own_are_zero_and_those_below_random() -> None:
    vector = write_levels([(3, 5), (0, 2), (2, 2)], key(1))
    assert (vector != 0).tolist() == [True] * 3 + [False] * 4 + [True] * 2
    assert len(set(vector.tolist()) - {0}) == 5


def totals_at_a_level(sites: int, runs: int = 3000) -> np.ndarray:
    """The sum on a level that this many of four sites reach."""
    return np.array(
        [
            total([write_levels([(int(i < sites), 1)], key("level", sites, run, i)) for i in range(4)])[0]
            for run in range(runs)
        ]
    )


def test_the_sum_on_a_level_does_not_tell_how_many_sites_reach_it() -> None:
    one, two, four = (totals_at_a_level(n).astype(float) / MODULUS for n in (1, 2, 4))
    for values in (one, two, four):
        assert kstest(values, "uniform").pvalue > 1e-3  # the keys are fixed, so this cannot flicker
        assert (values > 0).all()
    assert ks_2samp(one, four).pvalue > 1e-3
    assert ks_2samp(one, two).pvalue > 1e-3


def test_the_low_bits_do_not_tell_it_either() -> None:
    for n in (1, 4):
        low = np.bincount([int(v) % 8 for v in totals_at_a_level(n)], minlength=8)
        assert chisquare(low).pvalue > 1e-3


def test_two_keys_write_different_elements_on_every_level() -> None:
    one, two = (write_levels([(50, 50)], key(i)) for i in range(2))
    assert (one != two).all()
    assert (one == write_levels([(50, 50)], key(0))).all()
