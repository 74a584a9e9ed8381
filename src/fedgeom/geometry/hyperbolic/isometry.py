"""Isometries of the Poincaré ball, and the one that takes points as near as can be to others (Procrustes).

Embeddings that sites make by themselves agree up to an isometry at best: a distance does not change when the ball is
moved, turned or mirrored. Sites that embedded some shared points (landmarks) can undo that: each finds the isometry
that takes its own landmarks to the agreed ones, and moves all its points by it (hulls paper, Section 4, which refers to
Tabaghi and Dokmanić's hyperbolic Procrustes analysis).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedgeom.arrays import Floats
from fedgeom.errors import InputError
from fedgeom.geometry._checks import check_curvature, check_points
from fedgeom.geometry.hyperbolic import poincare
from fedgeom.geometry.hyperbolic.poincare import lorentz_centroid, mobius_add, to_hyperboloid

__all__ = ["Isometry", "procrustes"]


@dataclass(frozen=True)
class Isometry:
    """Take a point to the origin, turn about it, and take the origin to another point: x ↦ b ⊕ ((-a ⊕ x) Q)."""

    start: Floats
    """(d,), f8: a, the point that is taken to ``end``."""
    turn: Floats
    """(d, d), f8: Q, orthogonal; with determinant -1 it mirrors."""
    end: Floats
    """(d,), f8: b."""
    c: float = 1.0
    """The ball has curvature -c."""

    def __call__(self, X: ArrayLike) -> Floats:
        """Move points; X (n, d), returns (n, d), f8."""
        points = check_points(X, c=self.c, dim=len(self.start), name="X")
        return mobius_add(self.end, mobius_add(-self.start, points, c=self.c) @ self.turn, c=self.c)

    def inverse(self) -> Isometry:
        """Return the isometry that undoes this one."""
        return Isometry(self.end, self.turn.T, self.start, self.c)


def procrustes(
    X: ArrayLike, Y: ArrayLike, *, weights: ArrayLike | None = None, mirror: bool = True, c: float = 1.0
) -> Isometry:
    """Return an isometry that takes the points X near the points Y, row by row.

    X and Y (n, d), f8; weights (n,), not negative, or None for equal ones. ``mirror=False`` keeps the orientation.

    It takes the one set's Lorentz centroid to the other's. About it, the sum of weights times cosh(√c·distance) is, up
    to a constant, minus a sum of inner products of the hyperboloid's space-like coordinates, so that the best turn
    comes from a singular value decomposition, as in flat space. Where an isometry takes X to Y exactly, it is found, up
    to what the points leave open (points on one geodesic leave a mirror image open). Where noise is added, the turn is
    the best one about the centroids, which need not be the best of all isometries.
    """
    c = check_curvature(c)
    left = check_points(X, c=c, name="X")
    right = check_points(Y, c=c, name="Y")
    if left.shape != right.shape or not len(left):
        raise InputError(
            f"X has shape {left.shape} and Y {right.shape}; wanted the same points twice, one or more"
        )
    mass = np.ones(len(left)) if weights is None else np.asarray(weights, dtype=np.float64)
    if mass.shape != (len(left),) or not np.isfinite(mass).all() or (mass < 0).any() or not mass.any():
        raise InputError(
            f"weights of shape {mass.shape} given; wanted {len(left)} numbers of 0 or more, not all 0"
        )
    start, end = (lorentz_centroid(points, weights=mass, c=c) for points in (left, right))
    here, there = (
        to_hyperboloid(mobius_add(-middle, points, c=c), c=c)[:, 1:]
        for middle, points in ((start, left), (end, right))
    )
    U, _, Vt = np.linalg.svd(here.T @ (mass[:, None] * there))
    if not mirror and np.linalg.det(U @ Vt) < 0:
        U[:, -1] *= -1  # the direction in which it costs least
    return Isometry(start, U @ Vt, end, c)


FARTHEST = 18.0
"""The largest norm that a tangent vector gets: beyond, float64 cannot tell its point from the edge."""


def sgd_step(tangents: ArrayLike, gradient: ArrayLike, rate: float) -> Floats:
    """Return log_o(p′) for p′ = exp_p(−η grad f(p)), the step of Riemannian SGD at the points p = exp_o(v).

    grad f = (1 − ‖p‖²)²/4 ∇f(p): where space is stretched, a step of the same length is a shorter one of coordinates.
    ``gradient`` is that of f(exp_o(v)) in v, as differentiation gives it, so ∇f(p) has to be had from it first: across
    v the map exp_o stretches by tanh(r)/r, along v by 1 − tanh²(r) = 1 − ‖p‖², with r = ‖v‖. All are (…, d), f8.
    """
    v = np.asarray(tangents, np.float64)
    slope = np.asarray(gradient, np.float64)
    r = np.linalg.norm(v, axis=-1, keepdims=True)
    unit = v / np.where(r == 0.0, 1.0, r)
    p = poincare.exp0(v)
    gap = 1.0 / np.cosh(np.minimum(r, FARTHEST)) ** 2  # 1 − ‖p‖², without the difference
    along = (slope * unit).sum(axis=-1, keepdims=True) * unit
    across = (slope - along) * np.where(r == 0.0, 1.0, r / np.where(r == 0.0, 1.0, np.tanh(r)))
    steepest = gap**2 / 4 * across + gap / 4 * along
    found = poincare.log0(poincare.exp_map(p, -rate * steepest))
    norm = np.linalg.norm(found, axis=-1, keepdims=True)
    return np.asarray(found * np.minimum(1.0, FARTHEST / np.maximum(norm, FARTHEST)))
