"""An iterative algorithm: a training rule, with the site's and the coordinator's half of training.

A new algorithm is a subclass of `Algorithm` with one or two short functions, `local` and `combine`, and perhaps
`personalise`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedgeom.data.sites import SiteData
from fedgeom.data.validation import Finding, label_names, unscaled
from fedgeom.errors import InputError
from fedgeom.federation.coordinator import Sites
from fedgeom.federation.method import MessageSizes, Method
from fedgeom.federation.model import Model
from fedgeom.federation.plain import Plain
from fedgeom.federation.policy import Policy
from fedgeom.federation.privacy import privacy_of
from fedgeom.federation.site import Site
from fedgeom.methods.iterative.costs import write_costs
from fedgeom.methods.iterative.group_training import GroupedConversation, SumGroupColumns
from fedgeom.methods.iterative.messages import TrainGroup, TrainMasked, TrainOpen
from fedgeom.methods.iterative.model import TrainedModel
from fedgeom.methods.iterative.plain import simulate
from fedgeom.methods.iterative.settings import TrainingRule
from fedgeom.methods.iterative.setup import SumColumns, check_together
from fedgeom.methods.iterative.site import TrainingSite
from fedgeom.methods.iterative.summed import Summed
from fedgeom.methods.iterative.training import Conversation
from fedgeom.methods.iterative.tree import State, Tree


@dataclass(frozen=True, kw_only=True)
class Algorithm(TrainingRule, Method):
    """The base of all algorithms."""

    site: ClassVar[type[Site[Any]]] = TrainingSite
    model_type: ClassVar[type[Model]] = TrainedModel
    conversation: ClassVar[type[Conversation]] = Conversation

    def conduct(self, sites: Sites) -> TrainedModel:
        """Hold the conversation: join, agree on classes and scale, train in rounds, hand out the model."""
        if self.group_draw is not None:
            return GroupedConversation(self, sites).hold()
        return self.conversation(self, sites).hold()

    def smallest_sum(self, sites: int) -> int:
        """Return over how few of so many sites models are summed: over those that are drawn for a round."""
        return self.count_drawn(sites)

    def sums_in(self, round: int) -> int:
        """Return how many of the planned sums belong to a round of training: one for each group."""
        return self.groups if self.masked and self.sends else 0

    def first_sum(self, round: int) -> int:
        """Return the number of the first sum of a round; those of training come last but for that of the test."""
        after = sum(map(self.sums_in, range(round, self.rounds))) + (self.holdout is not None)
        return len(self.site.all_sums(self)) - after  # type: ignore[attr-defined]

    def sum_sites(self, names: Sequence[str], seed: int) -> Sequence[Collection[str]] | None:
        """Return who may be in which sum: where a share of the sites trains in a round, those drawn for it."""
        if self.count_drawn(len(names)) >= len(names):
            return None
        everyone = frozenset(names)
        found = [everyone] * self.first_sum(0)
        for number in range(self.rounds):
            found += [frozenset(self.drawn(names, seed, number))] * self.sums_in(number)
        return found + [everyone] * (self.holdout is not None)

    def plain(self, sites: Sequence[SiteData], seed: int = 0) -> Plain:
        """Train as a run does when no site is lost, in one process and without messages."""
        return simulate(self, sites, seed)

    def check_together(self, sites: Sequence[SiteData]) -> None:
        """Refuse sites whose tables do not fit together, before anything is sent."""
        check_together(sites, self.classes)

    def check_limits(self, sites: Sequence[SiteData], policy: Policy) -> None:
        """Refuse groups, or draws, that would be smaller than the policy's smallest cohort."""
        if self.group_draw is not None:
            self.group_draw.check_sizes(len(sites), policy.min_cohort)
        self.check_drawn(len(sites), policy.min_cohort)

    def check_drawn(self, sites: int, min_cohort: int) -> None:
        """Refuse to draw so few of the sites for a round that no policy lets them be summed: nobody would train."""
        drawn = self.count_drawn(sites)
        if self.masked and self.sends and drawn < min(sites, min_cohort):
            raise InputError(
                f"share={self.share} given, which draws {drawn} of {sites} sites for a round; policies ask for "
                f"{min_cohort} in each sum (min_cohort), so that no round could be held. Wanted share="
                f"{math.ceil(100 * min_cohort / sites) / 100} or more, or min_sites={min_cohort}"
            )

    def message_sizes(self, sites: Sequence[SiteData]) -> MessageSizes:
        """Return the size of what sites send and are given in a round, and of the columns' sums."""
        columns, classes = sites[0].shape[1], len(self.classes or label_names(sites))
        rng = np.random.default_rng(0)
        first = Tree(self.build_learner().start(columns + self.extra_columns, classes, rng))
        shared = self.shared(first)
        given = Tree(self.start(shared)).select(self.gives)
        sums = 8 * (1 + 2 * columns) if self.scale == "joint" else 0
        form = Summed.of(self, Tree(self.sent_like(shared)), ())
        if privacy_of(self) is not None:
            return MessageSizes(8 * (1 + shared.size), _bytes(given))
        sent = (8 * form.length(0) if self.masked else _bytes(form.like)) if self.sends else 0
        return MessageSizes(max(sent, sums), max(_bytes(given), sums))

    def write_costs(self, sheet: Any) -> bool:
        """Write a run's messages on a sheet, where the conversation is the common one."""
        if self.conversation is not Conversation or self.group_draw is not None:
            return False
        write_costs(self, sheet)
        return True

    def advise(self, sites: Sequence[SiteData], policy: Policy, seed: int = 0) -> list[Finding]:
        """Warn of columns on different scales where nobody scales them."""
        return unscaled(sites) if self.scale == "none" else []

    @classmethod
    def leaves(cls) -> tuple[str, ...]:
        """Return what leaves a site, as the ledger says it, with the settings where nothing is said."""
        rule, lines = cls(), cls._of_its_own()
        if rule.scale == "joint":
            lines.append(SumColumns.answer_reveals)
        if rule.sends and rule.masked:
            lines.append(TrainMasked.answer_reveals)
            if rule.takes_groups:
                lines.append(f"with aggregation=GroupMedian(…) instead: {TrainGroup.answer_reveals}")
            lines.append(
                f"with secure=False or a robust aggregation instead, but for that: {TrainOpen.answer_reveals}"
            )
        elif rule.sends:
            lines.append(TrainOpen.answer_reveals)
        return tuple(lines)

    def would_leave(self) -> tuple[str, ...]:
        """Return what these settings let leave a site: masked models, those of groups, or open ones."""
        lines, in_groups = self._of_its_own(), self.group_draw is not None
        if self.scale == "joint":
            lines.append((SumGroupColumns if in_groups else SumColumns).answer_reveals)
        if self.sends:
            asked = TrainGroup if in_groups else TrainMasked if self.masked else TrainOpen
            lines.append(asked.answer_reveals)
        return tuple(lines)

    @classmethod
    def _of_its_own(cls) -> list[str]:
        """Return what leaves a site that does not with every algorithm."""
        common = TrainingSite.understands()
        own = [question for kind, question in cls.site.understands().items() if kind not in common]
        return [question.answer_reveals or question.answer.reveals for question in own]


def _bytes(tree: State) -> int:
    """Return how many bytes a tree's numbers take on their way: arrays travel in the learner's dtype."""
    return sum(np.asarray(leaf).nbytes for leaf in tree.leaves().values())
