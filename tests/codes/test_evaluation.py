"""Values at many points, against Horner's rule on Python's integers."""

import numpy as np
import pytest
from flint import nmod_poly

from fedgeom.codes.scma import LARGEST_POINT, PointTree, zeros_among_first

PRIMES = (1_000_003, 2**61 - 1, 2**63 - 25)


def _value(coefficients: list[int], point: int, q: int) -> int:
    total = 0
    for one in reversed(coefficients):
        total = (total * point + one) % q
    return total


@pytest.mark.parametrize("q", PRIMES)
@pytest.mark.parametrize("count", [1, 63, 64, 65, 200, 1000])
@pytest.mark.parametrize("degree", [0, 5, 64, 700])
def test_values_are_those_of_horners_rule(q: int, count: int, degree: int) -> None:
    rng = np.random.default_rng(count + degree)
    points = rng.integers(0, min(LARGEST_POINT, q - 1), count).astype(np.uint64)
    points[-1] = min(LARGEST_POINT, q - 1)
    coefficients = [int(c) % q for c in rng.integers(0, 2**63, degree + 1)]
    found = PointTree(points, q).evaluate(nmod_poly(coefficients, q))
    assert found.tolist() == [_value(coefficients, b, q) for b in points.tolist()]


@pytest.mark.parametrize("q", PRIMES)
def test_zero_has_the_value_zero_everywhere(q: int) -> None:
    assert not PointTree(np.arange(100, dtype=np.uint64), q).evaluate(nmod_poly([0], q)).any()


@pytest.mark.parametrize("count", [50, 300, 5000])
def test_all_zeros_among_the_first_are_found_and_no_others(count: int) -> None:
    q, rng = PRIMES[1], np.random.default_rng(count)
    inside = sorted(rng.choice(np.arange(1, count + 1), 40, replace=False).tolist())
    inside[0], inside[-1] = 1, count
    f = nmod_poly([1], q)
    for b in [0, *sorted(set(inside)), count + 1, q - 3]:
        f *= nmod_poly([-b % q, 1], q)
    assert zeros_among_first(f, count, q) == sorted(set(inside))
