"""The point of least norm in the convex hull of vectors, from their inner products alone.

Sites' deviations Δ_k are vectors of millions of numbers; everything here needs only their Gram matrix V with
V_kl = ⟨Δ_k, Δ_l⟩, (sites, sites), f8, and returns weights p, (sites,), f8, that are not negative and sum to 1. Equation
numbers are HyperFed's (Liao et al. 2023).
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import nnls

from fedgeom.arrays import Floats
from fedgeom.errors import InputError

Deviations = Literal["raw", "unit"]
"""Whether deviations count as they are, or each scaled to norm 1 first."""


def consistent_weights(gram: ArrayLike, *, deviations: Deviations = "unit", mixed: float = 1.0) -> Floats:
    """Return the weights of consistent aggregation: the optimum of Eq. 10 under a bound on how few sites may count.

    ``mixed`` is the bound: 1/Σp², how many sites the weighted sum really mixes, is at least that. With raw deviations
    the weight goes to whoever moved least; scaled to norm 1 they count by their directions only.
    """
    V = _checked(gram)
    return least_norm(unit_gram(V) if deviations == "unit" else V, mixed=mixed)


def unit_gram(gram: ArrayLike) -> Floats:
    """Return the Gram matrix of the vectors scaled to norm 1; a vector of norm 0 stays as it is."""
    V = _checked(gram)
    norms = np.sqrt(np.diag(V))
    scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
    return V * scale[:, None] * scale[None, :]


def least_norm(gram: ArrayLike, *, mixed: float = 1.0) -> Floats:
    """Return the p that minimises ‖Σ p_k Δ_k‖² (Eq. 10) among all with 1/Σp² ≥ ``mixed``.

    The bound is a ball around equal weights, so the optimum is that of V + λI for the least λ ≥ 0 that obeys it.
    """
    V = _checked(gram)
    count = len(V)
    if not 1.0 <= mixed <= count:
        raise InputError(
            f"mixed={mixed} given for {count} vectors; wanted from 1 to {count}: so many at most can be mixed"
        )
    found = _exact(V, 0.0)
    if _mixture(found) >= mixed:
        return found
    equal = np.full(count, 1.0 / count)
    if mixed > count - 1e-9:
        return equal
    largest = max(float(np.diag(V).max()), 1e-300)
    low = 1e-12 * largest
    high = largest
    while _mixture(_exact(V, high)) < mixed:
        high *= 4.0
        if high > 1e18 * largest:  # equal weights up to rounding
            return equal
    for _ in range(200):
        middle = math.sqrt(low * high)
        if _mixture(_exact(V, middle)) < mixed:
            low = middle
        else:
            high = middle
        if high <= low * (1 + 1e-13):
            break
    return _exact(V, high)


def evened(weights: ArrayLike, *, mixed: float) -> Floats:
    """Return the weights nearest to the given ones, on the line to equal ones, with 1/Σp² ≥ ``mixed``."""
    p = _start(weights)
    equal = 1.0 / len(p)
    wanted = 1.0 / min(mixed, float(len(p)))
    beyond = float(p @ p) - equal
    if beyond + equal <= wanted:
        return p
    kept = math.sqrt(max(wanted - equal, 0.0) / beyond)
    return np.asarray(kept * p + (1.0 - kept) * equal)


def frank_wolfe(gram: ArrayLike, start: ArrayLike, *, steps: int = 100) -> Floats:
    """Return weights by exact line searches towards the toughest site (Eq. 11 with the virtual client renormalised).

    The toughest site τ has the least Σ_k p_k V_τk. The others together are a virtual client with weights p_k/(1 - p_τ),
    which makes Eq. 11 a Frank-Wolfe step: the norm never grows, and falls to the optimum like 1/steps.
    """
    V = _checked(gram)
    p = _start(start)
    for _ in range(steps):
        pull = V @ p
        toughest = int(np.argmin(pull))
        # The segment from the virtual client to the toughest holds p, and the norm falls from p on.
        share = line_search(V[toughest, toughest], pull[toughest], float(p @ pull))
        if share <= 0.0:
            break
        p = (1.0 - share) * p
        p[toughest] += share
    return p


def as_printed(gram: ArrayLike, start: ArrayLike, *, steps: int = 100) -> Floats:
    """Return weights by Eq. 11 as it is printed: the virtual client is what the others sum to, not their mean.

    The weights are then moved along another line than the one that was searched, (1 - p_τ)p + p_τ e; so the steps end
    some percent above the optimum of Eq. 10.
    """
    V = _checked(gram)
    p = _start(start)
    for _ in range(steps):
        toughest = int(np.argmin(V @ p))
        others = p.copy()
        others[toughest] = 0.0
        between = V[toughest] @ others
        share = line_search(V[toughest, toughest], float(between), float(others @ V @ others))
        p = (1.0 - share) * p
        p[toughest] += share
    return p


def line_search(first: float, between: float, second: float) -> float:
    """Return the share q in [0, 1] of the first of two vectors in the point of least norm between them (Eqs. 11-20).

    ``first`` and ``second`` are the squared norms, ``between`` the inner product. Of equal vectors the second is taken.
    """
    apart = first - 2.0 * between + second
    if apart <= 1e-15 * (abs(first) + abs(second)):
        return 0.0
    return float(min(max((second - between) / apart, 0.0), 1.0))


def _exact(V: Floats, ridge: float) -> Floats:
    """Return the optimum of Eq. 10 for V + ridge·I, as the answer of nonnegative least squares.

    Of all q ≥ 0 the least ‖Σ q_k Δ_k‖² + (Σ q_k - 1)² is at a multiple of the wanted p: on every ray the best multiple
    depends on ‖Σ p_k Δ_k‖² alone, and grows with it.
    """
    scale = max(float(np.diag(V).max()) + ridge, 1e-300)
    values, vectors = np.linalg.eigh((V + ridge * np.eye(len(V))) / scale)
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    system = np.vstack([root, np.ones(len(V))])
    found, _ = nnls(system, np.append(np.zeros(len(V)), 1.0), maxiter=100 * len(V))
    return np.asarray(found / found.sum())


def _mixture(p: Floats) -> float:
    return 1.0 / float(p @ p)


def _start(start: ArrayLike) -> Floats:
    p = np.asarray(start, np.float64)
    if not (np.isfinite(p).all() and (p >= 0).all() and p.sum() > 0):
        raise InputError("start must be weights: finite, not negative and not all zero")
    return np.asarray(p / p.sum())


def _checked(gram: ArrayLike) -> Floats:
    V = np.asarray(gram, np.float64)
    if V.ndim != 2 or V.shape[0] != V.shape[1] or not len(V) or not np.isfinite(V).all():
        raise InputError(f"gram has shape {V.shape}; wanted finite inner products of some vectors with each other")
    if (np.diag(V) < 0).any():
        raise InputError("gram has squared norms below zero; wanted inner products of vectors with each other")
    return (V + V.T) / 2
