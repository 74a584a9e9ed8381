"""What a run of `Hulls` costs: its messages, in the order in which they are sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fedgeom.arrays import Floats
from fedgeom.codes.scma import ScmaCode
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation.messages import Array
from fedgeom.federation.method import MessageSizes, ShownRows
from fedgeom.methods.hulls import embedding as joint_map
from fedgeom.methods.hulls.core import (
    REACH,
    class_hulls,
    count_of_level,
    hulls_by_name,
    level_of_count,
    reach_levels,
    rounded_hulls,
)
from fedgeom.methods.hulls.encoding import HullPlan
from fedgeom.methods.hulls.matching import Evidence
from fedgeom.methods.hulls.messages import EncodeCorners, EncodeHulls, Learn, Learnt, Reach, SumScales, SumScatter
from fedgeom.methods.hulls.model import HullModel
from fedgeom.methods.hulls.settings import HullSettings
from fedgeom.protocols import maximum
from fedgeom.protocols.costs import Sheet
from fedgeom.protocols.fixed_point import fixed_sum
from fedgeom.protocols.secure_sum.messages import SumQuestion

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


CORNERS = 40
"""Corners of a site's hulls where nobody can look at rows: what some hundred rows in few classes have."""
OUTERMOST = 60
"""The level of the radius there: 3, of hyperbolic radii."""
WORD = 2e-7
"""Seconds to encode a symbol of a word, for some dozens of bins."""


def leaving(settings: HullSettings) -> tuple[str, ...]:
    """Return what settings let leave a site: of a joint map its sums, and hulls or, with shared names, corners."""
    asked: list[type[SumQuestion]] = [SumScatter] if settings.maps else []
    if settings.maps and settings.joint_scale:
        asked.insert(0, SumScales)
    if not settings.settled:
        asked.append(Reach)
    asked.append(EncodeCorners if settings.shared else EncodeHulls)
    return tuple(one.answer_reveals for one in asked)


def write_costs(
    settings: HullSettings, sheet: Sheet, make_plan: Callable[[Sequence[int], int, int], HullPlan]
) -> None:
    """Write down a run: join, agree, sum, tell; ``make_plan`` makes the plan from levels, sites and words."""
    sheet.join()
    if settings.shared:
        sheet.agree_on_names(settings.classes)
    columns, words, embedding, scatter, scales = sheet.columns, len(sheet.classes), None, None, None
    if settings.maps:
        if settings.joint_scale:
            scales = sheet.sum(SumScales(), joint_map.scale_length(columns))
        work = 2e-9 * sheet.rows * columns**2
        scatter = sheet.sum(SumScatter(scales=scales), joint_map.scatter_length(columns), work=work)
        embedding = Array.of(np.zeros((columns, 2)))
    level = level_of_count(min(CORNERS, max(sheet.rows, 1)))
    levels = [words, level, OUTERMOST, sheet.n * count_of_level(level)]
    if sheet.tables:
        points, _ = joint_points(settings, sheet.tables)
        levels = joint_reach(settings, points, sheet.tables)
    elif not settings.settled:
        sheet.costs.left_out.append(f"how many corners there are: {CORNERS} a site are assumed")
    hulls_work = 2e-7 * sheet.rows + 2e-3
    if not settings.settled:
        ask = Reach(embedding=embedding, scatter=scatter)
        sheet.sum(ask, REACH, modulus=maximum.MODULUS, work=hulls_work)
        scatter = None
    plan = make_plan(levels, sheet.n, words if settings.shared else 0)
    encode: type[EncodeHulls | EncodeCorners] = EncodeCorners if settings.shared else EncodeHulls
    word = encode(plan=plan, embedding=embedding, scatter=scatter)
    sheet.sum(word, plan.code.length, modulus=plan.code.modulus, work=hulls_work + WORD * plan.code.length)
    sheet.ask(_learn(settings, sheet, plan), Learnt())
    sheet.evaluate(plan.classes)


def _learn(settings: HullSettings, sheet: Sheet, plan: HullPlan) -> Learn:
    """Return what sites are told, of numbers that could be: a class that no other site has is told in fewer bytes."""
    planes = 1 if plan.classes == 2 else plan.classes
    blank = np.zeros((planes, 2))
    model = HullModel(
        blank,
        blank,
        blank,
        plan.classes,
        float(settings.curvature),
        np.zeros((sheet.columns, 2)) if settings.maps else None,
        np.zeros((2, sheet.columns)) if settings.maps else None,
        sheet.classes if settings.shared else (),
    ).to_bytes()
    if settings.shared:
        return Learn(groups=(), model=model)
    labels = plan.classes * plan.blocks
    known = Evidence(own=0.5, rival=0, other=0.5)
    return Learn(groups=(0,) * labels, evidence=(known,) * labels, model=model)


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
