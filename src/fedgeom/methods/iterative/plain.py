"""The plain twins: the same training in one process, without messages, and training on pooled rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from fedgeom.arrays import Floats
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation.plain import Plain
from fedgeom.federation.privacy import privacy_of
from fedgeom.methods.iterative import setup
from fedgeom.methods.iterative.aggregation import group_places
from fedgeom.methods.iterative.group_training import scale_of_groups
from fedgeom.methods.iterative.model import TrainedModel, is_joint
from fedgeom.methods.iterative.settings import Round, TableSettings, TrainingRule
from fedgeom.methods.iterative.setup import label_indices
from fedgeom.methods.iterative.site import LAST, generator
from fedgeom.methods.iterative.summed import Summed, combined
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.tree import State, Tree
from fedgeom.protocols.fixed_point import fixed_sum

Watch = Callable[[int, TrainedModel], None]
"""Is told the round, from 0, and the joint model after it."""


def simulate(
    rule: TrainingRule, sites: Sequence[SiteData], seed: int = 0, *, watch: Watch = lambda number, model: None
) -> Plain:
    """Train as a run does when no site is lost: every site in every round, no rows set aside, no groups."""
    if privacy_of(rule) is not None:
        raise InputError("the plain twin adds no noise; for a run with privacy use fedgeom.run")
    if rule.share < 1 or rule.validation or rule.groups > 1 or rule.extra_columns:
        raise InputError(
            "the plain twin has no sampling, no rows set aside, no groups and no added columns; use fedgeom.run"
        )
    ordered = sorted(sites, key=lambda site: site.name)
    names = rule.classes or tuple(sorted({str(name) for site in sites for name in site.classes.tolist()}))
    columns, learner = ordered[0].shape[1], rule.build_learner()
    first = Tree(learner.start(columns, len(names), np.random.default_rng([seed % 2**63, 0])))
    draw = rule.group_draw
    groups = [] if draw is None else group_places(draw, [site.name for site in ordered], seed)
    scale = scales(rule, ordered, groups)

    def task(at: int, number: int) -> Task:
        site, (centre, spread) = ordered[at], scale[at]
        effort = rule.effort(rule.rate if number == LAST else rule.rate_in(number))
        rows, y = setup.rows_of(site, learner.dtype), label_indices(site.y, names)
        rows = setup.scaled(rows, centre, spread, learner.dtype)
        rng = generator(seed, number, site.name)
        return Task(learner, rows, y, effort, rng, len(names), first, rule.loss_of_rows, number)

    def joint() -> TrainedModel:
        known = scale[0] if rule.scale != "site" else (None, None)
        made = model_of(rule, names, first | state["model"], columns, known)
        return replace(made, joint=is_joint(rule, first))

    shared = rule.shared(first)
    like, state, owns = Tree(rule.sent_like(shared)), Tree(rule.start(shared)), [State() for _ in ordered]
    form = Summed.of(rule, like, learner.statistics)
    weights = np.array([float(len(site)) if rule.weights == "rows" else 1.0 for site in ordered])
    for number in range(rule.rounds if rule.sends else 0):
        given = state.select(rule.gives)
        sent = [rule.train(task(at, number), given.copy(), owns[at]) for at in range(len(ordered))]
        mean = combined(rule, form, sent, weights, given, groups=groups).flat
        rng = np.random.default_rng([seed % 2**63, number, 2])
        state = rule.next_state(state, like.like(mean), Round(number, 1.0, rng), learner.statistics)
        watch(number, joint())
    model = joint()
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


def scales(
    settings: TableSettings, sites: Sequence[SiteData], groups: Sequence[Sequence[int]] = ()
) -> list[tuple[Floats, Floats]]:
    """Return what is taken off each site's columns, and what they are divided by.

    ``groups``: the places of the sites of each drawn group, if any. Returns for each site two of (columns,), f8.
    """
    columns = sites[0].shape[1]
    fixed = setup.fixed_scale(settings.scale, columns)
    if fixed is not None:
        return [fixed] * len(sites)
    sums = [setup.site_sums(site) for site in sites]
    if settings.scale == "site":
        return [setup.scale_from(one) for one in sums]
    if groups:
        summed = [fixed_sum([sums[at] for at in one], fraction_bits=setup.FRACTION_BITS) for one in groups]
        return [scale_of_groups(summed)] * len(sites)
    return [setup.scale_from(fixed_sum(sums, fraction_bits=setup.FRACTION_BITS))] * len(sites)


def pooled(rule: TrainingRule, sites: Sequence[SiteData], seed: int = 0) -> TrainedModel:
    """Train centrally: all rows in one place, as many passes over them as the sites make in all rounds.

    What makes the rule federated or personal has no meaning there; its learner, effort and scale have.
    """
    labels = np.concatenate([site.y.astype(str) for site in sites])
    everyone = SiteData(
        "everyone", np.vstack([setup.rows_of(site, rule.build_learner().dtype) for site in sites]), labels
    )
    settings = {field.name: getattr(rule, field.name) for field in fields(TrainingRule)}
    settings |= {"share": 1.0, "validation": 0.0, "patience": None, "aggregation": "mean", "personal": "none"}
    settings["bits"] = 64  # one site has nothing to add up
    settings["scale"] = "joint" if rule.scale == "site" else rule.scale
    found: TrainedModel = simulate(TrainingRule(**settings), [everyone], seed).model
    return found
