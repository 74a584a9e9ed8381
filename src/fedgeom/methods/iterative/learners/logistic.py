"""Logistic regression, binary or multinomial, with NumPy and SciPy alone."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from fedgeom.errors import InputError
from fedgeom.methods.iterative.effort import USUAL, Effort
from fedgeom.methods.iterative.learners import Classes, Floats, Learner
from fedgeom.methods.iterative.objective import LOSS, Objective
from fedgeom.methods.iterative.vectors import Layout, Parameters, Vector

TOLERANCE = 1e-8


class Logistic(Learner):
    """Linear scores, softmax, and a ridge penalty on the weights.

    The mean loss over n rows is the mean negative log-likelihood + ‖weights‖²/(2Cn): C means what it means in
    scikit-learn. Two classes have one column of weights, more have one each.
    """

    name = "logistic"
    head = ("intercept",)

    def __init__(self, C: float = 1.0):
        if not 0 < C < np.inf:
            raise InputError(f"C={C} given; wanted a positive, finite number (large: little penalty)")
        self.C = C

    def start(self, columns: int, classes: int, rng: np.random.Generator) -> Parameters:
        """Return zeros: the loss is convex, so the start does not matter in the end."""
        width = 1 if classes == 2 else classes
        return {"intercept": np.zeros(width), "weights": np.zeros((columns, width))}

    def predict_proba(self, parameters: Parameters, X: Floats) -> Floats:
        """Return the softmax of the scores."""
        return np.asarray(np.exp(log_softmax(self._scores(parameters, X), axis=1)))

    def loss(self, parameters: Parameters, X: Floats, y: Classes) -> float:
        """Return the mean negative log-likelihood plus penalty."""
        return self._loss(parameters, X, y, len(X))

    def surprise(self, parameters: Parameters, X: Floats, y: Classes) -> float:
        """Return the mean negative log-likelihood alone."""
        logs = log_softmax(self._scores(parameters, X), axis=1)
        return float(-logs[np.arange(len(y)), y].mean())

    def gradient(self, parameters: Parameters, X: Floats, y: Classes) -> Parameters:
        """Return its gradient."""
        return self._gradient(parameters, X, y, len(X))

    def fit(
        self,
        parameters: Parameters,
        X: Floats,
        y: Classes,
        *,
        objective: Objective = LOSS,
        effort: Effort = USUAL,
        rng: np.random.Generator,
    ) -> Parameters:
        """Descend in steps, or (``solver="exact"``) to the minimum by L-BFGS."""
        layout = Layout.of(parameters)
        w, rows = layout.pack(parameters), len(X)
        if effort.solver == "exact":
            return layout.unpack(self._solve(layout, w, X, y, objective))
        views = layout.unpack(w)  # they change with w
        for at in effort.batches(rows, rng):
            # A minibatch sees the penalty of the whole site, so that the steps descend the same objective.
            slope = layout.pack(self._gradient(views, X[at], y[at], rows))
            w -= effort.rate * (slope if objective.plain else slope + objective.gradient(w))
        return views

    def _solve(self, layout: Layout, w: Vector, X: Floats, y: Classes, objective: Objective) -> Vector:
        def value_and_slope(at: Vector) -> tuple[float, Vector]:
            parameters = layout.unpack(at)
            value = self._loss(parameters, X, y, len(X)) + objective.value(at)
            return value, layout.pack(self._gradient(parameters, X, y, len(X))) + objective.gradient(at)

        options = {"maxiter": 1000, "ftol": 1e-14, "gtol": TOLERANCE}
        found = minimize(value_and_slope, w, jac=True, method="L-BFGS-B", options=options)
        return np.asarray(found.x, np.float64)

    def _scores(self, parameters: Parameters, X: Floats) -> Floats:
        scores = X @ parameters["weights"] + parameters["intercept"]
        return np.column_stack([np.zeros(len(X)), scores]) if scores.shape[1] == 1 else scores

    def _loss(self, parameters: Parameters, X: Floats, y: Classes, rows: int) -> float:
        return self.surprise(parameters, X, y) + float(np.sum(parameters["weights"] ** 2)) / (2 * self.C * rows)

    def _gradient(self, parameters: Parameters, X: Floats, y: Classes, rows: int) -> Parameters:
        weights = parameters["weights"]
        scores = X @ weights + parameters["intercept"]
        if weights.shape[1] == 1:
            residual = (0.5 * (1 + np.tanh(0.5 * scores[:, 0])) - y)[:, None]  # the logistic function, no overflow
        else:
            scores -= scores.max(axis=1, keepdims=True)
            residual = np.exp(scores)
            residual /= residual.sum(axis=1, keepdims=True)
            residual[np.arange(len(y)), y] -= 1
        residual /= len(y)
        return {"intercept": residual.sum(axis=0), "weights": X.T @ residual + weights / (self.C * rows)}
