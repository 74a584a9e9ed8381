"""Comparing rows in secret: keys that are too short, noise that hides too little."""

from __future__ import annotations

from fedgeom.crypto import bfv as crypto_bfv
from fedgeom.crypto import bfv_matrix
from fedgeom.crypto.paillier import SecretKey
from fedgeom.federation.policy import Policy
from fedgeom.protocols.hamming import bfv
from tests.attacks.playing import Attack, Learnt

BITS_WANTED = 128
"""Security in bits; for keys of a product of two primes: NIST SP 800-57, table 2."""


def short_key(method: str, policy: Policy, quick: bool) -> Learnt:
    """Look at how long the keys are that a site makes."""
    bits = SecretKey.generate().public.n.bit_length()
    strength = {1024: 80, 2048: 112, 3072: 128}[bits]
    return Learnt(f"keys of {bits} bits: {strength}-bit security", strength < BITS_WANTED)


def thin_noise(method: str, policy: Policy, quick: bool) -> Learnt:
    """Compare so many rows that the noise of all answers together tells something of the helper's bits."""
    worst = 999.0
    for rows in (1000, 2000, 30_000, 100_000):
        plan = bfv.layout(rows, rows, 4096)
        answers = plan.row_groups * plan.column_groups * plan.rows * plan.columns
        worst = min(worst, crypto_bfv.leak_bits(plan.length, plan.columns, answers, plan.primes))
        modulus = bfv_matrix.modulus_for(4096, rows * rows)
        worst = min(worst, bfv_matrix.leak_bits(4096, rows * rows, modulus))
    return Learnt(f"within 2^-{worst:.0f} of nothing, for up to 100,000 times 100,000 rows", worst < 40)


ATTACKS = (
    Attack("keys that are too short", ("xclp, paillier",), "Paillier's default key gave 112 bits", short_key),
    Attack(
        "noise that hides too little",
        ("xclp, bfv",),
        "41 bits at 1000 times 1000 rows, 28 at 3·10⁴ times 3·10⁴: computed in tests only",
        thin_noise,
    ),
)
