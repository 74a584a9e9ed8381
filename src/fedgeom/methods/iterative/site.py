"""The site's side of iterative training: scale, train, keep what is its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from fedgeom.crypto.keys import fingerprint
from fedgeom.errors import ProtocolError
from fedgeom.federation.messages import Array, Message, encode
from fedgeom.federation.site import Memory, answers
from fedgeom.methods.iterative.aggregation import FRACTION_BITS, LARGEST
from fedgeom.methods.iterative.learners import Floats
from fedgeom.methods.iterative.messages import (
    Finish,
    Finished,
    TrainMasked,
    TrainOpen,
    Update,
)
from fedgeom.methods.iterative.tabular import TabularMemory, TabularSite, within
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.vectors import Layout
from fedgeom.protocols.fixed_point import to_fixed
from fedgeom.protocols.secure_sum import Confirm, MaskedVector

if TYPE_CHECKING:
    from fedgeom.methods.iterative.algorithm import Row, State

LAST = 2**31 - 1
"""Stands for the round after the last one, where a site makes its personal model."""


class TrainingMemory(TabularMemory, kw_only=True):
    """What a site remembers of its training."""

    own: dict[str, Array] = {}
    """The vectors that stay here: variates, personal models."""
    before: dict[str, Array] = {}
    """The same before the last round: asked the same again, the site must answer the same again."""
    trained: dict[int, bytes] = {}
    """For each round a hash of its question, of which there is one."""
    factors: dict[int, dict[str, float]] = {}
    """The weights in each secure sum where not all sites count alike."""


def generator(seed: int, round: int, site: str, *, purpose: int = 0) -> np.random.Generator:
    """Return the randomness of one site in one round."""
    return np.random.default_rng([seed % 2**63, round, purpose, *site.encode()])


def set_aside(rows: int, share: float, seed: int, site: str) -> npt.NDArray[np.bool_]:
    """Mark the rows that a site sets aside to watch the joint model: the same in every round."""
    aside = np.zeros(rows, bool)
    if share:
        aside[generator(seed, LAST, site, purpose=1).permutation(rows)[: int(share * rows)]] = True
    return aside


class TrainingSite(TabularSite[TrainingMemory]):
    """Answers the questions of every row of the table."""

    memory_type: ClassVar[type[Memory]] = TrainingMemory

    def features(self, rows: Floats) -> Floats:
        """Return what the learner sees of scaled rows; methods may add columns."""
        return rows

    def task(self, round: int, rate: float, rows: npt.NDArray[np.bool_] | None = None) -> Task:
        """Return what a row works with in this round; ``rows`` marks those to use."""
        row, at, classes = self.method, slice(None) if rows is None else rows, self.memory.classes
        X, y = self.features(self.scaled()[at]), self.places()[at]
        learner = row.build_learner()
        first = learner.start(X.shape[1], len(classes), np.random.default_rng([self.seed % 2**63, 0]))
        layout, rng = Layout.of(first), generator(self.seed, round, self.badge.name)
        return Task(learner, layout, X, y, row.effort(rate), rng, len(classes), layout.pack(first))

    def train(
        self, asked: bytes, round: int, given: Mapping[str, Array], rate: float
    ) -> tuple[State, float, float, int]:
        """Return what is sent, the site's weight, and the loss of the given model on the rows set aside.

        ``asked`` stands for the question. A coordinator that died may put it again; then training starts again from
        what the site had before it. Another question in the same round is refused: whoever sees a site's answers to
        models of his choice learns more than the terms allow.
        """
        row, me, memory = self.method, self.badge.name, self.memory
        if round >= row.rounds:
            raise ProtocolError(f"round {round + 1} was asked for; the site joined on rounds={row.rounds}")
        again = memory.trained.get(round) == asked
        if memory.trained and (round < max(memory.trained) or (round in memory.trained and not again)):
            raise ProtocolError(f"round {round + 1} is over, or was trained for another question already")
        aside = set_aside(len(self.data), row.validation, self.seed, me)
        had = memory.before if again else memory.own
        kept = ~aside if aside.any() else None
        task, own = self.task(round, rate, kept), {name: array.numpy() for name, array in had.items()}
        vectors = self._given(given, task, row)
        loss = 0.0
        if aside.any():
            watched = self.task(round, rate, aside)
            loss = watched.rows * watched.surprise(row.whole(watched, vectors["model"], own))
        sent = row.local(task, vectors, own)
        memory.trained[round], memory.before = asked, had
        memory.own = {name: Array.of(np.asarray(vector, np.float64)) for name, vector in own.items()}
        return sent, float(task.rows) if row.weights == "rows" else 1.0, loss, int(aside.sum())

    def _given(self, given: Mapping[str, Array], task: Task, row: Row) -> State:
        size = int(row.shared(task.layout).sum())
        vectors = {name: array.numpy() for name, array in given.items()}
        wrong = [name for name in row.gives if name not in vectors or vectors[name].shape != (size,)]
        if wrong or not all(within(vector, LARGEST) for vector in vectors.values()):
            why = f"look at {', '.join(wrong)}" if wrong else "some are huge or no numbers"
            raise ProtocolError(f"the vectors given do not fit the model of {size} shared numbers: {why}")
        return vectors

    @answers(TrainOpen)
    def train_open(self, ask: TrainOpen) -> Update:
        """Train and show the result, if that was agreed."""
        if self.method.masked:
            raise ProtocolError("this run was agreed on with secure sums; a site's own update is not shown")
        asked = fingerprint(b"open", encode(ask))
        sent, weight, loss, rows = self.train(asked, ask.round, ask.given, self._rate(ask.rates))
        vectors = {name: Array.of(np.asarray(v, np.float64)) for name, v in sent.items()}
        return Update(vectors=vectors, weight=weight, aside_loss=loss, aside_rows=rows)

    @answers(TrainMasked)
    def train_masked(self, ask: TrainMasked) -> MaskedVector:
        """Train and add the result to the secure sum."""
        ticket, factors = ask.ticket, ask.factors
        if set(factors) != set(ticket.participants):
            raise ProtocolError("the weights are not those of the sites that are summed")
        self._check_mixture(factors)
        self.admit(ticket)
        if set(factors.values()) != {1.0}:
            self.memory.factors[ticket.round] = factors
        sent, weight, loss, rows = self.train(ticket.about, ask.round, ask.given, self._rate(ask.rates))
        weight *= factors[self.badge.name]
        parts = [weight * np.asarray(sent[name], np.float64) for name in self.method.sends]
        total = np.concatenate([*parts, [weight, loss, float(rows)]])
        sites = len(ticket.participants)
        return self.mask(ticket, to_fixed(total, fraction_bits=FRACTION_BITS, sites=sites))

    @answers(Confirm)
    def confirm(self, ask: Confirm) -> Message:
        """Sign the list of the living, if the weights of those still mix enough sites."""
        factors = self.memory.factors.get(ask.round)
        if factors is not None:
            self._check_mixture({name: factors.get(name, 0.0) for name in ask.alive})
        return super().confirm(ask)

    def _rate(self, rates: Mapping[str, float]) -> float:
        if self.badge.name not in rates:
            raise ProtocolError("the question gives this site no learning rate")
        return rates[self.badge.name]

    def _check_mixture(self, factors: Mapping[str, float]) -> None:
        """Refuse weights under which the sum is nearly one site's own vector.

        (Σf)²/Σf² is how many sites a weighted sum really mixes.
        """
        values = np.array([value for value in factors.values() if value > 0])
        mixed = float(values.sum() ** 2 / max(float((values**2).sum()), 1e-300))
        least = self.badge.policy.smallest_cohort
        if len(values) < least or mixed < 0.8 * least:
            raise ProtocolError(f"the weights make this a sum of {mixed:.1f} sites; the policy asks for {least}")

    @answers(Finish)
    def finish(self, ask: Finish) -> Finished:
        """Take the last model and make it this site's own."""
        row, task = self.method, self.task(LAST, self.method.rate)
        own = {name: array.numpy() for name, array in self.memory.own.items()}
        personal = row.personalise(task, self._given(ask.given, task, row), own)
        self.memory.model = Array.of(np.asarray(personal, np.float64))
        return Finished()
