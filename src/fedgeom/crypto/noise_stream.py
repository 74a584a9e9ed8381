"""The random bits that noise is made of: AES-256 in counter mode, which processors have instructions for.

Noise is drawn by one site alone, which tells nobody the key. A key makes the noise of one sum only, so the counter
begins at 0. Of n blocks, 2^18 for a million numbers, no two are the same, by which the sequence could be told from
random bits with a chance of n²/2^129.
"""

from __future__ import annotations

from fedgeom.crypto.masks import AesStream


class NoiseStream(AesStream):
    """The endless sequence of uniform 64-bit words that belongs to a key of noise."""
