"""Generalised linear models written from the formulas, on all rows in one place; shares no code with ours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Fitted:
    """What the twin finds."""

    coef: Floats
    covariance: Floats
    deviance: float
    scores: Floats
    """(rows, coefficients): each row's derivative of the log likelihood."""
    bread: Floats


def fit(X: Floats, y: Floats, family: str, *, w: Floats | None = None, offset: Floats | None = None) -> Fitted:
    """Fit by iteratively reweighted least squares; X has all columns, the intercept and sites' own among them."""
    rows = len(y)
    w = np.ones(rows) if w is None else w
    offset = np.zeros(rows) if offset is None else offset
    eta = {"gaussian": y, "binomial": np.log((y + 0.5) / (1.5 - y)) if family == "binomial" else y}.get(
        family, np.log(np.maximum((y + y.mean()) / 2, 1e-9))
    )
    for _ in range(60):
        mean, slope, variance = _means(eta, family)
        weights = w * slope**2 / variance
        working = eta - offset + (y - mean) / slope
        root = np.sqrt(weights)
        coef = np.linalg.lstsq(X * root[:, None], working * root, rcond=None)[0]
        eta = X @ coef + offset
    mean, slope, variance = _means(eta, family)
    bread = np.linalg.inv((X.T * (w * slope**2 / variance)) @ X)
    residual = w * (y - mean) * slope / variance
    deviance = float((w * _deviance(y, mean, family)).sum())
    phi = 1.0
    if family in ("gaussian", "gamma"):
        phi = float((w * (y - mean) ** 2 / variance).sum() / (w.sum() - X.shape[1]))
    return Fitted(coef, phi * bread, deviance, X * residual[:, None], bread)


def _means(eta: Floats, family: str) -> tuple[Floats, Floats, Floats]:
    if family == "gaussian":
        return eta, np.ones_like(eta), np.ones_like(eta)
    if family == "binomial":
        p = 1 / (1 + np.exp(-eta))
        return p, p * (1 - p), p * (1 - p)
    m = np.exp(eta)
    return m, m, m if family == "poisson" else m**2


def _deviance(y: Floats, m: Floats, family: str) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        if family == "gaussian":
            return (y - m) ** 2
        if family == "binomial":
            return -2 * np.where(y == 1, np.log(m), np.log(1 - m))
        if family == "poisson":
            return 2 * (np.where(y > 0, y * np.log(y / m), 0.0) - (y - m))
        return 2 * (-np.log(y / m) + (y - m) / m)


def sandwich(found: Fitted, groups: npt.NDArray[np.int64] | None = None) -> Floats:
    """Return the robust covariance: by rows (HC0), or by groups with the usual small-sample factor (CR1)."""
    if groups is None:
        return found.bread @ (found.scores.T @ found.scores) @ found.bread
    sums = np.array([found.scores[groups == one].sum(axis=0) for one in np.unique(groups)])
    many, (n, k) = len(sums), found.scores.shape
    return many / (many - 1) * (n - 1) / (n - k) * found.bread @ (sums.T @ sums) @ found.bread
