"""What a run of `Hulls` costs: its messages, in the order in which they are sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fedgeom.federation.messages import Array
from fedgeom.methods.hulls import embedding as joint_map
from fedgeom.methods.hulls.core import REACH, count_of_level, level_of_count
from fedgeom.methods.hulls.evidence import Evidence
from fedgeom.methods.hulls.foresight import joint_points, joint_reach
from fedgeom.methods.hulls.messages import EncodeCorners, EncodeHulls, Learn, Learnt, Reach, SumScales, SumScatter
from fedgeom.methods.hulls.model import HullModel
from fedgeom.methods.hulls.plan import HullPlan
from fedgeom.methods.hulls.settings import HullSettings
from fedgeom.protocols import maximum
from fedgeom.protocols.costs import Sheet
from fedgeom.protocols.secure_sum.messages import SumQuestion

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
