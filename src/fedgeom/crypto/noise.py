"""Noise that hides data is a secret: drawn from the operating system, never from a numerical library's generator."""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt


class SystemDraws:
    """Draws like a numpy generator's, of which nobody can foresee or repeat one."""

    def permutation(self, n: int) -> npt.NDArray[np.int64]:
        """Return 0 … n−1 in random order: sorted by 128-bit numbers, which are all different."""
        keys = np.frombuffer(os.urandom(16 * n), np.uint64).reshape(n, 2)
        return np.lexsort((keys[:, 0], keys[:, 1])).astype(np.int64)

    def bytes(self, length: int) -> bytes:
        """Return random bytes."""
        return os.urandom(length)
