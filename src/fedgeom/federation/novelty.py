"""Which rows fit no class: how well rows of known classes fit, and what they look like.

A model that knows densities scores rows by them. For any other, rows of known classes are described by the mean of
each class that the model puts them into and one covariance within classes, and a row's score is minus its squared
Mahalanobis distance to the nearest mean. A row is called unknown when it scores lower than all but a share alpha of
known rows that nothing was learnt from (split conformal prediction): of new rows from where those come from, at most a
share alpha is, whatever the distribution. Rows of other sites, or of rare classes, may be called unknown more often.
"""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.data.columns import in_order, names_of
from fedgeom.data.kinds import Kind, check_kinds
from fedgeom.data.labels import in_words
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
class RowCloud:
    """What rows of known classes look like."""

    means: Floats
    """(classes, columns): of those classes that the model puts rows into."""
    spread: Floats
    """(columns,): the deviations within classes; 1 where a column is constant."""
    factor: Floats
    """(columns, columns): the Cholesky factor of the correlations within classes; (0, 0): none are kept."""

    @classmethod
    def of(cls, X: Floats, classes: npt.NDArray[Any]) -> RowCloud:
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
class KnownRows:
    """What a model knows of rows of known classes, from rows that it was shown (`Model.with_known`)."""

    scores: Floats
    """(scores,): how well they fit, in ascending order."""
    rows: int
    """How many rows they come from."""
    cloud: RowCloud | None = None
    """What they look like; None where the model itself knows densities."""

    @classmethod
    def scored(cls, scores: npt.ArrayLike, cloud: RowCloud | None = None) -> KnownRows:
        """Keep the scores of known rows, (rows,)."""
        ordered = np.sort(np.asarray(scores, np.float64))
        if not len(ordered) or not np.isfinite(ordered).all():
            raise InputError("known rows have no finite scores; wanted rows of the classes that the model knows")
        n = len(ordered)
        kept = min(len(ordered), MOST_SCORES)
        ranks = np.ceil(np.arange(1, kept + 1) * (n + 1) / (kept + 1)).astype(int) - 1
        return cls(ordered[np.minimum(ranks, n - 1)], n, cloud)

    @classmethod
    def described(cls, X: Floats, classes: npt.NDArray[Any]) -> KnownRows:
        """Describe known rows by a cloud. Each half of them is scored by the cloud of the other half.

        X (rows, columns), f8; classes (rows,), those that the model puts them into; "" is none.
        """
        X, classes = (X[classes != ""], classes[classes != ""]) if classes.dtype.kind == "U" else (X, classes)
        if len(X) < LEAST_ROWS:
            raise InputError(f"{len(X)} known rows given; wanted at least {LEAST_ROWS}, better hundreds")
        half = np.random.default_rng(0).permutation(len(X)) % 2 == 0
        scores = np.empty(len(X))
        for part in (half, ~half):
            scores[part] = RowCloud.of(X[~part], classes[~part]).scores(X[part])
        return cls.scored(scores, RowCloud.of(X, classes))

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
    def read(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> KnownRows | None:
        """Read it back from a model file's arrays; None where there are none."""
        found = {name.removeprefix(PREFIX): value for name, value in arrays.items() if name.startswith(PREFIX)}
        if not found:
            return None
        try:
            cloud = RowCloud(found["means"], found["spread"], found["factor"]) if "means" in found else None
            return cls(found["scores"], int(found["rows"][0]), cloud)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise InputError(f"the file's known rows cannot be read: {error} is missing or wrong") from error


class RowNovelty:
    """What every model inherits: it may call a row unknown, instead of naming the least unlikely class."""

    method: str
    column_names: tuple[str, ...] = ()
    preparation: Any = None
    column_kinds: tuple[Kind, ...] = ()
    known: KnownRows | None = None
    """How well rows of known classes fit, where the model was shown some (`with_known`)."""

    @abstractmethod
    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return a class for each row."""

    @property
    @abstractmethod
    def classes_(self) -> npt.NDArray[Any]:
        """What `predict` may answer."""

    def _having(self, name: str, value: Any) -> Self:
        """Return the same with another value of one attribute that is no field; itself where it has that value."""
        before = getattr(self, name, None)
        if before is value or (isinstance(value, str | tuple) and before == value):
            return self
        made = copy.copy(self)
        object.__setattr__(made, name, value)
        return made

    def ordered(self, X: Any, where: str = "X") -> Any:
        """Return rows with their columns in the model's order, where both have names; otherwise as they are.

        Missing and unknown columns are refused by name, and so are those of text or of another kind than was learnt.
        """
        rows = in_order(X, self.column_names, where)
        if self.column_kinds and names_of(X):
            check_kinds(np.asarray(rows), self.column_names, self.column_kinds, where)
        return rows

    def _ordered(self, X: npt.ArrayLike) -> Floats:
        rows = np.asarray(self.ordered(X) if self.preparation is None else self.preparation.rows(X), np.float64)
        if rows.ndim != 2 or not np.isfinite(rows).all():
            raise InputError(f"X has shape {rows.shape}; wanted finite rows and columns")
        return rows

    def density_scores(self, X: npt.ArrayLike) -> Floats | None:
        """Return how well each row fits the class that it fits best, (rows,), f8, more is better; None: not known."""
        return None

    def fit_threshold(self, alpha: float) -> tuple[float, str]:
        """Return the score below which rows are called unknown, and by what rule, in words."""
        if self.known is None:
            raise InputError(
                f"a {self.method} model alone cannot say which rows fit no class: its probabilities are shares among "
                "the classes it knows. Show it rows of known classes, model.with_known(X), or fedgeom predict … "
                "--known FILE; a site's own model file knows the site's: fedgeom predict RUN FILE --site NAME"
            )
        how = "the model's densities" if self.known.cloud is None else "their distance to the known rows' classes"
        words = f"they fit less well, by {how}, than all but {alpha:g} of {self.known.rows:,} known rows"
        return self.known.threshold(alpha), words

    def with_known(self, X: npt.ArrayLike) -> Self:
        """Return the model with rows of known classes, (rows, columns), by which it judges which others fit none.

        Take rows that it did not learn from; some hundreds are good. They are not kept, but their classes' means and
        one covariance are, where the model knows no densities.
        """
        own = self.density_scores(X)
        if own is not None:
            return self.knowing(KnownRows.scored(own))
        return self.knowing(KnownRows.described(self._ordered(X), self.predict(X)))

    def knowing(self, known: KnownRows) -> Self:
        """Return the model with what is known of such rows already."""
        return self._having("known", known)

    def unknown(self, X: npt.ArrayLike, alpha: float = 0.05) -> npt.NDArray[np.bool_]:
        """Say which rows fit no class well, (rows,): of rows of known classes about a share alpha.

        By the rows of `with_known` where there are some, otherwise by the model's own densities; a model without either
        refuses. `fit_threshold` says the rule in words.
        """
        least, _ = self.fit_threshold(check_alpha(alpha))
        cloud = None if self.known is None else self.known.cloud
        scores = self.density_scores(X) if cloud is None else cloud.scores(self._ordered(X))
        return np.asarray(scores < least)  # type: ignore[operator]  # without a cloud there are densities

    def predict_or_unknown(self, X: npt.ArrayLike, alpha: float = 0.05, word: str = "unknown") -> npt.NDArray[Any]:
        """Return a class for each row as text, or a word where the row fits none well (see `unknown`)."""
        if word in {str(name) for name in self.classes_}:
            raise InputError(f"the model has a class {word!r}; choose another word for rows that fit none: word=…")
        named: npt.NDArray[Any] = np.where(self.unknown(X, alpha), word, in_words(self.predict(X)).astype(str))
        return named
