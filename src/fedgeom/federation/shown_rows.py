"""Rows that a method would show to others, such as corners of hulls: what a preview tells the steward beforehand."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class ShownRows:
    """How many rows of a class others would learn, rounded or not."""

    label: str
    """The class, in the site's own words."""
    rows: int
    """How many rows the class has."""
    corners: int
    """How many of them others learn."""
    points: npt.NDArray[np.float64] = field(repr=False)
    """(rows, 2): all rows of the class, in the plane."""
    sent: npt.NDArray[np.float64] = field(repr=False)
    """(corners, 2): what the coordinator learns of them."""
    before_rounding: int = 0
    """How many rows are corners before they are rounded, by which some may fall together; 0: as many as ``corners``."""

    @property
    def extreme(self) -> int:
        """How many rows are corners: what a policy's ``max_corner_share`` is about."""
        return max(self.corners, self.before_rounding)

    @property
    def share(self) -> float:
        """The share of the class's rows."""
        return self.corners / self.rows
