"""Paillier's encryption: by hand on tiny primes, its laws on real ones, and what a closed ciphertext shows."""

from __future__ import annotations

import secrets
import sys
from math import gcd

import pytest

from fedgeom.crypto.paillier import PublicKey, SecretKey
from fedgeom.errors import InputError, ProtocolError

pytest.importorskip("gmpy2")


@pytest.fixture(scope="module")
def key() -> SecretKey:
    return SecretKey.generate(2048)  # the small one, for speed


@pytest.mark.parametrize(("p", "q"), [(11, 17), (7, 11), (101, 103)])
def test_tiny_keys_by_the_book(p: int, q: int) -> None:
    """Decrypt what the definition encrypts, and find each of our random factors among the n-th powers."""
    n, tiny = p * q, SecretKey(p, q)
    powers = {pow(r, n, n * n) for r in range(1, n) if gcd(r, n) == 1}
    for m in {0, 1, 5, n // 2, n - 1}:
        for r in (1, 2, 3, n - 1):
            assert tiny.decrypt((1 + m * n) * pow(r, n, n * n) % (n * n)) == m
        for _ in range(20):
            cipher = int(tiny.encrypt(m))
            assert tiny.decrypt(cipher) == m
            assert cipher * pow(1 + m * n, -1, n * n) % (n * n) in powers


def test_all_random_factors_occur() -> None:
    tiny, n = SecretKey(5, 7), 35
    powers = {pow(r, n, n * n) for r in range(1, n) if gcd(r, n) == 1}
    assert {int(tiny.encrypt(0)) for _ in range(1000)} == powers


def test_keys_have_their_size_and_survive_being_written(key: SecretKey) -> None:
    assert key.public.n.bit_length() == 2048
    assert SecretKey.from_bytes(key.to_bytes()) == key
    assert PublicKey.from_bytes(key.public.to_bytes(), 2048) == key.public
    assert str(key.p) not in repr(key)


def test_sums_and_differences(key: SecretKey) -> None:
    public, n = key.public, key.public.n
    numbers = [0, 1, n - 1, secrets.randbelow(n), 2**1600]
    ciphers = public.read(public.write(key.encrypt(number) for number in numbers))
    assert [key.decrypt(cipher) for cipher in ciphers] == numbers
    assert key.decrypt(public.product(ciphers)) == sum(numbers) % n
    assert key.decrypt(public.quotient(ciphers[1], ciphers[3])) == (1 - numbers[3]) % n
    assert key.decrypt(public.close(ciphers[3], 77)) == (numbers[3] + 77) % n


def test_a_closed_ciphertext_forgets_where_it_comes_from(key: SecretKey) -> None:
    """With r = 1 a ciphertext is all history; closed, it is as random as a fresh one."""
    public = key.public
    bare = 1 + 5 * public.n
    closed = {int(public.close(bare, 0)) for _ in range(5)}
    assert len(closed) == 5
    assert bare not in closed
    assert {key.decrypt(cipher) for cipher in closed} == {5}


def test_bad_keys_and_ciphertexts_are_refused(key: SecretKey) -> None:
    public = key.public
    for number in (2**2048 - 2, 2**2047 - 1, 0):
        with pytest.raises(ProtocolError, match="odd number of 2048 bits"):
            PublicKey.from_bytes(number.to_bytes(256, "big"), 2048)
    for number in (0, public.n**2, 2**4096 - 1):
        with pytest.raises(ProtocolError, match="between"):
            public.read(number.to_bytes(512, "big"))
    with pytest.raises(ProtocolError, match="factor"):
        public.quotient(1, key.p)


@pytest.mark.parametrize("bits", [0, 512, 1024, 2047, 4096])
def test_other_sizes_are_not_on_offer(bits: int) -> None:
    with pytest.raises(InputError, match="2048"):
        SecretKey.generate(bits)


def test_without_the_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gmpy2", None)
    with pytest.raises(InputError, match=r"fedgeom\[xclp\]"):
        SecretKey.generate()
