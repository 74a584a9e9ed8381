"""Rows for tests of label propagation: classes as cones, of which some rows are labelled."""

from __future__ import annotations

import numpy as np

import fedgeom
from fedgeom.data.sites import SiteData

CLASSES = 3


def cones(
    n_sites: int = 3, rows: int = 14, labelled: float = 0.4, seed: int = 0, noise: float = 0.25
) -> list[SiteData]:
    """Draw classes as cones around random directions; some rows have labels, -1 means none."""
    rng, d = np.random.default_rng(seed), 6
    axes = np.linalg.qr(rng.normal(size=(d, d)))[0][:CLASSES]
    y = np.arange(n_sites * rows) % CLASSES
    X = axes[y] * rng.uniform(1, 3, (len(y), 1)) + noise * rng.normal(size=(len(y), d))
    shown = np.where(rng.random(len(y)) < labelled, y, -1)
    return fedgeom.split(X, shown, n_sites, seed=seed, extra={"truth": y})
