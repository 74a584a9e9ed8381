"""A row of the table: what a site does in a round, and what the coordinator makes of it.

A new row is a subclass of `Row` with two short functions, `local` and `combine`, and perhaps `personalise`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation.method import Method
from fedgeom.federation.site import Site
from fedgeom.federation.sites import Sites
from fedgeom.protocols.cohort import check_columns
from fedgeom.training import aggregation
from fedgeom.training.conversation import Conversation
from fedgeom.training.effort import Effort, scheduled
from fedgeom.training.learners import Learner, learner_named, register
from fedgeom.training.learners.logistic import Logistic
from fedgeom.training.messages import GiveColumnSums, TrainMasked, TrainOpen
from fedgeom.training.model import TrainedModel
from fedgeom.training.personal import WAYS, personal_model
from fedgeom.training.site import TrainingSite
from fedgeom.training.task import Task
from fedgeom.training.vectors import Layout, Vector

if TYPE_CHECKING:
    LearnerOrName = str | Learner
else:  # federation files are read by these types, and hold names only
    LearnerOrName = str

MOST_ROUNDS = 500
MOST_LETTERS = 1000
"""The terms of a run travel in its first question, whose texts are bounded."""

DEFINED: dict[str, type[Row]] = {}
"""All rows that were defined in this process, by name."""

State = dict[str, Vector]
"""Named vectors: what the coordinator keeps, what it gives, what a site keeps, what it sends."""


@dataclass(frozen=True, kw_only=True)
class Row(Method):
    """The base of all rows, with the settings they share."""

    site: ClassVar[type[Site[Any]]] = TrainingSite
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
    scale: Literal["joint", "site", "none"] = "joint"
    """How columns are scaled: by all sites' rows (one secure sum), by each site's own, or not."""
    personal: Literal["none", "finetuned", "interpolated"] = "none"
    """What a site makes of the last model for itself (`fedgeom.training.personal`)."""
    mix: float | None = None
    """For personal="interpolated": the local model's part a. None: each site chooses by cross-validation."""
    validation: float = 0.0
    """The share of its rows that a site sets aside to watch the loss of the joint model."""
    patience: int | None = None
    """Stop when the loss on rows set aside has not fallen for this many rounds; the best model is kept."""
    classes: tuple[str, ...] | None = None
    """The agreed label names. None: the union of the sites' names, which the sites then work out themselves."""
    least_points: int = 1
    """Sites refuse to take part with a class of fewer rows."""
    smallest: int = 2
    """The fewest sites that make a round."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" in cls.__dict__:
            DEFINED[cls.name] = cls
        # Each row has a site class of its own: a site knows the row by what it has installed, never from the wire.
        cls.site = type(
            f"{cls.__name__}Site", (cls.site,), {"row": cls, "__doc__": f"Answers for `{cls.__name__}`."}
        )

    def __post_init__(self) -> None:
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
        if self.classes is not None and (len(set(self.classes)) < 2 or any("\n" in n for n in self.classes)):
            raise InputError(f"classes={self.classes} given; wanted at least two different one-line names")
        if len("\n".join(self.classes or ())) > MOST_LETTERS:
            raise InputError(
                f"{len(self.classes or ())} classes given, with names of more than {MOST_LETTERS} letters in all; "
                "leave classes away (the sites then work out the union), or shorten the names"
            )

    def _check_numbers(self) -> None:
        whole = {"rounds": (1, MOST_ROUNDS), "epochs": (1, 10**6), "steps": (1, 10**9), "batch": (1, 10**9)}
        whole |= {
            "patience": (1, MOST_ROUNDS),
            "smallest": (1, 10**6),
            "least_points": (0, 10**9),
            "bad": (0, 10**6),
        }
        for name, (least, most) in whole.items():
            count = getattr(self, name)
            if count is None and name in ("steps", "batch", "patience", "bad"):
                continue
            if not isinstance(count, int) or not least <= count <= most:
                raise InputError(f"{name}={count} given; wanted a whole number from {least} to {most}")
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
            ("scale", self.scale, ("joint", "site", "none")),
            ("personal", self.personal, WAYS),
        ):
            if choice not in known:
                raise InputError(f"{name}={choice!r} is unknown; there are: {', '.join(known)}")

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

    def parameters(self) -> dict[str, Any]:
        """Return the parameters as plain values; class names are joined by line ends."""
        values = super().parameters()
        return values | {"classes": None if self.classes is None else "\n".join(self.classes)}

    @classmethod
    def from_terms(cls, terms: Mapping[str, Any]) -> Row:
        """Build the row from the terms of a run, at a site."""
        known = {field.name for field in dataclasses.fields(cls)}
        values = {name: value for name, value in terms.items() if name in known}
        if values.get("classes") is not None:
            values["classes"] = tuple(str(values["classes"]).split("\n"))
        return cls(**values)

    @classmethod
    def leaves(cls) -> tuple[str, ...]:
        """Return what leaves a site, as the ledger says it, with the settings where nothing is said."""
        row, shared = cls(), TrainingSite.understands()
        own = [question for kind, question in cls.site.understands().items() if kind not in shared]
        lines = [question.answer_reveals or question.answer.reveals for question in own]
        if row.scale == "joint":
            lines.append(GiveColumnSums.answer_reveals)
        if row.sends and row.masked:
            lines.append(TrainMasked.answer_reveals)
            lines.append(f"with secure=False or a robust aggregation instead: {TrainOpen.answer_reveals}")
        elif row.sends:
            lines.append(TrainOpen.answer_reveals)
        return tuple(lines)

    def check_together(self, sites: Sequence[SiteData]) -> None:
        """Refuse sites whose tables do not fit together, before anything is sent."""
        check_columns({site.name: site.X.shape[1] for site in sites})
        present = {str(name) for site in sites for name in site.classes.tolist()}
        if len(present | set(self.classes or ())) < 2:
            raise InputError(f"all sites together have one class, {', '.join(present)}; a classifier needs two")

    def conduct(self, sites: Sites) -> TrainedModel:
        """Hold the conversation: join, agree on classes and scale, train in rounds, hand out the model."""
        return self.conversation(self, sites).hold()
