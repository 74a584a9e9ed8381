"""Propagating labels along a graph: (Id - αW)⁻¹ applied to columns, without ever forming the inverse.

W is symmetric with eigenvalues in [-1, 1], so that Id - αW is symmetric and positive definite with condition
number at most (1+α)/(1-α): 19 for α = 0.9, 199 for α = 0.99. Conjugate gradients gain a digit in about as many
steps as its root, each step being one product with the sparse matrix. Small graphs are factorised instead; fill
makes that slow beyond a few thousand points.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.sparse.linalg import splu

from fedgeom.arrays import Floats
from fedgeom.errors import InputError

__all__ = ["Solver", "extend", "influence_columns", "propagate"]

Solver = Literal["auto", "cg", "lu"]

_BLOCK_BYTES = 2**26
"""Right-hand sides are solved in blocks of about this size; conjugate gradients hold five of them."""
_LU_POINTS = 2000
_STEPS = 20_000
_TINY = 1e-300


def influence_columns(
    Wn: sp.csr_array, alpha: float, columns: ArrayLike, tol: float = 1e-10, *, solver: Solver = "auto"
) -> Floats:
    """Return the given columns of S = (Id - αW)⁻¹ (line 10), a dense block (n, number of columns).

    Column j says how much a label at point j counts at every point. Entries are at least 0, and exactly 0 where
    no path leads. The Euclidean error of each column is at most ``tol`` (and rounding).
    """
    n = _check(Wn, alpha, tol)
    chosen = np.asarray(columns, np.int64).ravel()
    if chosen.size and not (chosen.min() >= 0 and chosen.max() < n):
        raise InputError(f"columns {chosen.min()}…{chosen.max()} were asked for; the graph has {n} points")
    out = np.empty((n, chosen.size))
    solve = _Solve(Wn, alpha, tol, chosen.size, solver)
    for part in solve.parts():
        unit = np.zeros((n, len(chosen[part])))
        unit[chosen[part], np.arange(unit.shape[1])] = 1.0
        out[:, part] = solve(unit)
    return np.maximum(out, 0.0, out=out)  # rounding may leave -1e-17 where a series of positive terms belongs


def propagate(
    Wn: sp.csr_array, alpha: float, Y: ArrayLike, tol: float = 1e-10, *, solver: Solver = "auto"
) -> Floats:
    """Return Z = (Id - αW)⁻¹ Y (Equation 2) for a label matrix (n, C); column errors are at most tol·‖Y_c‖."""
    n = _check(Wn, alpha, tol)
    given = np.asarray(Y, np.float64)
    if given.ndim != 2 or len(given) != n:
        raise InputError(f"Y has shape {given.shape}; wanted ({n}, classes), one row per point of the graph")
    out = np.empty(given.shape)
    solve = _Solve(Wn, alpha, tol, given.shape[1], solver)
    for part in solve.parts():
        out[:, part] = solve(given[:, part])
    return out


def extend(weights: sp.csr_array, alpha: float, known: ArrayLike) -> Floats:
    """Return rows for points that came later: α·w·S_L for columns of S, or α·w·Z for scores.

    This is what the newcomers' rows would be if they listened to the old points and the old points not to them;
    ``weights`` come from `graph.attach`. It is linear, so that labels may stay where they are here too.
    """
    return np.asarray(alpha * (weights @ np.asarray(known, np.float64)), np.float64)


class _Solve:
    """Solves (Id - αW) x = b for blocks of right-hand sides."""

    def __init__(self, Wn: sp.csr_array, alpha: float, tol: float, columns: int, solver: Solver):
        n = Wn.shape[0]
        self.columns = columns
        self.width = max(1, min(columns, _BLOCK_BYTES // (8 * n)))
        self.W = Wn
        self.alpha = alpha
        self.tol = tol
        if solver not in ("auto", "cg", "lu"):
            raise InputError(f'solver={solver!r} is unknown; wanted "auto", "cg" or "lu"')
        self.factor = None
        if solver == "lu" or (solver == "auto" and n <= _LU_POINTS):
            matrix = sp.eye_array(n, format="csc") - alpha * Wn.tocsc()
            self.factor = splu(sp.csc_matrix(matrix), permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})

    def parts(self) -> list[slice]:
        return [slice(at, min(at + self.width, self.columns)) for at in range(0, self.columns, self.width)]

    def __call__(self, b: Floats) -> Floats:
        if self.factor is not None:
            return np.asarray(self.factor.solve(np.ascontiguousarray(b)), np.float64)
        return self.conjugate_gradients(b)

    def conjugate_gradients(self, b: Floats) -> Floats:
        """Run one recursion per column, all products at once; finished columns leave the block."""
        out = np.zeros(b.shape)
        # ‖x - x*‖ ≤ ‖(Id - αW)⁻¹‖·‖r‖ ≤ ‖r‖/(1-α), so this residual is enough for an error of tol·‖b‖.
        wanted = (max(self.tol * (1 - self.alpha), 1e-15) * np.linalg.norm(b, axis=0)) ** 2
        at = np.flatnonzero(np.einsum("ij,ij->j", b, b) > 0)
        x = np.zeros((len(b), len(at)))
        r = b[:, at].copy()
        p = r.copy()
        rho = np.einsum("ij,ij->j", r, r)
        for _ in range(_STEPS):
            if not at.size:
                break
            q = self.W @ p
            q *= -self.alpha
            q += p
            # A column that is solved exactly has p = 0; it stays as it is until it leaves.
            step = rho / np.maximum(np.einsum("ij,ij->j", p, q), _TINY)
            x += step * p
            q *= step
            r -= q
            new = np.einsum("ij,ij->j", r, r)
            p *= new / np.maximum(rho, _TINY)
            p += r
            rho = new
            done = rho <= wanted[at]
            # Taking columns out copies the block, so it waits until a quarter of them (or all) are done.
            if done.all() or 4 * int(done.sum()) >= done.size:
                out[:, at[done]] = x[:, done]
                going = ~done
                at = at[going]
                rho = rho[going]
                x, r, p = (np.ascontiguousarray(part[:, going]) for part in (x, r, p))
        else:
            raise InputError(f"conjugate gradients did not reach {self.tol} in {_STEPS} steps; is W normalised?")
        return out


def _check(Wn: sp.csr_array, alpha: float, tol: float) -> int:
    if not sp.issparse(Wn) or Wn.shape[0] != Wn.shape[1]:
        raise InputError("the graph must be a square sparse matrix, from graph.normalise")
    if not 0.0 < alpha < 1.0:
        raise InputError(f"alpha={alpha!r} given; wanted a number between 0 and 1 (0.9 and 0.99 are usual)")
    if not 0.0 < tol < 1.0:
        raise InputError(f"tol={tol!r} given; wanted a small positive number")
    return int(Wn.shape[0])
