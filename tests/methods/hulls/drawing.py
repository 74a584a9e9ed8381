"""Points of the disc for tests, and what can be read off a run."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.geometry.hyperbolic.poincare import exp0

Floats = NDArray[np.float64]


def blobs(
    n_sites: int = 3, classes: int = 3, rows: int = 30, seed: int = 0, spread: float = 0.15
) -> list[SiteData]:
    """Draw well separated classes in the disc, dealt to sites."""
    rng = np.random.default_rng(seed)
    angles = 2 * np.pi * np.arange(classes) / classes
    centres = 0.9 * np.column_stack([np.cos(angles), np.sin(angles)])
    X = np.concatenate([exp0(c + spread * rng.normal(size=(rows * n_sites, 2))) for c in centres])
    return fedgeom.split(X, np.repeat(np.arange(classes), rows * n_sites), n_sites, seed=seed)


def pairs(L: int = 4, J: int = 3, n: int = 40, seed: int = 0) -> list[tuple[Floats, NDArray[Any]]]:
    """Draw J classes on a circle at L sites, as (X, y)."""
    rng = np.random.default_rng(seed)
    sites = []
    for _ in range(L):
        y = np.repeat(np.arange(J), n)
        angle = 2 * np.pi * y / J
        X = exp0(np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.25 * rng.normal(size=(len(y), 2)))
        sites.append((X, y))
    return sites


def hulls_of(run: fedgeom.Run) -> list[list[int]]:
    """Return the bins of each hull that the coordinator decoded."""
    places, hull = run.artifacts["hull_bins"], run.artifacts["hull_of_point"]
    return [places[hull == k].tolist() for k in range(hull.max() + 1)]
