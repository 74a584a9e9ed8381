"""Who trains in a round: drawn by the seed and the round alone, so that both halves find the same."""

from __future__ import annotations

from functools import lru_cache

import numpy as np


@lru_cache(maxsize=64)  # the same for all sites of a process
def draw_sites(everyone: tuple[str, ...], count: int, seed: int, round: int) -> tuple[str, ...]:
    """Return so many of the sites, in alphabetical order."""
    rng = np.random.default_rng([seed % 2**63, round, 1])
    return tuple(sorted(rng.choice(everyone, count, replace=False).tolist()))
