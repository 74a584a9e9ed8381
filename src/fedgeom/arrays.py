"""Array types, one name per meaning; shapes stand where the arrays are used."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

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
