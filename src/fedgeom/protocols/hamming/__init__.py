"""Secure Hamming: the distances between two sites' bit vectors, for the coordinator alone.

Section 3.2 of the XCLP paper, in four variants with one interface (`Variant`). Of two sites, the *asker* writes
first; the *helper* answers. After ``passes`` letters the asker has a matrix T and the helper a matrix R, both
uniformly random on their own, and both go to the coordinator, whose `open_shares` returns the distances exactly:

    T − R = H,   H[i, m] = number of places where the asker's point i and the helper's point m differ.

| variant | cryptography | two sites of 100 points, L = 4096 (both sites' CPU time, all letters) |
|---|---|---|
| ``lattice`` (default) | lattice encryption, our own | 0.8 s, 6.2 MB, 2 letters; needs nothing more |
| ``bfv`` | packed lattice encryption, SEAL | 1.4 s, 12 MB, 2 letters; needs seal-python |
| ``ot`` | oblivious transfer with extension | 1.0 s, 89 MB, 4 letters; needs nothing more |
| ``paillier`` | Paillier, 150 points to the ciphertext | 44 s, 3.2 MB, 2 letters; needs gmpy2 |
| ``paillier-unpacked`` | Paillier as published | 73 min, 322 MB, 2 letters; for comparison only |

*Departures from the paper.* Distances run from 0 to L inclusive, so modulo L the distances 0 and L are one; shares
here live modulo 2^16, and L is at most 65535. Masks are uniform where they live (the paper's r in 0 … L − 1
gives distances away within Paillier's large numbers).

*What is promised.* All parties follow the protocol and are curious (the semi-honest model). Then a site learns
the number of the other's points and L, which it is told, and nothing else: its view can be simulated from its
own bits. The coordinator learns H and nothing else of a pair, as T is uniformly random and R = T − H. This
rests, for ``ot``, on Diffie and Hellman's problem modulo a 3072-bit prime with SHA-256 as a random oracle, on
ChaCha20, and on AES as an ideal permutation; for ``bfv`` and ``lattice``, on ring learning with errors at 128-bit
security, up to a statistical distance below 2^-40 for all points of two sites together, which the helper sees to
(`fedgeom.crypto.bfv.primes_for`, `fedgeom.crypto.bfv_matrix.modulus_for`); for ``paillier``, on decisional
composite residuosity at 128-bit security (keys of 3072 bits; 112-bit with 2048).

*What is not.* H itself says a lot: up to rotation it is the geometry of the data, and a coordinator that knows
the points of one site can reconstruct those of another from their distances. A party that deviates is not
caught: a helper can make distances wrong; an asker that sends columns (``ot``), keys or ciphertexts (``bfv``,
``lattice``) made to a purpose can learn bits of the helper. Letters must be sealed between the two sites
(`fedgeom.crypto.keys`), as the coordinator carries them. Times of computation depend on secrets.

*Sites that vanish.* Each pair of sites talks alone, with keys and masks of its own; nothing of one pair enters
another. A missing site takes away its own rows and columns of H and leaves the others as if it had never joined.
"""

from __future__ import annotations

from fedgeom.errors import InputError
from fedgeom.protocols.hamming.bfv import PackedLattice
from fedgeom.protocols.hamming.bits import (
    LONGEST,
    MODULUS,
    Distances,
    OpenDistances,
    PackedBits,
    PairTranscript,
    PairTurn,
    Share,
    Variant,
    converse,
    open_shares,
    plain_distances,
)
from fedgeom.protocols.hamming.lattice import MatrixLattice
from fedgeom.protocols.hamming.ot import ObliviousTransfer
from fedgeom.protocols.hamming.paillier import Paillier

__all__ = [
    "DEFAULT",
    "LONGEST",
    "MODULUS",
    "VARIANTS",
    "Distances",
    "MatrixLattice",
    "ObliviousTransfer",
    "OpenDistances",
    "PackedBits",
    "PackedLattice",
    "Paillier",
    "PairTranscript",
    "PairTurn",
    "Share",
    "Variant",
    "converse",
    "open_shares",
    "plain_distances",
    "variant",
]

VARIANTS: dict[str, Variant] = {
    "bfv": PackedLattice(),
    "lattice": MatrixLattice(),
    "ot": ObliviousTransfer(),
    "paillier": Paillier(),
    "paillier-unpacked": Paillier(slots=1),
}
"""The variants by name; they hold no state."""

DEFAULT = "lattice"
"""The least work and, but for Paillier, the least traffic."""


def variant(name: str = DEFAULT) -> Variant:
    """Return a variant by its name."""
    if name not in VARIANTS:
        raise InputError(f"there is no variant {name!r} of secure Hamming; there are {', '.join(VARIANTS)}")
    return VARIANTS[name]
