"""Small sites for the tests of Ridge: blobs in a table, and images with a bright row or column."""

from __future__ import annotations

import numpy as np

from fedgeom.data.sites import SiteData
from fedgeom.methods.ridge.image_features import Conv

SHAPE = (6, 6, 1)
SMALL_CONV = Conv(n_filters=5, patch_size=3, padding=1, pools=2, means=2, n_rounds=2, min_cell=3)


def blobs(sites: int = 4, rows: int = 30, columns: int = 5, classes: int = 3, seed: int = 0) -> list[SiteData]:
    """Return sites with Gaussian classes in columns of very different units."""
    rng = np.random.default_rng(seed)
    centres, units = 1.5 * rng.standard_normal((classes, columns)), 10.0 ** np.arange(-3, columns - 3)
    found = []
    for at in range(sites):
        y = (np.arange(rows) + at) % classes
        X = (centres[y] + rng.standard_normal((rows, columns))) * units + 3 * units
        found.append(SiteData(f"s{at}", X, np.array([f"c{label}" for label in y])))
    return found


def images(sites: int = 4, rows: int = 24, seed: int = 0) -> list[SiteData]:
    """Return sites with images of 6 × 6 cells: a bright row or a bright column."""
    rng, found = np.random.default_rng(seed), []
    for at in range(sites):
        y = np.arange(rows) % 2
        X = rng.integers(0, 100, (rows, *SHAPE))
        X[y == 1, :, 2] += 120
        X[y == 0, 2] += 120
        labels = np.array(["row", "column"])[y]
        found.append(SiteData(f"s{at}", X.reshape(rows, -1).astype(np.uint8), labels))
    return found


def pooled(sites: list[SiteData]) -> tuple[np.ndarray, np.ndarray]:
    """Return all rows and labels."""
    return np.vstack([site.X for site in sites]), np.concatenate([site.y for site in sites])
