"""APPLE: each site takes of every site's model as much as helps it; all of them see all models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np

from fedgeom.arrays import Floats, Ints
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.plan import Shape
from fedgeom.federation.settings import POSITIVE, SHARE, Between
from fedgeom.federation.site import Site, answers
from fedgeom.methods.aggregation import LARGEST
from fedgeom.methods.iterative.algorithm import Algorithm, Specimen
from fedgeom.methods.iterative.messages import Leaves, TrainOpen, Update
from fedgeom.methods.iterative.settings import Round
from fedgeom.methods.iterative.site import TrainingSite
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.training import Outcome, TrainingLoop
from fedgeom.methods.iterative.tree import State, Tree, from_wire, to_wire

CORES = "cores"


def branch(number: int) -> str:
    """Return what a site's core model is called in the state, by the site's place among all sites' names."""
    return f"{number:04d}"


def alike(model: Tree, sites: int) -> Tree:
    """Return the branch of core models where each is the same."""
    return Tree({branch(number): model for number in range(sites)})


class TrainAmongAll(TrainOpen, kind="train.among-all", answer=Update):
    """Ask a site to train its core model, and give it those of all sites."""

    answer_reveals: ClassVar[str] = (
        "to the coordinator and, in the next round, to every other site: this site's trained parameters; to the "
        "coordinator alone its number of rows, its losses and right answers on rows set aside"
    )


class AppleLoop(TrainingLoop):
    """One run of `Apple`: beside the mean it keeps every site's core model, and gives all of them to all sites."""

    open_question = TrainAmongAll

    def _rounds(self, state: State) -> tuple[State, list[float]]:
        return super()._rounds(state | {CORES: alike(state["model"], len(self.cohort.joined.keys))})

    def combine(self, state: State, outcomes: Sequence[Outcome], round: Round) -> State:
        """Put what the sites sent in the place of their last core models."""
        cores = Tree(state[CORES])
        names = sorted(self.cohort.joined.keys)
        for name, sent in outcomes[0].updates.items():
            cores |= {branch(names.index(name)): sent["model"]}
        return super().combine(state, outcomes, round) | {CORES: cores}


class AppleSite(TrainingSite):
    """Answers questions with core models of all sites in them."""

    @answers(TrainAmongAll)
    def train_among_all(self, ask: TrainAmongAll) -> Update:
        """Train and show the result."""
        return self.train_open(ask)

    def given_state(self, given: Leaves, task: Task) -> State:
        """Read the mean and all sites' core models, and add the place of this site's own."""
        state = super().given_state(
            {path: leaf for path, leaf in given.items() if path.startswith("model/")}, task
        )
        names = sorted(self.joining.memory.cohort)
        model = state["model"]
        cores = Tree(from_wire(given, copy=False).get(CORES, Tree()))
        wanted = alike(model, len(names))
        if not (wanted.fits(cores) and wanted.same_dtypes(cores) and cores.within(LARGEST)):
            raise ProtocolError(
                f"what was given has no core models of {len(names)} sites that fit the model of {model.size} numbers"
            )
        return state | {CORES: cores, "place": names.index(self.name)}


@dataclass(frozen=True, kw_only=True)
class Apple(Algorithm):
    """For comparison: each site mixes all sites' models for itself, so that all see them (Luo and Wu 2022).

    Site i predicts by Σ_j p_ij·w_j over all sites' core models w_j. In each step it moves its own core model along
    −p_ii·∇F_i and its shares p_ij along −⟨∇F_i, w_j⟩ − λ(r)·μ·(p_ij − 1/K), where λ falls from 1 to 0 over the first
    rounds as half a cosine. Only for open runs: every site is shown every other site's model.
    """

    name: ClassVar[str] = "apple"
    gives: ClassVar[tuple[str, ...]] = ("model", CORES)
    needs_steps: ClassVar[bool] = True
    takes_groups: ClassVar[bool] = False
    site: ClassVar[type[Site[Any]]] = AppleSite
    conversation: ClassVar[type[TrainingLoop]] = AppleLoop

    secure: bool | None = False
    """Core models travel in the open."""
    share_learning_rate: Annotated[float, POSITIVE] = 0.001
    """The rate of the shares p_ij."""
    mu: Annotated[float, Between(0)] = 0.001
    """μ: how firmly shares are held near 1/K at first."""
    settling: Annotated[float, SHARE] = 0.2
    """The share of the rounds over which λ falls to 0."""

    def __post_init__(self) -> None:
        super().__post_init__()
        optimizer: Any = self.optimizer
        augmentation: Any = self.augmentation
        wrong = {
            "secure": (self.secure, self.secure is not False, "False"),
            "aggregation": (self.aggregation, self.combine_rule.name != "mean", '"mean"'),
            "loss": (self.loss, self.loss_of_rows.name != "cross-entropy", '"cross-entropy"'),
            "optimizer": (optimizer, not optimizer.bare, '"sgd" without momentum'),
            "augmentation": (augmentation, augmentation.name != "none", '"none"'),
        }
        for name, (given, refused, wanted) in wrong.items():
            if refused:
                raise InputError(
                    f"Apple with {name}={given!r} given; it shows all sites' models to all of them, and takes plain "
                    f"steps along two gradients of the cross-entropy at once. Wanted {name}={wanted}"
                )

    def shows_one_site(self) -> str:
        """Apple shows each site's model to every other site, too."""
        return f"{super().shows_one_site()}; the parameters also to every other site"

    def specimen(self, shape: Shape, classes: int) -> Specimen:
        """Return what travels in a round: to the sites all core models."""
        found = super().specimen(shape, classes)
        given = from_wire(found.given)
        return replace(found, given=to_wire(given | {CORES: alike(given["model"], shape.n_sites)}))

    def held(self, round: int) -> float:
        """Return μ·λ(r): how firmly shares are held near 1/K in a round."""
        last = int(self.settling * self.n_rounds)
        return self.mu * (1 + math.cos(math.pi * round / last)) / 2 if round < last else 0.0

    def local(self, task: Task, given: State, own: State) -> State:
        """Train the site's own core model and its shares together."""
        model, place = given["model"], int(given["place"])
        cores = stacked(given)
        shares = own.get("shares", even(cores))
        for rows in task.effort.batches(task.rows, task.rng, task.y):
            gradient = gradient_of(task, rows, model.like(shares @ cores))
            slopes = cores @ gradient + self.held(task.round) * (shares - even(cores))
            cores[place] -= task.effort.learning_rate * shares[place] * task.effort.shortened(gradient)
            shares = shares - self.share_learning_rate * slopes
        own["shares"] = shares
        own["personal"] = model.like(shares @ cores)
        return Tree(model=model.like(cores[place]))

    def personalise(self, task: Task, given: State, own: State) -> Tree:
        """Return the site's mixture of the last core models."""
        cores = stacked(given)
        return Tree(given["model"].like(own.get("shares", even(cores)) @ cores))

    def own_model(self, task: Task, given: State, sent: State, own: State) -> Tree:
        """Return the site's mixture."""
        return Tree(own["personal"])


def gradient_of(task: Task, rows: Ints, model: Tree) -> Floats:
    """Return the gradient of a batch's mean loss with the penalty of all rows, as in other training, (numbers,)."""
    found = task.part(rows).gradient(model).flat()
    penalties = [task.learner.penalty_gradient(model, float(count)) for count in (task.rows, len(rows))]
    return np.asarray(found + penalties[0] - penalties[1])


def stacked(given: State) -> Floats:
    """Return all sites' core models as rows, (sites, numbers)."""
    return np.stack([core.flat() for _, core in sorted(given[CORES].items())])


def even(cores: Floats) -> Floats:
    """Return the shares that a site begins with, 1/K for each of K sites, (sites,)."""
    return np.full(len(cores), 1 / len(cores))
