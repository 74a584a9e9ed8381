"""Laws of the prime fields and of the extension fields behind the labels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgeom.codes.fields import (
    ExtensionField,
    factor_order,
    is_prime,
    logarithms_of_linear,
    next_prime,
)
from tests.tiers import examples


def slow_is_prime(n: int) -> bool:
    return n > 1 and all(n % d for d in range(2, n))


def test_primes_match_trial_division():
    assert [n for n in range(-3, 300) if is_prime(n)] == [n for n in range(300) if slow_is_prime(n)]


@given(st.integers(-5, 500))
def test_next_prime_is_the_smallest_larger_prime(n: int):
    p = next_prime(n)
    assert p > n
    assert slow_is_prime(p)
    assert not any(slow_is_prime(k) for k in range(n + 1, p))


@pytest.mark.parametrize(("p", "h"), [(2, 2), (2, 6), (3, 4), (5, 3), (7, 2), (13, 2)])
def test_generator_runs_through_every_nonzero_element(p: int, h: int):
    space = ExtensionField(p, h, list(factor_order(p, h)))
    x = np.zeros((1, h), dtype=np.int64)
    x[0, 1] = 1
    walk = space.consecutive_powers(x, p**h - 1)
    assert len({tuple(row) for row in walk.tolist()}) == p**h - 1
    assert np.array_equal(walk, space.powers_of_generator(range(p**h - 1)))
    assert np.array_equal(space.power(walk, 5), space.powers_of_generator([5 * e for e in range(p**h - 1)]))


@pytest.mark.parametrize(("p", "h"), [(2, 2), (3, 3), (7, 2), (5, 4)])
def test_logarithms_match_a_search(p: int, h: int):
    factors = factor_order(p, h)
    space = ExtensionField(p, h, list(factors))
    walk = [tuple(row) for row in space.powers_of_generator(range(p**h - 1)).tolist()]
    expected = [walk.index((a, 1, *[0] * (h - 2))) for a in range(p)]
    assert logarithms_of_linear(space, factors) == expected


@examples(40)
@given(p=st.sampled_from([2, 3, 5, 11, 101, 401]), h=st.integers(2, 10))
def test_order_is_factored_into_primes(p: int, h: int):
    factors = factor_order(p, h)
    assert all(is_prime(r) for r in factors)
    product = 1
    for r, e in factors.items():
        product *= r**e
    assert product == p**h - 1
