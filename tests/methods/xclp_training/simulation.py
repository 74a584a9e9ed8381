"""Training with pseudo-labels in one loop, as Algorithm 2 writes it, for every engine, network and scale.

The steps are fedgeom's own functions; the order in which they are taken is written here once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedgeom.arrays import Floats, Ints
from fedgeom.data.sites import SiteData
from fedgeom.federation.plain import Plain
from fedgeom.methods.iterative import setup
from fedgeom.methods.iterative.model import is_joint
from fedgeom.methods.iterative.settings import Round
from fedgeom.methods.iterative.site import LAST, generator
from fedgeom.methods.iterative.summed import Summed, combined
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.tree import State, Tree
from fedgeom.methods.xclp.core import label_numbers, own_label_counts
from fedgeom.methods.xclp.settings import XclpSettings
from fedgeom.methods.xclp_training.pseudo import Pseudo, capped
from fedgeom.methods.xclp_training.settings import XclpTrainingSettings
from fedgeom.methods.xclp_training.site import HalvedEffort
from papers.xclp.plain import plain_of
from tests.methods.iterative.simulation import model_of


def simulate(method: XclpTrainingSettings, sites: Sequence[SiteData], seed: int = 0) -> Plain:
    """Train as a run does when no site is lost, with the same draws of sites; no rows are set aside."""
    twin = _Twin(method, sorted(sites, key=lambda site: site.name), seed)
    state = Tree(method.start(method.shared(twin.first)))
    for number in range(method.n_rounds):
        given, chosen = state.select(method.gives), twin.drawn(number)
        if method.labels_in(number):
            twin.label(given, chosen)
        state = twin.round(number, state, given, chosen)
    return twin.outcome(state)


class _Twin:
    """All sites in one place."""

    def __init__(self, method: XclpTrainingSettings, sites: list[SiteData], seed: int):
        self.method, self.sites, self.seed = method, sites, seed
        self.names = method.classes or tuple(sorted({name for site in sites for name in own_label_counts(site.y)}))
        self.learner, self.columns = method.build_learner(), sites[0].shape[1]
        self.first = Tree(
            self.learner.start(self.columns, len(self.names), np.random.default_rng([seed % 2**63, 0]))
        )
        self.scale = setup.scales(method, sites)
        self.known: list[Ints] = [label_numbers(site.y, self.names) for site in sites]
        self.pseudo = [Pseudo(np.full(len(site), -1), np.zeros(len(site))) for site in sites]
        self.labelled: set[int] = set()
        self.owns = [State() for _ in sites]
        self.form = Summed.of(method, Tree(method.sent_like(method.shared(self.first))), self.learner.statistics)

    def whole(self, at: int) -> Task:
        """Return a task of all rows of a site."""
        rows = setup.scaled(setup.rows_of(self.sites[at], self.learner.dtype), *self.scale[at], self.learner.dtype)
        y, rng = np.zeros(len(rows), np.int64), generator(self.seed, LAST, self.sites[at].name)
        effort = self.method.effort()
        return Task(self.learner, rows, y, effort, rng, len(self.names), self.first, self.method.loss_of_rows)

    def drawn(self, number: int) -> list[int]:
        """Return the places of the sites that train in a round."""
        chosen = set(self.method.drawn([site.name for site in self.sites], self.seed, number))
        return [at for at, site in enumerate(self.sites) if site.name in chosen]

    def label(self, given: State, chosen: Sequence[int]) -> None:
        """Give sites their pseudo-labels, by the features of the model that they are given (lines 6 and 7)."""
        method, lasting = self.method, self.method.source.lasting
        chosen = [at for at in chosen if not (lasting and at in self.labelled)]
        tasks = [self.whole(at) for at in chosen]
        models = [
            method.whole(task, given["model"], self.owns[at]) for at, task in zip(chosen, tasks, strict=True)
        ]
        known = [self.known[at] for at in chosen]
        found: Sequence[Pseudo | None]
        if method.xclp is not None:
            features = [np.asarray(t.features(m), np.float64) for t, m in zip(tasks, models, strict=True)]
            found = spread(method.xclp, features, known, len(self.names), self.seed)
        else:
            found = [method.source.at_site(*one) for one in zip(tasks, models, known, strict=True)]
        for at, new in zip(chosen, found, strict=True):
            self.pseudo[at] = new or self.pseudo[at]
        self.labelled |= set(chosen)

    def task(self, at: int, number: int) -> Task:
        """Return the rows that a site trains on in a round."""
        method, task, own, found = self.method, self.whole(at), self.known[at] >= 0, self.pseudo[at]
        likely = (found.codes >= 0) & ~own & (found.weights > 0) & (number >= method.first_spread)
        use = own | likely
        weights = np.where(own, 1.0, found.weights)[use] if likely.any() else None
        effort = method.effort(method.learning_rate if number == LAST else method.rate_in(number))
        if method.half_labelled:
            effort = HalvedEffort(**vars(effort) | {"labelled": own[use]})
        y, rng = np.where(own, self.known[at], found.codes)[use], generator(self.seed, number, self.sites[at].name)
        return replace(task, X=task.X[use], y=y, effort=effort, rng=rng, round=number, row_weights=weights)

    def round(self, number: int, state: State, given: State, chosen: Sequence[int]) -> State:
        """Let the sites of a round train, and combine (lines 8 to 10)."""
        method, tasks = self.method, [self.task(at, number) for at in chosen]
        sent = [method.train(task, given.copy(), self.owns[at]) for at, task in zip(chosen, tasks, strict=True)]
        weights = np.array([method.weight(task) for task in tasks])
        if not weights.any():
            return state
        whole = float(sum(map(len, self.sites))) if method.counts_rows else float(len(chosen))
        mean = combined(method, self.form, sent, weights, given, whole).mean.flat()
        rng = np.random.default_rng([self.seed % 2**63, number, 2])
        like = Tree(method.sent_like(method.shared(self.first))).like(mean)
        return method.next_state(
            state, like, Round(number, len(chosen) / len(self.sites), rng), self.learner.statistics
        )

    def outcome(self, state: State) -> Plain:
        """Return the joint model, and what every site has."""
        method, local = self.method, dict[str, dict[str, Any]]()
        joint = self.scale[0] if method.scale != "site" else (None, None)
        model = model_of(method, self.names, self.first | state["model"], self.columns, joint)
        for at, site in enumerate(self.sites):
            own = method.personalise(self.task(at, LAST), state.select(method.gives).copy(), self.owns[at])
            centre, spread_ = self.scale[at]
            local[site.name] = {
                "model": Tree(own).flat(),
                "centre": centre,
                "spread": spread_,
                "classes": list(self.names),
            }
        return Plain(replace(model, joint=is_joint(method, self.first)), local)


def spread(
    settings: XclpSettings, features: Sequence[Floats], known: Sequence[Ints], classes: int, seed: int
) -> list[Pseudo]:
    """Run XCLP on pooled features, (rows, d) of each site; ``known`` (rows,) has classes, -1 for rows without label."""
    if not any((one >= 0).any() for one in known):
        return [Pseudo(np.full(len(one), -1), np.zeros(len(one))) for one in known]
    found = plain_of(settings, list(zip(features, known, strict=True)), tuple(range(classes)), seed)
    return [Pseudo(one.codes, capped(one.confidence)) for one in found.sites]
