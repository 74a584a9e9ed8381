"""Array types, one name per meaning; shapes stand where the arrays are used. And zeros, where they are many."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

Floats = NDArray[np.float64]
"""Real numbers: rows, vectors, matrices."""
Ints = NDArray[np.int64]
"""Whole numbers: class numbers, counts, bins."""
Indices = NDArray[np.intp]
"""Places in another array."""
Bools = NDArray[np.bool_]
"""Masks over another array."""
Words = NDArray[np.uint64]
"""Elements of a ring or field, as unsigned 64-bit words."""
Bits = NDArray[np.uint8]
"""Packed bits, or bytes."""
Labels = NDArray[Any]
"""Labels as they came: text or numbers, one per row."""


def many_zeros(
    shape: int | tuple[int, ...], dtype: DTypeLike = np.float64, order: Literal["C", "F"] = "C"
) -> NDArray[Any]:
    """Return zeros that will all be written to, as `numpy.zeros` does.

    NumPy asks the system for large pages of memory unless it is to be cleared: a gigabyte then takes 0.2 s, and 2 s by
    `numpy.zeros`, whose pages come one by one when they are first written to.
    """
    made: NDArray[Any] = np.empty(shape, dtype, order)
    made.fill(0)
    return made
