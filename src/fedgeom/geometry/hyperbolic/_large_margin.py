"""What the Poincaré and the Euclidean SVM share: one hyperplane per class, Platt scaling, and the checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from fedgeom.arrays import Floats
from fedgeom.errors import InputError
from fedgeom.geometry.hyperbolic import margins
from fedgeom.geometry.hyperbolic.platt import fit_sigmoid, sigmoid

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
        points, labels, weights = points[used], labels[used], weights[used]
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
        origin, nothing = np.zeros(points.shape[1]), np.zeros(self._rows(points[:1], points[0]).shape[1])
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
                raise InputError(margins.INSEPARABLE)
            return None
        _, place, w, values, steps = best
        return place, w, fit_sigmoid(values, signs, weights=weights), steps

    def _solve(self, rows: Floats, signs: Floats, weights: Floats) -> tuple[Floats, int]:
        """Find the normal vector for one set of rows."""
        if self.margin == "hard":
            return margins.hard_margin(rows, signs)
        costs = self.C * weights
        if self.loss == "squared_hinge":
            return margins.squared_hinge(rows, signs, costs, tol=self.tol, max_iter=self.max_iter)
        # liblinear's tolerance is another quantity, and 1e-10 would never be met.
        tol = max(self.tol, 1e-6)
        return margins.hinge(rows, signs, costs, tol=tol, max_iter=self.max_iter, random_state=self.random_state)

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
