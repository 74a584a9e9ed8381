"""Real numbers as ring elements: exact up to one rounding, and refused where a sum could overflow."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgeom.errors import InputError
from fedgeom.protocols.fixed_point import fixed_sum, from_fixed, from_wide, to_fixed, to_wide
from tests.tiers import examples


def test_by_hand() -> None:
    found = to_fixed([0.5, -0.25, 3.0, 0.126], fraction_bits=2, sites=3)
    assert found.dtype == np.uint64
    assert found.view(np.int64).tolist() == [2, -1, 12, 1]
    assert from_fixed(found, fraction_bits=2).tolist() == [0.5, -0.25, 3.0, 0.25]


@examples(100)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=6), st.integers(0, 28))
def test_one_rounding_and_no_more(numbers: list[float], bits: int) -> None:
    back = from_fixed(to_fixed(numbers, fraction_bits=bits, sites=10), fraction_bits=bits)
    assert np.abs(back - numbers).max() <= 2.0 ** -(bits + 1)


@examples(60)
@given(st.integers(1, 9), st.integers(0, 2**32))
def test_the_twin_of_a_secure_sum_rounds_site_by_site(sites: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    vectors, weights = rng.standard_normal((sites, 3)), rng.uniform(size=sites)
    total = np.zeros(3, np.uint64)
    for vector, weight in zip(vectors, weights, strict=True):
        total += to_fixed(weight * vector, fraction_bits=20, sites=sites)
    assert np.array_equal(fixed_sum(vectors, weights, fraction_bits=20), from_fixed(total, fraction_bits=20))
    assert np.allclose(fixed_sum(vectors, fraction_bits=20), vectors.sum(axis=0), atol=sites * 2.0**-20)


@pytest.mark.parametrize("sites", [1, 2, 100])
def test_the_largest_numbers_that_are_taken_do_not_overflow_in_the_sum(sites: int) -> None:
    bound = 2.0 ** (62 - 28) / sites
    most = np.nextafter(bound, 0)
    total = np.zeros(2, np.uint64)
    for _ in range(sites):
        total += to_fixed([most, -most], fraction_bits=28, sites=sites)
    assert from_fixed(total, fraction_bits=28) == pytest.approx([sites * most, -sites * most], rel=1e-9)
    with pytest.raises(InputError, match=f"sums over {sites} sites with 28 binary digits"):
        to_fixed([0.0, bound], fraction_bits=28, sites=sites)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_refused_with_its_place(bad: float) -> None:
    with pytest.raises(InputError, match="entry 1 is"):
        to_fixed([0.0, bad], fraction_bits=10, sites=2)


@given(st.lists(st.floats(-1e14, 1e14), min_size=1, max_size=20), st.integers(1, 50))
def test_wide_numbers_are_summed_to_forty_digits_or_as_a_float_holds_them(
    numbers: list[float], sites: int
) -> None:
    total = np.add.reduce([to_wide(numbers, sites=sites)] * sites, axis=0, dtype=np.uint64)
    exact = [sites * number for number in numbers]
    assert np.allclose(from_wide(total), exact, rtol=1e-15, atol=sites * 2.0**-40)


def test_no_word_of_a_wide_sum_wraps_around() -> None:
    """Tags are added up as whole numbers, so the words' sum must be one, too."""
    words = to_wide([-1e-9, 1e15, -1e15, 255.999], sites=1000).view(np.int64)
    assert (np.abs(words.astype(float)) * 1000 < 2.0**63).all()
    with pytest.raises(InputError, match="rescale the columns"):
        to_wide([1e18], sites=1000)
