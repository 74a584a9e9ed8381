"""The hull method without its cryptography: read this first.

Every site finds the hulls of its classes and rounds them to a grid; the coordinator groups the anonymous
hulls by class and learns a hyperbolic SVM from their corners (Figure 1 of the hulls paper, all but parts d and
e). The secure method computes the same from masked messages and calls the same functions, so the two agree to
the last digit.

Sites need not agree on the names of the classes. Labels are used here for one thing only, to give the groups names
at the end; the coordinator of a secure run never sees them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

from fedgeom.arrays import Floats, Indices
from fedgeom.errors import InputError
from fedgeom.geometry.hyperbolic.grid import Grid
from fedgeom.geometry.hyperbolic.poincare import check_points
from fedgeom.geometry.hyperbolic.svm import PoincareSVC
from fedgeom.methods.hulls.core import (
    Bins,
    class_hulls,
    fit_groups,
    group_hulls,
    make_grid,
    points_of_groups,
    rounded_hulls,
)
from fedgeom.methods.hulls.matching import How

if TYPE_CHECKING:
    from fedgeom.methods.hulls.core import Classifier


@dataclass(frozen=True)
class PlainModel:
    """What the coordinator has at the end, and the names of the groups."""

    grid: Grid
    hulls: tuple[Bins, ...]  # the quantised hulls, as bin numbers
    owners: Indices  # which site each hull is from
    members: Indices  # the group of each hull
    names: tuple[Any, ...]  # the label of each group
    classifier: Classifier  # predicts group numbers

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Give every point the name of its group."""
        chosen = self.classifier.predict(X).tolist()
        return np.array([self.names[g] for g in chosen])


def plain(
    sites: Sequence[tuple[ArrayLike, ArrayLike]],
    *,
    epsilon: float = 0.01,
    radius: float | None = None,
    n_classes: int | None = None,
    trim: float | str = "auto",
    how: How = "constrained",
    classifier: Classifier | None = None,
    c: float = 1.0,
    seed: int = 0,
    equal_area: bool = False,
) -> PlainModel:
    """Learn one classifier from the sites' (X, y), as the secure method does.

    ``epsilon`` is ε of Definition 2; ``radius`` is R, by default a little more than the largest norm; ``trim``
    is the share of outlying points that a hull leaves out; ``how`` the way hulls are grouped; ``n_classes`` is J,
    by default the number of labels in use; ``equal_area`` takes the grid of Appendix C.
    """
    data = [(check_points(X, c=c, dim=2, name=f"site {i}: X"), np.asarray(y)) for i, (X, y) in enumerate(sites)]
    if not data:
        raise InputError("at least one site is needed")
    reach = covering_radius([X for X, _ in data], c=c) if radius is None else radius
    grid = make_grid(epsilon, reach, c=c, equal_area=equal_area)

    at_sites = [local_hulls(X, y, grid, trim) for X, y in data]

    hulls = [bins for site in at_sites for bins in site.values()]
    labels = [label for site in at_sites for label in site]
    owners = np.repeat(np.arange(len(at_sites)), [len(site) for site in at_sites])
    J = len(set(labels)) if n_classes is None else n_classes
    members = group_hulls(hulls, owners, J, grid=grid, how=how, seed=seed)
    model = fit_groups(
        points_of_groups(hulls, members, grid), PoincareSVC(curvature=c) if classifier is None else classifier
    )
    return PlainModel(grid, tuple(hulls), owners, members, name_groups(members, labels), model)


def covering_radius(parts: Sequence[Floats], *, c: float = 1.0) -> float:
    """Give a radius for the grid: the largest norm plus 1e-4, or halfway to the edge if that is nearer.

    Each part (n, d), f8.
    """
    largest = max(float(np.linalg.norm(X, axis=1).max(initial=0.0)) for X in parts)
    return min(largest + 1e-4, (largest + 1 / math.sqrt(c)) / 2)


def local_hulls(X: ArrayLike, y: ArrayLike, grid: Grid, trim: float | str = "auto") -> dict[Any, Bins]:
    """Give the quantised hull of each of a site's classes: the distinct bins of its corners, ascending.

    X (n, 2), y (n,).

    Hull, quantise its extreme points, hull again (Definition 3). This is all that a site tells about its data.
    """
    points, labels = check_points(X, c=grid.c, dim=2, name="X"), np.asarray(y)
    if labels.shape != (len(points),):
        raise InputError(f"X has {len(points)} points, but y has shape {labels.shape}; one label each is wanted")
    return rounded_hulls(class_hulls(points, labels, trim, c=grid.c), grid)


def name_groups(members: Indices, labels: Sequence[Any]) -> tuple[Any, ...]:
    """Name each group by a label of its hulls, distinct names for distinct groups, agreeing with most hulls.

    members (hulls,), whole numbers.
    """
    names = sorted(set(labels))
    votes = np.zeros((int(members.max()) + 1, len(names)))
    np.add.at(votes, (members, np.array([names.index(label) for label in labels])), 1)
    best = votes.argmax(axis=1)  # for groups beyond the number of labels
    rows, columns = linear_sum_assignment(votes, maximize=True)
    best[rows] = columns
    return tuple(names[i] for i in best)
