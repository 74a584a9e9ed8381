"""Hospitals for tests: of different spread, with labels turned round, or of two concepts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import fedgeom
from fedgeom import SiteData


def hospitals(
    n: int = 6, rows: int = 60, columns: int = 4, seed: int = 0, flipped: Sequence[int] = ()
) -> list[SiteData]:
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=columns)
    found = []
    for at in range(n):
        X = rng.normal(size=(rows + 7 * at, columns)) * (1 + 0.3 * at)
        sick = X @ truth + 0.5 * rng.normal(size=len(X)) > 0
        found.append(SiteData(f"h{at}", X, np.where(sick ^ (at in flipped), "sick", "well")))
    return found


def concepts(n: int = 8, rows: int = 120, seed: int = 1) -> list[SiteData]:
    """Two groups of hospitals in which the same signs mean the opposite."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=5)
    found = []
    for at in range(n):
        X = rng.normal(size=(rows, 5))
        sign = 1 if at < n // 2 else -1
        found.append(
            SiteData(f"h{at}", X, np.where(sign * (X @ truth) + 0.3 * rng.normal(size=rows) > 0, "a", "b"))
        )
    return found


def vector(run: fedgeom.Run, name: str) -> np.ndarray:
    """Return a site's own model as one vector."""
    return np.asarray(run.local[name]["model"])
