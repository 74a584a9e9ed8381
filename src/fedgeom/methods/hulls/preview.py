"""What a question of the hulls method would take from a site's rows: the corners of its hulls, rounded to the grid."""

from __future__ import annotations

from fedgeom.data.sites import SiteData
from fedgeom.federation.shown_rows import ShownRows
from fedgeom.methods.hulls import embedding as joint_map
from fedgeom.methods.hulls.core import corner_shares, local_hulls
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
    shares = corner_shares(X, labels, trim, c=question.plan.curvature)
    found = []
    for label, bins in local_hulls(X, labels, grid, trim).items():
        points = X[labels == label]
        extreme = round(shares[label] * len(points))
        found.append(ShownRows(label, len(points), len(bins), points, grid.center(bins), extreme))
    return found
