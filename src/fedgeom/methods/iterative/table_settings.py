"""The settings of all methods that train on tables with agreed classes and scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from fedgeom.federation.settings import POSITIVE, Between, ClassNames

MOST_ROUNDS = 500


@dataclass(frozen=True, kw_only=True)
class TableSettings:
    """Classes and scale, and who may take part."""

    scale: Literal["joint", "site", "none", "pixels"] = "joint"
    """How columns are scaled: by all sites' rows (one secure sum), by each site's own, not, or from 0…255 to 0…1."""
    classes: ClassNames = None
    """The agreed label names. None: the union of the sites' names, which the sites then work out themselves."""
    min_rows: Annotated[int, Between(0)] = 1
    """Sites refuse to take part with a class of fewer rows."""
    min_sites: Annotated[int, Between(1)] = 2
    """The fewest sites that make a round."""
    largest_entry: Annotated[float, POSITIVE] | None = None
    """The most that a number of one site in a secure sum of columns may be, up to its sign: sites cut larger ones
    off, and a sum beyond n times as much is refused. None: what the sum has room for; who has more leaves the run."""

    @property
    def needs_rows(self) -> bool:
        """Whether sites must know how many rows all have."""
        return False

    @property
    def sums_rows(self) -> bool:
        """Whether rows are counted in a sum of their own: they are, where no sum of columns tells them."""
        return self.needs_rows and self.scale != "joint"
