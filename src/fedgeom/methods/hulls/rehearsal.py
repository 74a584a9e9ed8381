"""What the hulls of a run will be like, found where one process has all tables: for plans and previews."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedgeom.arrays import Floats
from fedgeom.data.sites import SiteData
from fedgeom.federation.method import ShownRows
from fedgeom.federation.plan import Shape
from fedgeom.methods.hulls import embedding as joint_map
from fedgeom.methods.hulls.core import (
    class_hulls,
    count_of_level,
    hulls_by_name,
    level_of_count,
    reach_levels,
    rounded_hulls,
)
from fedgeom.methods.hulls.messages import EncodeCorners, EncodeHulls, SumScatter
from fedgeom.methods.hulls.settings import HullSettings
from fedgeom.protocols.fixed_point import fixed_sum

Mapped = tuple[Floats | None, Floats | None]
"""The joint map, (columns, 2), f8, and its scale, (2·columns,), f8; None where rows are in the disc already."""


def joint_points(settings: HullSettings, sites: Sequence[SiteData]) -> tuple[list[Floats], Mapped]:
    """Return the sites' rows as points of the disc, and the joint map with its scale."""
    if not settings.maps:
        return [site.X for site in sites], (None, None)
    columns = sites[0].X.shape[1]
    bits = SumScatter.fraction_bits
    joint = None
    if settings.joint_scale:
        total = fixed_sum([joint_map.site_scale(site.X) for site in sites], fraction_bits=bits)
        joint = joint_map.joint_scales(total, columns)
    scatter = [joint_map.site_scatter(site.X, site.y.astype(str), joint) for site in sites]
    total = fixed_sum(scatter, fraction_bits=bits)
    matrix = joint_map.projection(total, columns)
    own = [joint_map.column_scales(site.X) if joint is None else joint for site in sites]
    points = [joint_map.embed(s.X, matrix, one, c=settings.curvature) for s, one in zip(sites, own, strict=True)]
    return points, (matrix, joint_map.joint_scales(total, columns) if joint is None else joint)


def joint_reach(settings: HullSettings, points: Sequence[Floats], sites: Sequence[SiteData]) -> list[int]:
    """Return what the sites would agree on: levels of classes, hull points and radius, and all hull points."""
    both = zip(points, sites, strict=True)
    c = settings.curvature
    found = [(rows, hulls_by_name(rows, site.y, settings.trim, c=c)) for rows, site in both]
    levels = [reach_levels(rows, hulls, c=c) for rows, hulls in found]
    in_all = sum(count_of_level(count) for _, count, _ in levels)
    return [*(int(level) for level in np.max(levels, axis=0)), in_all]


OUTERMOST = 60
"""The level of the radius where no rows can be looked at: 3, of hyperbolic radii."""
SYMBOL_SECONDS = 2e-7
"""Seconds to encode a symbol of a word, for some dozens of bins."""


def foreseen_levels(settings: HullSettings, shape: Shape) -> tuple[list[int], str]:
    """Return the levels on which sites will agree, and what decides them where that is not known yet.

    Where one process has all tables the hulls are found; else every row might be a corner.
    """
    if settings.settled:
        return [0, 0, 0, 0], ""
    if shape.tables:
        points, _ = joint_points(settings, shape.tables)
        if _inside(points, settings):
            levels = joint_reach(settings, points, shape.tables)
            if len(shape.tables) == shape.n_sites:
                return levels, ""
            levels[3] = shape.n_sites * count_of_level(levels[1])
            return levels, "how many corners the hulls have: as many at every site as at any whose table is here"
    level = level_of_count(max(shape.rows, 1))
    levels = [max(shape.n_classes, 2), level, OUTERMOST, shape.n_sites * count_of_level(level)]
    return levels, "how many corners the hulls have: at most one for each row"


def _inside(points: Sequence[Floats], settings: HullSettings) -> bool:
    return all(bool((np.einsum("ij,ij->i", rows, rows) * settings.curvature < 1).all()) for rows in points)


def corners(site: SiteData, question: EncodeHulls | EncodeCorners, trim: float | str) -> list[ShownRows]:
    """Return the corners of each class's hull as the site makes them for this question.

    A joint scale is the site's own here: in a preview the other sites' rows are the site's own, a little shaken.
    """
    grid = question.plan.grid
    X = site.X
    if question.embedding is not None:
        scales = joint_map.column_scales(X)
        X = joint_map.embed(X, question.embedding.numpy(), scales, c=question.plan.curvature)
    labels = site.y.astype(str)
    hulls = class_hulls(X, labels, trim, c=question.plan.curvature)
    found = []
    for label, bins in rounded_hulls(hulls, grid).items():
        points = X[labels == label]
        found.append(
            ShownRows(label, len(points), len(bins), points, grid.center(bins), len(hulls[label].corners))
        )
    return found
