"""FedAvg+XCLP: in every few rounds labels spread over the features of all sites' rows, and sites train on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedgeom.data.sites import SiteData
from fedgeom.data.validation import Finding, check_columns
from fedgeom.errors import InputError
from fedgeom.federation.method import Plain
from fedgeom.federation.policy import Policy
from fedgeom.federation.site import Site
from fedgeom.methods.iterative.algorithm import Algorithm
from fedgeom.methods.iterative.settings import Round
from fedgeom.methods.iterative.training import STRIKES, Conversation, Group, Outcome
from fedgeom.methods.iterative.tree import State, to_wire
from fedgeom.methods.xclp.conversation import Propagation
from fedgeom.methods.xclp.core import mark_unlabelled, own_label_counts
from fedgeom.methods.xclp.distances import check_message_sizes
from fedgeom.methods.xclp.settings import NothingToSpreadError
from fedgeom.methods.xclp.site import spreading_sums
from fedgeom.methods.xclp_training.settings import XclpTrainingSettings
from fedgeom.methods.xclp_training.site import Embed, Embedded, XclpTrainingSite
from fedgeom.protocols.join.messages import MOST_ROUNDS as MOST_PLANNED


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


@dataclass(frozen=True, kw_only=True)
class XCLPTraining(XclpTrainingSettings, Algorithm):
    """Federated training on rows of which few have a label (FedAvg+XCLP, Algorithm 2; Scott et al. 2024).

    Rows without a label have -1, None, NaN or "" in its place, as for `XCLP`. ``labels`` says where they get one:
    "xclp", or the baselines "site", "network" and "none". `published` is the paper's own setting.
    """

    name: ClassVar[str] = "xclp-training"
    planned: ClassVar[bool] = False
    site: ClassVar[type[Site[Any]]] = XclpTrainingSite
    conversation: ClassVar[type[Conversation]] = XclpTrainingConversation

    def __post_init__(self) -> None:
        super().__post_init__()
        planned = len(XclpTrainingSite.all_sums(self))
        if planned > MOST_PLANNED:
            raise InputError(
                f"{planned:,} secure sums follow from rounds={self.rounds}, every={self.every} and the steps of the "
                f"propagation; wanted at most {MOST_PLANNED:,}: let labels spread in fewer rounds (every=…), in fewer "
                "steps, or train for fewer rounds"
            )

    def sums_in(self, round: int) -> int:
        """Return how many of the planned sums belong to a round: those of the propagation and of the models."""
        spreading = 0 if self.xclp is None or not self.spreads_in(round) else len(spreading_sums(self.xclp))
        return spreading + super().sums_in(round)

    @classmethod
    def published(cls, **changes: Any) -> XCLPTraining:
        """Return the paper's setting (Appendix A.2), with Algorithm 1 over pairs and 500 rounds, of its 1,500."""
        paper: dict[str, Any] = {
            "rounds": 500,
            "epochs": 5,
            "batch": 100,
            "rate": 0.1,
            "schedule": "cosine",
            "network": "convnet",
            "shape": (3, 32, 32),
            "optimizer": {"name": "sgd", "weight_decay": 2e-4},
            "augmentation": "crops",
            "share": 0.05,
            "labels": {"name": "xclp", "graph": "pairs", "variant": "paper", "confidence": "entropy"},
        }
        return cls(**(paper | changes))

    def check_together(self, sites: Sequence[SiteData]) -> None:
        """Refuse sites whose tables do not fit together, or that have too few labels, before anything is sent."""
        check_columns({site.name: site.shape[1] for site in sites})
        found = {name for site in sites for name in own_label_counts(site.y)}
        if not self.classes and len(found) < 2:
            raise InputError(f"the sites have {len(found)} labels in all; a classifier needs rows of two classes")

    def check_limits(self, sites: Sequence[SiteData], policy: Policy) -> None:
        """Refuse to compare so many rows that sites would be lost to the limit of a message's size."""
        super().check_limits(sites, policy)
        if self.xclp is not None:
            check_message_sizes(self.xclp, sites, policy.max_message_bytes)

    def advise(self, sites: Sequence[SiteData], policy: Policy, seed: int = 0) -> list[Finding]:
        """Warn also of sites that are said to have labels and have none, or are not there: shares are drawn by that."""
        found, known = super().advise(sites, policy, seed), {site.name: own_label_counts(site.y) for site in sites}
        strange = [name for name in self.labelled_sites if not known.get(name)]
        if strange:
            what = f"labelled_sites names {', '.join(map(repr, strange[:8]))}: no sites of this run with labels"
            remedy = "name those whose rows have labels; as large a share of them is drawn as of all"
            found.append(Finding(level="warning", what=what, remedy=remedy, topic="labels"))
        return found

    def normalise_labels(self, site: SiteData) -> SiteData:
        """Return the site with "" where the label is -1, None or NaN."""
        return mark_unlabelled(site)

    def plain(self, sites: Sequence[SiteData], seed: int = 0) -> Plain:
        """Train as a run does when no site is lost, in one process and without messages."""
        from fedgeom.methods.xclp_training.plain import simulate  # scipy.sparse: half a second

        return simulate(self, sites, seed)
