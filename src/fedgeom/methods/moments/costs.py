"""What a run of `Moments` costs: its messages, in the order in which they are sent."""

from __future__ import annotations

from fedgeom.geometry.gaussians import length
from fedgeom.methods.moments import core
from fedgeom.methods.moments.messages import SumMoments
from fedgeom.methods.moments.settings import MomentsSettings
from fedgeom.protocols.costs import Sheet
from fedgeom.protocols.model_delivery import ModelTaken, TakeResult


def write_costs(settings: MomentsSettings, sheet: Sheet) -> None:
    """Write down a run: join, agree on names, sum, tell."""
    sheet.join()
    sheet.agree_on_names(settings.classes)
    count = length if settings.clip is None else core.numbers
    size = count(len(sheet.classes), sheet.columns, squares=settings.squares)
    ask = SumMoments(classes=sheet.classes, curvature=settings.c)
    products = sheet.rows * sheet.columns * (sheet.columns if settings.squares else 1)
    result = sheet.sum(ask, size, work=1e-9 * products)
    sheet.ask(TakeResult(result=result), ModelTaken(), work=1e-9 * products + 2e-9 * size * sheet.columns)
    sheet.evaluate()
