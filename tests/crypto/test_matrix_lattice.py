"""Lattice encryption by products of matrices: against plain arithmetic, and what a closed answer shows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare, kstest

from fedgeom.crypto import bfv_matrix as module
from fedgeom.crypto.bfv_matrix import (
    DEGREE,
    LARGE,
    MARGIN_BITS,
    SMALL,
    MatrixKeyHolder,
    Modulus,
    close_products,
    groups_of,
    leak_bits,
    modulus_for,
)
from fedgeom.crypto.masks import KeyStream
from fedgeom.errors import ProtocolError
from tests.crypto.test_limbs import whole

BOTH = pytest.mark.parametrize("modulus", [SMALL, LARGE])


def bits(points: int, length: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2, (points, length), np.uint8)


def signs(points: int, length: int, seed: int = 1) -> np.ndarray:
    return 1.0 - 2.0 * bits(points, length, seed)


@BOTH
@pytest.mark.parametrize(("owners", "helpers", "length"), [(1, 1, 1), (7, 5, 300), (30, 600, 70), (4100, 2, 3)])
def test_products_come_back_with_their_masks(modulus: Modulus, owners: int, helpers: int, length: int) -> None:
    a, v = bits(owners, length), signs(helpers, length)
    masks = np.random.default_rng(2).integers(0, 2**16, (helpers, owners), np.uint16)
    owner = MatrixKeyHolder(owners)
    halves = close_products(v, masks, modulus, *owner.encrypt(a, modulus))
    found = MatrixKeyHolder(owners, owner.secret).open(*halves)  # in a new process
    assert np.array_equal(found, ((v @ a.T).astype(np.int64) + masks).astype(np.uint16))


def slow_product(small: list[int], poly: list[int], q: int) -> list[int]:
    """Multiply modulo x^4096 + 1 and q, for few non-zero coefficients of the first."""
    product = [0] * DEGREE
    for i, factor in enumerate(small):
        if factor:
            for j, other in enumerate(poly):
                product[(i + j) % DEGREE] += factor * other * (1 if i + j < DEGREE else -1)
    return [number % q for number in product]


@BOTH
def test_multiplying_in_the_ring_is_exact(modulus: Modulus) -> None:
    small = np.zeros((2, DEGREE), np.int8)
    small[0, [0, 1, 77, 4095]], small[1, [5, 4000]] = [1, -1, -1, 1], [-1, -1]
    poly = module._uniform(KeyStream(bytes(32)), modulus, DEGREE)
    q, number = 1 << modulus.limbs * modulus.bits, whole(poly, modulus)
    expected = [slow_product(row.tolist(), number, q) for row in small]
    found = module._times(small, poly, modulus, DEGREE)
    assert whole(found, modulus) == expected[0] + expected[1]
    assert whole(module._times(small, poly, modulus, 9), modulus) == expected[0][:9] + expected[1][:9]


@BOTH
def test_the_largest_products_are_exact_too(modulus: Modulus) -> None:
    """All coefficients as large as they can be: the last one is their sum, where floating point is at its limit."""
    most = np.full(DEGREE, (1 << modulus.bits) - 1)
    found = module._times(np.ones((1, DEGREE), np.int8), [most] * modulus.limbs, modulus, DEGREE)
    turn = 2 * np.arange(1, DEGREE + 1) - DEGREE
    assert all(np.array_equal(limb[0], turn * most) for limb in found)


def test_the_matrix_of_a_polynomial_is_its_product_in_the_ring() -> None:
    rng = np.random.default_rng(3)
    key, other = rng.integers(-1, 2, DEGREE).astype(np.int8), np.zeros(DEGREE, np.int8)
    other[rng.choice(DEGREE, 20)] = 1
    expected = slow_product(other.tolist(), key.tolist(), 2**30)
    assert ((other @ module._turned(key, DEGREE)).astype(int) % 2**30).tolist() == expected
    assert np.array_equal(module._turned(key, 7), module._turned(key, DEGREE)[:, :7])


def test_secrets_and_errors_have_their_distributions() -> None:
    drawn = module._ternary(module._fresh(), 3, 40_000)
    assert chisquare(np.bincount(drawn.reshape(-1) + 1, minlength=3)).pvalue > 1e-6
    errors = module._errors(module._fresh(), 200_000)
    assert np.abs(errors).max() <= module.ERROR_BITS
    assert abs(errors.mean()) < 0.05
    assert abs(errors.std() - module.ERROR_DEVIATION) < 0.05


@BOTH
def test_ciphertexts_hide_bits_under_errors_of_that_size(modulus: Modulus) -> None:
    owner, a = MatrixKeyHolder(5), bits(5, 200)
    seed, _, numbers = owner.encrypt(a, modulus)
    stream, q = KeyStream(seed), 1 << modulus.limbs * modulus.bits
    module._uniform(stream, modulus, DEGREE)
    rows = module._uniform(stream, modulus, 200, DEGREE)
    known = [limb @ owner._matrix().astype(np.int64) for limb in rows]
    found = np.array(whole(modulus.from_bytes(numbers, 200, 5), modulus), object)
    noise = found - np.array(whole(known, modulus), object) - a.T.reshape(-1).astype(object) * (q >> 16)
    centred = np.array([int((one + q // 2) % q - q // 2) for one in noise])
    assert np.abs(centred).max() <= module.ERROR_BITS
    assert abs(centred.std() - module.ERROR_DEVIATION) < 0.5
    top = np.array([int(one >> modulus.limbs * modulus.bits - 4) for one in found])
    assert chisquare(np.bincount(top, minlength=16)).pvalue > 1e-6


def answer_noise(v: np.ndarray, modulus: Modulus = SMALL) -> np.ndarray:
    """Return the noise of answers as their owner can see it."""
    owner, length = MatrixKeyHolder(40), v.shape[1]
    a = np.ones((40, length), np.uint8)
    first, second = close_products(v, np.zeros((len(v), 40), np.uint16), modulus, *owner.encrypt(a, modulus))
    phase = second.astype(np.int64) - (first.astype(np.float64) @ owner._matrix()).astype(np.int64)
    clean = (v.sum(axis=1).astype(np.int64) << 16)[:, None]
    return ((phase - clean + 2**31) % 2**32 - 2**31).reshape(-1)


@BOTH
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_noise_of_an_answer_is_uniform_whatever_was_multiplied(sign: float, modulus: Modulus) -> None:
    noise = answer_noise(np.full((100, 60), sign), modulus)
    # ± 2^14, after rounding, which adds ± 300 at most
    assert 0.97 * 2**14 < np.abs(noise).max() < 2**14 + 300
    middle = noise[np.abs(noise) < 2**14 - 300]
    assert kstest(middle, "uniform", (-(2**14 - 300), 2 * (2**14 - 300))).pvalue > 1e-6


def test_without_flooding_the_noise_would_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above can fail: noise that is not flooded is far from uniform."""
    monkeypatch.setattr(module, "_flood", lambda *_: None)
    assert np.abs(answer_noise(np.ones((100, 60)))).max() < 300


def test_answers_to_one_question_have_nothing_in_common() -> None:
    owner = MatrixKeyHolder(3)
    asked = owner.encrypt(bits(3, 50), SMALL)
    one, two = (
        close_products(signs(6, 50), np.zeros((6, 3), np.uint16), SMALL, *asked)[0].astype(np.int64)
        for _ in range(2)
    )
    for numbers in (one, two, (one - two) % 2**32):
        counts, _ = np.histogram(numbers, bins=64, range=(0, 2**32))
        assert chisquare(counts).pvalue > 1e-6


def test_without_rerandomisation_an_answer_would_be_the_helpers_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above can fail: what is only added and subtracted says what was added and what subtracted."""
    monkeypatch.setattr(module, "_ternary", lambda stream, *shape: np.zeros(shape, np.int8))
    owner = MatrixKeyHolder(3)
    asked = owner.encrypt(bits(3, 50), SMALL)
    one, two = (close_products(signs(6, 50), np.zeros((6, 3), np.uint16), SMALL, *asked)[0] for _ in range(2))
    assert np.array_equal(one, two)


def test_flooding_leaves_less_than_promised() -> None:
    assert leak_bits(4096, 500 * 500) > 44
    assert leak_bits(4096, 2000 * 2000) > MARGIN_BITS
    assert leak_bits(65535, 1000 * 1000) > 41
    assert leak_bits(4096, 10**5 * 10**5, LARGE) > 46


def test_a_larger_modulus_is_taken_where_the_smaller_hides_too_little() -> None:
    for points, modulus in ((1000, SMALL), (2000, SMALL), (3000, LARGE), (10**5, LARGE)):
        assert modulus_for(4096, points**2) == modulus
    with pytest.raises(ProtocolError, match=r"hides \(2\^-40\): compare fewer rows at a time, or choose .* 'ot'"):
        modulus_for(4096, 2**80)


@BOTH
def test_the_modulus_is_one_that_the_standard_allows(modulus: Modulus) -> None:
    assert modulus.limbs * modulus.bits <= 106
    assert module._ROWS * 2**modulus.bits <= 2**53
    assert module._COLUMNS * 2 ** (modulus.bits - 1) <= 2**53
    assert 2**16 * 2**modulus.bits + 2**62 < 2**63


def test_points_share_a_secret_as_far_as_there_are_coefficients() -> None:
    assert [groups_of(points) for points in (1, 4096, 4097, 10_000)] == [1, 1, 2, 3]
