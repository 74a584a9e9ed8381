"""Which rows fit no class: how well rows of known classes fit, and what they look like.

A model that knows densities scores rows by them. For any other, rows of known classes are described by the mean of
each class that the model puts them into and one covariance within classes, and a row's score is minus its squared
Mahalanobis distance to the nearest mean. A row is called unknown when it scores lower than all but a share alpha of
known rows that nothing was learnt from (split conformal prediction): of new rows from where those come from, at most a
share alpha is, whatever the distribution. Rows of other sites, or of rare classes, may be called unknown more often.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.errors import InputError

PREFIX = "known/"
"""What the names of these arrays begin with in a model file."""
MOST_SCORED = 20_000
"""How many of its rows a site scores to tell how well a model fits them; of more, so many that are drawn."""
MOST_SCORES = 2000
"""How many scores are kept; of more, so many that lie evenly in their order."""
MOST_COLUMNS = 500
"""Up to so many columns the whole covariance is kept; of more, the variances only."""
LEAST_ROWS = 10
"""From fewer rows no cloud can be described and tested on other rows."""


def check_alpha(alpha: float) -> float:
    """Return the share of known rows that may be called unknown, or say what is wanted."""
    if not 0 < alpha < 1:
        raise InputError(f"alpha={alpha!r} given; wanted a share between 0 and 1, such as 0.05")
    return float(alpha)


@dataclass(frozen=True)
class Cloud:
    """What rows of known classes look like."""

    means: Floats
    """(classes, columns): of those classes that the model puts rows into."""
    spread: Floats
    """(columns,): the deviations within classes; 1 where a column is constant."""
    factor: Floats
    """(columns, columns): the Cholesky factor of the correlations within classes; (0, 0): none are kept."""

    @classmethod
    def of(cls, X: Floats, classes: npt.NDArray[Any]) -> Cloud:
        """Describe rows X, (rows, columns), f8, of classes (rows,)."""
        from sklearn.covariance import ledoit_wolf  # slow to import

        found, at = np.unique(classes, return_inverse=True)
        means = np.stack([X[at == j].mean(axis=0) for j in range(len(found))])
        away = X - means[at]
        spread = away.std(axis=0)
        spread = np.where(spread > 1e-9 * max(float(spread.max()), 1e-300), spread, 1.0)
        if X.shape[1] > MOST_COLUMNS:
            return cls(means, spread, np.empty((0, 0)))
        covariance, _ = ledoit_wolf(away / spread, assume_centered=True)
        return cls(means, spread, np.linalg.cholesky(covariance + 1e-9 * np.eye(X.shape[1])))

    def scores(self, X: Floats) -> Floats:
        """Return minus the squared Mahalanobis distance of each row to the nearest mean, (rows,), f8."""
        from scipy.linalg import solve_triangular  # slow to import

        best = np.full(len(X), -np.inf)
        for mean in self.means:
            away = (X - mean) / self.spread
            if len(self.factor):
                away = solve_triangular(self.factor, away.T, lower=True).T
            best = np.maximum(best, -np.einsum("ij,ij->i", away, away))
        return best


@dataclass(frozen=True)
class Known:
    """What a model knows of rows of known classes, from rows that it was shown (`Model.with_known`)."""

    scores: Floats
    """(scores,): how well they fit, in ascending order."""
    rows: int
    """How many rows they come from."""
    cloud: Cloud | None = None
    """What they look like; None where the model itself knows densities."""

    @classmethod
    def scored(cls, scores: npt.ArrayLike, cloud: Cloud | None = None) -> Known:
        """Keep the scores of known rows, (rows,)."""
        ordered = np.sort(np.asarray(scores, np.float64))
        if not len(ordered) or not np.isfinite(ordered).all():
            raise InputError("known rows have no finite scores; wanted rows of the classes that the model knows")
        n, kept = len(ordered), min(len(ordered), MOST_SCORES)
        ranks = np.ceil(np.arange(1, kept + 1) * (n + 1) / (kept + 1)).astype(int) - 1
        return cls(ordered[np.minimum(ranks, n - 1)], n, cloud)

    @classmethod
    def described(cls, X: Floats, classes: npt.NDArray[Any]) -> Known:
        """Describe known rows by a cloud. Each half of them is scored by the cloud of the other half.

        X (rows, columns), f8; classes (rows,), those that the model puts them into; "" is none.
        """
        X, classes = (X[classes != ""], classes[classes != ""]) if classes.dtype.kind == "U" else (X, classes)
        if len(X) < LEAST_ROWS:
            raise InputError(f"{len(X)} known rows given; wanted at least {LEAST_ROWS}, better hundreds")
        half = np.random.default_rng(0).permutation(len(X)) % 2 == 0
        scores = np.empty(len(X))
        for part in (half, ~half):
            scores[part] = Cloud.of(X[~part], classes[~part]).scores(X[part])
        return cls.scored(scores, Cloud.of(X, classes))

    def threshold(self, alpha: float) -> float:
        """Return the score below which at most a share alpha of rows like the known ones lie."""
        rank = math.floor(check_alpha(alpha) * (len(self.scores) + 1) + 1e-9)
        if rank < 1:
            raise InputError(
                f"alpha={alpha:g} given, but the model knows {self.rows:,} rows only; wanted at least "
                f"{math.ceil(1 / alpha - 1):,}, or a larger alpha"
            )
        return float(self.scores[min(rank, len(self.scores)) - 1])

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays of a model file."""
        found: dict[str, npt.NDArray[Any]] = {"scores": self.scores, "rows": np.array([self.rows])}
        if self.cloud is not None:
            found |= {"means": self.cloud.means, "spread": self.cloud.spread, "factor": self.cloud.factor}
        return {PREFIX + name: value for name, value in found.items()}

    @classmethod
    def read(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Known | None:
        """Read it back from a model file's arrays; None where there are none."""
        found = {name.removeprefix(PREFIX): value for name, value in arrays.items() if name.startswith(PREFIX)}
        if not found:
            return None
        try:
            cloud = Cloud(found["means"], found["spread"], found["factor"]) if "means" in found else None
            return cls(found["scores"], int(found["rows"][0]), cloud)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise InputError(f"the file's known rows cannot be read: {error} is missing or wrong") from error
