"""Training in one loop: a second way to every run's result, for every algorithm, learner, scale and aggregation.

The steps are fedgeom's own functions; rounds, weights, groups and who gets what are written here once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedgeom.arrays import Floats
from fedgeom.data.sites import SiteData
from fedgeom.federation.plain import Plain
from fedgeom.methods.iterative import setup
from fedgeom.methods.iterative.group_training import scale_of_groups
from fedgeom.methods.iterative.model import TrainedModel, is_joint
from fedgeom.methods.iterative.settings import Round, TrainingRule
from fedgeom.methods.iterative.setup import label_indices
from fedgeom.methods.iterative.site import LAST, generator
from fedgeom.methods.iterative.summed import Summed, combined
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.tree import State, Tree
from fedgeom.protocols.fixed_point import fixed_sum
from fedgeom.protocols.secure_sum.rules import GroupDraw


def simulate(rule: TrainingRule, sites: Sequence[SiteData], seed: int = 0) -> Plain:
    """Train as a run does when no site is lost: every site in every round, no rows set aside, no clusters."""
    ordered = sorted(sites, key=lambda site: site.name)
    names = rule.classes or tuple(sorted({str(name) for site in sites for name in site.classes.tolist()}))
    columns, learner = ordered[0].shape[1], rule.build_learner()
    first = Tree(learner.start(columns, len(names), np.random.default_rng([seed % 2**63, 0])))
    draw = rule.group_draw
    groups = [] if draw is None else places_of_groups(draw, [site.name for site in ordered], seed)
    scale = scales_of_groups(ordered, groups) if groups and rule.scale == "joint" else setup.scales(rule, ordered)

    def task(at: int, number: int) -> Task:
        site, (centre, spread) = ordered[at], scale[at]
        effort = rule.effort(rule.learning_rate if number == LAST else rule.rate_in(number))
        rows, y = setup.rows_of(site, learner.dtype), label_indices(site.y, names)
        rows = setup.scaled(rows, centre, spread, learner.dtype)
        rng = generator(seed, number, site.name)
        step = rule.local_step if rule.has_own("local_step") else None
        return Task(learner, rows, y, effort, rng, len(names), first, rule.loss_of_rows, number, step=step)

    shared = rule.shared(first)
    like, state, owns = Tree(rule.sent_like(shared)), Tree(rule.start(shared)), [State() for _ in ordered]
    form = Summed.of(rule, like, learner.statistics)
    weights = np.array([float(len(site)) if rule.weights == "rows" else 1.0 for site in ordered])
    for number in range(rule.n_rounds if rule.sends else 0):
        given = state.select(rule.gives)
        sent = [rule.train(task(at, number), given.copy(), owns[at]) for at in range(len(ordered))]
        if groups:
            mean = middle_of_groups(rule, form, sent, weights, given, groups)
        else:
            mean = combined(rule, form, sent, weights, given).mean.flat()
        rng = np.random.default_rng([seed % 2**63, number, 2])
        state = rule.next_state(state, like.like(mean), Round(number, 1.0, rng), learner.statistics)
    known = scale[0] if rule.scale != "site" else (None, None)
    made = model_of(rule, names, first | state["model"], columns, known)
    model = replace(made, joint=is_joint(rule, first))
    local = {}
    for at, site in enumerate(ordered):
        own = Tree(rule.personalise(task(at, LAST), state.select(rule.gives).copy(), owns[at]))
        centre, spread = scale[at]
        local[site.name] = {"model": own.flat(), "centre": centre, "spread": spread, "classes": list(names)}
    return Plain(model, local)


def model_of(
    rule: Any, names: Sequence[str], parameters: Tree, columns: int, scale: tuple[Any, Any]
) -> TrainedModel:
    """Return the model with these parameters that a run of the rule leaves."""
    return TrainedModel(
        method=getattr(rule, "name", "fedavg"),  # what a rule without a name does
        names=tuple(names),
        learner=str(rule.learner),
        options=rule.learner_options(),
        parameters=parameters.copy(),
        columns=columns,
        centre=scale[0],
        spread=scale[1],
    )


def places_of_groups(draw: GroupDraw, names: Sequence[str], seed: int) -> list[list[int]]:
    """Return, for each group that is drawn by the seed, the places of its sites among the names."""
    groups = GroupDraw(draw.count, "seed").groups(names, seed, b"")
    return [[names.index(name) for name in group] for group in groups]


def scales_of_groups(sites: Sequence[SiteData], groups: Sequence[Sequence[int]]) -> list[tuple[Floats, Floats]]:
    """Return the scale that follows from the column sums of the groups, for each site."""
    sums = [setup.site_sums(site) for site in sites]
    summed = [fixed_sum([sums[at] for at in one], fraction_bits=setup.FRACTION_BITS) for one in groups]
    return [scale_of_groups(summed)] * len(sites)


def middle_of_groups(
    rule: TrainingRule,
    form: Summed,
    sent: Sequence[State],
    weights: Floats,
    given: State,
    groups: Sequence[Sequence[int]],
) -> Floats:
    """Return the median of the groups' means."""
    parts = [(np.asarray(one), float(weights[one].sum())) for one in groups if weights[one].sum() > 0]
    means = [form.mean([sent[at] for at in one], weights[one], given, total).mean.flat() for one, total in parts]
    return rule.combine_rule(np.array(means), np.ones(len(means)))
