"""The middle of several groups' class moments: what a site that lies spoils is one group of them.

A group's moments are taken apart by class: mean, covariance and mean on the hyperboloid are comparable between groups,
whatever their sizes. The median over the groups that have the class is then written as moments again, so that the
model follows from it as from any sum.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedgeom.arrays import Floats
from fedgeom.methods.iterative.group_median import GroupMedian
from fedgeom.methods.moments.settings import MomentsSettings


def middle(settings: MomentsSettings, sums: Sequence[Floats], classes: int, columns: int) -> Floats:
    """Return class moments, as `ClassSums` reads them, that the moments of most groups are near to.

    sums: for each group the moments of all classes in one vector, f8; returns one of the same length. A class's count
    is the median of the groups' that have it, times their number; one that no group has keeps zeros.
    """
    rule = settings.aggregation
    assert isinstance(rule, GroupMedian)
    tables = np.array(sums).reshape(len(sums), classes, -1)
    found = np.zeros(tables.shape[1:])
    for at in range(classes):
        counts = np.rint(tables[:, at, 0])
        present = tables[counts >= 1, at]
        if len(present):
            count = max(1.0, float(np.rint(np.median(counts[counts >= 1]) * len(present))))
            found[at] = count * _typical_row(present / counts[counts >= 1, None], rule, columns, settings.squares)
            found[at, 0] = count
    return found.ravel()


def _typical_row(rows: Floats, rule: GroupMedian, columns: int, squares: bool) -> Floats:
    """Return one class's moments per row, from those of each group, (groups, numbers)."""
    d = columns
    upper = np.triu_indices(d if squares else 0)
    pairs = len(upper[0])
    means, products, lifted = rows[:, 1 : 1 + d], rows[:, 1 + d : 1 + d + pairs], rows[:, 1 + d + pairs :]
    if squares:  # covariances are comparable, squares are not: they have the means in them
        products = products - means[:, upper[0]] * means[:, upper[1]]
    centre = rule(means, np.ones(len(rows)))
    between = rule(products, np.ones(len(rows))) if pairs else np.empty(0)
    if pairs:
        covariance = np.zeros((d, d))
        covariance[upper] = between
        covariance = covariance + np.triu(covariance, 1).T
        # A median taken entry by entry need not be a covariance; the nearest one has no negative eigenvalues.
        values, vectors = np.linalg.eigh(covariance)
        covariance = (vectors * np.maximum(values, 0.0)) @ vectors.T
        between = covariance[upper] + centre[upper[0]] * centre[upper[1]]
    return np.concatenate([[1.0], centre, between, rule(lifted, np.ones(len(rows)))])
