"""The joint map: landmarks in the disc, the classes near each, and the place of any row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Ints
from fedgeom.errors import InputError
from fedgeom.federation.model import Model
from fedgeom.geometry.hyperbolic.landmark_map import middle, place
from fedgeom.geometry.hyperbolic.poincare import check_points, mobius_add, pairwise_distance
from fedgeom.preparation.landmark_map import LandmarkMap

NEAREST = 5
"""So many landmarks that know classes say which class a row has."""
PIECE = 4096


@dataclass(frozen=True, eq=False)
class Landmarks:
    """What a fitted preparation knows of the landmarks."""

    points: Floats
    """(A, d), f8: where a row is that is equal to the mean, before a root is moved to the origin."""
    sizes: Ints
    """(A,): how many rows each is the mean of."""


def landmarks_of(preparation: Any) -> Landmarks:
    """Return the landmarks of a fitted preparation whose last step is a map."""
    if preparation is None or not isinstance(preparation.steps[-1], LandmarkMap):
        raise InputError("the rows are on no map; a map is the last step of preparation")
    step, fit = preparation.steps[-1], preparation.fits[-1]
    means = fit.get("landmarks")
    points = place(means, means, fit.get("points"), step.n_nearest) / np.sqrt(step.curvature)
    return Landmarks(points, fit.get("sizes").astype(np.int64))


@dataclass(frozen=True, repr=False)
class PoincareMapModel(Model):
    """Where rows are on the joint map (`transform`), how far from the root, and which class is near."""

    method: str = field(default="poincare-map", init=False)

    names: tuple[str, ...]
    landmarks: Floats
    """(A, d): the landmarks' points of the ball, the root at the origin."""
    sizes: Ints
    """(A,): how many rows each is the mean of."""
    counts: Ints
    """(A, classes): how many rows of each class are near it, as far as floors let that be known."""
    centre: Floats
    """(d,): which point of the map that preparation makes is moved to the origin."""
    root: str = ""
    """The class at the origin; "": the middle of all rows is."""

    @classmethod
    def of(
        cls, landmarks: Landmarks, counts: Ints, names: tuple[str, ...], root: str | None = None
    ) -> PoincareMapModel:
        """Move the middle of a class to the origin; without one, what is there stays."""
        points = landmarks.points
        centre = np.zeros(points.shape[1])
        mass = counts[:, names.index(root)] if root is not None else np.zeros(1)
        if mass.any():
            centre = middle(points, mass)
        moved = mobius_add(-centre, points)
        return cls(tuple(names), moved, landmarks.sizes, np.asarray(counts, np.int64), centre, root or "")

    def __post_init__(self) -> None:
        shape = np.shape(self.landmarks)
        counts = np.shape(self.counts)
        if len(shape) != 2 or counts != (shape[0], len(self.names)) or np.shape(self.sizes) != shape[:1]:
            raise InputError(f"{shape} landmarks and counts of shape {counts} for {len(self.names)} classes given")
        if np.shape(self.centre) != shape[1:]:
            raise InputError(f"a centre of shape {np.shape(self.centre)} given; wanted {shape[1:]}")

    @property
    def width(self) -> int:
        """How many columns the model takes: the coordinates that preparation makes."""
        return int(self.landmarks.shape[1])

    @property
    def in_disc(self) -> bool:
        """Whether the map is one of the disc, and can be drawn."""
        return self.width == 2

    def transform(self, X: npt.ArrayLike) -> Floats:
        """Return the rows' places on the map, (rows, d), inside the unit ball, the root at the origin."""
        rows = np.asarray(X, np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.width:
            raise InputError(f"X has shape {rows.shape}; wanted rows of {self.width} coordinates")
        return mobius_add(-self.centre, check_points(rows, name="X"))

    def to_disc(self, X: npt.ArrayLike) -> Floats:
        """Return the rows' places on the map, as `transform` does."""
        return self.transform(X)

    def pseudotime(self, X: npt.ArrayLike) -> Floats:
        """Return the rows' hyperbolic distances from the root, (rows,)."""
        points = self.transform(X)
        return np.asarray(pairwise_distance(points, np.zeros((1, self.width)))[:, 0])

    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """Return the shares of classes near a row, (rows, classes): those of its nearest landmarks.

        The weights are exp(-(d/d')²), with d' the distance of the farthest of these.
        """
        points = self.transform(X)
        known = np.flatnonzero(self.counts.sum(axis=1) > 0)
        if not len(known):
            return np.full((len(points), len(self.names)), 1 / len(self.names))
        shares = self.counts[known] / self.counts[known].sum(axis=1, keepdims=True)
        many = min(NEAREST, len(known))
        found = np.empty((len(points), len(self.names)))
        for at in range(0, len(points), PIECE):
            away = pairwise_distance(points[at : at + PIECE], self.landmarks[known])
            near = np.argsort(away, axis=1, kind="stable")[:, :many]
            gap = np.take_along_axis(away, near, axis=1)
            last = gap[:, -1:]
            weights = np.exp(-((gap / np.where(last > 0, last, 1.0)) ** 2))
            found[at : at + PIECE] = (weights[:, None] @ shares[near])[:, 0] / weights.sum(axis=1)[:, None]
        return found

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the class that is most frequent near each row."""
        best: npt.NDArray[Any] = np.array(self.names)[self.predict_proba(X).argmax(axis=1)]
        return best
