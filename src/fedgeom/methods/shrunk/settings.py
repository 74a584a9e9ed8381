"""The settings of Shrunk, which both halves know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from fedgeom.arrays import Floats
from fedgeom.errors import InputError
from fedgeom.federation.settings import POSITIVE, Between, Settings
from fedgeom.methods.iterative.table_settings import MOST_ROUNDS, TableSettings

RIDGES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
STRENGTHS = (3.0, 10.0, 30.0, 100.0, np.inf)
MOST_COLUMNS = 100


@dataclass(frozen=True, kw_only=True)
class ShrunkSettings(TableSettings, Settings):
    """How the joint model is found, and how a site chooses its own."""

    rounds: Annotated[int, Between(1, MOST_ROUNDS)] = 10
    """Newton's steps towards the joint models; all α and folds take them together."""
    folds: Annotated[int, Between(2, 20)] = 5
    """How many parts the rows are cut into for cross-validation."""
    borrowed: Annotated[float, Between(0)] = 200.0
    """How many rows' worth of the others' evidence a site adds to its own."""
    temperature: Annotated[float, POSITIVE] = 0.01
    """How sharply candidates with better evidence are preferred (in units of AUC)."""

    @property
    def ridges(self) -> Floats:
        """The α that are tried."""
        return np.array(RIDGES)

    @property
    def strengths(self) -> Floats:
        """The λ that are tried, in rows' worth."""
        return np.array(STRENGTHS)

    def check_shape(self, classes: int, columns: int) -> None:
        """Refuse more than two classes, and tables so wide that sums of Hessians would be huge."""
        if classes != 2:
            raise InputError(
                f"Shrunk tells two classes apart; the sites have {classes}: use Ridge(personal=True), or Interpolated"
            )
        if columns > MOST_COLUMNS:
            raise InputError(
                f"the sites have {columns} columns; Shrunk adds up Hessians and takes at most {MOST_COLUMNS} columns: "
                "choose columns, or use Interpolated"
            )
