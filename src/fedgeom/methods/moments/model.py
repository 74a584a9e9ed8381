"""The two classifiers that follow from class moments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.errors import InputError
from fedgeom.federation.model import Model, decisions
from fedgeom.federation.onnx import Graph
from fedgeom.geometry.hyperbolic.poincare import check_points, log0, pairwise_distance

PIECE = 4096
"""How many rows are whitened at a time: they stay in the processor's cache."""


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

    def class_scores(self, X: npt.ArrayLike) -> Floats:
        """Return a score per class: the log density plus log prior, or minus the squared distance."""
        rows = self._rows(X)
        c = self.curvature
        if self.rule == "centroid":
            if c is None:
                return -np.column_stack([((rows - centre) ** 2).sum(axis=1) for centre in self.centroids])
            return -(np.asarray(pairwise_distance(rows, self.centroids, c=c)) ** 2)
        factors = [np.linalg.cholesky(covariance) for covariance in self.covariances]
        logs = np.array([np.log(np.diag(factor)).sum() for factor in factors])
        return np.asarray(self.log_priors - logs - 0.5 * self._distances(rows, factors))

    def _distances(self, rows: Floats, factors: Sequence[Floats]) -> Floats:
        """Return squared Mahalanobis distances, (rows, classes), given the covariances' Cholesky factors."""
        if self.curvature is not None:
            rows = np.asarray(log0(rows, c=self.curvature))
        found = np.empty((len(rows), len(self.names)))
        away, white = np.empty((2, min(PIECE, len(rows)), self.width))
        for j, (mean, factor) in enumerate(zip(self.means, factors, strict=True)):
            whitening = np.linalg.inv(factor).T  # a product with it costs a quarter of solving for every row
            for at in range(0, len(rows), PIECE):
                some = rows[at : at + PIECE]
                moved = np.subtract(some, mean, out=away[: len(some)])
                turned = np.matmul(moved, whitening, out=white[: len(some)])
                np.einsum("ij,ij->i", turned, turned, out=found[at : at + PIECE, j])
        return found

    def density_scores(self, X: npt.ArrayLike) -> Floats | None:
        """Return minus the squared Mahalanobis distance to the nearest Gaussian; centroids have no densities."""
        if self.rule == "centroid":
            return None
        factors = [np.linalg.cholesky(covariance) for covariance in self.covariances]
        return np.asarray(-self._distances(self._rows(X), factors).min(axis=1))

    def fit_threshold(self, alpha: float) -> tuple[float, str]:
        """Return the score below which rows are unknown: by known rows, or as for Gaussian classes, by χ²."""
        if self.known is not None or self.rule == "centroid":
            return super().fit_threshold(alpha)
        from scipy.stats import chi2  # slow to import

        words = f"they are farther from every class than all but {alpha:g} of its rows, if classes are Gaussian"
        return -float(chi2.isf(alpha, self.width)), words

    def decision_function(self, X: npt.ArrayLike) -> Floats:
        """Return the scores of classes, (rows, classes); of two, by how much the second leads, (rows,)."""
        return decisions(self.class_scores(X))

    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """Return the scores as probabilities."""
        scores = self.class_scores(X)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def onnx_scores(self, graph: Graph, rows: str) -> str:
        """Add the log densities of Gaussians, or squared distances to centroids."""
        if self.curvature is not None:
            raise InputError(
                'a moments model of points in the Poincaré ball cannot be exported to ONNX; space="euclidean" can'
            )
        if self.rule == "centroid":
            weights = 2 * self.centroids.T  # |x|² is the same for all classes
            return graph.affine(rows, weights, -(self.centroids**2).sum(axis=1))
        along = graph.constant(np.array([1]))
        parts = []
        for mean, covariance, prior in zip(self.means, self.covariances, self.log_priors, strict=True):
            factor = np.linalg.cholesky(covariance)
            whitening = np.linalg.inv(factor).T
            turned = graph.affine(graph.add("Sub", rows, graph.constant(mean)), whitening, np.zeros(len(mean)))
            squares = graph.add("ReduceSum", graph.add("Mul", turned, turned), along, keepdims=1)
            level = float(prior - np.log(np.diag(factor)).sum())
            half = graph.add("Mul", squares, graph.constant(np.array([-0.5])))
            parts.append(graph.add("Add", half, graph.constant(np.array([level]))))
        return graph.beside(*parts)

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the name of the best class of each row."""
        named: npt.NDArray[Any] = np.array(self.names)[self.class_scores(X).argmax(axis=1)]
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
