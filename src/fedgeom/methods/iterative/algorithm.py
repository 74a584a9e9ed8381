"""A row of the table: what a site does in a round, and what the coordinator makes of it.

A new row is a subclass of `Row` with two short functions, `local` and `combine`, and perhaps `personalise`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from fedgeom.errors import InputError
from fedgeom.federation.conversation import Sites
from fedgeom.federation.site import Site
from fedgeom.methods.iterative import aggregation
from fedgeom.methods.iterative.conversation import Conversation
from fedgeom.methods.iterative.effort import Effort, scheduled
from fedgeom.methods.iterative.learners import Learner, learner_named, register
from fedgeom.methods.iterative.learners.logistic import Logistic
from fedgeom.methods.iterative.messages import TrainMasked, TrainOpen
from fedgeom.methods.iterative.model import TrainedModel
from fedgeom.methods.iterative.personal import WAYS, personal_model
from fedgeom.methods.iterative.site import TrainingSite
from fedgeom.methods.iterative.tabular import MOST_ROUNDS, TabularMethod, check_choice, check_whole
from fedgeom.methods.iterative.task import Task
from fedgeom.methods.iterative.vectors import Layout, Vector

if TYPE_CHECKING:
    LearnerOrName = str | Learner
else:  # federation files are read by these types, and hold names only
    LearnerOrName = str

State = dict[str, Vector]
"""Named vectors: what the coordinator keeps, what it gives, what a site keeps, what it sends."""


@dataclass(frozen=True, kw_only=True)
class Row(TabularMethod):
    """The base of all rows, with the settings they share."""

    site: ClassVar[type[Site[Any]]] = TrainingSite
    common_site: ClassVar[type[Site[Any]]] = TrainingSite
    conversation: ClassVar[type[Conversation]] = Conversation
    model_type: ClassVar[type[TrainedModel]] = TrainedModel
    sends: ClassVar[tuple[str, ...]] = ("model",)
    """The vectors that `local` returns; all have the model's length."""
    gives: ClassVar[tuple[str, ...]] = ("model",)
    """The vectors of the coordinator's state that sites are given."""
    sends_changes: ClassVar[bool] = False
    """Whether the vector "model" that is sent is a change of the model."""
    needs_steps: ClassVar[bool] = False
    """Whether the row's update rule counts gradient steps, so that ``solver="exact"`` makes no sense."""

    learner: LearnerOrName = "logistic"
    """"logistic", the name of a registered learner, or a learner (which is then registered)."""
    C: float = 1.0
    """For "logistic": the inverse penalty, as in scikit-learn."""
    rounds: int = 15
    """How often sites train and are averaged."""
    epochs: int = 5
    """Passes over the site's rows in a round."""
    steps: int | None = None
    """Gradient steps in a round, instead of epochs."""
    batch: int | None = 32
    """Rows per gradient step; None: all."""
    rate: float = 0.1
    """η: the learning rate at the sites."""
    schedule: Literal["constant", "cosine", "decay"] = "constant"
    """How the rate changes over the rounds."""
    decay: float = 0.97
    """For schedule="decay": the factor per round."""
    solver: Literal["sgd", "exact"] = "sgd"
    """"exact": sites train to the optimum in every round (logistic regression only)."""
    share: float = 1.0
    """The share of the sites that train in a round, drawn anew each time."""
    aggregation: Literal["mean", "median", "trimmed", "krum", "geometric"] = "mean"
    """How sites' vectors become one; all but "mean" look at each site's vector."""
    trim: float = 0.2
    """For aggregation="trimmed": the share cut off at either end."""
    bad: int | None = None
    """For aggregation="krum": how many bad sites to expect. None: as many as it can bear."""
    weights: Literal["rows", "sites"] = "rows"
    """Whether a site counts by its number of rows, or all count the same."""
    secure: bool | None = None
    """Whether the coordinator sees sums only. None: wherever the row and its aggregation can do with sums."""
    personal: Literal["none", "finetuned", "interpolated"] = "none"
    """What a site makes of the last model for itself (`fedgeom.methods.iterative.personal`)."""
    mix: float | None = None
    """For personal="interpolated": the local model's part a. None: each site chooses by cross-validation."""
    validation: float = 0.0
    """The share of its rows that a site sets aside to watch the loss of the joint model."""
    patience: int | None = None
    """Stop when the loss on rows set aside has not fallen for this many rounds; the best model is kept."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.learner, Learner):
            known = self.learner
            if isinstance(known, Logistic):
                object.__setattr__(self, "C", known.C)
            else:
                register(known)
            object.__setattr__(self, "learner", known.name)
        learner_named(str(self.learner), **self.learner_options())
        self._check_numbers()
        if self.secure and self.aggregation != "mean":
            raise InputError(
                f"secure=True with aggregation={self.aggregation!r}: that looks at each site's vector, which a secure "
                'sum hides; use aggregation="mean" or secure=False'
            )
        if self.needs_steps and self.solver == "exact":
            raise InputError(f'{type(self).__name__} counts gradient steps; solver="exact" takes none: use "sgd"')

    def _check_numbers(self) -> None:
        check_whole("rounds", self.rounds, 1, MOST_ROUNDS)
        check_whole("epochs", self.epochs, 1, 10**6)
        optional = {"steps": (1, 10**9), "batch": (1, 10**9), "patience": (1, MOST_ROUNDS), "bad": (0, 10**6)}
        for name, (least, most) in optional.items():
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), least, most)
        for name, value in {"rate": self.rate, "decay": self.decay}.items():
            if not 0 < value < 10**6:
                raise InputError(f"{name}={value} given; wanted a positive number (below a million)")
        shares = {
            "share": (self.share, 0, 1),
            "trim": (self.trim, 0, 0.5),
            "validation": (self.validation, 0, 0.9),
        }
        for name, (number, low, high) in shares.items():
            if not low <= number <= high:
                raise InputError(f"{name}={number} given; wanted a share from {low} to {high}")
        if self.patience is not None and not self.validation:
            raise InputError("patience needs rows to watch; give validation=0.1 or so")
        if self.mix is not None and not 0 <= self.mix <= 1:
            raise InputError(f"mix={self.mix} given; wanted a number from 0 (joint) to 1 (local)")
        for name, choice, known in (
            ("aggregation", self.aggregation, aggregation.NAMES),
            ("schedule", self.schedule, ("constant", "cosine", "decay")),
            ("solver", self.solver, ("sgd", "exact")),
            ("weights", self.weights, ("rows", "sites")),
            ("personal", self.personal, WAYS),
        ):
            check_choice(name, choice, known)

    # What makes a row.

    def start(self, w: Vector) -> State:
        """Return the coordinator's vectors before the first round."""
        return {"model": w}

    def local(self, task: Task, given: State, own: State) -> State:
        """Train at a site: take what was given, change what the site keeps (``own``), return what is sent."""
        raise NotImplementedError(f"{type(self).__name__} does not train")

    def combine(self, state: State, mean: State, share: float) -> State:
        """Turn the mean of what was sent by a share of the sites into the coordinator's next vectors."""
        return state | {"model": mean["model"]}

    def next_state(self, state: State, mean: State, share: float, averaged: npt.NDArray[np.bool_]) -> State:
        """Combine; the entries in ``averaged`` are statistics of rows, which no step of the coordinator fits."""
        new = self.combine(state, mean, share)
        if averaged.any():
            plain = state["model"] + mean["model"] if self.sends_changes else mean["model"]
            new = new | {"model": np.where(averaged, plain, new["model"])}
        return new

    def personalise(self, task: Task, given: State, own: State) -> Vector:
        """Return the site's own model, given the last joint one."""
        return personal_model(self.personal, task, self.whole(task, given["model"], own), mix=self.mix)

    def shared(self, layout: Layout) -> npt.NDArray[np.bool_]:
        """Mark the entries of the model that are sent; the others stay at the site."""
        return np.ones(layout.size, bool)

    def whole(self, task: Task, model: Vector, own: State) -> Vector:
        """Return a whole model from its shared entries and the site's own."""
        return model

    # What the conversation needs to know.

    @property
    def masked(self) -> bool:
        """Whether the coordinator sees sums only."""
        return self.aggregation == "mean" if self.secure is None else self.secure

    @property
    def groups(self) -> int:
        """The most groups that are averaged apart in a round."""
        return 1

    @property
    def extra_columns(self) -> int:
        """How many columns sites add to their tables before they train."""
        return 0

    def effort(self, rate: float | None = None) -> Effort:
        """Return what a site does in one visit."""
        return Effort(
            epochs=self.epochs,
            steps=self.steps,
            batch=self.batch,
            rate=self.rate if rate is None else rate,
            solver=self.solver,
        )

    def rate_in(self, round: int) -> float:
        """Return the learning rate of a round."""
        return scheduled(self.rate, self.schedule, self.decay, round, self.rounds)

    def build_learner(self) -> Learner:
        """Return the learner itself."""
        return learner_named(str(self.learner), **self.learner_options())

    def learner_options(self) -> dict[str, Any]:
        """Return what a learner that comes with fedgeom is built with."""
        return {"C": self.C} if self.learner == "logistic" else {}

    def planned_sums(self) -> tuple[str, ...]:
        """Return a secure sum for each group in each round, if that is what the row does."""
        return (TrainMasked.kind,) * (self.rounds * self.groups) if self.masked and self.sends else ()

    @classmethod
    def leaves(cls) -> tuple[str, ...]:
        """Return what leaves a site, as the ledger says it, with the settings where nothing is said."""
        row, lines = cls(), list(super().leaves())
        if row.sends and row.masked:
            lines.append(TrainMasked.answer_reveals)
            lines.append(f"with secure=False or a robust aggregation instead: {TrainOpen.answer_reveals}")
        elif row.sends:
            lines.append(TrainOpen.answer_reveals)
        return tuple(lines)

    def conduct(self, sites: Sites) -> TrainedModel:
        """Hold the conversation: join, agree on classes and scale, train in rounds, hand out the model."""
        return self.conversation(self, sites).hold()
