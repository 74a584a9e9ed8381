"""The coordinator's side of iterative training: agree, then ask, average and combine, round after round."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, field, fields
from typing import Any, Self

import numpy as np

from fedgeom.arrays import Floats
from fedgeom.errors import InputError, ProtocolError, TooFewSitesError
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.results import RunWarning
from fedgeom.methods.aggregation import LARGEST
from fedgeom.methods.iterative.messages import Finish, Finished, Masked, TrainMasked, TrainOpen, Update
from fedgeom.methods.iterative.model import TrainedModel, is_joint
from fedgeom.methods.iterative.private import PrivateRounds
from fedgeom.methods.iterative.settings import Round, TrainingRule
from fedgeom.methods.iterative.setup import AgreedSetup, agree
from fedgeom.methods.iterative.summed import Summed, combined
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.tree import State, Tree, from_wire, to_wire
from fedgeom.protocols.cohort import Cohort, join


def how_many(validation: float) -> int:
    """Return how many figures a site adds to a round's sum: where no rows are set aside two, which are zero."""
    return len(fields(Figures)) if validation else 2


@dataclass(frozen=True)
class Figures:
    """Sums over rows set aside, of one site or of all."""

    loss: float = 0.0
    """The negative log-likelihood under the model that the round began with."""
    rows: float = 0.0
    right: float = 0.0
    """How many of them that model puts into their class."""
    own_loss: float = 0.0
    """The same for the model that each site has after its training."""
    own_right: float = 0.0

    @classmethod
    def of(cls, task: Task, joint: Tree, own: Tree) -> Self:
        """Judge both models by the task's rows."""
        loss, own_loss = (task.rows * task.nll(model) for model in (joint, own))
        right, own_right = (float(np.sum(task.predicted(model) == task.y)) for model in (joint, own))
        return cls(loss, float(task.rows), right, own_loss, own_right)

    @classmethod
    def read(cls, values: Floats) -> Self:
        """Read figures that went through a sum of real numbers, (2,) or (5,): counts are whole again."""
        found = cls(*(float(value) for value in values))
        return cls(found.loss, _count(found.rows), _count(found.right), found.own_loss, _count(found.own_right))

    @classmethod
    def total(cls, several: Iterable[Figures]) -> Self:
        """Add figures up."""
        sums = np.zeros(len(fields(cls)))
        for one in several:
            sums += astuple(one)
        return cls(*sums.tolist())

    def values(self, length: int) -> Floats:
        """Return the first of them as numbers, (length,)."""
        return np.array(astuple(self)[:length])

    def line(self, round: int) -> dict[str, float]:
        """Return what is written down of a round, counted from 0; nothing where no rows were set aside."""
        if not self.rows:
            return {}
        return {
            "round": round + 1,
            "rows": int(self.rows),
            "joint_loss": self.loss / self.rows,
            "joint_accuracy": self.right / self.rows,
            "personal_loss": self.own_loss / self.rows,
            "personal_accuracy": self.own_right / self.rows,
        }


def _count(value: float) -> float:
    return float(np.rint(value))


def warn_of_cuts(sites: Coordinator, number: int, cut: int, max_abs_change: float) -> None:
    """Note that some numbers changed by more than the terms have room for: training may have diverged."""
    if not cut:
        return
    cuts = sites.metrics.setdefault("numbers cut off", {})
    cuts[str(number + 1)] = cuts.get(str(number + 1), 0) + cut
    if len(cuts) == 1:
        sites.notices.append(
            RunWarning(
                f"in round {number + 1}, {cut:,} numbers of all sites changed by more than max_abs_change = "
                f"{max_abs_change:g} and were cut off",
                remedy="raise max_abs_change, lower learning_rate, or use bits=64, which cuts nothing off",
            )
        )


STRIKES = 2
"""A site that misses this many rounds in a row is not waited for any more."""


@dataclass(frozen=True)
class Group:
    """Sites that are averaged together in a round."""

    members: tuple[str, ...]
    given: State
    factors: dict[str, float] = field(default_factory=dict)
    """What a site's weight is multiplied by; 1 where nothing is said."""
    whole: tuple[str, ...] = ()
    """The group with those that do not train in this round; empty: all sites are one group."""

    def factor(self, name: str) -> float:
        """Return what a site's weight is multiplied by."""
        return self.factors.get(name, 1.0)


@dataclass(frozen=True)
class Outcome:
    """What came of a group in a round."""

    mean: State
    sites: tuple[str, ...]
    figures: Figures
    updates: dict[str, State] = field(default_factory=dict)
    """What each site sent, where the rule looks at that."""
    weight: float = 1.0
    """What the sites count together; 0 where none had anything to train on, and the mean means nothing."""


class TrainingLoop:
    """One run of one algorithm."""

    question: type[Masked] = TrainMasked
    """What asks for a masked model."""
    open_question: type[TrainOpen] = TrainOpen
    """What asks for a model in the open."""

    def __init__(self, rule: TrainingRule, sites: Coordinator):
        self.rule = rule
        self.sites = sites
        self.figures = how_many(rule.validation_fraction)
        self.strikes: dict[str, int] = {}
        self.members: tuple[str, ...] = ()
        """The sites that were ready to train."""
        self.cohort: Cohort
        self.agreed: AgreedSetup
        self.first: Tree
        """The whole model before any training."""
        self.sent: State
        """A tree shaped like what a site sends."""
        self.private = PrivateRounds.of(rule)  # None where there is no noise
        self.statistics: tuple[str, ...] = ()
        """The model's arrays that describe rows."""

    def agree(self) -> None:
        """Join, and agree on classes and scale."""
        self.cohort = join(self.sites, self.rule)  # type: ignore[arg-type]
        keys = self.cohort.joined.keys
        self.rule.check_drawn(len(keys), min(key.min_cohort for key in keys.values()))  # type: ignore[attr-defined]
        self.agreed = agree(self.cohort, self.rule)
        self.members = self.cohort.left

    @property
    def form(self) -> Summed:
        """How what sites send goes through sums."""
        return Summed.of(self.rule, self.sent, self.statistics)

    def conduct(self) -> TrainedModel:
        """Hold the whole conversation."""
        rule = self.rule
        sites = self.sites
        self.agree()
        learner = rule.build_learner()
        columns = self.agreed.columns + rule.extra_columns
        rng = np.random.default_rng([sites.seed % 2**63, 0])
        self.first = Tree(learner.start(columns, len(self.agreed.classes), rng))
        self.statistics = learner.statistics
        shared = self.warm(rule.shared(self.first))
        self.sent = Tree(rule.sent_like(shared))
        state, history = self._rounds(Tree(rule.start(shared)))
        self.finish(state)
        sites.metrics |= {
            "sites": len(self.members),
            "classes": len(self.agreed.classes),
            "numbers": shared.size,
        }
        if history:
            sites.metrics["loss on rows set aside"] = history
        return self.model(state)

    def warm(self, shared: Tree) -> Tree:
        """Return what is shared of the model that training begins with: of the given one, where one was given."""
        found = self.sites.start
        if found is None:
            return shared
        own = getattr(found, "parameters", None)
        names = tuple(getattr(found, "names", ()))
        if own is None or not shared.fits(Tree(own).select(set(shared) & set(own))):
            raise InputError(
                f"start={found!r} given; wanted a model of the same learner or network, with {shared.size:,} shared "
                "numbers, such as run.model of an earlier run"
            )
        if names != self.agreed.classes:
            raise InputError(
                f"start has the classes {', '.join(names)}; the sites agreed on {', '.join(self.agreed.classes)}: say "
                "classes=(…) in both runs"
            )
        return shared.like(Tree(own).select(shared).flat())

    def _rounds(self, state: State) -> tuple[State, list[float]]:
        """Train in rounds; return the last state, or the best where patience ran out, and the losses on the way."""
        rule = self.rule
        history = list[float]()
        best = math.inf
        kept = state
        waited = 0
        self.sites.begin_rounds()
        for number in range(rule.n_rounds if rule.sends else 0):
            new, loss = self.round(number, state)
            # The loss is that of the model given out, so it tells of `state`, not of `new`.
            if not math.isnan(loss):
                history.append(loss)
                if loss < best - 1e-12:
                    best = loss
                    kept = state
                    waited = 0
                else:
                    waited += 1
                if rule.patience is not None and waited >= rule.patience:
                    return kept, history
            state = new
            if self.sites.keepers:
                self.sites.keep(f"rounds/{number + 1:04d}", self.model(state).to_bytes())
        return state, history

    def chosen(self, number: int) -> tuple[str, ...]:
        """Return the sites that train in this round: those drawn for it that are there."""
        there = self.there()
        drawn = self.rule.drawn(tuple(self.cohort.joined.keys), self.sites.seed, number)
        return tuple(name for name in drawn if name in there)

    def skip_to(self, number: int) -> None:
        """Leave out sums of rounds before that were not needed: where sites are drawn, each round has its own."""
        rule = self.rule
        sites = len(self.cohort.joined.keys)
        if rule.count_drawn(sites) < sites:
            self.cohort.skip_to(rule.first_sum(number))  # type: ignore[attr-defined]

    def there(self) -> set[str]:
        """Return the sites that are waited for."""
        return {name for name in self.members if self.strikes.get(name, 0) < STRIKES}

    def _rests(self, group: Group) -> bool:
        """Whether a group rests for a round: enough of it are there, but losses left too few of those drawn."""
        keys = self.cohort.joined.keys
        wanted = [keys[name].min_cohort for name in group.members] if self.rule.masked else []
        least = max([min(self.rule.min_sites, len(group.whole or self.members)), *wanted])
        return len(group.members) < least <= len(self.there() & set(group.whole or self.members))

    def round(self, number: int, state: State) -> tuple[State, float]:
        """Hold one round; return the next state and the loss of this one on rows set aside."""
        groups = [g for g in self.groups(number, state, self.chosen(number)) if not self._rests(g)]
        if not groups and len(self.there()) >= self.rule.min_sites:
            return state, math.nan
        asked = [name for group in groups for name in group.members]
        outcomes = self.exchange(number, groups)
        answered = {name for outcome in outcomes for name in outcome.sites}
        strict = self.rule.masked and any(self.cohort.joined.keys[name].min_difference for name in asked)
        for name in asked:  # strict sites sum no further with a site that was missing in a sum before
            missed = STRIKES if strict else self.strikes.get(name, 0) + 1
            self.strikes[name] = 0 if name in answered else missed
        figures = Figures.total(outcome.figures for outcome in outcomes)
        loss = figures.loss / figures.rows if figures.rows else math.nan
        self.sites.end_round(number + 1, len(answered), figures.line(number))
        rng = np.random.default_rng([self.sites.seed % 2**63, number, 2])
        return self.combine(state, outcomes, Round(number, len(answered) / len(self.members), rng)), loss

    def groups(self, number: int, state: State, chosen: tuple[str, ...]) -> list[Group]:
        """Say who is averaged with whom, and what each group is given: here all together."""
        return [Group(chosen, state.select(self.rule.gives))]

    def combine(self, state: State, outcomes: Sequence[Outcome], round: Round) -> State:
        """Make the next state from what came of the groups."""
        return self.rule.next_state(state, outcomes[0].mean, round, self.statistics)

    def faster(self, members: Sequence[str]) -> tuple[str, ...]:
        """Return the sites whose learning rate is raised: here nobody's."""
        return ()

    def exchange(self, number: int, groups: Sequence[Group]) -> list[Outcome]:
        """Let the groups train and average each."""
        if self.rule.masked:
            return [self._masked(number, group) for group in groups]
        return self._open(number, groups)

    def _masked(self, number: int, group: Group) -> Outcome:
        self.skip_to(number)
        question = self.question(
            round=number,
            given=to_wire(group.given, copy=False),
            factors={name: group.factor(name) for name in group.members},
            agreed=self.agreed.hash,
            faster=self.faster(group.members),
            group=group.whole,
        )
        if self.private is not None:
            return Outcome(*self.private.conduct(self.cohort, question, group.members), Figures())
        form = self.form
        total = self.cohort.sum_words(question, length=form.length(self.figures), participants=group.members)
        whole = self.whole_of(group)
        found = form.read(total.vector, group.given, whole)
        form.check(found, total.vector, group.given, whole, len(total.sites))
        warn_of_cuts(self.sites, number, found.cut, self.rule.max_abs_change)
        return Outcome(found.mean, total.sites, Figures.read(found.figures), weight=found.weight)

    def whole_of(self, group: Group) -> float:
        """Return what the weights of a group's sites add up to at most."""
        return self.agreed.rows if self.rule.counts_rows else math.fsum(map(group.factor, group.members))

    def _need(self, trained: Sequence[str], group: Group) -> None:
        """Raise `TooFewSitesError` when too few of a group came through the round."""
        if len(trained) < min(self.rule.min_sites, len(group.members)):
            missing = "; ".join(f"{name}: {why}" for name, why in sorted(self.sites.lost.items()))
            raise TooFewSitesError(
                f"{len(trained)} sites trained, {self.rule.min_sites} are needed; missing: {missing}"
            )

    def _open(self, number: int, groups: Sequence[Group]) -> list[Outcome]:
        questions: dict[str, TrainOpen] = {}
        for group in groups:
            given = to_wire(group.given, copy=False)
            faster = self.faster(group.members)
            question = self.open_question(round=number, given=given, agreed=self.agreed.hash, faster=faster)
            questions |= dict.fromkeys(group.members, question)
        answers = self.sites.ask(questions, expect=Update)
        updates = {name: self._read(name, answer) for name, answer in answers.items()}
        good = {name: update for name, update in updates.items() if update is not None}
        trust = self.judged(groups, {name: sent for name, (sent, _) in good.items()})
        return [
            self._average(number, group, {n: u for n, u in good.items() if n in group.members}, trust)
            for group in groups
        ]

    def judged(self, groups: Sequence[Group], updates: dict[str, State]) -> dict[str, float]:
        """Return what sites' weights are multiplied by in the light of their updates; 1 where nothing is said."""
        return {}

    def _read(self, name: str, answer: Update) -> tuple[State, Update] | None:
        """Return what a site sent, or None when it is not what was asked for."""
        limit = LARGEST / len(self.members)
        try:
            sent = from_wire(answer.sent)
        except ProtocolError:
            sent = Tree()
        # One site that went astray, or lies, must not make the sum overflow for all.
        counts = 0 < answer.weight < limit or (self.rule.may_rest and answer.weight == 0)
        fit = self.sent.fits(sent) and counts and len(answer.figures) == self.figures
        if fit and sent.within(limit / max(answer.weight, 1.0)):
            return sent, answer
        self.sites.leave_out(
            name,
            f"sent arrays that do not fit the model; wanted {', '.join(self.sent)} of {self.sent.size} numbers in all, "
            "none of them huge or NaN (a lower rate helps if training diverged)",
        )
        return None

    def _average(
        self, number: int, group: Group, came: dict[str, tuple[State, Update]], trust: dict[str, float]
    ) -> Outcome:
        self._need(tuple(came), group)
        names = tuple(came)
        weights = np.array([came[name][1].weight * group.factor(name) * trust.get(name, 1.0) for name in names])
        whole = self.agreed.rows if self.rule.counts_rows else 0.0
        sent = [came[name][0] for name in names]
        found = combined(self.rule, self.form, sent, weights, group.given, whole)
        warn_of_cuts(self.sites, number, found.cut, self.rule.max_abs_change)
        return Outcome(
            found.mean,
            names,
            Figures.total(Figures(*update.figures) for _, update in came.values()),
            {name: sent for name, (sent, _) in came.items()},
            found.weight,
        )

    def finish(self, state: State) -> None:
        """Give every site its last model."""
        questions: dict[str, Finish] = {}
        for group in self.groups(self.rule.n_rounds, state, self.members):
            questions |= dict.fromkeys(group.members, Finish(given=to_wire(group.given, copy=False)))
        self.sites.ask(questions, expect=Finished)

    def model(self, state: State) -> TrainedModel:
        """Return the joint model in a state; arrays that sites keep stand as they were before training."""
        rule: Any = self.rule
        return rule.model_type(  # type: ignore[no-any-return]
            method=rule.name,
            names=self.agreed.classes,
            learner=str(rule.learner),
            options=rule.learner_options(),
            parameters=(self.first | state["model"]).copy(),
            columns=self.agreed.columns,
            centre=self.agreed.centre,
            spread=self.agreed.spread,
            joint=is_joint(self.rule, self.first),
        )
