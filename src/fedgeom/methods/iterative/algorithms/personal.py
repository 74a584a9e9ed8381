"""Personal models: Ditto, FedMTL, pFedMe, FedALA, FedPer, FedRep and FedBABU."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from fedgeom.errors import InputError
from fedgeom.federation.settings import POSITIVE, Between
from fedgeom.methods.iterative.algorithm import Algorithm
from fedgeom.methods.iterative.objective import Objective
from fedgeom.methods.iterative.settings import PersonalOrName, Round, TrainingRule
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.tree import State, Tree


@dataclass(frozen=True, kw_only=True)
class Ditto(Algorithm):
    """For sites whose patients differ: each also gets a model of its own near the joint one (Li et al. 2021).

    Each site also minimises h_k(v) = F_k(v) + λ/2·‖v − w_t‖² for itself (Algorithm 1).
    """

    name: ClassVar[str] = "ditto"

    lam: Annotated[float, Between(0)] = 0.1
    """λ: from 0 (local models) to large (the joint model)."""

    def local(self, task: Task, given: State, own: State) -> State:
        """Train the joint model, then the personal one around the joint model that was given."""
        w = given["model"]
        sent = task.fit(w)
        own["personal"] = task.fit(own.get("personal", w), Objective(strength=self.lam, centre=w))
        return Tree(model=sent)

    def personalise(self, task: Task, given: State, own: State) -> Tree:
        """Return the personal model, trained once more around the last joint model."""
        w = given["model"]
        return task.fit(own.get("personal", w), Objective(strength=self.lam, centre=w))

    def own_model(self, task: Task, given: State, sent: State, own: State) -> Tree:
        """Return the personal model."""
        return Tree(own["personal"])


@dataclass(frozen=True, kw_only=True)
class FedMTL(Algorithm):
    """For sites whose patients differ: each has a model of its own, near the mean of all (Smith et al. 2017).

    Multi-task learning where all sites are related alike: they minimise Σ_k F_k(w_k) + λ/2·Σ_k‖w_k − w̄‖², the
    published λ/2·tr(WΩWᵀ) with Ω = (I − 11ᵀ/K)². A site needs the mean w̄ of the models alone, so a sum is enough; an Ω
    that is learnt would need each site's model in the open.
    """

    name: ClassVar[str] = "fedmtl"

    weights: Literal["rows", "sites"] = "sites"
    """In the published objective all sites count the same."""
    lam: Annotated[float, Between(0)] = 1.0
    """λ: from 0 (local models) to large (one model for all)."""

    def local(self, task: Task, given: State, own: State) -> State:
        """Train the site's own model on, near the mean of all."""
        own["personal"] = self.personalise(task, given, own)
        return Tree(model=own["personal"])

    def personalise(self, task: Task, given: State, own: State) -> Tree:
        """Return the site's own model, trained once more near the last mean."""
        w = given["model"]
        return task.fit(own.get("personal", w), Objective(strength=self.lam, centre=w))


@dataclass(frozen=True, kw_only=True)
class PFedMe(Algorithm):
    """For sites whose patients differ: each also gets a model of its own (T Dinh et al. 2020).

    A personal model θ_k near the site's copy w_k; the copy follows θ_k, and copies are averaged.
    T Dinh et al. 2020, Algorithm 1: in each of R local rounds θ ≈ argmin F_k(θ) + λ/2·‖θ − w_k‖² on one minibatch by
    K steps, then w_k ← w_k − ηλ(w_k − θ); at the coordinator w ← (1 − β)w + β·mean(w_k).
    """

    name: ClassVar[str] = "pfedme"
    needs_steps: ClassVar[bool] = True

    weights: Literal["rows", "sites"] = "sites"
    """The published algorithm counts every site the same."""
    lam: Annotated[float, POSITIVE] = 15.0
    """λ: how near θ_k stays to the copy."""
    local_rounds: Annotated[int, Between(1)] = 20
    """R: how often the copy moves in a round."""
    inner_steps: Annotated[int, Between(1)] = 5
    """K: gradient steps for each θ."""
    outer_learning_rate: Annotated[float, POSITIVE] = 0.05
    """η: how fast the copy follows; ηλ ≤ 1 for stability."""
    inner_learning_rate: Annotated[float, POSITIVE] = 0.05
    """The rate of the gradient steps for θ."""
    beta: Annotated[float, POSITIVE] = 1.0
    """β: how far the joint model moves towards the mean copy."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.outer_learning_rate * self.lam <= 1:
            raise InputError(
                f"lam={self.lam}, outer_learning_rate={self.outer_learning_rate} given; wanted "
                "0 < outer_learning_rate·lam ≤ 1"
            )

    def local(self, task: Task, given: State, own: State) -> State:
        """Move the site's copy after its personal models."""
        copy = given["model"].copy()
        for _ in range(self.local_rounds):
            theta = self._envelope(task, copy)
            copy = copy - self.outer_learning_rate * self.lam * (copy - theta)
        own["personal"] = theta
        return Tree(model=copy)

    def _envelope(self, task: Task, copy: Tree) -> Tree:
        size = task.effort.step_rows(task.rows)
        rows = np.sort(task.rng.choice(task.rows, size, replace=False))
        objective = Objective(strength=self.lam, centre=copy)
        return task.fit(copy, objective, steps=self.inner_steps, only=rows, learning_rate=self.inner_learning_rate)

    def combine(self, state: State, mean: State, round: Round) -> State:
        """Move the joint model towards the mean copy."""
        return Tree(model=(1 - self.beta) * state["model"] + self.beta * mean["model"])

    def personalise(self, task: Task, given: State, own: State) -> Tree:
        """Return θ_k around the last joint model, on all of the site's rows."""
        return task.fit(
            given["model"],
            Objective(strength=self.lam, centre=given["model"]),
            steps=self.local_rounds * self.inner_steps,
            batch_size=None,
            learning_rate=self.inner_learning_rate,
        )

    def own_model(self, task: Task, given: State, sent: State, own: State) -> Tree:
        """Return the personal model."""
        return Tree(own["personal"])


@dataclass(frozen=True, kw_only=True)
class FedALA(Algorithm):
    """For sites whose patients differ: each learns how much of the joint model to take (Zhang et al. 2023).

    A site begins a round with v + (w − v)∘W: its own last model v, moved to the joint one by weights W from 0 to 1 for
    each parameter. They descend on the site's cross-entropy, W ← clip(W − η·∇F_k∘(w − v)); what has no weights is the
    joint model's (Eq. 4 and 5).
    """

    name: ClassVar[str] = "fedala"
    needs_steps: ClassVar[bool] = True

    mixed: Literal["head", "all"] = "all"
    """Which parameters have weights: the learner's head alone, or all."""
    weight_learning_rate: Annotated[float, POSITIVE] = 1.0
    """η: the rate of the weights."""
    weight_rows: Annotated[float, Between(0, 1, open_low=True)] = 0.8
    """The share of the site's rows, drawn in each round, on which weights are learnt."""
    weight_steps: Annotated[int, Between(1, 1000)] = 10
    """How many steps the weights take in a round, each on all of these rows."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mixed == "head":
            check_head(self)

    def local(self, task: Task, given: State, own: State) -> State:
        """Train from the mixture on, and keep what came of it."""
        own["personal"] = task.fit(self._mixture(task, given["model"], own))
        return Tree(model=own["personal"])

    def personalise(self, task: Task, given: State, own: State) -> Tree:
        """Return the mixture with the last joint model."""
        return self._mixture(task, given["model"], own)

    def _mixture(self, task: Task, w: Tree, own: State) -> Tree:
        """Learn the weights, and return the model that they make; without a model of its own the joint one."""
        if "personal" not in own:
            return w
        trained = set(w) - set(task.learner.statistics)
        names = task.learner.head if self.mixed == "head" else sorted(trained)
        mine = own["personal"].select(names)
        apart = w.select(names) - mine
        weights = own.get("weights", apart.map(np.ones_like))
        drawn = task.part(task.rng.permutation(task.rows)[: max(math.ceil(self.weight_rows * task.rows), 2)])
        for _ in range(self.weight_steps):
            slope = drawn.gradient(w | (mine + weights * apart)).select(names)
            weights = (weights - self.weight_learning_rate * slope * apart).map(lambda leaf: np.clip(leaf, 0, 1))
        own["weights"] = weights
        return Tree(w | (mine + weights * apart))


@dataclass(frozen=True, kw_only=True)
class FedPer(Algorithm):
    """For networks at sites whose patients differ: each keeps its last layer (Arivazhagan et al. 2019).

    Body and head train together; only the body is sent and averaged.
    The head is the learner's: for logistic regression the intercept, for a torch module the arrays it names. A site
    that did not train has the head of the first model and should train it.
    """

    name: ClassVar[str] = "fedper"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_head(self)

    def shared(self, model: Tree) -> Tree:
        """Return the body."""
        return body_of(self, model)

    def whole(self, task: Task, model: Tree, own: State) -> Tree:
        """Put the site's head on the joint body."""
        return with_own_head(task, model, own)

    def local(self, task: Task, given: State, own: State) -> State:
        """Train both, send the body."""
        trained = task.fit(self.whole(task, given["model"], own))
        own["head"] = trained.select(task.learner.head)
        return Tree(model=self.shared(trained))


def check_head(rule: TrainingRule) -> None:
    """Refuse a learner without a head that is trained."""
    if not rule.build_learner().head:
        raise InputError(
            f"learner {rule.learner!r} names no head; give it one: TorchLearner(…, head=(…)), or to a "
            'network one that is trained, head="linear"'
        )


def body_of(rule: TrainingRule, model: Tree) -> Tree:
    """Return all of a model but the learner's head."""
    return model.select(set(model) - set(rule.build_learner().head))


def with_own_head(task: Task, model: Tree, own: State, names: tuple[str, ...] = ()) -> Tree:
    """Put the head that a site kept on a joint body; one that never trained has that of the first model."""
    head = own["head"] if "head" in own else task.first.select(names or task.learner.head)
    return model | head


@dataclass(frozen=True, kw_only=True)
class FedRep(Algorithm):
    """For networks at sites whose patients differ: each has its own last layer, trained before the rest.

    A site trains its own head on the joint body for some epochs, then the body under that head, and sends the body.
    Collins et al. 2021, Algorithm 1. ``epochs`` or ``steps`` are those of the body.
    """

    name: ClassVar[str] = "fedrep"
    needs_steps: ClassVar[bool] = True

    head_epochs: Annotated[int, Between(1, 10**6)] = 5
    """τ: passes over the rows for the head."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_head(self)

    def shared(self, model: Tree) -> Tree:
        """Return the body."""
        return body_of(self, model)

    def whole(self, task: Task, model: Tree, own: State) -> Tree:
        """Put the site's head on the joint body."""
        return with_own_head(task, model, own)

    def local(self, task: Task, given: State, own: State) -> State:
        """Train the head, then the body."""
        trained = self._head(task, self.whole(task, given["model"], own))
        own["head"] = trained.select(task.learner.head)
        return Tree(model=self.shared(task.fit(trained, frozen=task.learner.head)))

    def _head(self, task: Task, model: Tree) -> Tree:
        body = tuple(name for name in self.shared(model) if name not in task.learner.statistics)
        return task.fit(model, frozen=body, epochs=self.head_epochs, steps=None)

    def personalise(self, task: Task, given: State, own: State) -> Tree:
        """Return the last body with the site's head, trained once more for it."""
        return self._head(task, self.whole(task, given["model"], own))


@dataclass(frozen=True, kw_only=True)
class FedBABU(Algorithm):
    """For networks at sites whose patients differ: a joint body; each site adapts all of it in the end.

    Sites train the body alone; the head stays as it was first drawn, and each site fine-tunes all in the end.
    Oh, Kim and Yun 2022.
    """

    name: ClassVar[str] = "fedbabu"
    needs_steps: ClassVar[bool] = True

    personal: PersonalOrName = "finetuned"
    """Body and head are trained on at the site."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_head(self)

    def local(self, task: Task, given: State, own: State) -> State:
        """Train the body under the first head."""
        return Tree(model=task.fit(given["model"], frozen=task.learner.head))
