"""Laws of the prime fields and of the extension fields behind the labels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgeom.codes.fields import (
    ExtensionField,
    add_mod,
    factor_order,
    is_prime,
    logarithms_of_linear,
    modulus_for,
    negate_mod,
    next_prime,
    sub_mod,
)
from fedgeom.errors import InputError
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


def test_modulus_for_is_the_smallest_prime_above():
    assert modulus_for(100) == 101
    assert modulus_for(101) == 103
    assert modulus_for(1) == 2


@given(lower=st.integers(1, 3000), two_power=st.integers(1, 8))
def test_modulus_with_a_power_of_two(lower: int, two_power: int):
    q = modulus_for(lower, two_power=two_power)
    step = 1 << two_power
    assert q > lower
    assert q % step == 1
    assert slow_is_prime(q)
    assert not any(slow_is_prime(k) for k in range(lower + 1, q) if k % step == 1)


@pytest.mark.parametrize("lower", [2**63 - 20, 2**63, 2**64, 401**8, 1 << 9000], ids=int.bit_length)
def test_modulus_that_does_not_fit_is_refused(lower: int):
    with pytest.raises(InputError, match="coarsen epsilon or lower h"):
        modulus_for(lower)


def test_modulus_respects_a_smaller_bound():
    assert modulus_for(2**31 - 2, bits=31) == 2**31 - 1
    with pytest.raises(InputError, match="need 32 bits, the agreed bound is 31"):
        modulus_for(2**31, bits=31)
    with pytest.raises(InputError, match="lower"):
        modulus_for(0)


LARGEST = 2**63 - 25  # the largest prime below 2**63


@given(st.data())
def test_vectors_modulo_q_match_python_integers(data: st.DataObject):
    q = data.draw(st.sampled_from([2, 3, 101, 2**31 - 1, LARGEST]))
    entries = st.lists(st.integers(0, q - 1), min_size=0, max_size=8)
    a = data.draw(entries)
    b = data.draw(st.lists(st.integers(0, q - 1), min_size=len(a), max_size=len(a)))
    x, y = np.array(a, dtype=np.uint64), np.array(b, dtype=np.uint64)
    assert add_mod(x, y, q).tolist() == [(i + j) % q for i, j in zip(a, b, strict=True)]
    assert sub_mod(x, y, q).tolist() == [(i - j) % q for i, j in zip(a, b, strict=True)]
    assert negate_mod(x, q).tolist() == [-i % q for i in a]


def test_vectors_that_would_give_wrong_sums_are_refused():
    good = np.array([1, 2], dtype=np.uint64)
    with pytest.raises(InputError, match="int64"):
        add_mod(good.astype(np.int64), good, 5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="not below the modulus 2"):
        add_mod(good, good, 2)
    with pytest.raises(InputError, match="modulus"):
        negate_mod(good, 2**63 + 29)


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
