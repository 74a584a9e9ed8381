"""The site's side of iterative training: scale, train, keep what is its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from fedgeom.data.checks import check_table
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.messages import Array
from fedgeom.federation.site import Memory, answers
from fedgeom.protocols.cohort import SecureMemory
from fedgeom.protocols.fixed_point import to_fixed
from fedgeom.protocols.secure_sum import MaskedVector
from fedgeom.protocols.vocabulary import NamingSite
from fedgeom.training import scaling
from fedgeom.training.aggregation import FRACTION_BITS
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

    @property
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
        if centre.shape != (columns,) or spread.shape != (columns,) or not (spread > 0).all():
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

    def task(self, round: int, rate: float, rows: npt.NDArray[np.bool_] | None = None) -> Task:
        """Return what a row works with in this round; ``rows`` marks those to use."""
        memory = self.memory
        if memory.centre is None or memory.spread is None:
            raise ProtocolError("the site was asked to train before it was told the classes")
        row, at = self.method, slice(None) if rows is None else rows
        X = (self.data.X[at] - memory.centre.numpy()) / memory.spread.numpy()
        places = {name: place for place, name in enumerate(memory.classes)}
        y = np.array([places[name] for name in self.data.y[at].astype(str).tolist()], np.int64)
        learner = row.build_learner()
        start = learner.start(X.shape[1], len(places), np.random.default_rng(0))
        rng = generator(int(memory.terms.get("seed") or 0), round, self.badge.name)
        return Task(learner, Layout.of(start), X, y, row.effort(rate), rng, len(places))

    def train(self, round: int, given: Mapping[str, Array], rate: float) -> tuple[State, float, float, int]:
        """Return what is sent, the site's weight, and the loss of the given model on the rows set aside."""
        row, me = self.method, self.badge.name
        aside = set_aside(len(self.data), row.validation, int(self.memory.terms.get("seed") or 0), me)
        task, own = self.task(round, rate, ~aside), {k: a.numpy() for k, a in self.memory.own.items()}
        vectors = self._given(given, task, row)
        loss = 0.0
        if aside.any():
            watched = self.task(round, rate, aside)
            loss = len(watched.X) * watched.loss(row.whole(watched, vectors["model"], own))
        sent = row.local(task, vectors, own)
        self.memory.own = {name: Array.of(np.asarray(vector, np.float64)) for name, vector in own.items()}
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
        sent, weight, loss, rows = self.train(ask.round, ask.given, self._rate(ask.rates))
        vectors = {name: Array.of(np.asarray(v, np.float64)) for name, v in sent.items()}
        return Update(vectors=vectors, weight=weight, aside_loss=loss, aside_rows=rows)

    @answers(TrainMasked)
    def train_masked(self, ask: TrainMasked) -> MaskedVector:
        """Train and add the result to the secure sum."""
        factors = self._factors(ask.factors, ask.ticket.participants)
        self.admit(ask.ticket)
        sent, weight, loss, rows = self.train(ask.round, ask.given, self._rate(ask.rates))
        weight *= factors[self.badge.name]
        parts = [weight * np.asarray(sent[name], np.float64) for name in self.method.sends]
        total = np.concatenate([*parts, [weight, loss, float(rows)]])
        sites = len(ask.ticket.participants)
        return self.mask(ask.ticket, to_fixed(total, fraction_bits=FRACTION_BITS, sites=sites))

    def _rate(self, rates: Mapping[str, float]) -> float:
        if self.badge.name not in rates:
            raise ProtocolError("the question gives this site no learning rate")
        return rates[self.badge.name]

    def _factors(self, factors: Mapping[str, float], participants: Iterable[str]) -> Mapping[str, float]:
        """Refuse weights under which the sum is nearly one site's own vector.

        (Σf)²/Σf² is how many sites a weighted sum really mixes.
        """
        if set(factors) != set(participants):
            raise ProtocolError("the weights are not those of the sites that are summed")
        values = np.array(list(factors.values()))
        mixed = float(values.sum() ** 2 / max(float((values**2).sum()), 1e-300))
        least = self.badge.policy.smallest_cohort
        if mixed < 0.8 * least:
            raise ProtocolError(f"the weights make this a sum of {mixed:.1f} sites; the policy asks for {least}")
        return factors

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
