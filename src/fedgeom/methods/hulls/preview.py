"""What a question of the hulls method would take from a site's rows: the corners of its hulls, rounded to the grid."""

from __future__ import annotations

from fedgeom.data.sites import SiteData
from fedgeom.federation.shown_rows import ShownRows
from fedgeom.methods.hulls import embedding as joint_map
from fedgeom.methods.hulls.core import class_hulls, rounded_hulls
from fedgeom.methods.hulls.messages import EncodeCorners, EncodeHulls


def corners(site: SiteData, question: EncodeHulls | EncodeCorners, trim: float | str) -> list[ShownRows]:
    """Return the corners of each class's hull as the site makes them for this question.

    A joint scale is the site's own here: in a preview the other sites' rows are the site's own, a little shaken.
    """
    grid, X = question.plan.grid, site.X
    if question.embedding is not None:
        scales = joint_map.column_scales(X)
        X = joint_map.embed(X, question.embedding.numpy(), scales, c=question.plan.curvature)
    labels = site.y.astype(str)
    hulls, found = class_hulls(X, labels, trim, c=question.plan.curvature), []
    for label, bins in rounded_hulls(hulls, grid).items():
        points = X[labels == label]
        found.append(
            ShownRows(label, len(points), len(bins), points, grid.center(bins), len(hulls[label].corners))
        )
    return found
