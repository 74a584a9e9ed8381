"""What a run of iterative training costs: its messages, in the order in which they are sent.

Training itself is not counted: how long a learner takes for its steps only it can tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedgeom.federation.privacy import privacy_of
from fedgeom.methods.iterative.messages import Finish, Finished, TrainMasked, TrainOpen, Update
from fedgeom.methods.iterative.private import bounds
from fedgeom.methods.iterative.setup import Begin, Ready, SumColumns, SumRows
from fedgeom.methods.iterative.summed import Summed
from fedgeom.methods.iterative.training import how_many
from fedgeom.methods.iterative.tree import Tree, to_wire
from fedgeom.protocols.costs import KEY, Sheet

if TYPE_CHECKING:
    from fedgeom.methods.iterative.settings import TrainingRule


def write_costs(rule: TrainingRule, sheet: Sheet) -> None:
    """Write down a run: join, agree on classes and scale, train in rounds, hand out the model."""
    sheet.join()
    sheet.agree_on_names(rule.classes)
    sums = sheet.sum(SumColumns(), 1 + 2 * sheet.columns) if rule.scale == "joint" else None
    rows = sheet.sum(SumRows(), 1) if rule.sums_rows else None
    sheet.ask(Begin(classes=sheet.classes, columns=sums, rows=rows), Ready())
    learner = rule.build_learner()
    first = Tree(learner.start(sheet.columns + rule.extra_columns, len(sheet.classes), np.random.default_rng(0)))
    shared = rule.shared(first)
    state, like = Tree(rule.start(shared)), Tree(rule.sent_like(shared))
    given, figures = to_wire(state.select(rule.gives)), how_many(rule.validation)
    length, privacy = Summed.of(rule, like, learner.statistics).length(figures), privacy_of(rule)
    if privacy is not None:
        length = bounds(rule, privacy, shared.size)["numbers"]

    def masked(number: int, times: int) -> None:
        factors = dict.fromkeys(sheet.names, 1.0)
        sheet.sum(TrainMasked(round=number, given=given, factors=factors, agreed=KEY), length, times=times)

    def shown(number: int, times: int) -> None:
        update = Update(sent=to_wire(like), weight=1.0, figures=(0.0,) * figures)
        sheet.ask(TrainOpen(round=number, given=given, agreed=KEY), update, times=times)

    if rule.sends:
        sheet.in_rounds(rule.rounds, masked if rule.masked else shown)
    sheet.ask(Finish(given=given), Finished())
    sheet.costs.left_out.append("the sites' training")
    if rule.share < 1 or rule.patience is not None:
        sheet.costs.left_out.append("that not all sites train in every round, or not all rounds are held")
    sheet.evaluate()
