"""The settings of Hulls, which both halves know."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from fedgeom.errors import InputError
from fedgeom.federation.settings import POSITIVE, Between, Settings

Grouping = Literal["constrained", "spectral", "kernighan-lin", "published"]


@dataclass(frozen=True, kw_only=True)
class HullSettings(Settings):
    """Grid, hulls, grouping, classifier, and who may take part."""

    epsilon: Annotated[float, POSITIVE] = 0.01
    """ε, Definition 2: points of one bin are at most this far apart."""
    n_classes: Annotated[int, Between(2, 4096)] | None = None
    """J. None: the most classes any site has. Give it when no site has all of them."""
    trim: Annotated[float, Between(0, 1, open_high=True)] | Literal["auto"] = "auto"
    """The share of outlying points kept out of each hull; 0 is the paper, "auto" depends on the class's size."""
    C: Annotated[float, POSITIVE] = 5.0
    """λ, Eq. 7."""
    pairs: Annotated[int, Between(1)] = 3
    """How many closest pairs are tried for the reference point (Appendix I.2)."""
    grouping: Grouping = "constrained"
    """How hulls are put together to classes; "published" is Kernighan–Lin for two, spectral for more."""
    curvature: Annotated[float, POSITIVE] = 1.0
    """k: the disc has curvature -k."""
    radius: Annotated[float, POSITIVE] | None = None
    """R: all points lie within this norm. None: agreed by a secure maximum."""
    capacity: Annotated[int, Between(1, 10**7)] | None = None
    """K_max: no site has more non-empty bins. None: agreed by a secure maximum (Section 5.5)."""
    h: Annotated[int, Between(1, 32)] | None = None
    """How many hulls may meet in one bin (Section 5.4). None: as many as fit, up to 6."""
    embedding: Literal["none", "discriminant"] = "none"
    """"none": rows are points of the disc. "discriminant": a joint map to the disc is made first."""
    min_rows: Annotated[int, Between(0)] = 2
    """Sites refuse to send the hull of a class with fewer rows."""
    min_sites: Annotated[int, Between(1)] = 2
    """The fewest sites that make a result."""
    as_published: bool = False
    """Follow the reference implementation in details that change digits (see `Hulls.published`)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        edge = 1 / math.sqrt(self.curvature)
        if self.radius is not None and not self.radius < edge:
            raise InputError(f"radius={self.radius} given; wanted less than {edge:.6g}, the edge of the disc")

    @property
    def maps(self) -> bool:
        """Whether a joint map to the disc is made first."""
        return self.embedding != "none"

    @property
    def settled(self) -> bool:
        """Whether the settings leave nothing to agree on before hulls travel."""
        return None not in (self.radius, self.capacity, self.n_classes)
