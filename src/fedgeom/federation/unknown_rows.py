"""The part of a model that says which rows fit no class well."""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.data.columns import in_order, names_of
from fedgeom.data.kinds import Kind, check_kinds
from fedgeom.errors import InputError
from fedgeom.federation.known import Known, check_alpha


class JudgesRows:
    """What every model inherits: it may call a row unknown, instead of naming the least unlikely class."""

    method: str
    column_names: tuple[str, ...] = ()
    preparation: Any = None
    column_kinds: tuple[Kind, ...] = ()
    known: Known | None = None
    """How well rows of known classes fit, where the model was shown some (`with_known`)."""

    @abstractmethod
    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return a class for each row."""

    @property
    @abstractmethod
    def classes_(self) -> npt.NDArray[Any]:
        """What `predict` may answer."""

    def _having(self, name: str, value: Any) -> Self:
        """Return the same with another value of one attribute that is no field."""
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
            return self.knowing(Known.scored(own))
        return self.knowing(Known.described(self._ordered(X), self.predict(X)))

    def knowing(self, known: Known) -> Self:
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
        named: npt.NDArray[Any] = np.where(self.unknown(X, alpha), word, self.predict(X).astype(str))
        return named
