"""What a federation is measured against: a plain classifier, trained on the rows of one table."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats

MOST_WORK = 2 * 10**7
"""The most numbers (rows, columns and classes multiplied) that a baseline looks at in a step; of more rows a part is
drawn."""
MOST_STEPS = 200


@dataclass(frozen=True)
class Baseline:
    """Logistic regression on standardised columns."""

    names: tuple[str, ...]
    """The classes that it was trained on, sorted; one that is alone is always the answer."""
    weights: Floats
    """(1 + columns, classes): intercepts, then weights of the columns as they are given."""

    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """Return a probability for each row and class, in the order of ``names``."""
        scores = np.asarray(X, np.float64) @ self.weights[1:] + self.weights[0]
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[np.str_]:
        """Return the name of the likeliest class of each row."""
        return np.asarray(np.array(self.names, np.str_)[self.predict_proba(X).argmax(axis=1)])


def train_baseline(X: Floats, words: npt.NDArray[np.str_]) -> Baseline:
    """Train on a table; the same table gives the same model, and the work is bounded.

    X (rows, columns), f8; words (rows,): the class of each.
    """
    names = tuple(np.unique(words).tolist())
    if len(names) < 2:
        return Baseline(names, np.zeros((1 + X.shape[1], 1)))
    most = max(MOST_WORK // (max(X.shape[1], 1) * len(names)), 50 * len(names))
    if len(X) > most:
        rows = np.sort(np.random.default_rng(0).permutation(len(X))[:most])
        rows = np.union1d(rows, np.unique(words, return_index=True)[1])  # no class is left out
        X, words = X[rows], words[rows]
    centre, spread = X.mean(axis=0), X.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    from sklearn.linear_model import LogisticRegression  # scikit-learn: 2 s

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it may stop before the optimum: the effort is bounded
        fitted = LogisticRegression(max_iter=MOST_STEPS).fit((X - centre) / spread, words)
    slopes, starts = fitted.coef_.T / spread[:, None], fitted.intercept_
    if len(names) == 2:  # scikit-learn has the log-odds of the second class
        slopes, starts = np.column_stack([np.zeros(len(slopes)), slopes]), np.array([0.0, starts[0]])
    return Baseline(names, np.vstack([starts - centre @ slopes, slopes]))
