"""Rounds of training with noise in their sums: what a site adds, and the mean that follows.

Per row, a round is a step of gradient descent (Abadi et al. 2016, Algorithm 1, on all rows instead of a draw): each
row's gradient is shortened to ``clip``, and the sums of these, and of the rows, have noise. Per site, the change that a
site's training made is shortened to ``clip`` (McMahan et al. 2018). In both, the models that sites are given may be
anything: what they add to one round is bounded whatever they were given, and the noise of all rounds is reckoned for a
coordinator that chooses each model by the rounds before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from fedgeom.arrays import Floats, Ints
from fedgeom.errors import ProtocolError
from fedgeom.federation.privacy import DP, privacy_of
from fedgeom.methods.iterative.messages import Masked
from fedgeom.methods.iterative.setup import asked_again
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.tree import State, Tree, from_wire
from fedgeom.privacy.bounded_sums import FINE_ONE, BoundedVector
from fedgeom.protocols.cohort import Cohort
from fedgeom.protocols.secure_sum.rules import beyond_bound

if TYPE_CHECKING:
    from fedgeom.methods.iterative.settings import TrainingRule

COUNT = 0.2
"""What a row's count weighs beside its gradient, whose weight is √(1 - 0.2²): the mean needs both."""
_COUNT = round(COUNT * 2**8)
_GRADIENT = round(math.sqrt(1 - COUNT**2) * 2**8)


def bounds(rule: TrainingRule, privacy: DP, numbers: int) -> dict[str, Any]:
    """Return what the noise of a round follows from (`fedgeom.protocols.noise.sum_noise`)."""
    if privacy.unit == "site":  # one site's change may be exchanged for any other
        return {"sensitivity": 2.0 * FINE_ONE, "numbers": numbers, "releases": rule.n_rounds}
    most = math.sqrt(_COUNT**2 + _GRADIENT**2) * FINE_ONE
    return {"sensitivity": most, "numbers": 1 + numbers, "releases": rule.n_rounds}


def gradient_summand(task: Task, model: Tree, clip: float) -> Ints:
    """Return what a site adds per row: how many rows there are, and the sum of their gradients, (1 + numbers,), i8."""
    whole = task.learner.bounded_gradient(model, task.X, task.y, clip)
    return np.concatenate([[len(task.X) * _COUNT * FINE_ONE], whole * _GRADIENT])


def change_summand(sent: State, given: State, clip: float, *, changes: bool) -> BoundedVector:
    """Return what a site adds of its change of the model, (numbers,)."""
    return BoundedVector(sent["model"].flat() - (0.0 if changes else given["model"].flat()), clip)


def summand(site: Any, ask: Masked, rate: float) -> tuple[Ints | BoundedVector, dict[str, Any]]:
    """Return what a site adds to a round's sum before the noise, and what the noise follows from."""
    if set(ask.factors.values()) != {1.0} or ask.faster or ask.group:
        raise ProtocolError("with privacy all sites count alike, in one group, at one rate")
    rule = site.rule
    privacy = privacy_of(site.rule)
    assert privacy is not None
    asked = ask.ticket.question_hash
    task = site.task(ask.round, rate)
    state = site.given_state(ask.given, task)
    whole: Ints | BoundedVector
    if privacy.unit == "row":
        asked_again(site.memory.trained, rule.n_rounds, asked, ask.round)
        site.memory.trained[ask.round] = asked
        whole = gradient_summand(task, state["model"], privacy.clip)
    else:
        sent, _, _ = site.train(asked, ask.round, ask.given, rate)
        whole = change_summand(sent, state, privacy.clip, changes=rule.sends_changes)
    found = bounds(rule, privacy, state["model"].size)
    return whole, {name: found[name] for name in ("sensitivity", "releases")}


@dataclass
class PrivateRounds:
    """The coordinator's side: it reads sums, and knows how many rows there are the better the more rounds it saw."""

    rule: TrainingRule
    privacy: DP
    counts: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, rule: TrainingRule) -> PrivateRounds | None:
        """Return the rounds of a rule with privacy; None for one without."""
        privacy = privacy_of(rule)
        return None if privacy is None else cls(rule, privacy)

    def conduct(self, cohort: Cohort, question: Masked, members: Sequence[str]) -> tuple[State, tuple[str, ...]]:
        """Ask for a round's sum; return the mean that follows, and over whom it is."""
        given = from_wire(question.given)
        found = bounds(self.rule, self.privacy, given["model"].size)
        total = cohort.sum_words(question, length=found["numbers"], participants=members)
        noise = cohort.noise(**found)
        rate = self.rule.rate_in(question.round)
        numbers = noise.read(total.vector.view(np.int64))
        sites = len(total.sites)
        if self.privacy.unit == "site":
            length = float(np.linalg.norm(numbers))
            most = noise.longest(FINE_ONE, sites)
            if length > most:
                scale = self.privacy.clip / FINE_ONE
                raise beyond_bound(
                    f"the sum {question.kind!r} over {sites} sites has the length {length * scale:.6g}; changes no "
                    f"longer than clip = {self.privacy.clip:g}, and noise, add up to {most * scale:.6g} at most"
                )
        return self.mean(numbers, given, sites, rate, noise.spread), total.sites

    def mean(self, total: Floats, given: State, sites: int, rate: float, spread: float) -> State:
        """Return the mean model that a round's noisy sum says; ``spread`` is the deviation of its noise.

        total: (1 + numbers,) per row, (numbers,) per site, f8.
        """
        model = given["model"]
        clip = self.privacy.clip
        if self.privacy.unit == "site":
            return Tree(model=model.like(model.flat() + total * (clip / FINE_ONE / sites)))
        self.counts.append(total[0] / (_COUNT * FINE_ONE))
        error = spread / (_COUNT * FINE_ONE) / math.sqrt(len(self.counts))
        rows = max(float(np.mean(self.counts)), error, 1.0)
        gradient = total[1:] * (clip / FINE_ONE / _GRADIENT) / rows
        gradient += self.rule.build_learner().penalty_gradient(model, rows)
        return Tree(model=model.like(model.flat() - rate * gradient))
