"""What a run of `Ridge` costs: its messages, in the order in which they are sent."""

from __future__ import annotations

import numpy as np

from fedgeom.federation.messages import Array
from fedgeom.methods.ridge.core import TEMPERATURES, starts
from fedgeom.methods.ridge.messages import (
    CheckPart,
    CountPatches,
    Settle,
    SolutionTaken,
    SumClusters,
    SumColumns,
    SumEvidence,
    SumGram,
    SumPatches,
    SumSurprise,
    TakeSolution,
)
from fedgeom.methods.ridge.personal import STRENGTHS
from fedgeom.methods.ridge.settings import RidgeSettings
from fedgeom.methods.ridge.statistics import Plan, gram_parts
from fedgeom.protocols.costs import Sheet
from fedgeom.protocols.model_delivery import ModelTaken, TakeResult
from fedgeom.protocols.secure_sum.messages import SumResult


def write_costs(settings: RidgeSettings, sheet: Sheet) -> None:
    """Write down a run: join, agree on names, make features, sum, solve, let the sites check, calibrate."""
    sheet.join()
    sheet.agree_on_names(settings.classes)
    count = len(sheet.classes)
    plan = Plan(settings, sheet.seed, sheet.policy.class_floors, sheet.columns, count)
    last = _features(plan, sheet)
    at, width = starts(plan.width, count), plan.width
    results = []
    for part, (first, end) in enumerate(gram_parts(settings, width, count)):
        size = int(at[end] - at[first])
        ask = SumGram(last=last, classes=sheet.classes, part=part)
        results.append(sheet.sum(ask, size, work=1e-9 * sheet.rows * size))
    weights = Array.of(np.zeros((width + 1, count)))
    sheet.ask(TakeSolution(weights=weights, alpha=1.0, freedom=1.0), SolutionTaken())
    for number, result in enumerate(results):
        sheet.ask(CheckPart(number=number, result=result), SolutionTaken(), work=4e-9 * len(result.total.data))
    scored = 1e-9 * sheet.rows * width * count
    result = sheet.sum(SumSurprise(), len(TEMPERATURES), work=scored)
    evidence = sheet.sum(SumEvidence(), len(STRENGTHS) + 1) if settings.personal else None
    sheet.ask(TakeResult(result=result), ModelTaken(), work=scored)
    if evidence is not None:
        sheet.ask(Settle(evidence=evidence), SolutionTaken())
        sheet.costs.left_out.append("the choice of personal models")
    sheet.evaluate()


def _features(plan: Plan, sheet: Sheet) -> SumResult:
    """Write down the sums that features are made from; return the last."""
    conv, cells = plan.settings.conv, plan.cells
    last = sheet.sum(SumColumns(classes=sheet.classes), 2 * (plan.classes + 2 * plan.columns))
    if conv is not None:
        last = sheet.sum(SumPatches(last=last), 1 + cells + cells * (cells + 1) // 2)
        for _ in range(conv.rounds):
            last = sheet.sum(CountPatches(last=last), 2 * conv.filters)
            last = sheet.sum(SumClusters(last=last), conv.filters * cells)
        sheet.costs.left_out.append("that clusters of few patches are not summed")
    return last
