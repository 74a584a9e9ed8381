"""Three solvers for the normal vector of a large-margin hyperplane through the origin.

Each takes rows ``v_j``, signs ``y_j ∈ {-1, +1}`` and returns ``w`` without an intercept. In the Poincaré SVM
the rows are tangent vectors at the reference point (hulls paper, Section 3); the Euclidean one adds a column
of ones.

They exist beside scikit-learn's because the data here has few columns and the penalty can be enormous
(the paper uses C = 20,000): there liblinear's primal solver stops at its default tolerance well above the
optimum, and its dual solver needs very many passes.
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy.optimize import nnls
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from fedgeom.arrays import Floats
from fedgeom.errors import InputError

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
    w_d, d_d = float(w @ direction), float(direction @ direction)
    moving = change != 0
    kinks = slack[moving] / change[moving]
    kinks = np.unique(kinks[kinks > 0])
    low, high = 0, len(kinks)
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
