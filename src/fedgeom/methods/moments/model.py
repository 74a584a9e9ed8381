"""The two classifiers that follow from class moments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.errors import InputError
from fedgeom.federation.model import Model
from fedgeom.geometry.hyperbolic.poincare import check_points, log0, pairwise_distance


@dataclass(frozen=True, repr=False)
class MomentsModel(Model):
    """Gaussians per class (``rule="gaussian"``) or the nearest centroid (``rule="centroid"``)."""

    method: str = field(default="moments", init=False)

    names: tuple[str, ...]
    rule: str
    log_priors: Floats
    """(classes,)"""
    means: Floats
    """(classes, columns)"""
    covariances: Floats
    """(classes, columns, columns); (classes, 0, 0) for centroids, which need none."""
    centroids: Floats
    """(classes, columns)"""
    curvature: float | None
    """None means Euclidean space."""

    @property
    def width(self) -> int:
        """How many columns the model takes."""
        return int(self.means.shape[1])

    def _rows(self, X: npt.ArrayLike) -> Floats:
        rows = np.asarray(X, np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.means.shape[1] or not np.isfinite(rows).all():
            raise InputError(f"X has shape {rows.shape}; wanted finite rows of {self.means.shape[1]} columns")
        if self.curvature is not None:
            return check_points(rows, c=self.curvature, name="X")
        return rows

    def decision_function(self, X: npt.ArrayLike) -> Floats:
        """Return a score per class: the log density plus log prior, or minus the squared distance."""
        rows, c = self._rows(X), self.curvature
        if self.rule == "centroid":
            if c is None:
                return -np.column_stack([((rows - centre) ** 2).sum(axis=1) for centre in self.centroids])
            return -(np.asarray(pairwise_distance(rows, self.centroids, c=c)) ** 2)
        if c is not None:
            rows = np.asarray(log0(rows, c=c))
        scores = np.empty((len(rows), len(self.names)))
        for j, (prior, mean, covariance) in enumerate(
            zip(self.log_priors, self.means, self.covariances, strict=True)
        ):
            factor = np.linalg.cholesky(covariance)
            whitened = np.linalg.solve(factor, (rows - mean).T)
            scores[:, j] = prior - np.log(np.diag(factor)).sum() - 0.5 * (whitened**2).sum(axis=0)
        return scores

    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """Return the scores as probabilities."""
        scores = self.decision_function(X)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the name of the best class of each row."""
        named: npt.NDArray[Any] = np.array(self.names)[self.decision_function(X).argmax(axis=1)]
        return named

    def tensors(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Return the arrays and facts of the model file."""
        arrays = {
            "log_priors": self.log_priors,
            "means": self.means,
            "covariances": self.covariances,
            "centroids": self.centroids,
        }
        return arrays, {"names": list(self.names), "rule": self.rule, "curvature": self.curvature}

    @classmethod
    def from_tensors(cls, arrays: Mapping[str, npt.NDArray[Any]], facts: Mapping[str, Any]) -> MomentsModel:
        """Build the model from a file's content."""
        try:
            return cls(tuple(facts["names"]), facts["rule"], **arrays, curvature=facts["curvature"])
        except (KeyError, TypeError) as error:
            raise InputError(f"the file holds no moments model: {error}") from error
