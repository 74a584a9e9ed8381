"""What a question of the hulls method would take from a site's rows: the corners of its hulls, rounded to the grid.

`fedgeom site preview` calls `corners` for every question of a rehearsal; see `fedgeom.deploy.preview`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fedgeom.data.sites import SiteData
from fedgeom.federation.messages import Question
from fedgeom.methods.hulls import embedding as joint_map
from fedgeom.methods.hulls.messages import EncodeHulls


@dataclass(frozen=True)
class Corners:
    """How many rows of a class would be corners of its hull."""

    label: str
    rows: int
    corners: int
    points: npt.NDArray[np.float64] = field(repr=False)
    """All rows of the class in the disc, (rows, 2)."""
    sent: npt.NDArray[np.float64] = field(repr=False)
    """The corners, rounded to the grid, (corners, 2): what the coordinator learns."""

    @property
    def share(self) -> float:
        """The share of the class's rows."""
        return self.corners / self.rows


def corners(site: SiteData, question: Question) -> list[Corners]:
    """Return the corners of each class's hull as the site makes them for this question; none for any other question."""
    from fedgeom.methods.hulls.plain import local_hulls

    if not isinstance(question, EncodeHulls):
        return []
    grid, X = question.plan.grid, site.X
    if question.embedding is not None:
        scales = joint_map.column_scales(X)
        X = joint_map.embed(X, question.embedding.numpy(), scales, c=question.plan.curvature)
    labels = site.y.astype(str)
    found = []
    for label, bins in local_hulls(X, labels, grid, question.trim).items():
        points = X[labels == label]
        found.append(Corners(label, len(points), len(bins), points, grid.center(bins)))
    return found
