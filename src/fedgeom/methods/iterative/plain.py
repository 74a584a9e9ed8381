"""The plain twins: the same training in one process, without messages, and training on pooled rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.methods.iterative import scaling
from fedgeom.methods.iterative.aggregation import aggregate, fixed_sum
from fedgeom.methods.iterative.algorithm import Row, State
from fedgeom.methods.iterative.algorithms.fedavg import FedAvg
from fedgeom.methods.iterative.model import TrainedModel
from fedgeom.methods.iterative.site import LAST, generator
from fedgeom.methods.iterative.tabular import TabularMethod
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.vectors import Layout, Vector


@dataclass(frozen=True)
class Simulation:
    """What a run would have yielded: the joint model and each site's own."""

    model: TrainedModel
    personal: dict[str, TrainedModel]


def simulate(row: Row, sites: Sequence[SiteData], seed: int = 0) -> Simulation:
    """Train as a run does when no site is lost: every site in every round, no rows set aside, no groups."""
    if row.share < 1 or row.validation or row.groups > 1 or row.extra_columns:
        raise InputError(
            "the plain twin has no sampling, no rows set aside, no groups and no added columns; use fedgeom.run"
        )
    ordered = sorted(sites, key=lambda site: site.name)
    names = row.classes or tuple(sorted({str(name) for site in sites for name in site.classes.tolist()}))
    columns, learner = ordered[0].X.shape[1], row.build_learner()
    first = learner.start(columns, len(names), np.random.default_rng([seed % 2**63, 0]))
    layout = Layout.of(first)
    scale = scales(row, ordered)
    places = {name: place for place, name in enumerate(names)}

    def task(at: int, round: int) -> Task:
        site, (centre, spread) = ordered[at], scale[at]
        y = np.array([places[str(label)] for label in site.y.tolist()], np.int64)
        rng = generator(seed, round, site.name)
        effort = row.effort(row.rate if round == LAST else row.rate_in(round))
        return Task(learner, layout, (site.X - centre) / spread, y, effort, rng, len(names), begun)

    begun = layout.pack(first)
    whole = begun.copy()
    shared = row.shared(layout)
    averaged = layout.mask(learner.statistics)[shared]
    state, owns = row.start(whole[shared]), [State() for _ in ordered]
    weights = np.array([float(len(site)) if row.weights == "rows" else 1.0 for site in ordered])
    for round in range(row.rounds if row.sends else 0):
        given = {name: state[name] for name in row.gives}
        sent = [row.local(task(at, round), given, owns[at]) for at in range(len(ordered))]
        matrix = np.array([np.concatenate([vectors[name] for name in row.sends]) for vectors in sent])
        mean = aggregate(row.aggregation, matrix, weights, trim=row.trim, bad=row.bad)
        parts = dict(zip(row.sends, mean.reshape(len(row.sends), -1), strict=True))
        state = row.next_state(state, parts, 1.0, averaged)
    whole[shared] = state["model"]
    joint = scale[0] if row.scale != "site" else (None, None)
    model = TrainedModel(
        method=row.name,
        names=tuple(names),
        learner=str(row.learner),
        options=row.learner_options(),
        parameters={name: array.copy() for name, array in layout.unpack(whole).items()},
        columns=columns,
        centre=joint[0],
        spread=joint[1],
    )
    personal = {}
    for at, site in enumerate(ordered):
        vector = row.personalise(task(at, LAST), {name: state[name] for name in row.gives}, owns[at])
        personal[site.name] = model.at({"model": vector, "centre": scale[at][0], "spread": scale[at][1]})
    return Simulation(model, personal)


def scales(row: TabularMethod, sites: Sequence[SiteData]) -> list[tuple[Vector, Vector]]:
    """Return what is taken off each site's columns, and what they are divided by."""
    columns = sites[0].X.shape[1]
    if row.scale == "none":
        return [(np.zeros(columns), np.ones(columns))] * len(sites)
    if row.scale == "site":
        return [scaling.scale_from(scaling.column_sums(site.X)) for site in sites]
    sums = np.array([scaling.column_sums(site.X) for site in sites])
    total = fixed_sum(sums, np.ones(len(sites)), fraction_bits=scaling.FRACTION_BITS)
    return [scaling.scale_from(total)] * len(sites)


def pooled(row: Row, sites: Sequence[SiteData], seed: int = 0) -> TrainedModel:
    """Train centrally: all rows in one place, as many passes over them as the sites make in all rounds.

    What makes the row federated or personal has no meaning there; its learner, effort and scale have.
    """
    labels = np.concatenate([site.y.astype(str) for site in sites])
    everyone = SiteData("everyone", np.vstack([site.X for site in sites]), labels)
    settings = {field.name: getattr(row, field.name) for field in fields(FedAvg)}
    settings |= {"share": 1.0, "validation": 0.0, "patience": None, "aggregation": "mean", "personal": "none"}
    settings["scale"] = "joint" if row.scale == "site" else row.scale
    return simulate(FedAvg(**settings), [everyone], seed).model
