"""The coordinator's side of iterative training: agree, then ask, average and combine, round after round."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fedgeom.errors import TooFewSitesError
from fedgeom.federation.conversation import Sites
from fedgeom.federation.messages import Array
from fedgeom.methods.iterative.aggregation import FRACTION_BITS, LARGEST, aggregate
from fedgeom.methods.iterative.messages import (
    Finish,
    Finished,
    TrainMasked,
    TrainOpen,
    Update,
)
from fedgeom.methods.iterative.model import TrainedModel
from fedgeom.methods.iterative.tabular import TabularConversation
from fedgeom.methods.iterative.vectors import Layout
from fedgeom.protocols.fixed_point import from_fixed

if TYPE_CHECKING:
    from fedgeom.methods.iterative.algorithm import Row, State

STRIKES = 2
"""A site that misses this many rounds in a row is not waited for any more."""


@dataclass(frozen=True)
class Group:
    """Sites that are averaged together in a round."""

    members: tuple[str, ...]
    given: State
    factors: dict[str, float] = field(default_factory=dict)
    """What a site's weight is multiplied by; 1 where nothing is said."""

    def factor(self, name: str) -> float:
        """Return what a site's weight is multiplied by."""
        return self.factors.get(name, 1.0)


@dataclass(frozen=True)
class Outcome:
    """What came of a group in a round."""

    mean: State
    sites: tuple[str, ...]
    aside_loss: float
    aside_rows: float
    updates: dict[str, State] = field(default_factory=dict)
    """Each site's own vectors, where the row looks at them."""


class Conversation(TabularConversation["Row"]):
    """One run of one row."""

    def __init__(self, row: Row, sites: Sites):
        super().__init__(row, sites)
        self.strikes: dict[str, int] = {}
        self.layout: Layout

    def hold(self) -> TrainedModel:
        """Hold the whole conversation."""
        row, sites = self.row, self.sites
        self.agree()
        learner = row.build_learner()
        first = learner.start(
            self.columns + row.extra_columns, len(self.classes), np.random.default_rng([sites.seed % 2**63, 0])
        )
        self.layout = Layout.of(first)
        self.first = self.layout.pack(first)
        self.shared = row.shared(self.layout)
        self.averaged = self.layout.mask(learner.statistics)[self.shared]
        state, history, best = row.start(self.first[self.shared]), list[float](), math.inf
        kept, waited = state, 0
        for round in range(row.rounds if row.sends else 0):
            new, loss = self.round(round, state)
            # The loss is that of the model given out, so it tells of `state`, not of `new`.
            if not math.isnan(loss):
                history.append(loss)
                if loss < best - 1e-12:
                    best, kept, waited = loss, state, 0
                else:
                    waited += 1
                if row.patience is not None and waited >= row.patience:
                    break
            state = new
            sites.keep(f"rounds/{round + 1:04d}", self.model(state).to_bytes())
        if row.patience is not None and history:
            state = kept if waited >= row.patience else state
        self.finish(state)
        sites.metrics |= {
            "sites": len(self.members),
            "classes": len(self.classes),
            "numbers": int(self.shared.sum()),
        }
        if history:
            sites.metrics["loss on rows set aside"] = history
        return self.model(state)

    def chosen(self, round: int) -> tuple[str, ...]:
        """Return the sites that train in this round."""
        there = tuple(name for name in self.members if self.strikes.get(name, 0) < STRIKES)
        wanted = max(self.row.smallest, math.ceil(self.row.share * len(self.members)))
        if wanted >= len(there):
            return there
        rng = np.random.default_rng([self.sites.seed % 2**63, round, 1])
        return tuple(sorted(rng.choice(there, wanted, replace=False).tolist()))

    def round(self, round: int, state: State) -> tuple[State, float]:
        """Hold one round; return the next state and the loss of this one on rows set aside."""
        asked = self.chosen(round)
        outcomes = self.exchange(round, self.groups(round, state, asked))
        answered = {name for outcome in outcomes for name in outcome.sites}
        for name in asked:
            self.strikes[name] = 0 if name in answered else self.strikes.get(name, 0) + 1
        rows = sum(outcome.aside_rows for outcome in outcomes)
        loss = sum(outcome.aside_loss for outcome in outcomes) / rows if rows else math.nan
        return self.combine(state, outcomes, len(answered) / len(self.members)), loss

    def groups(self, round: int, state: State, chosen: tuple[str, ...]) -> list[Group]:
        """Say who is averaged with whom, and what each group is given: here all together."""
        return [Group(chosen, {name: state[name] for name in self.row.gives})]

    def combine(self, state: State, outcomes: Sequence[Outcome], share: float) -> State:
        """Make the next state from what came of the groups."""
        return self.row.next_state(state, outcomes[0].mean, share, self.averaged)

    def rates(self, round: int, members: Sequence[str]) -> dict[str, float]:
        """Return each site's learning rate."""
        return dict.fromkeys(members, self.row.rate_in(round))

    def exchange(self, round: int, groups: Sequence[Group]) -> list[Outcome]:
        """Let the groups train and average each."""
        if self.row.masked:
            return [self._masked(round, group) for group in groups]
        return self._open(round, groups)

    def _masked(self, round: int, group: Group) -> Outcome:
        row, size = self.row, int(self.shared.sum())
        given, rates = _arrays(group.given), self.rates(round, group.members)
        factors = {name: group.factor(name) for name in group.members}
        total = self.sum(
            lambda ticket: TrainMasked(ticket=ticket, round=round, given=given, factors=factors, rates=rates),
            len(row.sends) * size + 3,
            group.members,
        )
        sums = from_fixed(total.vector, fraction_bits=FRACTION_BITS)
        weight, loss, rows = sums[-3:]
        parts = (sums[:-3] / weight).reshape(len(row.sends), size)
        return Outcome(dict(zip(row.sends, parts, strict=True)), total.sites, float(loss), round_count(rows))

    def _need(self, trained: Sequence[str], group: Group) -> None:
        """Raise `TooFewSitesError` when too few of a group came through the round."""
        if len(trained) < min(self.row.smallest, len(group.members)):
            missing = "; ".join(f"{name}: {why}" for name, why in sorted(self.sites.lost.items()))
            raise TooFewSitesError(
                f"{len(trained)} sites trained, {self.row.smallest} are needed; missing: {missing}"
            )

    def _open(self, round: int, groups: Sequence[Group]) -> list[Outcome]:
        questions: dict[str, TrainOpen] = {}
        for group in groups:
            question = TrainOpen(round=round, given=_arrays(group.given), rates=self.rates(round, group.members))
            questions |= dict.fromkeys(group.members, question)
        answers = self.sites.ask(questions, expect=Update)
        updates = {name: self._read(name, answer) for name, answer in answers.items()}
        trust = self.judged(groups, {name: update[0] for name, update in updates.items() if update is not None})
        return [
            self._average(group, {n: u for n, u in updates.items() if n in group.members}, trust)
            for group in groups
        ]

    def judged(self, groups: Sequence[Group], updates: dict[str, State]) -> dict[str, float]:
        """Return what sites' weights are multiplied by in the light of their updates; 1 where nothing is said."""
        return {}

    def _read(self, name: str, answer: Update) -> tuple[State, Update] | None:
        """Return a site's vectors, or None when they are not what was asked for."""
        size, limit = int(self.shared.sum()), LARGEST / len(self.members)
        vectors = {key: array.numpy() for key, array in answer.vectors.items()}
        fit = set(vectors) == set(self.row.sends) and all(v.shape == (size,) for v in vectors.values())
        # One site that went astray, or lies, must not make the sum overflow for all.
        fit = fit and 0 < answer.weight < limit and math.isfinite(answer.aside_loss)
        if fit and all((np.abs(v) < limit / max(answer.weight, 1.0)).all() for v in vectors.values()):
            return vectors, answer
        self.sites.lost[name] = (
            f"sent vectors that do not fit the model; wanted {size} numbers for each of {', '.join(self.row.sends)}, "
            "none of them huge or NaN (a lower rate helps if training diverged)"
        )
        return None

    def _average(
        self, group: Group, came: dict[str, tuple[State, Update] | None], trust: dict[str, float]
    ) -> Outcome:
        row, good = self.row, {name: update for name, update in came.items() if update is not None}
        self._need(tuple(good), group)
        names = tuple(good)
        matrix = np.array([np.concatenate([good[name][0][key] for key in row.sends]) for name in names])
        weights = np.array([good[name][1].weight * group.factor(name) * trust.get(name, 1.0) for name in names])
        whole = aggregate(row.aggregation, matrix, weights, trim=row.trim, bad=row.bad)
        parts = whole.reshape(len(row.sends), -1)
        return Outcome(
            dict(zip(row.sends, parts, strict=True)),
            names,
            sum(update.aside_loss for _, update in good.values()),
            sum(update.aside_rows for _, update in good.values()),
            {name: vectors for name, (vectors, _) in good.items()},
        )

    def finish(self, state: State) -> None:
        """Give every site its last model."""
        questions: dict[str, Finish] = {}
        for group in self.groups(self.row.rounds, state, self.members):
            questions |= dict.fromkeys(group.members, Finish(given=_arrays(group.given)))
        self.sites.ask(questions, expect=Finished)

    def model(self, state: State) -> TrainedModel:
        """Return the joint model in a state; entries that sites keep stand as they were before training."""
        row, whole = self.row, self.first.copy()
        whole[self.shared] = state["model"]
        centre, spread = self.scale()
        return row.model_type(
            method=row.name,
            names=self.classes,
            learner=str(row.learner),
            options=row.learner_options(),
            parameters={name: array.copy() for name, array in self.layout.unpack(whole).items()},
            columns=self.columns,
            centre=centre,
            spread=spread,
        )


def _arrays(vectors: State) -> dict[str, Array]:
    return {name: Array.of(np.asarray(vector, np.float64)) for name, vector in vectors.items()}


def round_count(value: float) -> float:
    """Return a count that went through a sum of real numbers."""
    return float(np.rint(value))
