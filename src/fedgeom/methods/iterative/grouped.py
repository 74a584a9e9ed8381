"""The coordinator's side of training in drawn groups: a secure sum in each, and the median over their means."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedgeom.errors import ProtocolError, TooFewSitesError
from fedgeom.methods.iterative.conversation import Conversation, Group, Outcome
from fedgeom.methods.iterative.group_agreement import agree_in_groups
from fedgeom.methods.iterative.messages import Masked, TrainGroup
from fedgeom.methods.iterative.rule import Round
from fedgeom.methods.iterative.tree import State
from fedgeom.protocols.cohort import join
from fedgeom.protocols.in_groups import SiteGroups


class GroupedConversation(Conversation):
    """One run of one algorithm with `GroupMedian`."""

    question: type[Masked] = TrainGroup
    drawn: SiteGroups
    rows: dict[int, float]
    """How many rows each group has, where that was counted."""

    def agree(self) -> None:
        """Join, draw the groups, and agree on classes and scale."""
        self.cohort = join(self.sites, self.rule)  # type: ignore[arg-type]
        assert self.rule.group_draw is not None
        self.drawn = SiteGroups(self.cohort, self.rule.group_draw)
        self.agreed, self.rows = agree_in_groups(self.drawn, self.rule)
        self.members = self.cohort.left

    def groups(self, number: int, state: State, chosen: tuple[str, ...]) -> list[Group]:
        """Return the drawn groups, as far as they can be summed; in the end all sites are given the same."""
        if number >= self.rule.rounds:
            return super().groups(number, state, chosen)
        given, found = state.select(self.rule.gives), []
        for at in range(len(self.drawn.all)):
            members = self.drawn.left(at, set(chosen))
            if members:
                found.append(Group(members, given))
        return found

    def _place(self, group: Group) -> int:
        return next(at for at, names in enumerate(self.drawn.all) if group.members[0] in names)

    def whole_of(self, group: Group) -> float:
        """Return what the weights of a group add up to at most: its own rows."""
        return self.rows.get(self._place(group), 0.0) if self.rule.counts_rows else float(len(group.members))

    def exchange(self, number: int, groups: Sequence[Group]) -> list[Outcome]:
        """Let the groups train and average each; one whose sum fails, or is beyond its bounds, is dropped."""
        found = []
        for group in groups:
            try:
                found.append(self._masked(number, group))
            except (TooFewSitesError, ProtocolError) as error:
                self.drawn.drop(self._place(group), f"round {number + 1}: {error}")
        return found

    def combine(self, state: State, outcomes: Sequence[Outcome], round: Round) -> State:
        """Make the next state from the median over the groups' means; a group that trained on nothing has no say."""
        means = np.array([outcome.mean.flat() for outcome in outcomes if outcome.weight > 0])
        if not len(means):
            return state
        middle = self.rule.combine_rule(means, np.ones(len(means)))
        return self.rule.next_state(state, self.sent.like(middle), round, self.statistics)
