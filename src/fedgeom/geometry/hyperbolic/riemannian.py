"""Riemannian gradient descent for points of the Poincaré ball that are kept as tangent vectors at the origin."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fedgeom.arrays import Floats
from fedgeom.geometry.hyperbolic import poincare

FARTHEST = 18.0
"""The largest norm that a tangent vector gets: beyond, float64 cannot tell its point from the edge."""


def sgd_step(tangents: ArrayLike, gradient: ArrayLike, rate: float) -> Floats:
    """Return log_o(p′) for p′ = exp_p(−η grad f(p)), the step of Riemannian SGD at the points p = exp_o(v).

    grad f = (1 − ‖p‖²)²/4 ∇f(p): where space is stretched, a step of the same length is a shorter one of coordinates.
    ``gradient`` is that of f(exp_o(v)) in v, as differentiation gives it, so ∇f(p) has to be had from it first: across
    v the map exp_o stretches by tanh(r)/r, along v by 1 − tanh²(r) = 1 − ‖p‖², with r = ‖v‖. All are (…, d), f8.
    """
    v, slope = np.asarray(tangents, np.float64), np.asarray(gradient, np.float64)
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
