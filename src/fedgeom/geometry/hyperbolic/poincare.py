"""The Poincaré ball as functions on arrays.

Points and tangent vectors are (…, d), on the hyperboloid (…, d + 1), and what is returned is f8; leading axes
broadcast, the dimension is free and the curvature is -c; the paper writes k for c and s for
1/√c. The public functions state the paper's formulas. Where a formula loses digits near the edge it is
evaluated in another form that is equal to it: subtracting points of nearly equal norm is harmless,
subtracting quantities such as 1 + 2c⟨x, y⟩ + … is not, because they are sums of large terms that cancel.
Everything rests on the identities, with a(x) = 1 - c‖x‖²,

    1 - 2c⟨x, y⟩ + c²‖x‖²‖y‖²  =  c‖x - y‖² + a(x) a(y),
    sinh(√c d(x, y) / 2)       =  √c ‖x - y‖ / √(a(x) a(y)).

Nothing here checks its input; `check_points` does, once, where data enters.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from fedgeom.arrays import Floats
from fedgeom.errors import InputError
from fedgeom.geometry._checks import check_points as check_points

# The largest scaled norm √c‖x‖ that results may have: a few rounding errors short of the edge.
_MAX_NORM = 1.0 - 1e-15
# A point that was inside before rounding may get a computed norm of one; its 1 - c‖x‖² is then taken as this.
_MIN_GAP = 2.0**-53
# Elements per block in pairwise_distance: temporaries of 2 MB stay in the cache.
_BLOCK = 1 << 18


def _array(x: ArrayLike) -> Floats:
    return np.asarray(x, dtype=np.float64)


def _square(x: Floats) -> Floats:
    """Return ‖x‖² with the last axis kept, so that it broadcasts against points."""
    if x.shape[-1] != 2:
        return np.asarray(np.sum(x * x, axis=-1, keepdims=True))
    # row by row takes eight times as long
    first = x[..., :1]
    second = x[..., 1:]
    return np.asarray(first * first + second * second)


def _gap(x: Floats, c: float) -> Floats:
    """Return a(x) = 1 - c‖x‖² as (1 - r)(1 + r), which keeps the digits that 1 - r² would lose."""
    r = np.sqrt(c * _square(x))
    return np.maximum((1.0 - r) * (1.0 + r), _MIN_GAP)


def _inside(x: Floats, c: float) -> Floats:
    """Pull points that rounding put on or beyond the edge back to just inside the ball."""
    r = np.sqrt(c * _square(x))
    if np.all(r <= _MAX_NORM):
        return x
    return np.where(r > _MAX_NORM, x * (_MAX_NORM / np.maximum(r, _MAX_NORM)), x)


def _sinh_half(x: Floats, y: Floats, c: float) -> Floats:
    """Return sinh(√c d(x, y) / 2) with the last axis kept."""
    return np.sqrt(c * _square(x - y) / (_gap(x, c) * _gap(y, c)))


def mobius_add(x: ArrayLike, y: ArrayLike, *, c: float = 1.0) -> Floats:
    """Add two points by Möbius addition, x ⊕ y of Eq. 3.

    Laws: (-x) ⊕ (x ⊕ y) = y, 0 ⊕ x = x ⊕ 0 = x, and y ↦ x ⊕ y is an isometry. Eq. 3 is evaluated as
    (a(x)(x + y) + c‖x + y‖² x) / (c‖x + y‖² + a(x) a(y)).
    """
    x = _array(x)
    y = _array(y)
    total = x + y
    square = c * _square(total)
    gap = _gap(x, c)
    return _inside((gap * total + square * x) / (square + gap * _gap(y, c)), c)


def exp_map(p: ArrayLike, v: ArrayLike, *, c: float = 1.0) -> Floats:
    """Walk from p along the tangent vector v, exp_p(v) of Eq. 2; the walk has length 2‖v‖/(1 - c‖p‖²).

    tanh of a long walk is one in floating point, and then Eq. 2 has forgotten how far it went. With
    P = √c p, u = v/‖v‖ and E = exp(-2√c‖v‖/a(p)) the same point, times √c, is

        (a (P + u + E²(P - u)) + w P) / (w + 2aE),   w = ‖P + u‖² + E²‖P - u‖²,

    where the walk appears only in E. What no formula can undo: a rounding error in the direction of v grows
    like exp(walk), so that float64 tangent vectors do not resolve where walks beyond √c d ≈ 36 end.
    """
    p = _array(p)
    v = _array(v)
    root = math.sqrt(c)
    norm = np.sqrt(_square(v))
    still = norm == 0.0
    first_axis = np.zeros(v.shape[-1])
    first_axis[0] = 1.0
    # A vanishing v has no direction; any unit vector will do, since it is multiplied by 1 - E² = 0.
    unit = np.where(still, first_axis, v / np.where(still, 1.0, norm))
    base = root * p
    gap = _gap(p, c)
    walk = 2.0 * root * norm / gap
    decay = np.exp(-walk)
    spread = _square(base + unit) + decay * decay * _square(base - unit)
    ahead = (1.0 + decay * decay) * base - np.expm1(-2.0 * walk) * unit
    return _inside((gap * ahead + spread * base) / (root * (spread + 2.0 * gap * decay)), c)


def log_map(p: ArrayLike, x: ArrayLike, *, c: float = 1.0) -> Floats:
    """Return the tangent vector at p that points to x, log_p(x) of Eq. 1; it inverts exp_map.

    Its Euclidean norm is d(p, x)(1 - c‖p‖²)/2, its direction that of (-p) ⊕ x. The artanh of Eq. 1 is taken
    as the asinh that gives the distance.
    """
    p = _array(p)
    x = _array(x)
    gap = _gap(p, c)
    step = x - p
    square = c * _square(step)
    ahead = gap * step - square * p
    norm = np.sqrt(_square(ahead))
    length = gap / math.sqrt(c) * np.arcsinh(np.sqrt(square / (gap * _gap(x, c))))  # as in _sinh_half
    return ahead * (length / np.where(norm == 0.0, 1.0, norm))


def exp0(v: ArrayLike, *, c: float = 1.0) -> Floats:
    """Walk from the origin along v: Eq. 2 at p = 0, tanh(√c‖v‖) v/(√c‖v‖)."""
    v = _array(v)
    r = np.sqrt(c * _square(v))
    return _inside(v * np.where(r == 0.0, 1.0, np.tanh(r) / np.where(r == 0.0, 1.0, r)), c)


def log0(x: ArrayLike, *, c: float = 1.0) -> Floats:
    """Return the tangent vector at the origin that points to x: Eq. 1 at p = 0."""
    x = _array(x)
    r = np.minimum(np.sqrt(c * _square(x)), 1.0 - _MIN_GAP)
    return x * np.where(r == 0.0, 1.0, np.arctanh(r) / np.where(r == 0.0, 1.0, r))


def distance(x: ArrayLike, y: ArrayLike, *, c: float = 1.0) -> Floats:
    """Return the hyperbolic distance d(x, y) of Eq. 4, accurate for tiny and for large distances.

    >>> round(float(distance([0.0, 0.0], [0.5, 0.0])), 12)  # ln 3
    1.098612288668
    """
    half = np.arcsinh(_sinh_half(_array(x), _array(y), c))[..., 0]
    return np.asarray(2.0 / math.sqrt(c) * half)


def pairwise_distance(X: ArrayLike, Y: ArrayLike, *, c: float = 1.0) -> Floats:
    """Return the matrix of distances (Eq. 4) between the n rows of X and the m rows of Y."""
    half = pairwise_sinh_half(X, Y, c=c)
    return np.multiply(np.arcsinh(half, out=half), 2.0 / math.sqrt(c), out=half)


def pairwise_sinh_half(X: ArrayLike, Y: ArrayLike, *, c: float = 1.0) -> Floats:
    """Return sinh(√c·d/2) between all rows of X and Y: which are nearest can be seen from it already.

    Differences are formed coordinate by coordinate, in blocks of rows: ‖x‖² + ‖y‖² - 2⟨x, y⟩ would be faster
    and would call near neighbours equal. Besides the result it needs a few megabytes.
    """
    X = _array(X)
    Y = _array(Y)
    result = np.zeros((X.shape[0], Y.shape[0]))
    left = 1.0 / np.sqrt(_gap(X, c))
    right = math.sqrt(c) / np.sqrt(_gap(Y, c)[:, 0])
    rows = max(1, _BLOCK // max(1, Y.shape[0]))
    for start in range(0, X.shape[0], rows):
        some = slice(start, start + rows)
        block = result[some]
        for axis in range(X.shape[1]):
            step = X[some, axis, None] - Y[None, :, axis]
            step *= step
            block += step
        np.sqrt(block, out=block)
        block *= left[some]
        block *= right
    return result


def geodesic(x: ArrayLike, y: ArrayLike, t: ArrayLike, *, c: float = 1.0) -> Floats:
    """Return the points at the shares t of the way from x (t = 0) to y (t = 1) along the geodesic.

    t broadcasts against the leading axes of x and y: two points and n values of t give n points. On the
    hyperboloid the answer is (sinh((1 - t)δ) X + sinh(tδ) Y)/sinh δ with δ = √c d(x, y), a sum in which
    nothing cancels, so that both ends are met exactly and the order of x and y does not matter.
    """
    x = _array(x)
    y = _array(y)
    share = _array(t)[..., None]
    delta = 2.0 * np.arcsinh(_sinh_half(x, y, c))
    close = delta < 1e-9  # sinh(tδ)/sinh δ is t to the last digit
    sinh = np.sinh(np.where(close, 1.0, delta))
    near = np.where(close, 1.0 - share, np.sinh((1.0 - share) * delta) / sinh)
    far = np.where(close, share, np.sinh(share * delta) / sinh)
    return _combine(x, y, near, far, 1.0, c)


def midpoint(x: ArrayLike, y: ArrayLike, *, c: float = 1.0) -> Floats:
    """Return the geodesic midpoint, the point halfway between x and y."""
    x = _array(x)
    y = _array(y)
    half = np.ones(1)
    sinh_half = _sinh_half(x, y, c)
    return _combine(x, y, half, half, 2.0 * np.hypot(1.0, sinh_half), c)


def _combine(x: Floats, y: Floats, near: Floats, far: Floats, norm: Floats | float, c: float) -> Floats:
    """Map (near X + far Y)/norm from the hyperboloid to the ball, given its Lorentz norm."""
    gap_x = _gap(x, c)
    gap_y = _gap(y, c)
    time = near * (2.0 / gap_x - 1.0) + far * (2.0 / gap_y - 1.0)
    space = (2.0 * near / gap_x) * x + (2.0 * far / gap_y) * y
    return _inside(space / (norm + time), c)


def to_klein(x: ArrayLike, *, c: float = 1.0) -> Floats:
    """Map the Poincaré ball to the Klein ball of the same radius, where geodesics are straight lines.

    Klein points crowd at the edge: a point 1e-8 away from it in the Poincaré ball is 1e-16 away here.
    """
    x = _array(x)
    return x * (2.0 / (1.0 + c * _square(x)))


def from_klein(x: ArrayLike, *, c: float = 1.0) -> Floats:
    """Map the Klein ball back to the Poincaré ball; it inverts to_klein."""
    x = _array(x)
    r = np.sqrt(c * _square(x))
    return _inside(x / (1.0 + np.sqrt(np.maximum((1.0 - r) * (1.0 + r), 0.0))), c)


def to_hyperboloid(x: ArrayLike, *, c: float = 1.0) -> Floats:
    """Map the ball to the hyperboloid -x₀² + x₁² + … = -1/c, x₀ > 0; the time coordinate x₀ comes first."""
    x = _array(x)
    gap = _gap(x, c)
    return np.concatenate([(2.0 / gap - 1.0) / math.sqrt(c), 2.0 * x / gap], axis=-1)


def from_hyperboloid(x: ArrayLike, *, c: float = 1.0) -> Floats:
    """Map the hyperboloid back to the ball; it inverts to_hyperboloid."""
    x = _array(x)
    return _inside(x[..., 1:] / (1.0 + math.sqrt(c) * x[..., :1]), c)


def lorentz_centroid(X: ArrayLike, *, weights: ArrayLike | None = None, c: float = 1.0) -> Floats:
    """Return the Lorentz centroid of the points X (…, n, d): their sum on the hyperboloid, normalised.

    It minimises the weighted sum of sinh²(√c d/2), and moves along when an isometry moves the points. That
    is used: a cluster near the edge is carried to the origin, where its sum has no cancelling digits, and
    its centroid is carried back.
    """
    X = _array(X)
    if X.ndim < 2 or X.shape[-2] == 0:
        raise InputError(f"X has shape {X.shape}, but a centroid needs (n, d) with n ≥ 1; pass some points.")
    mass = np.ones(X.shape[-2]) if weights is None else _array(weights)
    if mass.shape[-1] != X.shape[-2]:
        raise InputError(
            f"weights has shape {mass.shape}, but there are {X.shape[-2]} points; give one weight per point."
        )
    if not (np.isfinite(mass).all() and (mass >= 0.0).all() and (mass.sum(axis=-1) > 0.0).all()):
        raise InputError("weights must be finite, not negative and not all zero; check their source.")
    mass = (mass / mass.sum(axis=-1, keepdims=True))[..., None]
    centre = _plain_centroid(X, mass, c)
    for _ in range(2):
        moved = mobius_add(-centre[..., None, :], X, c=c)
        centre = mobius_add(centre, _plain_centroid(moved, mass, c), c=c)
    return centre


def _plain_centroid(X: Floats, mass: Floats, c: float) -> Floats:
    """Return the Lorentz centroid in one pass; mass sums to one."""
    scale = 2.0 / _gap(X, c)
    time = np.sum(mass * (scale - 1.0), axis=-2)
    space = np.sum(mass * scale * X, axis=-2)
    root_square = np.sqrt(c * _square(space))
    # The norm of a mean of unit time-like vectors is at least one; rounding may say less.
    norm = np.sqrt(np.maximum((time - root_square) * (time + root_square), 1.0))
    return _inside(space / (norm + time), c)


def hyperplane_distance(x: ArrayLike, p: ArrayLike, w: ArrayLike, *, c: float = 1.0) -> Floats:
    """Return the signed hyperbolic distance of x to the hyperplane through p with normal w (Eq. 5).

    It is asinh(2√c⟨z, w⟩ / ((1 - c‖z‖²)‖w‖))/√c with z = (-p) ⊕ x, and positive on the side of w. The
    denominator of z cancels, so that it is never formed.
    """
    x = _array(x)
    p = _array(p)
    w = _array(w)
    norm = np.sqrt(_square(w))
    if np.any(norm == 0.0):
        raise InputError("w is the zero vector, but a hyperplane needs a normal direction; pass a nonzero w.")
    step = x - p
    gap = _gap(p, c)
    along = np.sum((gap * step - c * _square(step) * p) * (w / norm), axis=-1, keepdims=True)
    root = math.sqrt(c)
    return np.asarray(np.arcsinh(2.0 * root * along / (gap * _gap(x, c)))[..., 0] / root)


def hyperbolic_radius(r: ArrayLike, *, c: float = 1.0) -> Floats:
    """Return the hyperbolic radius s ln((s + r)/(s - r)) of a circle of Euclidean radius r (Eq. 9, left)."""
    root = math.sqrt(c)
    return np.asarray(2.0 / root * np.arctanh(np.minimum(root * _array(r), 1.0 - _MIN_GAP)))


def euclidean_radius(h: ArrayLike, *, c: float = 1.0) -> Floats:
    """Return the Euclidean radius s tanh(h/2s) of a circle of hyperbolic radius h (Eq. 9, right)."""
    root = math.sqrt(c)
    return np.asarray(np.minimum(np.tanh(0.5 * root * _array(h)), _MAX_NORM) / root)
