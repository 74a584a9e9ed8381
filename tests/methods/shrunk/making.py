"""Hospitals and tables with two outcomes, for tests."""

from __future__ import annotations

import numpy as np

from fedgeom import SiteData

QUICK = {"n_rounds": 6, "n_folds": 3}


def hospitals(n: int = 4, rows: int = 50, columns: int = 3, seed: int = 0, differ: float = 0.0) -> list[SiteData]:
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=columns)
    found = []
    for at in range(n):
        X = rng.normal(size=(rows + 5 * at, columns))
        own = truth + differ * rng.normal(size=columns)
        y = np.where(X @ own + 0.5 * at - 1 + rng.logistic(size=len(X)) > 0, "yes", "no")
        found.append(SiteData(f"h{at}", X, y))
    return found


def outcomes(seed: int = 0, rows: int = 60) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3))
    return X, (X[:, 0] - X[:, 1] + rng.logistic(size=rows) > 0.3).astype(np.int64)
