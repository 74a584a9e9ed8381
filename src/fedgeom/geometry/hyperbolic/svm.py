"""Support vector machines on the Poincaré ball, and the Euclidean one to compare with.

A Poincaré hyperplane is a reference point p, which takes the place of the intercept, and a normal vector w
in the tangent space at p (Eq. 5). Following Section 3 of the hulls paper, p is the geodesic midpoint of the
closest pair of extreme points of the two classes; the points are mapped to the tangent space at p by the
logarithmic map (Eq. 1), and w comes from a linear SVM without intercept (Eq. 6 or 7). More than two classes
are one-vs-rest with Platt scaling (Appendix H).

Both classifiers are scikit-learn estimators: ``clone``, ``GridSearchCV`` and ``Pipeline`` work.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from fedgeom.arrays import Floats
from fedgeom.errors import InputError
from fedgeom.geometry._checks import check_curvature
from fedgeom.geometry.hyperbolic._large_margin import LargeMargin, Loss, Margin, Seed
from fedgeom.geometry.hyperbolic.poincare import check_points, log_map
from fedgeom.geometry.hyperbolic.reference import extreme_points, reference_points, with_start_twice

__all__ = ["EuclideanSVC", "PoincareSVC"]


class PoincareSVC(LargeMargin):
    """A large-margin classifier for points in the Poincaré ball (Section 3, Appendices H and I.2).

    Parameters
    ----------
    C : the weight λ of the violations in Eq. 7.
    curvature : k; the ball has curvature -k and radius 1/√k.
    loss : ``"squared_hinge"``, which the published figures use, or ``"hinge"``, Eq. 7 as printed.
    margin : ``"soft"``, or ``"hard"`` for Eq. 6, which is refused with ``InputError`` on data that is not
        separable.
    pairs : how many of the closest pairs of extreme points are tried as reference point. The best training
        accuracy wins, the closer pair on a tie. 1 is Section 3, 3 is Appendix I.2.
    reference : reference points to use instead, one (d,) for all hyperplanes or one row for each.
    as_published : follow the reference code in two details. Hulls of more than three points list the point
        farthest from the origin twice, so that the closest pairs may repeat; and among three or more
        classes, one with a single distinct point gets probability zero.
    tol, max_iter : when the solver stops.
    random_state : the order of steps for ``loss="hinge"``; the other solvers use no randomness.

    After ``fit``: ``classes_``, ``reference_`` (p), ``coef_`` (w) and ``platt_`` (A, B), one row per
    hyperplane; a single row, which points to ``classes_[1]``, when there are two classes.
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        curvature: float = 1.0,
        loss: Loss = "squared_hinge",
        margin: Margin = "soft",
        pairs: int = 3,
        reference: ArrayLike | None = None,
        as_published: bool = False,
        tol: float = 1e-10,
        max_iter: int = 10_000,
        random_state: Seed = None,
    ) -> None:
        self.C = C
        self.curvature = curvature
        self.loss = loss
        self.margin = margin
        self.pairs = pairs
        self.reference = reference
        self.as_published = as_published
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    @classmethod
    def published(cls, C: float = 0.1, *, curvature: float = 1.0) -> Self:
        """Give the classifier behind the published tables; C = 0.1 is that of the biological data sets."""
        return cls(C=C, curvature=curvature, pairs=3, as_published=True)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if int(self.pairs) != self.pairs or self.pairs < 1:
            raise InputError(f"pairs must be a positive whole number, not {self.pairs!r}")

    def _check_points(self, points: Floats) -> Floats:
        return check_points(points, c=check_curvature(self.curvature), name="X")

    def _places(self, groups: list[Floats], targets: list[int]) -> list[list[Floats]]:
        """Give the reference points to try for every hyperplane."""
        if self.reference is not None:
            given = np.atleast_2d(np.asarray(self.reference, dtype=np.float64))
            wanted = (len(targets), groups[0].shape[1])
            if given.shape not in ((1, wanted[1]), wanted):
                raise InputError(f"reference must have shape {wanted[1:]} or {wanted}, not {given.shape}")
            checked = check_points(given, c=self.curvature, name="reference")
            return [[point] for point in np.broadcast_to(checked, wanted)]

        hulls = [extreme_points(group, c=self.curvature) for group in groups]
        places: list[list[Floats]] = []
        for target in targets:
            if self.as_published and len(groups) > 2 and len(hulls[target]) == 1:
                places.append([])
                continue
            others = np.vstack([hull for code, hull in enumerate(hulls) if code != target])
            here, there = hulls[target], extreme_points(others, c=self.curvature)
            if self.as_published:
                here, there = with_start_twice(here), with_start_twice(there)
            places.append(reference_points(here, there, int(self.pairs), c=self.curvature))
        return places

    def _rows(self, points: Floats, place: Floats) -> Floats:
        return log_map(place, points, c=self.curvature)


class EuclideanSVC(LargeMargin):
    """The linear SVM in flat space, as the papers' baseline: one-vs-rest with Platt scaling.

    The intercept is one more weight and is regularised like the others, as LinearSVC does by default.
    Parameters and attributes are those of `PoincareSVC` where they make sense; ``intercept_`` takes the place
    of the reference point, which stays at the origin.
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        loss: Loss = "squared_hinge",
        margin: Margin = "soft",
        tol: float = 1e-10,
        max_iter: int = 10_000,
        random_state: Seed = None,
    ) -> None:
        self.C = C
        self.loss = loss
        self.margin = margin
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit one hyperplane per class against the rest, or a single one for two classes."""
        super().fit(X, y, sample_weight)
        self.coef_, self.intercept_ = self.coef_[:, :-1], self.coef_[:, -1]
        return self

    def _normals(self) -> Floats:
        return np.column_stack([self.coef_, self.intercept_])

    def _places(self, groups: list[Floats], targets: list[int]) -> list[list[Floats]]:
        return [[np.zeros(groups[0].shape[1])] for _ in targets]

    def _rows(self, points: Floats, place: Floats) -> Floats:
        return np.column_stack([points - place, np.ones(len(points))])
