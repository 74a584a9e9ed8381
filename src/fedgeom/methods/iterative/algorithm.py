"""An iterative algorithm: a training rule, with the site's and the coordinator's half of training.

A new algorithm is a subclass of `Algorithm` with one or two short functions, `local` and `combine`, and perhaps
`personalise`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from fedgeom.data.sites import SiteData
from fedgeom.data.validation import Finding, unscaled
from fedgeom.errors import InputError
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.method import Method
from fedgeom.federation.model import Model
from fedgeom.federation.plan import Ask, Plan, Shape, Sum
from fedgeom.federation.policy import Policy
from fedgeom.federation.privacy import privacy_of
from fedgeom.federation.site import Site
from fedgeom.methods.iterative.group_training import AgreeInGroups, GroupedTrainingLoop
from fedgeom.methods.iterative.messages import Finish, Finished, Masked, TrainGroup, TrainMasked, Update
from fedgeom.methods.iterative.model import TrainedModel
from fedgeom.methods.iterative.private import bounds
from fedgeom.methods.iterative.settings import TrainingRule
from fedgeom.methods.iterative.setup import AgreeOnScale, check_together
from fedgeom.methods.iterative.site import TrainingSite
from fedgeom.methods.iterative.summed import Summed
from fedgeom.methods.iterative.training import TrainingLoop, how_many
from fedgeom.methods.iterative.tree import Tree, to_wire


@dataclass(frozen=True)
class Specimen:
    """What travels in a round, of the shape that it will have."""

    given: dict[str, Any] = field(default_factory=dict)
    sent: dict[str, Any] = field(default_factory=dict)
    length: int = 1
    """How many numbers are summed."""
    numbers: int = 1
    """How many numbers a site's update has."""
    finish: dict[str, Any] = field(default_factory=dict)
    """What sites are given in the end, where that is something else."""


@dataclass(frozen=True, kw_only=True)
class Algorithm(TrainingRule, Method):
    """The base of all algorithms."""

    site: ClassVar[type[Site[Any]]] = TrainingSite
    model_type: ClassVar[type[Model]] = TrainedModel
    conversation: ClassVar[type[TrainingLoop]] = TrainingLoop
    column_floors: ClassVar[bool] = True

    def conduct(self, sites: Coordinator) -> TrainedModel:
        """Hold the conversation: join, agree on classes and scale, train in rounds, hand out the model."""
        if self.group_draw is not None:
            return GroupedTrainingLoop(self, sites).conduct()
        return self.conversation(self, sites).conduct()

    def smallest_sum(self, sites: int) -> int:
        """Return over how few of so many sites models are summed: over those that are drawn for a round."""
        return self.count_drawn(sites)

    def sums_in(self, round: int) -> int:
        """Return how many of the planned sums belong to a round of training: one for each group."""
        return self.groups if self.masked and self.sends else 0

    def first_sum(self, round: int) -> int:
        """Return the number of the first sum of a round; those of training come last but for that of the test."""
        after = sum(map(self.sums_in, range(round, self.n_rounds))) + (self.holdout is not None)
        return self.n_sums - after

    @cached_property
    def n_sums(self) -> int:
        """How many secure sums a run has."""
        return len(self.site.all_sums(self))  # type: ignore[attr-defined]

    def sum_sites(self, names: Sequence[str], seed: int) -> Sequence[Collection[str]] | None:
        """Return who may be in which sum: where a share of the sites trains in a round, those drawn for it."""
        if self.count_drawn(len(names)) >= len(names):
            return None
        everyone = frozenset(names)
        found = [everyone] * self.first_sum(0)
        for number in range(self.n_rounds):
            found += [frozenset(self.drawn(names, seed, number))] * self.sums_in(number)
        return found + [everyone] * (self.holdout is not None)

    def check_limits(self, sites: Sequence[SiteData], policy: Policy) -> None:
        """Refuse to draw fewer sites than the policy's smallest cohort."""
        self.check_drawn(len(sites), policy.min_cohort)

    def check_drawn(self, sites: int, min_cohort: int) -> None:
        """Refuse to draw so few of the sites for a round that no policy lets them be summed: nobody would train."""
        drawn = self.count_drawn(sites)
        if self.masked and self.sends and drawn < min(sites, min_cohort):
            raise InputError(
                f"participation={self.participation} given, which draws {drawn} of {sites} sites for a round; policies "
                f"ask for {min_cohort} in each sum (min_cohort), so that no round could be held. Wanted participation="
                f"{math.ceil(100 * min_cohort / sites) / 100} or more, or min_sites={min_cohort}"
            )

    def plan(self, shape: Shape) -> Plan:
        """Agree on classes and scale, train in rounds, hand out the model."""
        draw = self.group_draw
        classes = yield AgreeOnScale(self) if draw is None else AgreeInGroups(self, draw)
        state = self.specimen(shape, len(classes)) if shape.known else Specimen()
        if self.sends:
            yield from self.plan_rounds(shape, state)
        yield Ask(Finish(given=state.finish or state.given), Finished())

    def plan_rounds(self, shape: Shape, state: Specimen) -> Plan:
        """Yield the rounds of training."""
        part = self.participation < 1 or self.patience is not None
        decides = "which sites are drawn, or when patience ends" if part else ""
        if self.masked:
            yield from self._plan_sums(shape, state, decides)
            return
        update = Update(sent=state.sent, weight=1.0, figures=(0.0,) * how_many(self.validation_fraction))
        yield Ask(
            lambda number: self.conversation.open_question(round=number, given=state.given, agreed=bytes(32)),
            update,
            times=self.n_rounds,
            bound=decides,
        )

    def _plan_sums(self, shape: Shape, state: Specimen, decides: str) -> Plan:
        """Yield the secure sums of all rounds: over all sites, in each drawn group, or in each cluster."""
        draw = self.group_draw
        clustered = self.groups > 1 and draw is None
        if draw is not None:
            decides = decides or draw.decides
            groups = draw.planned(shape.sites, shape)
        elif clustered:
            decides = "clusters are found when the sites have joined"
            groups = (shape.sites,) * self.groups
        else:
            groups = (shape.some(self.count_drawn(shape.n_sites)),)
        for group in groups:

            def masked(number: int, group: tuple[str, ...] = group) -> Masked:
                ask = TrainMasked if draw is None else TrainGroup
                factors = dict.fromkeys(group, 1.0)
                named = group if clustered else ()
                return ask(round=number, given=state.given, factors=factors, agreed=bytes(32), group=named)

            yield Sum(masked, state.length, times=self.n_rounds, bound=decides, to=group)

    def specimen(self, shape: Shape, classes: int) -> Specimen:
        """Return what travels in a round: shapes follow from the learner, the columns and the classes."""
        learner = self.build_learner()
        first = Tree(learner.start(shape.columns + self.extra_columns, classes, np.random.default_rng(0)))
        shared = self.shared(first)
        like = Tree(self.sent_like(shared))
        given = to_wire(Tree(self.start(shared)).select(self.gives))
        length = Summed.of(self, like, learner.statistics).length(how_many(self.validation_fraction))
        privacy = privacy_of(self)
        if privacy is not None:
            length = bounds(self, privacy, shared.size)["numbers"]
        return Specimen(given, to_wire(like), length, shared.size)

    def check(self, sites: Sequence[SiteData], policy: Policy, seed: int = 0) -> list[Finding]:
        """Refuse tables that do not fit together; warn of columns on different scales where nobody scales them."""
        check_together(sites, self.classes)
        return unscaled(sites) if self.scale == "none" else []
