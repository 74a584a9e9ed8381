"""How many bytes things take in a message, without writing it."""

from __future__ import annotations

import numpy as np

from fedgeom.federation.messages import Array


def words(count: int) -> Array:
    """Return so many words of a sum, as they travel."""
    return Array.of(np.zeros(count, np.uint64), copy=False)


def map_header(entries: int) -> int:
    """Return how many bytes say that so many entries of a map follow."""
    return 1 if entries < 16 else 3 if entries < 1 << 16 else 5


def text_size(text: str) -> int:
    """Return the bytes of a text in a message."""
    size = len(text.encode())
    return size + (1 if size < 32 else 2 if size < 256 else 3)


def bytes_size(size: int) -> int:
    """Return the bytes of a byte string in a message."""
    return size + (2 if size < 256 else 3 if size < 1 << 16 else 5)
