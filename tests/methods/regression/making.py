"""Sites with an outcome."""

from __future__ import annotations

import numpy as np

from fedgeom import SiteData
from tests.methods.regression.twin import Floats

TRUE = np.array([0.4, 0.5, -0.3, 0.2])


def rows(family: str, count: int = 420, seed: int = 0) -> tuple[Floats, Floats]:
    """Return columns in odd units, and an outcome."""
    rng = np.random.default_rng(seed)
    Z = np.column_stack([rng.normal(size=count), rng.exponential(size=count), rng.integers(0, 2, count)])
    eta = TRUE[0] + Z @ TRUE[1:]
    y = {
        "gaussian": lambda: 100 * eta + 30 * rng.normal(size=count),
        "binomial": lambda: (rng.logistic(size=count) < eta - 0.5).astype(float),
        "poisson": lambda: rng.poisson(np.exp(eta)).astype(float),
        "gamma": lambda: rng.gamma(2.0, np.exp(eta) / 2) + 1e-3,
    }[family]()
    return Z * [12.0, 0.01, 1.0] + [150.0, 0.0, 0.0], y


def part(X: Floats, y: Floats, n_sites: int = 6, seed: int = 1, **extra: Floats) -> tuple[list[SiteData], Floats]:
    """Spread rows over sites of different sizes; return the sites, and which rows each has, one after the other."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    cuts = np.sort(rng.choice(np.arange(30, len(y) - 30, 30), n_sites - 1, replace=False))
    flags = bool(np.isin(y, (0, 1)).all())
    made = []
    for at, some in enumerate(np.split(order, cuts)):
        beside = {"outcome": y[some]} | {name: values[some] for name, values in extra.items()}
        labels = y[some].astype(int) if flags else np.zeros(len(some), int)
        made.append(SiteData(f"site-{at}", X[some], labels, beside, columns=("pressure", "dose", "arm")))
    return made, order


def site_of(sites: list[SiteData]) -> np.ndarray:
    """Return the number of each row's site, in the sites' order."""
    return np.concatenate([np.full(len(site), at) for at, site in enumerate(sites)])
