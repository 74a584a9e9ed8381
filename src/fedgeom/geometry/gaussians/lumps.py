"""Into how many lumps the rows of a class fall: a mixture of Gaussians, as many as the BIC wants."""

from __future__ import annotations

import numpy as np

from fedgeom.arrays import Floats, Indices

REGULAR = 1e-6
"""The share of the mean variance that the fit adds to each: a lump may be flat."""


def find_lumps(X: Floats, most: int, min_rows: int, seed: int = 0) -> Indices:
    """Return for each row in which lump it is, (n,): up to ``most``, each of at least so many rows.

    X (n, d), f8. Of the mixtures with 1, 2, … Gaussians the one with the least BIC is taken; one with a lump of fewer
    rows does not count.
    """
    whole = np.zeros(len(X), np.intp)
    if most < 2 or len(X) < 2 * min_rows:
        return whole
    from sklearn.mixture import GaussianMixture  # 2 s, and only for classes of several lumps

    regular = REGULAR * max(float(X.var(axis=0).mean()), 1e-12)
    best, least = whole, np.inf
    for count in range(1, min(most, len(X) // min_rows) + 1):
        mixture = GaussianMixture(count, reg_covar=regular, random_state=seed).fit(X)
        found = np.asarray(mixture.predict(X), np.intp)
        if np.bincount(found, minlength=count).min() < min_rows:
            continue
        bic = float(mixture.bic(X))
        if bic < least:
            best, least = found, bic
    return best
