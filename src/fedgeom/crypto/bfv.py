"""Packed lattice encryption (BFV) for sums of products with plain polynomials, on Microsoft SEAL.

A ciphertext holds a polynomial modulo x^8192 + 1 with coefficients modulo t = 2^48. The key's owner
encrypts; the helper multiplies with polynomials of its own with coefficients −1, 0, 1, adds up, and
*closes* the result so that the owner learns some chosen coefficients, each plus a mask, and nothing else
about the helper's polynomials. Closing matters: the owner knows the noise in its own ciphertexts, and
without it could divide the helper's polynomials out of either half of the answer. It has three parts:

- *Re-randomisation.* A fresh encryption of 0 under the owner's public key is added. The second half of
  the answer, c1, then looks random even to the owner (ring learning with errors, with the helper's
  fresh randomness as the secret).
- *Flooding.* The first half, c0, is sent only where a coefficient is wanted, plus a mask of 48 random
  bits (as a plaintext) and noise drawn uniformly from a range of 2^71, or of 2^131 where more has to be hidden.
  What the noise carries from the helper's polynomials is of the size 2^12 (`leak_bits`), so that the owner's
  view is within 2^12 / 2^71, per coefficient, of one that does not depend on them. All coefficients of a
  conversation together must stay below 2^-40: `primes_for` chooses the modulus that sees to it. SEAL has no
  call for flooding: the noise is added to the numbers of the ciphertext.
- *Modulus switching* of the flooded ciphertext from two or three primes of 60 bits to one, which anybody could do
  and which only shortens the answer. 2^70 becomes 2^10, against 2^11 that decryption corrects.

With n = 8192, SEAL's ternary secrets and 138 or 198 bits of modulus in all, where its table for 128-bit
security allows 218, the margin is wide. n = 4096 holds one third of the payload per coefficient once
flooding is paid for: measured, 2.2 s and 20 MB where this takes 1.4 s and 12 MB. SEAL seeds its
generators from /dev/urandom; masks and flooding noise come from `secrets`.

Only numbers travel, never SEAL's own format: each side puts them behind a header that it made
itself, after checking that they are below their primes. So no foreign bytes steer the reader.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Words
from fedgeom.errors import FedgeomError, InputError, ProtocolError
from fedgeom.memo import memoize

DEGREE = 8192
PLAIN_BITS = 48
# the last prime is SEAL's, for keys only
PRIME_BITS = 60
KEY_PRIME_BITS = 18
FEWEST_PRIMES = 2
MOST_PRIMES = 3
MARGIN_BITS = 40
"""The owner's view of a whole conversation is within 2^-40 of one that does not depend on the helper's polynomials."""


def flood_bits(primes: int) -> int:
    """Return how many bits of noise decryption still corrects: 71 with two primes, 131 with three."""
    return PRIME_BITS * primes - PLAIN_BITS - 1


def _seal() -> Any:
    try:
        import seal  # optional
    except ImportError as error:
        raise InputError(
            "packed lattice encryption needs seal-python, which is not installed: pip install 'fedgeom[xclp]' "
            "(or choose the variant 'ot', which needs nothing more)"
        ) from error
    return seal


P = ParamSpec("P")
R = TypeVar("R")


def _refusing(work: Callable[P, R]) -> Callable[P, R]:
    """Turn SEAL's complaints about what a peer sent (ciphertexts that hide nothing, say) into `ProtocolError`."""

    @wraps(work)
    def careful(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return work(*args, **kwargs)
        except FedgeomError:
            raise
        except (RuntimeError, ValueError) as error:
            raise ProtocolError(f"a lattice key or ciphertext cannot be used: {error}") from error

    return careful


class Lattice:
    """The scheme with its parameters; use `lattice()`, which makes it once for each number of primes."""

    def __init__(self, primes: int) -> None:
        self.count = primes
        seal = _seal()
        parameters = seal.EncryptionParameters(seal.scheme_type.bfv)
        parameters.set_poly_modulus_degree(DEGREE)
        parameters.set_coeff_modulus(seal.CoeffModulus.Create(DEGREE, [PRIME_BITS] * primes + [KEY_PRIME_BITS]))
        parameters.set_plain_modulus(1 << PLAIN_BITS)
        self.context = seal.SEALContext(parameters)  # refuses what its table calls less than 128-bit security
        if not self.context.parameters_set():
            raise RuntimeError(f"SEAL refuses the parameters: {self.context.parameter_error_message()}")
        self.primes = [int(prime.value()) for prime in parameters.coeff_modulus()]
        self.evaluator = seal.Evaluator(self.context)
        maker = seal.KeyGenerator(self.context)
        public = maker.create_public_key()
        fresh = seal.Encryptor(self.context, public).encrypt_zero()
        self._headers = {
            "public": _header(public.to_string(), 2 * (primes + 1) * DEGREE),
            "full": _header(self.raw(fresh), 2 * primes * DEGREE),
            "short": _header(self.raw(self.shorten(fresh)), 2 * DEGREE),
        }

    def shorten(self, cipher: Any) -> Any:
        """Switch a ciphertext to the first prime alone."""
        return self.evaluator.mod_switch_to(cipher, self.context.last_parms_id())

    def raw(self, item: Any) -> bytes:
        """Return a ciphertext's bytes as SEAL writes them, uncompressed: a header, then 64-bit words."""
        found: bytes = item.to_string(_seal().compr_mode_type.none)
        return found

    def words(self, item: Any, *shape: int) -> Words:
        """Return a ciphertext's numbers, (halves, primes, degree)."""
        return np.frombuffer(self.raw(item)[-8 * math.prod(shape) :], "<u8").astype(np.uint64).reshape(shape)

    def cipher(self, numbers: Words) -> Any:
        """Make a ciphertext from numbers, (2, primes, degree), after checking that each is below its prime."""
        primes = numbers.shape[1]
        header = self._headers["full" if primes == self.count else "short"]
        self._check(numbers)
        item = _seal().Ciphertext()
        item.load_bytes(self.context, header + numbers.astype("<u8").tobytes())
        return item

    def public_key(self, numbers: Words) -> Any:
        """Make a public key from numbers, (2, primes + 1, degree).

        A zero in its second half would leave a place without re-randomisation; an honest key has none
        modulo the large primes (2^-46).
        """
        self._check(numbers)
        if not numbers[1, : self.count].all():
            raise ProtocolError("a lattice public key has a zero where honest keys are random")
        return self.context.from_public_str(self._headers["public"] + numbers.astype("<u8").tobytes())

    def _check(self, numbers: Words) -> None:
        for at in range(numbers.shape[1]):
            if numbers[:, at].max() >= self.primes[at]:
                raise ProtocolError("a ciphertext has a number that is not below its prime")

    def plain(self, coefficients: Words) -> Any:
        """Make a plaintext from coefficients modulo t, lowest first."""
        seal = _seal()
        count = len(coefficients)
        item = seal.Plaintext()
        item.load_bytes(self.context, _plain_header(count) + coefficients.astype("<u8").tobytes())
        return item


def leak_bits(length: int, columns: int, answers: int, primes: int = FEWEST_PRIMES) -> float:
    """Return −log2 of the statistical distance that flooding leaves for ``answers`` coefficients in all.

    Each is a sum over ``length`` places of products with one of ``columns`` helper's vectors in a
    polynomial. Its noise is a sum of length·columns errors of SEAL's (standard deviation 3.3) with signs, at
    most length / 2 from rounding the owner's plaintext, and that of re-randomisation. Uniform noise of range
    W hides a shift by e up to |e| / W.
    """
    noise = 3.3 * math.sqrt(length * columns) + length / 2 + 32
    return flood_bits(primes) - math.log2(noise * answers)


def primes_for(length: int, columns: int, answers: int) -> int:
    """Return how many primes hide so many coefficients (`leak_bits`) well enough; more primes cost half as much again.

    Two do for 1,000 times 1,000 points at 4,096 bits, three for any number of points that a computer can compare.
    """
    for primes in range(FEWEST_PRIMES, MOST_PRIMES + 1):
        if leak_bits(length, columns, answers, primes) >= MARGIN_BITS:
            return primes
    raise ProtocolError(
        f"{answers:,} coefficients over {length:,} bits are more than the noise of lattice encryption hides "
        f"(2^-{MARGIN_BITS}): compare fewer rows at a time, or choose the variant 'ot'"
    )


def _header(data: bytes, count: int) -> bytes:
    if not 0 < len(data) - 8 * count < 200:
        raise RuntimeError("this version of SEAL writes another format than the one known; 4.x is wanted")
    return data[: -8 * count]


@memoize(64)
def _plain_header(count: int) -> bytes:
    seal = _seal()
    return _header(seal.Plaintext(count).to_bytes(seal.compr_mode_type.none), count)


@memoize(MOST_PRIMES)
def lattice(primes: int = FEWEST_PRIMES) -> Lattice:
    """Return the scheme with so many primes of 60 bits."""
    return Lattice(primes)


class KeyHolder:
    """The side that has the secret key."""

    @_refusing
    def __init__(self, secret: bytes | None = None, primes: int = FEWEST_PRIMES):
        """Make a new key, or take up one kept as bytes."""
        seal = _seal()
        self._scheme = lattice(primes)
        context = self._scheme.context
        key = seal.KeyGenerator(context).secret_key() if secret is None else context.from_secret_str(secret)
        self.secret: bytes = key.to_string()
        self._public = seal.KeyGenerator(context, key).create_public_key
        self._encryptor = seal.Encryptor(context, key)
        self._decryptor = seal.Decryptor(context, key)

    def public(self) -> Words:
        """Return the numbers of a public key, (2, primes + 1, degree)."""
        shape = 2, self._scheme.count + 1, DEGREE
        data = self._public().to_string()[-8 * math.prod(shape) :]
        return np.frombuffer(data, "<u8").astype(np.uint64).reshape(shape)

    def encrypt(self, coefficients: Words) -> Words:
        """Encrypt one polynomial; return the numbers of the ciphertext, (2, primes, degree)."""
        cipher = self._encryptor.encrypt_symmetric(self._scheme.plain(coefficients))
        return self._scheme.words(cipher, 2, self._scheme.count, DEGREE)

    @_refusing
    def open(self, places: npt.NDArray[np.intp], first: Words, second: Words) -> Words:
        """Decrypt a closed answer: the coefficients at ``places``, from c0 there and all of c1."""
        numbers = np.zeros((2, 1, DEGREE), np.uint64)
        numbers[0, 0, places] = first
        numbers[1, 0] = second
        plain = self._decryptor.decrypt(self._scheme.cipher(numbers))
        found = np.zeros(DEGREE, np.uint64)
        count = plain.coeff_count()  # leading zeros are left out
        data = plain.to_bytes(_seal().compr_mode_type.none)
        found[:count] = np.frombuffer(data[len(data) - 8 * count :], "<u8")
        return found[places]


class Helper:
    """The side that computes on ciphertexts."""

    @_refusing
    def __init__(self, public: Words):
        """Take the numbers of the owner's public key, (2, primes + 1, degree)."""
        self._scheme = lattice(public.shape[1] - 1)
        self._encryptor = _seal().Encryptor(self._scheme.context, self._scheme.public_key(public))
        self._level = self._scheme.context.first_parms_id()

    @_refusing
    def factor(self, cipher: Words) -> Any:
        """Make a ciphertext ready to be multiplied."""
        item = self._scheme.cipher(cipher)
        self._scheme.evaluator.transform_to_ntt_inplace(item)
        return item

    def plain_factor(self, coefficients: Words) -> Any:
        """Make a plain polynomial ready to be multiplied; it must not be 0."""
        item = self._scheme.plain(coefficients)
        self._scheme.evaluator.transform_to_ntt_inplace(item, self._level)
        return item

    @_refusing
    def sum_of_products(self, ciphers: Sequence[Any], plains: Sequence[Any]) -> Any:
        """Multiply factor by factor and add up."""
        evaluator = self._scheme.evaluator
        total = None
        for cipher, plain in zip(ciphers, plains, strict=True):
            product = evaluator.multiply_plain(cipher, plain)
            if total is None:
                total = product
            else:
                evaluator.add_inplace(total, product)
        return total

    @_refusing
    def close(self, total: Any, places: npt.NDArray[np.intp], masks: Words) -> tuple[Words, Words]:
        """Hide all of a sum but the coefficients at ``places``, each plus its mask; return c0 there and c1."""
        scheme = self._scheme
        evaluator = scheme.evaluator
        primes = scheme.primes[: scheme.count]
        bits = flood_bits(scheme.count)
        total = evaluator.transform_from_ntt(total)
        evaluator.add_inplace(total, self._encryptor.encrypt_zero())
        numbers = scheme.words(total, 2, scheme.count, DEGREE)
        modulus = math.prod(primes)
        half = 1 << (PLAIN_BITS - 1)
        for place, mask in zip(places.tolist(), masks.tolist(), strict=True):
            noise = secrets.randbits(bits) - (1 << (bits - 1))
            added = (modulus * mask + half >> PLAIN_BITS) + noise
            for at, prime in enumerate(primes):
                numbers[0, at, place] = (int(numbers[0, at, place]) + added) % prime
        short = scheme.words(scheme.shorten(scheme.cipher(numbers)), 2, 1, DEGREE)
        return short[0, 0, places], short[1, 0]
