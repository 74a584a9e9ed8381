"""Noise that hides data is a secret: drawn from the operating system, never from a numerical library's generator."""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri


class SystemDraws:
    """Draws like a numpy generator's, of which nobody can foresee or repeat one."""

    def permutation(self, n: int) -> npt.NDArray[np.int64]:
        """Return 0 … n−1 in random order: sorted by 128-bit numbers, which are all different."""
        keys = np.frombuffer(os.urandom(16 * n), np.uint64).reshape(n, 2)
        return np.lexsort((keys[:, 0], keys[:, 1])).astype(np.int64)

    def standard_normal(self, size: int) -> npt.NDArray[np.float64]:
        """Return independent N(0, 1) numbers, by inverting the distribution at 52-bit numbers inside (0, 1).

        One bit more, and the largest would be rounded to 1, where the inverse is infinite.
        """
        whole = np.frombuffer(os.urandom(8 * size), np.uint64) >> np.uint64(12)
        return np.asarray(ndtri((whole.astype(np.float64) + 0.5) * 2.0**-52))
