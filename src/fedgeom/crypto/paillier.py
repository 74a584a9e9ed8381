"""Paillier's encryption (EUROCRYPT 1999): sums under encryption, on GMP's integers.

With n = p·q and g = n + 1, a number m below n is encrypted as (1 + m·n)·r^n mod n² for a random r; the
product of ciphertexts encrypts the sum. Multiplying with a fresh encryption of 0 makes a ciphertext
independent of how it was computed: only its number is left in it, for the key's owner too.

The owner works modulo p² and q² apart. Its random factors are x^p mod p² and y^q mod q² for random x, y, which are
exactly the n-th powers modulo n² (p and q are coprime to (p − 1)·(q − 1), so raising to the other prime is a
permutation) at a third of the cost. Big-number arithmetic here does not run in constant time.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fedgeom.errors import InputError, ProtocolError

KEY_BITS = (2048, 3072)
"""Sizes of n on offer: 112-bit and 128-bit security; the larger is the default."""


def _gmp() -> Any:
    try:
        import gmpy2  # optional
    except ImportError as error:
        raise InputError(
            "Paillier's encryption needs gmpy2, which is not installed: pip install 'fedgeom[xclp]' "
            "(or choose the variant 'ot', which needs nothing more)"
        ) from error
    return gmpy2


@dataclass(frozen=True)
class PublicKey:
    """The half that encrypts and adds."""

    n: int

    @classmethod
    def from_bytes(cls, data: bytes, bits: int) -> PublicKey:
        """Read a key of exactly this size, or raise `ProtocolError`."""
        n = int.from_bytes(data, "big")
        if n.bit_length() != bits or n % 2 == 0:
            raise ProtocolError(f"this is not an odd number of {bits} bits, as a Paillier key is")
        return cls(n)

    def to_bytes(self) -> bytes:
        """Write the key."""
        return self.n.to_bytes(-(-self.n.bit_length() // 8), "big")

    @property
    def cipher_bytes(self) -> int:
        """How many bytes a ciphertext has."""
        return 2 * -(-self.n.bit_length() // 8)

    @cached_property
    def square(self) -> Any:
        """n², the modulus of ciphertexts."""
        return _gmp().mpz(self.n) ** 2

    def read(self, data: bytes) -> list[Any]:
        """Read ciphertexts in a row, or raise `ProtocolError`."""
        gmp = _gmp()
        size = self.cipher_bytes
        found = [gmp.mpz.from_bytes(data[at : at + size], "big") for at in range(0, len(data), size)]
        if any(not 0 < number < self.square for number in found):
            raise ProtocolError("a Paillier ciphertext is not between 0 and n²")
        return found

    def write(self, ciphers: Iterable[Any]) -> bytes:
        """Write ciphertexts in a row."""
        return b"".join(int(cipher).to_bytes(self.cipher_bytes, "big") for cipher in ciphers)

    def product(self, ciphers: Iterable[Any]) -> Any:
        """Multiply ciphertexts: their numbers are added."""
        total = _gmp().mpz(1)
        square = self.square
        for cipher in ciphers:
            total = total * cipher % square
        return total

    def quotient(self, top: Any, bottom: Any) -> Any:
        """Divide ciphertexts: their numbers are subtracted."""
        try:
            return top * _gmp().invert(bottom, self.square) % self.square
        except ZeroDivisionError as error:
            raise ProtocolError("a Paillier ciphertext shares a factor with n") from error

    def close(self, cipher: Any, number: int) -> Any:
        """Add a number and fresh randomness: nothing of the ciphertext's history is left."""
        noise = _gmp().powmod(secrets.randbelow(self.n - 1) + 1, self.n, self.square)
        return cipher * (1 + number * self.n) % self.square * noise % self.square


@dataclass(frozen=True, repr=False)
class SecretKey:
    """The half that decrypts."""

    p: int
    q: int

    @classmethod
    def generate(cls, bits: int = KEY_BITS[-1]) -> SecretKey:
        """Draw a new key from the operating system's randomness."""
        if bits not in KEY_BITS:
            raise InputError(f"a Paillier key of {bits} bits was asked for; wanted one of {KEY_BITS}")
        while True:
            p = _prime(bits // 2)
            q = _prime(bits // 2)
            if p != q and (p * q).bit_length() == bits:  # then n is coprime to (p − 1)·(q − 1)
                return cls(p, q)

    @classmethod
    def from_bytes(cls, data: bytes) -> SecretKey:
        """Read what `to_bytes` wrote."""
        half = len(data) // 2
        return cls(int.from_bytes(data[:half], "big"), int.from_bytes(data[half:], "big"))

    def to_bytes(self) -> bytes:
        """Write the key, for its owner's memory only."""
        size = -(-self.p.bit_length() // 8)
        return self.p.to_bytes(size, "big") + self.q.to_bytes(size, "big")

    @cached_property
    def public(self) -> PublicKey:
        """The other half."""
        return PublicKey(self.p * self.q)

    @cached_property
    def _parts(self) -> tuple[tuple[Any, Any, Any], ...]:
        """For both primes: the prime, its square, and what to multiply with after a logarithm."""
        gmp = _gmp()
        n = self.public.n
        found = []
        for prime in (gmp.mpz(self.p), gmp.mpz(self.q)):
            square = prime * prime
            log = (gmp.powmod(n + 1, prime - 1, square) - 1) // prime
            found.append((prime, square, gmp.invert(log, prime)))
        return tuple(found)

    @cached_property
    def _joins(self) -> tuple[Any, Any]:
        """The inverses of q modulo p, and of q² modulo p²."""
        gmp = _gmp()
        (p, pp, _), (q, qq, _) = self._parts
        return gmp.invert(q, p), gmp.invert(qq, pp)

    def encrypt(self, number: int) -> Any:
        """Encrypt a number below n."""
        gmp = _gmp()
        (p, pp, _), (q, qq, _) = self._parts
        one = gmp.powmod(secrets.randbelow(self.p - 1) + 1, p, pp)
        two = gmp.powmod(secrets.randbelow(self.q - 1) + 1, q, qq)
        noise = two + qq * ((one - two) * self._joins[1] % pp)
        return noise * (1 + number * self.public.n) % self.public.square

    def decrypt(self, cipher: Any) -> int:
        """Return the number in a ciphertext."""
        gmp = _gmp()
        halves = [
            (gmp.powmod(cipher, prime - 1, square) - 1) // prime * inverse % prime
            for prime, square, inverse in self._parts
        ]
        (p, _, _), (q, _, _) = self._parts
        return int(halves[1] + q * ((halves[0] - halves[1]) * self._joins[0] % p))

    def __repr__(self) -> str:
        return f"SecretKey(of {self.public.n.bit_length()} bits)"


def _prime(bits: int) -> int:
    gmp = _gmp()
    while True:
        number = secrets.randbits(bits) | 3 << (bits - 2) | 1  # two top bits: n has its full length
        if gmp.is_prime(number, 40):
            return number
