"""Raw tables for tests: numbers with gaps, categories, counts."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from fedgeom.data.sites import SiteData

WORDS = ("a", "b", "c", "z")


def clinical(sites: int = 4, rows: int = 40, seed: int = 0) -> list[SiteData]:
    """Return sites with three columns of numbers that have gaps, and one of text; "z" is rare."""
    rng, found = np.random.default_rng(seed), []
    for at in range(sites):
        y = np.where(np.arange(rows) % 2, "ill", "well")
        X = rng.normal(size=(rows, 3)) * [1, 10, 0.01] + [0, 50, 1] + (y == "ill")[:, None] * [1, 10, 0.01]
        X[rng.random(X.shape) < 0.15] = np.nan
        words = rng.integers(0, 3, rows).astype(float)
        words[rng.random(rows) < 0.2] = np.nan
        words[0] = 3
        found.append(
            SiteData(
                f"s{at}",
                np.column_stack([X, words]),
                y,
                columns=("age", "crp", "bmi", "ward"),
                categories={"ward": WORDS},
            )
        )
    return found


def counts(
    sites: int = 4, rows: int = 50, columns: int = 60, seed: int = 0, *, sparse: bool = True
) -> list[SiteData]:
    """Return sites with counts of molecules, two classes, and rows of different depth."""
    rng, found = np.random.default_rng(seed), []
    level = rng.gamma(0.6, 2.0, columns)
    for at in range(sites):
        y = np.arange(rows) % 2
        means = level * (1 + 2 * (y[:, None] * (np.arange(columns) % 7 == 0))) * rng.uniform(0.5, 2, (rows, 1))
        X = rng.poisson(rng.gamma(2, means / 2)).astype(np.float32)
        table = sp.csr_array(X) if sparse else X
        names = tuple(f"g{i}" for i in range(columns))
        found.append(SiteData(f"s{at}", table, np.where(y, "B", "T"), columns=names))
    return found


def pooled(sites: list[SiteData]) -> np.ndarray:
    """Return all sites' rows in one place, dense."""
    return np.vstack([site.X for site in sites])
