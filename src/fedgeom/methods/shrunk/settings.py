"""The settings of Shrunk, which both halves know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from fedgeom.arrays import Floats
from fedgeom.errors import InputError
from fedgeom.federation.settings import POSITIVE, Between, Settings
from fedgeom.methods.aggregation import GroupedSums
from fedgeom.methods.iterative.settings import MOST_ROUNDS, TableSettings
from fedgeom.methods.shrunk.core import terms_length

RIDGES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
STRENGTHS = (3.0, 10.0, 30.0, 100.0, np.inf)
SEVERAL_STRENGTHS = (0.03, 0.3, 3.0, 30.0, np.inf)
"""Those of several outcomes, each of which is told from all others: a site that differs needs a model of its own."""
MOST_COLUMNS = 100
MOST_NUMBERS = 4_000_000
"""The most numbers in one sum of terms: those of a hundred columns and twenty classes."""


@dataclass(frozen=True, kw_only=True)
class ShrunkSettings(GroupedSums, TableSettings, Settings):
    """How the joint model is found, and how a site chooses its own."""

    n_rounds: Annotated[int, Between(1, MOST_ROUNDS)] = 10
    """Newton's steps towards the joint models; all α and folds take them together."""
    n_folds: Annotated[int, Between(2, 20)] = 5
    """How many parts the rows are cut into for cross-validation."""
    prior_rows: Annotated[float, Between(0)] = 200.0
    """How many rows' worth of the others' evidence a site adds to its own."""
    temperature: Annotated[float, POSITIVE] = 0.01
    """How sharply candidates with better evidence are preferred (in units of AUC)."""

    @property
    def ridges(self) -> Floats:
        """The α that are tried."""
        return np.array(RIDGES)

    @staticmethod
    def strengths(outcomes: int = 1) -> Floats:
        """Return the λ that are tried, in rows' worth."""
        return np.array(STRENGTHS if outcomes == 1 else SEVERAL_STRENGTHS)

    def stack(self, classes: int) -> tuple[int, int]:
        """Return how many joint models there are: for each outcome and α, and for each fold and none."""
        return (1 if classes == 2 else classes) * len(RIDGES), self.n_folds + 1

    def check_shape(self, classes: int, columns: int) -> None:
        """Refuse one class, and tables so wide, or of so many classes, that sums of Hessians would be huge."""
        if classes < 2:
            raise InputError(f"Shrunk tells classes apart; the sites have {classes}: wanted two or more")
        numbers = terms_length(self.stack(classes), columns)
        if numbers > MOST_NUMBERS:
            raise InputError(
                f"the sites have {classes} classes and {columns} columns; Shrunk adds up a Hessian for each class, "
                f"{numbers:,} numbers in all, and takes {MOST_NUMBERS:,}: choose columns, or use Ridge(personal=True)"
            )
        if columns > MOST_COLUMNS:
            raise InputError(
                f"the sites have {columns} columns; Shrunk adds up Hessians and takes at most {MOST_COLUMNS} columns: "
                "choose columns, or use Interpolated"
            )
