"""The site's side of iterative training: scale, train, keep what is its own."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection
from typing import Any, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.crypto.keys import fingerprint
from fedgeom.data.validation import Collector, fault
from fedgeom.errors import ProtocolError
from fedgeom.federation.messages import Array, encode
from fedgeom.federation.privacy import privacy_of
from fedgeom.federation.site import Memory, Part, answers
from fedgeom.methods.aggregation import LARGEST
from fedgeom.methods.iterative import private
from fedgeom.methods.iterative.group_training import GroupAgreement
from fedgeom.methods.iterative.messages import (
    Finish,
    Finished,
    Leaves,
    Masked,
    TrainGroup,
    TrainMasked,
    TrainOpen,
    Update,
)
from fedgeom.methods.iterative.model import TrainedModel, is_joint
from fedgeom.methods.iterative.settings import TrainingRule
from fedgeom.methods.iterative.setup import AgreementMemory, SiteGroup, asked_again, check_site
from fedgeom.methods.iterative.summed import Summed
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.training import Figures, how_many
from fedgeom.methods.iterative.tree import State, Tree, from_wire, to_wire
from fedgeom.protocols.names import LabelNames, NamesMemory
from fedgeom.protocols.secure_sum.messages import SumQuestion
from fedgeom.protocols.site import Contribution, SecureMemory, SummingSite

log = logging.getLogger(__name__)

HOOKS = {"step": "local_step", "loop": "local_train"}
"""What an algorithm may do of its own in torch, by the field of `Task`."""
LAST = 2**31 - 1
"""Stands for the round after the last one, where a site makes its personal model."""


class TrainingMemory(SecureMemory, kw_only=True):
    """What a site remembers of its training."""

    names: NamesMemory = msgspec.field(default_factory=NamesMemory)
    agreement: AgreementMemory = msgspec.field(default_factory=AgreementMemory)
    own: dict[str, Array | float | int] = {}
    """What stays here, by path: variates, personal models."""
    before: dict[str, Array | float | int] = {}
    """The same before the last round: asked the same again, the site must answer the same again."""
    trained: dict[int, bytes] = {}
    """For each round a hash of its question, of which there is one."""
    model: Array | None = None
    """(numbers,): the site's own model after the last round."""
    joint: Array | None = None
    """(numbers,): the joint model, where it is tested beside the site's own."""
    grouping: SiteGroup = msgspec.field(default_factory=SiteGroup)


def generator(seed: int, round: int, site: str, *, purpose: int = 0) -> np.random.Generator:
    """Return the randomness of one site in one round."""
    return np.random.default_rng([seed % 2**63, round, purpose, *site.encode()])


def set_aside(rows: int, share: float, seed: int, site: str) -> npt.NDArray[np.bool_]:
    """Mark the rows that a site sets aside to watch the joint model: the same in every round."""
    aside = np.zeros(rows, bool)
    if share:
        aside[generator(seed, LAST, site, purpose=1).permutation(rows)[: int(share * rows)]] = True
    return aside


def ends_personal(rule: TrainingRule) -> bool:
    """Say whether sites may end with other models than the joint one: the settings say so, whatever the data are."""
    kind = type(rule)
    chosen = getattr(rule.personal, "name", rule.personal)
    usual = kind.personalise is TrainingRule.personalise and kind.whole is TrainingRule.whole
    return not usual or chosen != "none" or rule.groups > 1


class TrainingSite(SummingSite[TrainingMemory]):
    """Answers the questions of every algorithm."""

    memory_type: ClassVar[type[Memory]] = TrainingMemory
    takes_models: ClassVar[bool] = False
    parts: ClassVar[tuple[type[Part[Any]], ...]] = (LabelNames, GroupAgreement)
    agreement: GroupAgreement
    names: LabelNames

    def check(self, settings: TrainingRule) -> None:
        """Refuse data that the method cannot use, naming the site."""
        faults = Collector(self.name)
        with faults.take():
            check_site(self.data, settings, self.policy)
        rows = len(self.data) - int(settings.validation_fraction * len(self.data))
        least = self.policy.min_batch_size
        if settings.sends and rows < least and privacy_of(settings) is None:
            what = f"has {rows} rows to train on; its policy says min_batch_size = {least}"
            remedy = "leave the site out"
            faults.found.append(fault(what, remedy, site=self.name, topic="rows"))
        faults.raise_all()

    def expected_participants(self, question: SumQuestion) -> Collection[str] | None:
        """Return the sites that train in a round: those drawn for it, of this site's group where there are several.

        A site that was lost in a round may be back in the next.
        """
        if not isinstance(question, Masked):
            return None
        if question.round >= self.rule.n_rounds:  # before anything is done for each round up to it
            raise ProtocolError(
                f"round {question.round + 1} was asked for; the site joined on n_rounds={self.rule.n_rounds}"
            )
        drawn = self.rule.drawn(tuple(self.joining.memory.cohort), self.seed, question.round)
        group = self.memory.grouping.settle(self.rule, question, self.name, self.policy.min_cohort)
        return set(drawn) & set(group) if group else drawn

    @property
    def rule(self) -> TrainingRule:
        """The training rule, with the settings on which the site joined."""
        rule: TrainingRule = self.settings
        return rule

    def features(self, rows: Floats) -> Floats:
        """Return what the learner sees of scaled rows; methods may add columns."""
        return rows

    def task(self, round: int, rate: float, rows: npt.NDArray[np.bool_] | None = None) -> Task:
        """Return what a rule works with in this round; ``rows`` marks those to use."""
        rule = self.rule
        at = slice(None) if rows is None else rows
        classes = self.memory.agreement.classes
        learner = rule.build_learner(self.name)
        X = self.features(self.agreement.scaled(learner.dtype)[at])
        y = self.agreement.label_indices()[at]
        first = learner.start(X.shape[1], len(classes), np.random.default_rng([self.seed % 2**63, 0]))
        rng = generator(self.seed, round, self.name)
        # What a site makes for itself in the end stays there: the policy has nothing to say on it.
        free = round == LAST or privacy_of(rule) is not None  # nothing of it leaves, or with noise
        effort = rule.effort(rate, 1 if free else self.policy.min_batch_size)
        own = {name: getattr(rule, hook) for name, hook in HOOKS.items() if rule.has_own(hook)}
        return Task(learner, X, y, effort, rng, len(classes), Tree(first), rule.loss_of_rows, round, **own)

    def rows_aside(self) -> npt.NDArray[np.bool_]:
        """Mark the rows that the site sets aside to watch the joint model, (rows,)."""
        return set_aside(len(self.table), self.rule.validation_fraction, self.seed, self.name)

    def train(self, asked: bytes, round: int, given: Leaves, rate: float) -> tuple[State, float, Figures]:
        """Return what is sent, the site's weight, and the figures on the rows set aside.

        ``asked`` stands for the question. A coordinator that died may put it again; then training starts again from
        what the site had before it. Another question in the same round is refused: whoever sees a site's answers to
        models of his choice learns more than the terms allow.
        """
        rule = self.rule
        memory = self.memory
        again = asked_again(memory.trained, rule.n_rounds, asked, round)
        aside = self.rows_aside()
        had = memory.before if again else memory.own
        task = self.task(round, rate, ~aside if aside.any() else None)
        own = from_wire(had)
        state = self.given_state(given, task)
        joint = rule.whole(task, state["model"], own)  # before training changes what the site has of its own
        sent = rule.train(task, state, own)
        figures = Figures()
        if aside.any():
            figures = Figures.of(self.task(round, rate, aside), joint, rule.own_model(task, state, sent, own))
        memory.trained[round] = asked
        memory.before = had
        memory.own = to_wire(own)
        return sent, rule.weight(task), figures

    def given_state(self, given: Leaves, task: Task) -> State:
        """Read what came as the branches that the rule gives, shaped as at the start, or refuse it."""
        shape = self.rule.shared(task.first)
        came = from_wire(given, copy=False)
        wanted = Tree(self.rule.start(shape))
        state = came.select(self.rule.gives)
        wrong = [name for name in self.rule.gives if not wanted.select([name]).fits(state.select([name]))]
        why = f"look at the names and shapes in {', '.join(wrong)}" if wrong else ""
        if not wrong and not shape.same_dtypes(state["model"]):
            why = "its numbers are of other dtypes"
        if not why and not state.within(LARGEST):
            why = "some are huge or no numbers"
        if why:
            raise ProtocolError(f"what was given does not fit the model of {shape.size} shared numbers: {why}")
        return state.copy()  # a local step may write into it

    @answers(TrainOpen)
    def train_open(self, ask: TrainOpen) -> Update:
        """Train and show the result, if that was agreed."""
        if self.rule.masked:
            raise ProtocolError("this run was agreed on with secure sums; a site's own update is not shown")
        asked = fingerprint(b"open", encode(ask))
        sent, weight, figures = self.train(asked, ask.round, ask.given, self._rate(ask))
        return Update(
            sent=to_wire(sent),
            weight=weight,
            figures=tuple(figures.values(how_many(self.rule.validation_fraction)).tolist()),
        )

    @answers(TrainGroup)
    def train_group(self, ask: TrainGroup) -> Contribution:
        """Train and add the result to the secure sum of the site's group."""
        return self.train_masked(ask)

    @answers(TrainMasked)
    def train_masked(self, ask: Masked) -> Contribution:
        """Train and add the result to the secure sum."""
        if self.name not in ask.factors:
            raise ProtocolError(f"the question says no weight for {self.name!r}")
        if privacy_of(self.rule) is not None:
            bounded, bounds = private.summand(self, ask, self._rate(ask))
            return self.contribute_noisy(ask, bounded, **bounds)
        sent, weight, figures = self.train(ask.ticket.question_hash, ask.round, ask.given, self._rate(ask))
        learner = self.rule.build_learner(self.name)
        given = from_wire(ask.given, copy=False)
        # What is sent may come from memory (`HyperFed`): then nothing has told the learner its sizes in this process.
        learner.bind(self.data.shape[1] + self.rule.extra_columns, len(self.memory.agreement.classes))
        form = Summed.of(self.rule, sent, learner.statistics)
        whole = self.memory.agreement.rows if self.rule.counts_rows else math.fsum(ask.factors.values())
        added = figures.values(how_many(self.rule.validation_fraction))
        weight = weight * ask.factors[self.name]
        sites = len(ask.ticket.participants)
        words, cut = form.write(sent, given, weight, whole, added, sites=sites)
        if cut:
            log.warning(
                "site %r: %d of %d parameters changed by more than max_abs_change = %g in round %d and were cut off",
                self.name, cut, form.numbers, self.rule.max_abs_change, ask.round + 1,
            )  # fmt: skip
        return self.contribute(ask, words, fresh=True)

    def _rate(self, ask: TrainOpen | Masked) -> float:
        """Return this site's learning rate, which follows from the terms; classes and scale must be those agreed on."""
        self.agreement.check_agreed(ask.agreed)
        raised = self.rule.raised_rate
        if ask.faster and raised is None:
            raise ProtocolError("the terms of this run raise no site's learning rate")
        usual = self.rule.rate_in(min(ask.round, self.rule.n_rounds - 1))
        return usual * raised if raised is not None and self.name in ask.faster else usual

    @answers(Finish)
    def finish(self, ask: Finish) -> Finished:
        """Take the last model and make it this site's own."""
        task = self.task(LAST, self.rule.learning_rate)
        own = from_wire(self.memory.own)
        state = self.given_state(ask.given, task)
        if self.settings.holdout is not None and ends_personal(self.rule):
            self.memory.joint = self.joint_of(ask.given, task)
        personal = self.rule.personalise(task, state, own)
        self.memory.model = Array.of(Tree(personal).packed(), copy=False)
        return Finished()

    def result(self) -> dict[str, Any]:
        """Return the site's own model and the scale of its columns."""
        if self.memory.model is None:
            return {}
        centre, spread = self.agreement.scale
        network = self.rule.network_at(self.name)
        other = {} if network is None or network == self.rule.network else {"network": network.plain()}
        return {
            "model": self.memory.model.numpy(),
            "centre": centre,
            "spread": spread,
            "classes": list(self.memory.agreement.classes),
            **self.names.left_out(),
            **other,
        }

    def model_file(self) -> bytes:
        """Return the site's own model."""
        found = self.result()
        return self.joint_model().for_site(found).to_bytes() if found else b""

    def joint_of(self, given: Leaves, task: Task) -> Array | None:
        """Return the joint model from what a site is given last, as one vector; None where that is no whole model."""
        if not is_joint(self.rule, task.first):
            return None
        return Array.of((task.first | self.given_state(given, task)["model"]).packed(), copy=False)

    def joint_file(self) -> bytes:
        """Return the joint model on the site's scale, where the site ends with another of its own."""
        if self.memory.joint is None:
            return b""
        return self.joint_model().for_site(self.result() | {"model": self.memory.joint.numpy()}).to_bytes()

    def joint_model(self) -> TrainedModel:
        """Return a model of the run's kind, untrained: `for_site` makes it the site's own."""
        rule = self.rule
        classes = self.memory.agreement.classes
        columns = self.data.shape[1]
        learner = rule.build_learner(self.name)
        first = learner.start(columns + rule.extra_columns, len(classes), np.random.default_rng(0))
        return TrainedModel(
            method=self.method_type.name,  # type: ignore[attr-defined]
            names=classes,
            learner=str(rule.learner),
            options=rule.learner_options(self.name),
            parameters=Tree(first) | rule.shared(Tree(first)),
            columns=columns,
            centre=None,
            spread=None,
        )
