"""Small sites on which nearly every method can be tried: points of the disc, two classes, names that all share."""

from __future__ import annotations

import numpy as np

from fedgeom.data.sites import SiteData


def example_sites(sites: int = 4, rows: int = 24, seed: int = 0) -> list[SiteData]:
    """Return sites with two classes of points inside the unit disc; every site has both."""
    rng = np.random.default_rng(seed)
    found = []
    for at in range(sites):
        y = np.arange(rows) % 2
        centres = np.array([[-0.35, 0.05], [0.35, -0.05]])
        X = centres[y] + 0.12 * rng.standard_normal((rows, 2))
        found.append(SiteData(f"site-{at + 1}", X, np.array(["left", "right"])[y]))
    return found


def other_rows(sites: list[SiteData], seed: int = 1) -> list[SiteData]:
    """Return sites of the same names, sizes, labels and columns with other numbers in their rows.

    Each site's rows are shuffled within their classes and moved a little, no farther out than they were.
    """
    rng = np.random.default_rng(seed)
    found = []
    for site in sites:
        X = site.X + 0.05 * site.X.std(axis=0) * rng.standard_normal(site.X.shape)
        before, after = np.linalg.norm(site.X, axis=1), np.linalg.norm(X, axis=1)
        X = X * (np.minimum(before, after) / np.maximum(after, 1e-300))[:, None]
        found.append(SiteData(site.name, X, site.y, site.extra, site.columns))
    return found
