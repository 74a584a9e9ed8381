"""Packed lattice encryption: products against plain arithmetic, and what a closed answer shows."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy.stats import chisquare, kstest

from fedgeom.crypto import bfv as module
from fedgeom.crypto.bfv import (
    DEGREE,
    MARGIN_BITS,
    PLAIN_BITS,
    Helper,
    KeyHolder,
    flood_bits,
    lattice,
    leak_bits,
    primes_for,
)
from fedgeom.errors import InputError, ProtocolError

seal = pytest.importorskip("seal")

T = 2**PLAIN_BITS
ALL = np.arange(DEGREE, dtype=np.intp)


def multiply(a: np.ndarray, v: np.ndarray) -> list[int]:
    """Multiply modulo x^8192 + 1 and t, for few non-zero coefficients."""
    product = [0] * DEGREE
    for i in np.flatnonzero(a).tolist():
        for j in np.flatnonzero(v).tolist():
            sign = 1 if i + j < DEGREE else -1
            product[(i + j) % DEGREE] += sign * int(a[i]) * int(v[j])
    return [number % T for number in product]


def drawn(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    a, v = np.zeros(DEGREE, np.uint64), np.zeros(DEGREE, np.uint64)
    a[rng.choice(DEGREE, count, replace=False)] = rng.integers(0, 2**33, count)
    v[rng.choice(DEGREE, count, replace=False)] = rng.choice(np.array([1, T - 1], np.uint64), count)
    return a, v


@pytest.mark.parametrize("primes", [2, 3])
def test_sums_of_products_come_back_with_their_masks(primes: int) -> None:
    owner = KeyHolder(primes=primes)
    helper = Helper(owner.public())
    pairs = [drawn(seed, 60) for seed in range(3)]
    ciphers = [helper.factor(owner.encrypt(a)) for a, _ in pairs]
    total = helper.sum_of_products(ciphers, [helper.plain_factor(v) for _, v in pairs])
    places = np.sort(np.random.default_rng(9).choice(DEGREE, 200, replace=False))
    masks = np.random.default_rng(8).integers(0, T, 200, np.uint64)
    again = KeyHolder(owner.secret, primes)  # a new process
    found = again.open(places, *helper.close(total, places, masks))
    sums = np.array([multiply(a, v) for a, v in pairs], object).sum(axis=0) % T
    assert [(int(m) + int(sums[p])) % T for p, m in zip(places, masks, strict=True)] == found.tolist()


def _fine_noise(owner: KeyHolder, primes: int, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the noise of a short ciphertext, as its owner can see it.

    The same numbers under a plaintext modulus of 2^58 decrypt to all but the lowest bits of the phase.
    """
    scheme, fine_bits = lattice(primes), 58
    parameters = seal.EncryptionParameters(seal.scheme_type.bfv)
    parameters.set_poly_modulus_degree(DEGREE)
    parameters.set_coeff_modulus([seal.Modulus(prime) for prime in scheme.primes])
    parameters.set_plain_modulus(1 << fine_bits)
    context = seal.SEALContext(parameters)
    none = seal.compr_mode_type.none
    own = seal.KeyGenerator(context)
    header = own.secret_key().to_string()[: -8 * (primes + 1) * DEGREE]
    key = context.from_secret_str(header + owner.secret[-8 * (primes + 1) * DEGREE :])
    evaluator = seal.Evaluator(context)
    fresh = seal.Encryptor(context, own.create_public_key()).encrypt_zero()
    template = evaluator.mod_switch_to(fresh, context.last_parms_id())
    cipher = seal.Ciphertext()
    numbers = np.concatenate([first, second]).astype("<u8").tobytes()
    cipher.load_bytes(context, template.to_string(none)[: -16 * DEGREE] + numbers)
    plain = seal.Decryptor(context, key).decrypt(cipher)
    count = plain.coeff_count()
    data = plain.to_bytes(none)
    phase = np.zeros(DEGREE, np.uint64)
    phase[:count] = np.frombuffer(data[len(data) - 8 * count :], "<u8")
    step = 1 << (fine_bits - PLAIN_BITS)  # multiples of this are plaintext, the rest is noise
    low = (phase % np.uint64(step)).astype(np.int64)
    return np.where(low >= step // 2, low - step, low) * (scheme.primes[0] / 2**fine_bits)


def _answer_noise(v: np.ndarray, primes: int = 2) -> np.ndarray:
    owner = KeyHolder(primes=primes)
    helper = Helper(owner.public())
    a = np.ones(DEGREE, np.uint64)
    total = helper.sum_of_products([helper.factor(owner.encrypt(a))], [helper.plain_factor(v)])
    return _fine_noise(owner, primes, *helper.close(total, ALL, np.zeros(DEGREE, np.uint64)))


@pytest.mark.parametrize("primes", [2, 3])
@pytest.mark.parametrize("value", [1, T - 1])
def test_the_noise_of_an_answer_is_uniform_whatever_was_multiplied(value: int, primes: int) -> None:
    noise = _answer_noise(np.full(DEGREE, value, np.uint64), primes)
    wide = 2.0 ** (flood_bits(primes) - 1) / 2 ** (60 * (primes - 1))
    # ± 1024, after modulus switching; its rounding adds ± 200 at most
    assert 0.97 * wide < np.abs(noise).max() < wide + 200
    middle = noise[np.abs(noise) < wide - 200]
    assert kstest(middle, "uniform", (-(wide - 200), 2 * (wide - 200))).pvalue > 1e-6


def test_without_flooding_the_noise_would_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above can fail: noise that is not flooded is far from uniform."""
    monkeypatch.setattr(module, "flood_bits", lambda primes: 2)
    noise = _answer_noise(np.ones(DEGREE, np.uint64))
    assert np.abs(noise).max() < 200


def test_answers_to_one_question_have_nothing_in_common() -> None:
    owner = KeyHolder()
    helper = Helper(owner.public())
    a, v = drawn(5, 50)
    total = helper.sum_of_products([helper.factor(owner.encrypt(a))], [helper.plain_factor(v)])
    (_, one), (_, two) = (helper.close(total, ALL[:3], np.zeros(3, np.uint64)) for _ in range(2))
    prime = lattice().primes[0]
    difference = np.array([(int(x) - int(y)) % prime for x, y in zip(one, two, strict=True)], float)
    for numbers in (one.astype(float), two.astype(float), difference):
        counts, _ = np.histogram(numbers, bins=64, range=(0, prime))
        assert chisquare(counts).pvalue > 1e-6


def test_flooding_leaves_less_than_promised() -> None:
    assert leak_bits(4096, 1, 100 * 34) > 47
    assert leak_bits(4096, 2, 1000 * 334) > 40
    assert leak_bits(65535, 1, 100 * 34) > 43
    assert (flood_bits(2), flood_bits(3)) == (71, 131)


def test_more_primes_are_taken_where_two_hide_too_little() -> None:
    """In the notes' words: 41 bits at 1,000 times 1,000 points, too few at 30,000 times 30,000."""
    assert leak_bits(4096, 9, 10_000 * 30_000) < 32
    for answers, primes in ((334 * 1000, 2), (500 * 1500, 2), (667 * 2000, 3), (10_000 * 30_000, 3), (2**45, 3)):
        assert primes_for(4096, 2, answers) == primes
        assert leak_bits(4096, 2, answers, primes) >= MARGIN_BITS
    with pytest.raises(ProtocolError, match=r"hides \(2\^-40\): compare fewer rows at a time, or choose .* 'ot'"):
        primes_for(4096, 2, 2**80)


def test_numbers_not_below_their_prime_are_refused() -> None:
    owner = KeyHolder()
    helper = Helper(owner.public())
    good = owner.encrypt(np.ones(4, np.uint64))
    for at, prime in ((0, lattice().primes[0]), (1, lattice().primes[1])):
        bad = good.copy()
        bad[1, at, 17] = prime
        with pytest.raises(ProtocolError, match="prime"):
            helper.factor(bad)
    public = owner.public()
    public[0, 2, 0] = 2**64 - 1
    with pytest.raises(ProtocolError, match="prime"):
        Helper(public)
    with pytest.raises(ProtocolError, match="prime"):
        owner.open(ALL[:1], np.array([2**63], np.uint64), np.zeros(DEGREE, np.uint64))


def test_keys_and_ciphertexts_that_hide_nothing_are_refused() -> None:
    owner = KeyHolder()
    public = owner.public()
    helper = Helper(public)
    public[1, 0, 5] = 0
    with pytest.raises(ProtocolError, match="zero"):
        Helper(public)
    with pytest.raises(ProtocolError, match="cannot be used"):
        helper.factor(np.zeros((2, 2, DEGREE), np.uint64))


def test_a_broken_key_is_refused() -> None:
    with pytest.raises(ProtocolError, match="key"):
        KeyHolder(b"not a key")


def test_without_the_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "seal", None)
    with pytest.raises(InputError, match=r"fedgeom\[xclp\]"):
        KeyHolder()
