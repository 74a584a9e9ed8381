"""Support vector machines on the Poincaré ball, and the Euclidean one to compare with.

A Poincaré hyperplane is a reference point p, which takes the place of the intercept, and a normal vector w
in the tangent space at p (Eq. 5). Following Section 3 of the hulls paper, p is the geodesic midpoint of the
closest pair of extreme points of the two classes; the points are mapped to the tangent space at p by the
logarithmic map (Eq. 1), and w comes from a linear SVM without intercept (Eq. 6 or 7). More than two classes
are one-vs-rest with Platt scaling (Appendix H).

Both classifiers are scikit-learn estimators: ``clone``, ``GridSearchCV`` and ``Pipeline`` work.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from fedgeom.arrays import Floats
from fedgeom.errors import InputError
from fedgeom.geometry._checks import check_curvature
from fedgeom.geometry.hyperbolic.poincare import check_points, log_map
from fedgeom.geometry.hyperbolic.reference import extreme_points, reference_points, with_start_twice

# Above this dimension nearly every point is a vertex and Qhull's work explodes: all points are used instead.
# Entries of the distance matrix held at once while looking for the closest pairs.


_POINTS = 512
_HULLS = 32
"""How many points and hulls a tile has: 128 KiB."""


INSEPARABLE = "the data cannot be separated by a hyperplane through this reference point; use margin='soft'"


def squared_hinge(
    rows: Floats, signs: Floats, costs: Floats, *, tol: float = 1e-10, max_iter: int = 200
) -> tuple[Floats, int]:
    """Minimise ½‖w‖² + Σ_j c_j max(0, 1 - y_j⟨v_j, w⟩)² and return (w, number of steps).

    This is LinearSVC's default problem, which the published figures use. The function is convex and made of
    quadratic pieces; Newton's step solves the current piece exactly, the line search is exact as well, and
    the method ends after finitely many steps, when the minimum of a piece lies inside that piece.
    """
    signed = rows * signs[:, None]
    w = np.zeros(rows.shape[1])
    slack = np.ones(len(rows))
    for step in range(1, max_iter + 1):
        active = slack > 0
        chosen = signed[active]
        weighted = chosen.T * (2 * costs[active])
        gradient = w - weighted @ slack[active]
        scale = float(np.linalg.norm(w)) + float(np.linalg.norm(np.abs(weighted) @ slack[active]))
        if float(np.linalg.norm(gradient)) <= tol * scale:
            return w, step
        hessian = weighted @ chosen
        hessian[np.diag_indices_from(hessian)] += 1.0
        direction = np.asarray(-np.linalg.solve(hessian, gradient), dtype=np.float64)
        move = _exact_step(w, direction, slack, signed @ direction, costs) * direction
        w = w + move
        if float(np.linalg.norm(move)) <= tol * float(np.linalg.norm(w)):
            return w, step  # with a huge penalty rounding hides the gradient before it hides the step
        slack = 1 - signed @ w
    warnings.warn(
        f"the squared-hinge solver did not settle within {max_iter} steps; raise max_iter or tol",
        ConvergenceWarning,
        stacklevel=2,
    )
    return w, max_iter


def _exact_step(w: Floats, direction: Floats, slack: Floats, change: Floats, costs: Floats) -> float:
    """Minimise the squared-hinge objective along a line, where its slope is piecewise linear and grows."""

    def slope(t: float) -> float:
        return w_d + t * d_d - float(pull @ np.maximum(slack - t * change, 0.0))

    pull = 2 * costs * change
    w_d = float(w @ direction)
    d_d = float(direction @ direction)
    moving = change != 0
    kinks = slack[moving] / change[moving]
    kinks = np.unique(kinks[kinks > 0])
    low = 0
    high = len(kinks)
    while low < high:  # the first kink at which the slope is no longer negative
        middle = (low + high) // 2
        if slope(float(kinks[middle])) >= 0:
            high = middle
        else:
            low = middle + 1
    start = float(kinks[low - 1]) if low > 0 else 0.0
    stop = float(kinks[low]) if low < len(kinks) else np.inf
    inside = (start + stop) / 2 if np.isfinite(stop) else start + 1.0
    on = slack - inside * change > 0
    growth = d_d + float(pull[on] @ change[on])
    return float(np.clip(inside - slope(inside) / growth, start, stop))


def hinge(
    rows: Floats,
    signs: Floats,
    costs: Floats,
    *,
    tol: float = 1e-6,
    max_iter: int = 10_000,
    random_state: int | np.random.RandomState | None = None,
) -> tuple[Floats, int]:
    """Minimise ½‖w‖² + Σ_j c_j max(0, 1 - y_j⟨v_j, w⟩), Eq. 7, and return (w, number of passes).

    liblinear's dual coordinate descent does it; the order of its steps is random, hence ``random_state``.
    """
    model = LinearSVC(
        C=1.0,
        loss="hinge",
        dual=True,
        fit_intercept=False,
        tol=tol,
        max_iter=max_iter,
        random_state=random_state,
    )
    model.fit(rows, signs, sample_weight=costs)
    return np.asarray(model.coef_[0], dtype=np.float64), int(np.max(model.n_iter_))


def hard_margin(rows: Floats, signs: Floats, *, tol: float = 1e-6, max_iter: int = 1000) -> tuple[Floats, int]:
    """Minimise ½‖w‖² subject to y_j⟨v_j, w⟩ ≥ 1 for all j, Eq. 6, and return (w, number of rounds).

    Only a handful of constraints bind. Each round solves the problem exactly for the constraints found so far
    and adds the most violated one. ``InputError`` says that no hyperplane through the origin separates them.
    """
    signed = rows * signs[:, None]
    unit = float(np.linalg.norm(signed, axis=1).max())
    if unit == 0:
        raise InputError("the data cannot be separated: all points coincide with the reference point")
    signed = signed / unit
    chosen = [int(np.argmin(np.linalg.norm(signed, axis=1)))]
    for step in range(1, max_iter + 1):
        w = _least_distance(signed[chosen])
        margins = signed @ w
        worst = int(np.argmin(margins))
        if margins[worst] >= 1 - tol:
            # Rounding may leave the binding constraints a trifle short; stretching w makes them hold.
            return w / (unit * min(1.0, float(margins[worst]))), step
        if worst in chosen:  # violated although it was demanded: the demands contradict each other
            break
        chosen.append(worst)
    raise InputError(INSEPARABLE)


def _least_distance(demands: Floats) -> Floats:
    """Give the shortest w with ⟨g, w⟩ ≥ 1 for every row g, by way of non-negative least squares.

    The residual of min ‖E u - e‖ over u ≥ 0, with E = [Gᵀ; h 1ᵀ] and e the last unit vector, is (h w, -1)
    up to scale; it vanishes exactly when the demands contradict each other. A thin margin makes w long and
    the residual small, so h is then chosen anew such that h w has about unit length.
    """
    height = 1.0
    target = np.zeros(demands.shape[1] + 1)
    target[-1] = 1.0
    w = np.zeros(demands.shape[1])
    for _ in range(3):
        system = np.vstack([demands.T, np.full(len(demands), height)])
        solution, residual = nnls(system, target)
        if residual <= 1e-9:
            raise InputError(INSEPARABLE)
        rest = system @ solution - target
        w = -rest[:-1] / rest[-1]
        length = float(np.linalg.norm(w))
        if length <= 10:
            break
        height /= length
    return np.asarray(w / height, dtype=np.float64)


MAX_STEPS = 100
MIN_STEP = 1e-10
# Keeps the 2×2 Hessian invertible when all scores are equal or the two classes are perfectly apart.
RIDGE = 1e-12
# A step that gains less than this share of the loss cannot be judged by the loss: rounding is as large.
FLAT = 1e-13


def fit_sigmoid(scores: ArrayLike, targets: ArrayLike, *, weights: ArrayLike | None = None) -> tuple[float, float]:
    """Fit the slope A and the offset B of Platt's sigmoid.

    scores, targets and weights (n,).

    Targets above zero are the positive class, all others the negative one. The likelihood is taken against
    softened targets, (n₊ + 1)/(n₊ + 2) and 1/(n₋ + 2), so that A stays finite on separable data. With
    ``weights`` a point counts as that many copies of itself, in n₊ and n₋ too.

    The problem is convex with two unknowns; Newton's method with backtracking solves it.
    """
    s = _vector(scores, "scores")
    labels = np.asarray(targets)
    w = np.ones_like(s) if weights is None else _vector(weights, "weights")
    if labels.shape != s.shape or w.shape != s.shape:
        raise InputError(
            f"scores, targets and weights must have one length, not {s.shape}, {labels.shape} and {w.shape}"
        )
    if np.any(w < 0):
        raise InputError("weights must not be negative")
    positive = labels > 0
    n_pos = float(w[positive].sum())
    n_neg = float(w[~positive].sum())
    if n_pos + n_neg == 0:
        raise InputError("Platt scaling needs at least one point of positive weight")
    wanted = np.where(positive, (n_pos + 1) / (n_pos + 2), 1 / (n_neg + 2))

    # Scores of size 1e6 or 1e-6 would leave the two directions of the Hessian on very different scales.
    unit = float(np.abs(s).max()) or 1.0
    scaled = s / unit
    theta = np.array([0.0, np.log((n_neg + 1) / (n_pos + 1))])
    design = np.stack([scaled, np.ones_like(scaled)], axis=1)
    value = _loss(design @ theta, wanted, w)
    for _ in range(MAX_STEPS):
        p, gradient = _gradient(design, theta, wanted, w)
        if float(np.abs(gradient).max()) <= 1e-10 * (n_pos + n_neg):
            break
        hessian = (design.T * (w * p * (1 - p))) @ design + RIDGE * np.eye(2)
        direction = -np.linalg.solve(hessian, gradient)
        slope = float(gradient @ direction)
        if -slope <= FLAT * value:  # so near to the optimum Newton's step needs no search; the gradient judges it
            after = _gradient(design, theta + direction, wanted, w)[1]
            if float(np.abs(after).max()) >= float(np.abs(gradient).max()):
                break
            theta = theta + direction
            value = _loss(design @ theta, wanted, w)
            continue
        step = 1.0
        while step >= MIN_STEP:
            candidate = theta + step * direction
            reached = _loss(design @ candidate, wanted, w)
            if reached <= value + 1e-4 * step * slope:
                theta = candidate
                value = reached
                break
            step /= 2
        else:  # no step makes the loss smaller: rounding is all that is left
            break
    return float(theta[0]) / unit, float(theta[1])


def sigmoid(scores: ArrayLike, A: Any, B: Any) -> Floats:
    """Give Platt's probability 1 / (1 + exp(A·s + B)), without overflow for scores of any size.

    scores (…), A and B that broadcast with them; returns the common shape, f8.

    ``A`` and ``B`` may be arrays, one entry per column of ``scores``. ``A = 0, B = ∞`` is the sigmoid of a
    class that is never chosen.
    """
    exponent = np.asarray(A) * np.asarray(scores, dtype=np.float64) + np.asarray(B)
    return np.asarray(expit(-exponent), dtype=np.float64)


def _gradient(design: Floats, theta: Floats, wanted: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Give the fitted probabilities, and the gradient of the loss in A and B."""
    p = np.asarray(expit(-(design @ theta)), dtype=np.float64)
    return p, np.asarray(design.T @ (weights * (wanted - p)))


def _loss(exponent: Floats, wanted: Floats, weights: Floats) -> float:
    """Give the cross entropy of the fitted probabilities, written so that it cannot overflow."""
    return float(weights @ (np.logaddexp(0.0, exponent) - (1 - wanted) * exponent))


def _vector(values: ArrayLike, name: str) -> Floats:
    """Read a finite one-dimensional array."""
    out = np.asarray(values, dtype=np.float64)
    if out.ndim != 1:
        raise InputError(f"{name} must be one-dimensional, not of shape {out.shape}")
    bad = int(np.sum(~np.isfinite(out)))
    if bad:
        raise InputError(f"{name} must be finite numbers; {bad} of {out.size} are not")
    return out


Loss = Literal["squared_hinge", "hinge"]
Margin = Literal["soft", "hard"]
Seed = int | np.random.RandomState | None

NEVER = 1e300
"""Platt's offset B of a class that is never predicted: probability 0. Finite, or sites would refuse the model."""


class LargeMargin(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A one-vs-rest classifier of large-margin hyperplanes; two classes share a single one.

    A subclass says at which places hyperplanes may be put and which rows the linear solver sees from a place.
    """

    C: float
    loss: Loss
    margin: Margin
    tol: float
    max_iter: int
    random_state: Seed

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit one hyperplane per class against the rest, or a single one for two classes."""
        points, labels = self._read_training(X, y)
        self._check_parameters()
        weights = np.asarray(_check_sample_weight(sample_weight, points), dtype=np.float64)
        if np.any(weights < 0):
            raise InputError("sample_weight must not be negative")
        used = weights > 0  # a point of no weight must not be a corner of a hull either
        points = points[used]
        labels = labels[used]
        weights = weights[used]
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise InputError(f"y holds one class only, {self.classes_.tolist()}; at least two classes are wanted")

        targets = [1] if len(self.classes_) == 2 else list(range(len(self.classes_)))
        groups = [points[codes == code] for code in range(len(self.classes_))]
        places = self._places(groups, targets)
        fitted = [
            self._fit_one(points, codes == target, weights, candidates)
            for target, candidates in zip(targets, places, strict=True)
        ]
        origin = np.zeros(points.shape[1])
        nothing = np.zeros(self._rows(points[:1], points[0]).shape[1])
        self.reference_ = np.stack([origin if plane is None else plane[0] for plane in fitted])
        self.coef_ = np.stack([nothing if plane is None else plane[1] for plane in fitted])
        # A class without a hyperplane has probability zero everywhere.
        self.platt_ = np.array([(0.0, NEVER) if plane is None else plane[2] for plane in fitted])
        self.n_iter_ = max(1 if plane is None else plane[3] for plane in fitted)
        return self

    def scores(self, X: ArrayLike) -> Floats:
        """Give the raw SVM score of every point for every hyperplane, an array (n, hyperplanes)."""
        check_is_fitted(self)
        points = self._read(X)
        columns = [self._rows(points, p) @ w for p, w in zip(self.reference_, self._normals(), strict=True)]
        return np.stack(columns, axis=1)

    def decision_function(self, X: ArrayLike) -> Floats:
        """Give the score of the single hyperplane (two classes) or one column of log-odds per class.

        Raw scores of different hyperplanes have different units; Platt's log-odds, -(A·s + B), have not, and
        the largest one is the predicted class.
        """
        raw = self.scores(X)
        if len(self.classes_) == 2:
            return raw[:, 0]
        return np.asarray(-(raw * self.platt_[:, 0] + self.platt_[:, 1]))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Name the side of the hyperplane (two classes) or the class of largest probability (Appendix H)."""
        decision = self.decision_function(X)
        chosen = (decision > 0).astype(int) if decision.ndim == 1 else decision.argmax(axis=1)
        return np.asarray(self.classes_[chosen])

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Give Platt's probability of every class; one-vs-rest probabilities are divided by their sum.

        With two classes the probability of one half need not lie exactly on the hyperplane, as in SVC: Platt's
        offset B answers to the frequencies of the classes, the hyperplane does not.
        """
        p = sigmoid(self.scores(X), self.platt_[:, 0], self.platt_[:, 1])
        if len(self.classes_) == 2:
            return np.hstack([1 - p, p])
        total = p.sum(axis=1, keepdims=True)
        p = np.where(total > 0, p, 1.0)  # where all underflow to zero no class is preferred
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    def _fit_one(
        self, points: Floats, positive: NDArray[np.bool_], weights: Floats, candidates: Sequence[Floats]
    ) -> tuple[Floats, Floats, tuple[float, float], int] | None:
        """Fit one hyperplane: the first of the candidate places with the best training accuracy."""
        signs = np.where(positive, 1.0, -1.0)
        best: tuple[float, Floats, Floats, Floats, int] | None = None
        for place in candidates:
            rows = self._rows(points, place)
            try:
                w, steps = self._solve(rows, signs, weights)
            except InputError:  # not separable from here, but perhaps from the next place
                continue
            values = rows @ w
            correct = float(weights @ ((values > 0) == positive))
            if best is None or correct > best[0]:
                best = (correct, place, w, values, steps)
        if best is None:
            if candidates:
                raise InputError(INSEPARABLE)
            return None
        _, place, w, values, steps = best
        return place, w, fit_sigmoid(values, signs, weights=weights), steps

    def _solve(self, rows: Floats, signs: Floats, weights: Floats) -> tuple[Floats, int]:
        """Find the normal vector for one set of rows."""
        if self.margin == "hard":
            return hard_margin(rows, signs)
        costs = self.C * weights
        if self.loss == "squared_hinge":
            return squared_hinge(rows, signs, costs, tol=self.tol, max_iter=self.max_iter)
        # liblinear's tolerance is another quantity, and 1e-10 would never be met.
        tol = max(self.tol, 1e-6)
        return hinge(rows, signs, costs, tol=tol, max_iter=self.max_iter, random_state=self.random_state)

    def _read(self, X: ArrayLike) -> Floats:
        """Check points to be classified, with scikit-learn's messages under our error class."""
        try:
            points = validate_data(self, X, reset=False, dtype=np.float64)
        except ValueError as error:
            raise InputError(str(error)) from error
        return self._check_points(points)

    def _read_training(self, X: ArrayLike, y: ArrayLike) -> tuple[Floats, NDArray[Any]]:
        """Check points and labels to learn from."""
        try:
            points, labels = validate_data(self, X, y, dtype=np.float64)
            check_classification_targets(labels)
        except ValueError as error:
            raise InputError(str(error)) from error
        return self._check_points(points), labels

    def _check_parameters(self) -> None:
        """Refuse parameters that mean nothing; scikit-learn wants this in fit, not in the constructor."""
        if not self.C > 0:
            raise InputError(f"C must be positive, not {self.C!r}")
        if self.loss not in ("squared_hinge", "hinge"):
            raise InputError(f"loss must be 'squared_hinge' or 'hinge', not {self.loss!r}")
        if self.margin not in ("soft", "hard"):
            raise InputError(f"margin must be 'soft' or 'hard', not {self.margin!r}")

    def _check_points(self, points: Floats) -> Floats:
        """Refuse points on which the classifier is not defined."""
        return points

    def _normals(self) -> Floats:
        """Give the solver's solutions, one row per hyperplane."""
        return self.coef_

    def _places(self, groups: list[Floats], targets: list[int]) -> list[list[Floats]]:
        """Give the places to try for each target's hyperplane; none means that it is never predicted."""
        raise NotImplementedError

    def _rows(self, points: Floats, place: Floats) -> Floats:
        """Give the points as the linear solver sees them from a place."""
        raise NotImplementedError


__all__ = ["EuclideanSVC", "PoincareSVC"]


class PoincareSVC(LargeMargin):
    """A large-margin classifier for points in the Poincaré ball (Section 3, Appendices H and I.2).

    There is a hyperplane for each class; with two classes a single one, which points to ``classes_[1]``.

    Parameters
    ----------
    C: a number above 0; 1.0 if not given
        The weight λ of the violations in Eq. 7.
    curvature: a number above 0; 1.0 if not given
        k: the ball has curvature -k and radius 1/√k.
    loss: "squared_hinge" or "hinge"; "squared_hinge" if not given
        The published figures use the squared hinge; "hinge" is Eq. 7 as printed.
    margin: "soft" or "hard"; "soft" if not given
        "hard" is Eq. 6; data that are not separable then raise ``InputError``.
    pairs: a whole number of at least 1; 3 if not given
        How many of the closest pairs of extreme points are tried as reference point. The best training accuracy wins,
        the closer pair on a tie. 1 is Section 3, 3 is Appendix I.2.
    reference: an array of shape (d,) or (hyperplanes, d), or None; None if not given
        Reference points to use instead: one for all hyperplanes, or a row for each.
    as_published: True or False; False if not given
        Whether to follow the reference code in two details. Hulls of more than three points list the point farthest
        from the origin twice, so that the closest pairs may repeat; and among three or more classes, one with a single
        distinct point gets probability zero.
    tol: a number above 0; 1e-10 if not given
        The relative change at which the solver stops.
    max_iter: a whole number of at least 1; 10000 if not given
        The most steps of the solver.
    random_state: a whole number, a `numpy.random.RandomState` or None; None if not given
        The order of steps for ``loss="hinge"``; the other solvers use no randomness.

    Attributes
    ----------
    classes_: an array of shape (classes,)
        The class labels.
    reference_: an array of shape (hyperplanes, d)
        p: the reference points.
    coef_: an array of shape (hyperplanes, d)
        w: the normals.
    platt_: an array of shape (hyperplanes, 2)
        A and B of Platt's scaling.
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
            here = hulls[target]
            there = extreme_points(others, c=self.curvature)
            if self.as_published:
                here = with_start_twice(here)
                there = with_start_twice(there)
            places.append(reference_points(here, there, int(self.pairs), c=self.curvature))
        return places

    def _rows(self, points: Floats, place: Floats) -> Floats:
        return log_map(place, points, c=self.curvature)


class EuclideanSVC(LargeMargin):
    """The linear SVM in flat space, as the papers' baseline: one-vs-rest with Platt scaling.

    The intercept is one more weight and is regularised like the others, as LinearSVC does by default.
    Attributes are those of `PoincareSVC`; ``intercept_`` takes the place of the reference point, which stays at the
    origin.

    Parameters
    ----------
    C: a number above 0; 1.0 if not given
        The weight of the violations.
    loss: "squared_hinge" or "hinge"; "squared_hinge" if not given
        How violations are weighed.
    margin: "soft" or "hard"; "soft" if not given
        "hard": no violations; data that are not separable then raise ``InputError``.
    tol: a number above 0; 1e-10 if not given
        The relative change at which the solver stops.
    max_iter: a whole number of at least 1; 10000 if not given
        The most steps of the solver.
    random_state: a whole number, a `numpy.random.RandomState` or None; None if not given
        The order of steps for ``loss="hinge"``; the other solvers use no randomness.
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
