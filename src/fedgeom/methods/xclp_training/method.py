"""FedAvg+XCLP: in every few rounds labels spread over the features of all sites' rows, and sites train on them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from fedgeom.data.sites import SiteData
from fedgeom.data.validation import Finding, check_columns, unscaled
from fedgeom.errors import InputError
from fedgeom.federation.messages import Question
from fedgeom.federation.plan import ANY_SHAPE, Ask, Plan, Shape, Sum, only_steps
from fedgeom.federation.policy import Policy
from fedgeom.federation.site import Site
from fedgeom.methods.iterative.algorithm import Algorithm, Specimen
from fedgeom.methods.iterative.settings import Round, TrainingRule
from fedgeom.methods.iterative.site import set_aside
from fedgeom.methods.iterative.training import STRIKES, Group, Outcome, TrainingLoop
from fedgeom.methods.iterative.tree import State, Tree, to_wire
from fedgeom.methods.xclp.core import is_labelled, mark_unlabelled, own_label_counts
from fedgeom.methods.xclp.method import Propagate, Propagation
from fedgeom.methods.xclp.settings import NothingToSpreadError
from fedgeom.methods.xclp_training.settings import XclpTrainingSettings
from fedgeom.methods.xclp_training.site import Embed, Embedded, XclpTrainingSite
from fedgeom.protocols.join.messages import MOST_ROUNDS as MOST_PLANNED
from fedgeom.protocols.secure_sum.messages import blank_result


class XclpTrainingLoop(TrainingLoop):
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
        cohort = self.cohort
        chosen = self.chosen(number)
        group = Group(chosen, state.select(self.rule.gives))
        if not chosen or self._rests(group):
            return
        embed = Embed(round=number, given=to_wire(group.given), agreed=self.agreed.hash)
        told = self.sites.ask(embed, of=chosen, expect=Embedded)
        self._need(tuple(told), group)
        everybody = cohort.left
        cohort.left = tuple(sorted(told))
        settings = self.rule.xclp
        assert settings is not None
        width = feature_width(self.rule, self.agreed.columns, len(self.agreed.classes), self.first)
        talk = Propagation(settings, cohort, round=number, columns=width, features=embed.stamp())
        try:
            _, figures = talk.spread(self.agreed.classes)
            self.sites.metrics.setdefault("labels spread", []).append({"round": number + 1} | figures)
        except NothingToSpreadError:  # nobody drawn has a label: no row has a pseudo-label in this round
            self.sites.metrics.setdefault("labels spread", []).append({"round": number + 1, "labelled": 0})
        finally:
            reached = cohort.left
            cohort.left = everybody
        if self.rule.masked and any(cohort.joined.keys[name].min_difference for name in chosen):
            self.strikes |= dict.fromkeys(set(chosen) - set(reached), STRIKES)  # as after a sum of models

    def combine(self, state: State, outcomes: Sequence[Outcome], round: Round) -> State:
        """Combine what came; where no site had a row to train on, nothing changes."""
        return state if not outcomes[0].weight else super().combine(state, outcomes, round)


def feature_width(rule: TrainingRule, columns: int, classes: int, model: Tree) -> int:
    """Return how many features a model makes of a row of so many columns."""
    learner = rule.build_learner()
    learner.bind(columns, classes)
    return int(np.shape(learner.features(model, np.zeros((1, columns), learner.dtype)))[1])


def _later(training: Ask | Sum, first: int, number: int) -> Question:
    """Return the question of a round that is so many after the first of some."""
    found: Question = training.specimen(first + number)
    return found


DRAWN = "which sites are drawn, whether they have labels, and when patience ends"


@dataclass(frozen=True, kw_only=True)
class XCLPTraining(XclpTrainingSettings, Algorithm):
    """For networks where few rows have a label: others get one from similar rows (Scott et al. 2024).

    FedAvg+XCLP, Algorithm 2.
    Rows without a label have -1, None, NaN or "" in its place, as for `XCLP`. ``labels`` says where they get one:
    "xclp", or the baselines "site", "network" and "none". `published` is the paper's own setting.
    """

    name: ClassVar[str] = "xclp-training"
    site: ClassVar[type[Site[Any]]] = XclpTrainingSite
    conversation: ClassVar[type[TrainingLoop]] = XclpTrainingLoop

    def __post_init__(self) -> None:
        super().__post_init__()
        planned = self.n_sums
        if planned > MOST_PLANNED:
            raise InputError(
                f"{planned:,} secure sums follow from n_rounds={self.n_rounds}, relabel_every={self.relabel_every} "
                f"and the steps of the propagation; wanted at most {MOST_PLANNED:,}: let labels spread in fewer rounds "
                "(a larger relabel_every), in fewer steps, or train for fewer rounds"
            )

    def plan_rounds(self, shape: Shape, state: Specimen) -> Plan:
        """Yield the rounds of training, and before those in which labels spread the propagation."""
        (training,) = super().plan_rounds(shape, state)
        assert isinstance(training, Ask | Sum)
        spreading = self._plan_spreading(shape)
        drawn = shape.known and self.count_drawn(shape.n_sites) < shape.n_sites
        bound = DRAWN if drawn or self.patience is not None else ""
        starts = [number for number in range(self.n_rounds) if drawn or self.spreads_in(number)]
        for first, end in itertools.pairwise(sorted({0, *starts, self.n_rounds})):
            sites = self.drawn(shape.sites, shape.seed, first) if drawn else None
            if spreading is not None and self.spreads_in(first):
                embed = Embed(round=first, given=state.given, agreed=bytes(32))
                yield Ask(embed, Embedded(), to=sites, bound=bound)
                yield replace(spreading, round=first, sites=sites, bound=bound)
            question = partial(_later, training, first)
            yield replace(training, question=question, times=end - first, to=sites)

    def _plan_spreading(self, shape: Shape) -> Propagate | None:
        """Return how labels spread over features in any round; None where they do not."""
        settings = self.xclp
        if settings is None:
            return None
        columns = 1
        if shape.known:
            width = shape.columns + self.extra_columns
            model = Tree(self.build_learner().start(width, shape.n_classes, np.random.default_rng(0)))
            columns = feature_width(self, shape.columns, shape.n_classes, model)
        labelled = {table.name: self._labelled(table, shape.seed) for table in shape.tables}
        return Propagate(settings, shape.classes, labelled, columns=columns, features=bytes(32))

    def _labelled(self, table: SiteData, seed: int) -> int:
        """Return how many rows of a site have a label that spreads: those that watch the loss have none."""
        count = int(np.sum(is_labelled(table.y)))
        return count - int(set_aside(count, self.validation_fraction, seed, table.name).sum())

    def sums_in(self, round: int) -> int:
        """Return how many of the planned sums belong to a round: those of the propagation and of the models."""
        return (self._spreading_sums if self.spreads_in(round) else 0) + super().sums_in(round)

    @cached_property
    def _spreading_sums(self) -> int:
        """How many secure sums one propagation has."""
        spreading = self._plan_spreading(ANY_SHAPE)
        if spreading is None:
            return 0
        result = blank_result(0, ANY_SHAPE.sites)
        found = only_steps(spreading.steps(ANY_SHAPE, private=False), ANY_SHAPE, False, lambda step: result)
        return sum(step.times + step.spare for step in found if isinstance(step, Sum))

    @classmethod
    def published(cls, **changes: Any) -> XCLPTraining:
        """Return the paper's setting (Appendix A.2), with Algorithm 1 over pairs and 500 rounds, of its 1,500."""
        paper: dict[str, Any] = {
            "n_rounds": 500,
            "epochs": 5,
            "batch_size": 100,
            "learning_rate": 0.1,
            "schedule": "cosine",
            "network": "convnet",
            "shape": (3, 32, 32),
            "optimizer": {"name": "sgd", "weight_decay": 2e-4},
            "augmentation": "crops",
            "participation": 0.05,
            "labels": {"name": "xclp", "graph": "pairs", "variant": "paper", "confidence": "entropy"},
        }
        return cls(**(paper | changes))

    def check(self, sites: Sequence[SiteData], policy: Policy, seed: int = 0) -> list[Finding]:
        """Warn also of sites that are said to have labels and have none, or are not there: shares are drawn by that."""
        check_columns({site.name: site.shape[1] for site in sites})
        names = {name for site in sites for name in own_label_counts(site.y)}
        if not self.classes and len(names) < 2:
            raise InputError(f"the sites have {len(names)} labels in all; a classifier needs rows of two classes")
        found = unscaled(sites) if self.scale == "none" else []
        known = {site.name: own_label_counts(site.y) for site in sites}
        strange = [name for name in self.labelled_sites if not known.get(name)]
        if strange:
            what = f"labelled_sites names {', '.join(map(repr, strange[:8]))}: no sites of this run with labels"
            remedy = "name those whose rows have labels; as large a share of them is drawn as of all"
            found.append(Finding(level="warning", what=what, remedy=remedy, topic="labels"))
        return found

    def normalise_labels(self, site: SiteData) -> SiteData:
        """Return the site with "" where the label is -1, None or NaN."""
        return mark_unlabelled(site)
