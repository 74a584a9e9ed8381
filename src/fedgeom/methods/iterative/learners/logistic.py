"""Logistic regression, binary or multinomial, with NumPy and SciPy alone."""

from __future__ import annotations

import numpy as np
from scipy.special import log_softmax

from fedgeom.arrays import Floats, Ints
from fedgeom.errors import InputError
from fedgeom.methods.iterative.effort import USUAL, Effort
from fedgeom.methods.iterative.learners import Learner, Parameters, register, step
from fedgeom.methods.iterative.objective import LOSS, FlatObjective, Objective
from fedgeom.methods.iterative.tree import Tree
from fedgeom.privacy.bounded_sums import in_whole_numbers, products, row_products, unit_rows

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
        return Tree(intercept=np.zeros(width), weights=np.zeros((columns, width)))

    def predict_proba(self, parameters: Parameters, X: Floats) -> Floats:
        """Return the softmax of the scores."""
        return np.asarray(np.exp(log_softmax(self.scores(parameters, X), axis=1)))

    def loss(self, parameters: Parameters, X: Floats, y: Ints) -> float:
        """Return the mean negative log-likelihood plus penalty."""
        return self._loss(parameters, X, y, len(X))

    def nll(self, parameters: Parameters, X: Floats, y: Ints) -> float:
        """Return the mean negative log-likelihood alone."""
        logs = log_softmax(self.scores(parameters, X), axis=1)
        return float(-logs[np.arange(len(y)), y].mean())

    def gradient(self, parameters: Parameters, X: Floats, y: Ints) -> Parameters:
        """Return its gradient."""
        return Tree(parameters).like(self._flat_gradient(parameters, X, y, len(X)))

    def bounded_gradient(self, parameters: Parameters, X: Floats, y: Ints, clip: float) -> Ints:
        """Return the sum of shortened gradients: a row's is the product of (1, x) and its residual.

        (1, x) is made a unit vector, and the residual as long as the gradient may be. Whatever the model and a row's
        numbers are, nothing of it is infinite, and no row has a part in what another one adds.
        """
        units, lengths = unit_rows(np.column_stack([np.ones(len(X)), X]))
        intercept = np.clip(np.nan_to_num(parameters["intercept"]), -_LARGEST_SCORE, _LARGEST_SCORE)
        scores = np.clip(row_products(X, parameters["weights"]), -_LARGEST_SCORE, _LARGEST_SCORE) + intercept
        residual = _residual_of(scores, y) * lengths
        return products(in_whole_numbers(units, 1.0), in_whole_numbers(residual, clip)).ravel()

    def penalty_gradient(self, parameters: Parameters, rows: float) -> Floats:
        """Return the weights' penalty, none for intercepts."""
        free = np.zeros(parameters["intercept"].size)
        return np.concatenate([free, parameters["weights"].ravel() / (self.C * rows)])

    def fit(
        self,
        parameters: Parameters,
        X: Floats,
        y: Ints,
        *,
        objective: Objective = LOSS,
        effort: Effort = USUAL,
        rng: np.random.Generator,
    ) -> Parameters:
        """Descend in steps, or (``solver="exact"``) to the minimum by L-BFGS."""
        objective.only_terms(self.name)
        effort.only_plain(self.name)
        shape = Tree(parameters)
        terms = objective.flat()
        rows = len(X)
        free = objective.free(parameters)
        weights = objective.row_weights
        w = shape.flat()
        double = shape.map(lambda leaf: np.asarray(leaf, np.float64))
        if effort.solver == "exact":
            if free is not None:
                raise InputError(
                    'an algorithm that freezes arrays takes steps; solver="exact" takes none: use "sgd"'
                )
            return shape.like(self._solve(double, w, X, y, terms, weights))
        views = double.like(w)  # they change with w
        for at in effort.batches(rows, rng, y):
            # A minibatch sees the penalty of the whole site, so that the steps descend the same objective.
            count = None if weights is None else weights[at]
            gradient = self._flat_gradient(views, X[at], y[at], rows, count)
            w -= effort.learning_rate * step(
                gradient if objective.plain else gradient + terms.gradient(w), effort, free
            )
        return shape.like(w)

    def _solve(
        self, shape: Tree, w: Floats, X: Floats, y: Ints, terms: FlatObjective, weights: Floats | None
    ) -> Floats:
        from scipy.optimize import minimize  # slow to import, and steps need none of it

        def value_and_gradient(at: Floats) -> tuple[float, Floats]:
            parameters = shape.like(at)
            value = self._loss(parameters, X, y, len(X), weights) + terms.value(at)
            return value, self._flat_gradient(parameters, X, y, len(X), weights) + terms.gradient(at)

        options = {"maxiter": 1000, "ftol": 1e-14, "gtol": TOLERANCE}
        found = minimize(value_and_gradient, w, jac=True, method="L-BFGS-B", options=options)
        return np.asarray(found.x, np.float64)

    def scores(self, parameters: Parameters, Z: Floats) -> Floats:
        """Return linear scores; the first of two classes has 0."""
        scores = Z @ parameters["weights"] + parameters["intercept"]
        return np.column_stack([np.zeros(len(Z)), scores]) if scores.shape[1] == 1 else scores

    def _loss(self, parameters: Parameters, X: Floats, y: Ints, rows: int, weights: Floats | None = None) -> float:
        penalty = float(np.sum(parameters["weights"] ** 2)) / (2 * self.C * rows)
        if weights is None:
            return self.nll(parameters, X, y) + penalty
        logs = log_softmax(self.scores(parameters, X), axis=1)[np.arange(len(y)), y]
        return float(-(weights * logs).mean()) + penalty

    def _flat_gradient(
        self, parameters: Parameters, X: Floats, y: Ints, rows: int, count: Floats | None = None
    ) -> Floats:
        """Return the gradient as one vector, intercept first: a tree for each step would cost as much as the step.

        ``count`` (rows,) is what each row's loss is multiplied by, as scikit-learn's sample weights are.
        """
        weights = parameters["weights"]
        residual = self._residual(parameters, X, y)
        residual /= len(y)
        if count is not None:
            residual *= count[:, None]
        slopes = X.T @ residual + weights / (self.C * rows)
        return np.concatenate([residual.sum(axis=0), slopes.ravel()])

    def _residual(self, parameters: Parameters, X: Floats, y: Ints) -> Floats:
        """Return probabilities less what they should be, (rows, 1) for two classes, otherwise (rows, classes)."""
        return _residual_of(X @ parameters["weights"] + parameters["intercept"], y)


_LARGEST_SCORE = 1e6
"""Probabilities of larger ones are 0 or 1 in every digit."""


def _residual_of(scores: Floats, y: Ints) -> Floats:
    """Return probabilities less what they should be, from scores, which are written over where there are several."""
    if scores.shape[1] == 1:
        return np.asarray(0.5 * (1 + np.tanh(0.5 * scores)) - y[:, None])  # the logistic function, no overflow
    scores -= scores.max(axis=1, keepdims=True)
    residual = np.exp(scores)
    residual /= residual.sum(axis=1, keepdims=True)
    residual[np.arange(len(y)), y] -= 1
    return np.asarray(residual)


register(Logistic())
