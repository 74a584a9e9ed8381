"""What a run will be like, computed where one process has all tables: rows in the disc, and how long words become."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fedgeom.arrays import Floats
from fedgeom.codes.scma import ScmaCode
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation.method import MessageSizes
from fedgeom.methods.hulls import embedding as joint_map
from fedgeom.methods.hulls.core import REACH, count_of_level, hulls_by_name, level_of_count, reach_levels
from fedgeom.methods.hulls.messages import SumScatter
from fedgeom.methods.hulls.plan import HullPlan
from fedgeom.methods.hulls.settings import HullSettings
from fedgeom.protocols.fixed_point import fixed_sum

Mapped = tuple[Floats | None, Floats | None]
"""The joint map, (columns, 2), f8, and its scale, (2·columns,), f8; None where rows are in the disc already."""


SHORT = 2**17
"""Words of no more symbols, a mebibyte, are no matter: how long they become need not be known better."""


def joint_points(settings: HullSettings, sites: Sequence[SiteData]) -> tuple[list[Floats], Mapped]:
    """Return the sites' rows as points of the disc, and the joint map with its scale."""
    if not settings.maps:
        return [site.X for site in sites], (None, None)
    columns, bits, joint = sites[0].X.shape[1], SumScatter.fraction_bits, None
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


def sizes_of(settings: HullSettings, sites: Sequence[SiteData], word: int) -> MessageSizes:
    """Return the size of the largest of scatter, levels that are agreed on, and a word of so many symbols."""
    scatter = 8 * joint_map.scatter_length(sites[0].shape[1]) if settings.maps else 0
    levels = 0 if settings.settled else 8 * REACH
    return MessageSizes(max(scatter, levels, 8 * word), scatter)


def longest_word(settings: HullSettings, sites: Sequence[SiteData]) -> int:
    """Return how many symbols carry all sites' hulls at most: no site has more corners than rows, in levels."""
    most = count_of_level(level_of_count(max(len(site) for site in sites)))
    return 2 * (settings.capacity or most) * len(sites) + ScmaCode.checks


def word_length(
    settings: HullSettings, sites: Sequence[SiteData], plan: Callable[[Sequence[int]], HullPlan]
) -> int:
    """Return how many symbols of 8 bytes carry all sites' hulls; ``plan`` makes the plan from the levels.

    Where they are few whatever the hulls are, a bound is returned. 0 where a run is refused for other reasons, which
    are told elsewhere.
    """
    most = longest_word(settings, sites)
    if most <= SHORT:
        return most
    points, _ = joint_points(settings, sites)
    inside = all(bool((np.einsum("ij,ij->i", rows, rows) * settings.curvature < 1).all()) for rows in points)
    try:
        return plan(joint_reach(settings, points, sites)).length if inside else 0
    except InputError:
        return 0
