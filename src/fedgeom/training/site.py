"""The site's side of iterative training: scale, train, keep what is its own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from fedgeom.data.checks import check_table
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.messages import Array, Message, encode
from fedgeom.federation.site import Memory, answers
from fedgeom.protocols.cohort import SecureMemory
from fedgeom.protocols.fixed_point import to_fixed
from fedgeom.protocols.secure_sum import Confirm, MaskedVector
from fedgeom.protocols.vocabulary import NamingSite
from fedgeom.secure.keys import fingerprint
from fedgeom.training import scaling
from fedgeom.training.aggregation import FRACTION_BITS
from fedgeom.training.learners import Floats
from fedgeom.training.messages import (
    Begin,
    Finish,
    Finished,
    GiveColumnSums,
    Ready,
    TrainMasked,
    TrainOpen,
    Update,
)
from fedgeom.training.task import Task
from fedgeom.training.vectors import Layout, Vector

if TYPE_CHECKING:
    from fedgeom.training.table import Row, State

LAST = 2**31 - 1
"""Stands for the round after the last one, where a site makes its personal model."""


class TrainingMemory(SecureMemory, kw_only=True):
    """What a site remembers of its training."""

    classes: tuple[str, ...] = ()
    centre: Array | None = None
    spread: Array | None = None
    own: dict[str, Array] = {}
    """The vectors that stay here: variates, personal models."""
    before: dict[str, Array] = {}
    """The same before the last round: asked the same again, the site must answer the same again."""
    answered: bytes = b""
    """A hash of the last round's question."""
    factors: dict[int, dict[str, float]] = {}
    """The weights in each secure sum where not all sites count alike."""
    model: Array | None = None
    """The site's own model after the last round."""


def generator(seed: int, round: int, site: str, *, purpose: int = 0) -> np.random.Generator:
    """Return the randomness of one site in one round."""
    return np.random.default_rng([seed % 2**63, round, purpose, *site.encode()])


def set_aside(rows: int, share: float, seed: int, site: str) -> npt.NDArray[np.bool_]:
    """Mark the rows that a site sets aside to watch the joint model: the same in every round."""
    aside = np.zeros(rows, bool)
    if share:
        aside[generator(seed, LAST, site, purpose=1).permutation(rows)[: int(share * rows)]] = True
    return aside


class TrainingSite(NamingSite[TrainingMemory]):
    """Answers the questions of every row of the table."""

    memory_type: ClassVar[type[Memory]] = TrainingMemory
    row: ClassVar[type[Row]]

    def check(self, terms: Mapping[str, Any]) -> None:
        """Refuse data that the method cannot use, naming the site."""
        row = self.row.from_terms(terms)
        names = check_table(self.data, least_points=row.least_points)
        unknown = sorted(set(names) - set(row.classes)) if row.classes else []
        if unknown:
            raise InputError(
                f"site {self.badge.name!r}: labels outside the agreed classes: {', '.join(unknown[:8])}"
            )

    @classmethod
    def sums(cls, terms: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the secure sums of the run: the columns' if they are scaled jointly, then those of the rounds."""
        row = cls.row.from_terms(terms)
        first = (GiveColumnSums.kind,) if row.scale == "joint" else ()
        masked = row.rounds * row.groups if row.masked and row.sends else 0
        return (*first, *(TrainMasked.kind for _ in range(masked)))

    @cached_property
    def method(self) -> Row:
        """The row with the settings on which the site joined."""
        return self.row.from_terms(self.memory.terms)

    @answers(GiveColumnSums)
    def give_column_sums(self, ask: GiveColumnSums) -> MaskedVector:
        """Add this site's column sums to the secure sum."""
        self.admit(ask.ticket)
        sums, sites = scaling.column_sums(self.data.X), len(ask.ticket.participants)
        return self.mask(ask.ticket, to_fixed(sums, fraction_bits=scaling.FRACTION_BITS, sites=sites))

    @answers(Begin)
    def begin(self, ask: Begin) -> Ready:
        """Take the classes and the scale."""
        unknown = sorted(set(self.label_names()) - set(ask.classes))
        if unknown:
            raise InputError(f"the agreed classes lack {', '.join(unknown[:8])}")
        self.keep_to_terms(classes="\n".join(ask.classes))
        columns = self.data.X.shape[1]
        centre, spread = ask.centre.numpy(), ask.spread.numpy()
        if self.method.scale != "joint":
            centre, spread = self._own_scale()
        fit = (
            centre.shape == spread.shape == (columns,) and np.isfinite(centre).all() and np.isfinite(spread).all()
        )
        if not fit or not (spread > 0).all():
            raise ProtocolError(f"the scale does not fit a table of {columns} columns")
        memory = self.memory
        memory.classes = tuple(ask.classes)
        memory.centre, memory.spread = Array.of(centre), Array.of(spread)
        return Ready()

    def _own_scale(self) -> tuple[Vector, Vector]:
        columns = self.data.X.shape[1]
        if self.method.scale == "none":
            return np.zeros(columns), np.ones(columns)
        return scaling.scale_from(scaling.column_sums(self.data.X))

    def scaled(self) -> Floats:
        """Return the site's rows on the agreed scale."""
        memory = self.memory
        if memory.centre is None or memory.spread is None:
            raise ProtocolError("the site was asked to train before it was told the classes")
        return np.asarray((self.data.X - memory.centre.numpy()) / memory.spread.numpy())

    def features(self, rows: Floats) -> Floats:
        """Return what the learner sees of scaled rows; methods may add columns."""
        return rows

    def task(self, round: int, rate: float, rows: npt.NDArray[np.bool_] | None = None) -> Task:
        """Return what a row works with in this round; ``rows`` marks those to use."""
        memory = self.memory
        row, at = self.method, slice(None) if rows is None else rows
        X = self.features(self.scaled()[at])
        labels, classes = self.data.y[at].astype(str), memory.classes
        y = np.zeros(len(labels), np.int64)
        for place, name in enumerate(classes):
            y[labels == name] = place
        learner = row.build_learner()
        first = learner.start(X.shape[1], len(classes), np.random.default_rng([self.seed % 2**63, 0]))
        layout, rng = Layout.of(first), generator(self.seed, round, self.badge.name)
        return Task(learner, layout, X, y, row.effort(rate), rng, len(classes), layout.pack(first))

    @property
    def seed(self) -> int:
        """The run's seed, from the terms on which the site joined."""
        return int(self.memory.terms.get("seed") or 0)

    def train(
        self, asked: bytes, round: int, given: Mapping[str, Array], rate: float
    ) -> tuple[State, float, float, int]:
        """Return what is sent, the site's weight, and the loss of the given model on the rows set aside.

        ``asked`` stands for the question. A coordinator that died may put it again; then training starts again from
        what the site had before it.
        """
        row, me, memory = self.method, self.badge.name, self.memory
        aside = set_aside(len(self.data), row.validation, self.seed, me)
        had = memory.before if asked == memory.answered else memory.own
        kept = ~aside if aside.any() else None
        task, own = self.task(round, rate, kept), {name: array.numpy() for name, array in had.items()}
        vectors = self._given(given, task, row)
        loss = 0.0
        if aside.any():
            watched = self.task(round, rate, aside)
            loss = watched.rows * watched.surprise(row.whole(watched, vectors["model"], own))
        sent = row.local(task, vectors, own)
        memory.answered, memory.before = asked, had
        memory.own = {name: Array.of(np.asarray(vector, np.float64)) for name, vector in own.items()}
        return sent, float(task.rows) if row.weights == "rows" else 1.0, loss, int(aside.sum())

    def _given(self, given: Mapping[str, Array], task: Task, row: Row) -> State:
        size = int(row.shared(task.layout).sum())
        vectors = {name: array.numpy() for name, array in given.items()}
        wrong = [name for name in row.gives if name not in vectors or vectors[name].shape != (size,)]
        if wrong or any(not np.isfinite(v).all() or v.dtype != np.float64 for v in vectors.values()):
            raise ProtocolError(f"the vectors given do not fit the model of {size} shared numbers: {wrong}")
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

    def result(self) -> dict[str, Any]:
        """Return the site's own model and the scale of its columns."""
        memory = self.memory
        if memory.model is None or memory.centre is None or memory.spread is None:
            return {}
        return {
            "model": memory.model.numpy(),
            "centre": memory.centre.numpy(),
            "spread": memory.spread.numpy(),
            "classes": list(memory.classes),
        }
