"""The coordinator's side of training with pseudo-labels: spread labels, then train (Algorithm 2)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedgeom.methods.iterative.conversation import STRIKES, Conversation, Group, Outcome
from fedgeom.methods.iterative.rule import Round
from fedgeom.methods.iterative.tree import State, to_wire
from fedgeom.methods.xclp.conversation import Propagation
from fedgeom.methods.xclp.settings import NothingToSpreadError
from fedgeom.methods.xclp_training.messages import Embed, Embedded
from fedgeom.methods.xclp_training.settings import XclpTrainingSettings


class XclpTrainingConversation(Conversation):
    """One run of `XCLPTraining`."""

    rule: XclpTrainingSettings

    def round(self, number: int, state: State) -> tuple[State, float]:
        """Hold one round, after labels have spread where they do (lines 6 and 7)."""
        if self.rule.spreads_in(number):
            self.spread(number, state)
        return super().round(number, state)

    def spread(self, number: int, state: State) -> None:
        """Spread labels over the features of the sites that train in this round."""
        self.skip_to(number)
        cohort, chosen = self.cohort, self.chosen(number)
        group = Group(chosen, state.select(self.rule.gives))
        if not chosen or self._rests(group):
            return
        embed = Embed(round=number, given=to_wire(group.given), agreed=self.agreed.hash)
        told = self.sites.ask(embed, of=chosen, expect=Embedded)
        self._need(tuple(told), group)
        everybody, cohort.left = cohort.left, tuple(sorted(told))
        settings = self.rule.xclp
        assert settings is not None
        talk = Propagation(settings, cohort, round=number, columns=self._width(), features=embed.stamp())
        try:
            _, figures = talk.spread(self.agreed.classes)
            self.sites.metrics.setdefault("labels spread", []).append({"round": number + 1} | figures)
        except NothingToSpreadError:  # nobody drawn has a label; sites go on with what they have
            self.sites.metrics.setdefault("labels spread", []).append({"round": number + 1, "labelled": 0})
        finally:
            reached, cohort.left = cohort.left, everybody
        if self.rule.masked and any(cohort.joined.keys[name].min_difference for name in chosen):
            self.strikes |= dict.fromkeys(set(chosen) - set(reached), STRIKES)  # as after a sum of models

    def _width(self) -> int:
        """Return how many features the model has."""
        learner, columns = self.rule.build_learner(), self.agreed.columns
        learner.bind(columns, len(self.agreed.classes))
        return int(np.shape(learner.features(self.first, np.zeros((1, columns), learner.dtype)))[1])

    def combine(self, state: State, outcomes: Sequence[Outcome], round: Round) -> State:
        """Combine what came; where no site had a row to train on, nothing changes."""
        return state if not outcomes[0].weight else super().combine(state, outcomes, round)
