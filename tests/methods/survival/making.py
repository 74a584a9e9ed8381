"""Sites with times and events."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedgeom import SiteData

TRUE = np.array([0.03, 0.5, -0.4])
COLUMNS = ("age", "marker", "arm")


def rows(count: int = 420, seed: int = 0, whole: float = 7.0) -> tuple[Any, Any, Any]:
    """Return columns in odd units, times in whole weeks (ties), and events."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(60, 10, count), rng.exponential(size=count), rng.integers(0, 2, count)])
    hazard = np.exp((X - [60, 0, 0]) @ TRUE) / 300
    time, end = rng.exponential(1 / hazard), rng.uniform(50, 700, count)
    return X, np.ceil(np.minimum(time, end) / whole) * whole, time <= end


def part(X: Any, time: Any, event: Any, n_sites: int = 6, seed: int = 1, least: int = 20) -> list[SiteData]:
    """Spread rows over sites of different sizes."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(time))
    cuts = np.sort(rng.choice(np.arange(least, len(time) - least, least), n_sites - 1, replace=False))
    names = COLUMNS if X.shape[1] == len(COLUMNS) else ()
    return [
        SiteData(f"site-{at}", X[some], event[some].astype(int), {"time": time[some], "event": event[some]}, names)
        for at, some in enumerate(np.split(order, cuts))
    ]
