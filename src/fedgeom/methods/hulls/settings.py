"""The settings of Hulls, which both halves know."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from fedgeom.errors import InputError
from fedgeom.federation.settings import POSITIVE, Between, ClassNames, Settings

MOST_MEETING_SHARED = 8
"""The largest h with shared names: with few labels of a high order these take long, and much memory, to make."""

Grouping = Literal["constrained", "spectral", "kernighan-lin", "published"]


@dataclass(frozen=True, kw_only=True)
class HullSettings(Settings):
    """Grid, hulls, grouping, classifier, and who may take part."""

    epsilon: Annotated[float, POSITIVE] = 0.01
    """ε, Definition 2: points of one bin are at most this far apart."""
    grid: Literal["polar", "equal-area"] = "polar"
    """Bins of rings of equal breadth (Section 5.2), or of equal area (Appendix C), which are many more."""
    names: Literal["own", "shared"] = "own"
    """"own": sites have names of their own, and hulls are matched. "shared": a name means one thing everywhere."""
    classes: ClassNames = None
    """With shared names: the agreed names. None: the union of the sites' names, which the sites work out themselves."""
    n_classes: Annotated[int, Between(2, 4096)] | Literal["most"] | None = None
    """J, with own names. None or "most": the most classes any site has; "most" says that some site has them all."""
    trim: Annotated[float, Between(0, 1, open_high=True)] | Literal["auto"] = "auto"
    """The share of outlying points kept out of each hull; 0 is the paper, "auto" depends on the class's size."""
    C: Annotated[float, POSITIVE] = 5.0
    """λ, Eq. 7."""
    loss: Literal["squared_hinge", "hinge"] = "squared_hinge"
    """How violations count: "hinge" is Eq. 7 as printed, "squared_hinge" what the published figures rest on."""
    margin: Literal["soft", "hard"] = "soft"
    """"hard" is Eq. 6, without λ: the run ends without a model where no hyperplane separates the corners."""
    space: Literal["poincare", "euclidean"] = "poincare"
    """Where the SVM works on the corners: in the disc (the paper's FLP), or on its flat coordinates (FLE)."""
    n_pairs: Annotated[int, Between(1)] = 3
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
    embedding: Literal["none", "discriminant", "map"] = "none"
    """"none": rows are points of the disc. "discriminant": a joint map to the disc is made first, in which classes lie
    far apart. "map": rows are put on a joint Poincaré map, which no label decides (`PoincareMap`)."""
    scale: Literal["auto", "site", "joint"] = "auto"
    """How the map standardises columns: by each "site" itself, or "joint"ly, which sites that lack classes need.
    "auto": jointly with shared names, by each site with own ones."""
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
        if self.shared and self.n_classes is not None:
            raise InputError(
                f'n_classes={self.n_classes!r} given with names="shared"; the classes are then the names: leave '
                "n_classes out, or list the names in classes=[…]"
            )
        if self.shared and self.h is not None and self.h > MOST_MEETING_SHARED:
            raise InputError(f'h={self.h} given with names="shared"; wanted {MOST_MEETING_SHARED} at most')
        if self.classes is not None and not self.shared:
            raise InputError(
                'classes=[…] given with names="own"; names of a site\'s own cannot be listed: say names="shared", or '
                "how many classes there are, n_classes=…"
            )

    @property
    def shared(self) -> bool:
        """Whether a name means one thing everywhere."""
        return self.names == "shared"

    @property
    def equal_area(self) -> bool:
        """Whether the grid's bins have equal areas."""
        return self.grid == "equal-area"

    @property
    def agrees_on_names(self) -> bool:
        """Whether sites tell their names at all: with own names they never leave the site."""
        return self.shared

    @property
    def given_classes(self) -> int | None:
        """J, where the settings say it; None: the most at any site, or the names that sites agree on."""
        return self.n_classes if isinstance(self.n_classes, int) else None

    @property
    def joint_scale(self) -> bool:
        """Whether the map standardises all rows by the sites' average scale."""
        return self.maps and (self.scale == "joint" or (self.scale == "auto" and self.shared))

    @property
    def maps(self) -> bool:
        """Whether a joint map to the disc is made first, from the classes' scatter."""
        return self.embedding == "discriminant"

    @property
    def settled(self) -> bool:
        """Whether the settings leave nothing to agree on before hulls travel."""
        known = self.shared or self.given_classes is not None
        return known and None not in (self.radius, self.capacity)
