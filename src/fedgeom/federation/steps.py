"""What a step of preparation is: fitted over all sites by secure sums, then applied where the rows are.

A step says which sums it needs (`Step.sums`, from its settings alone), what a site adds to the next one, and what
follows from the sum. Both halves, and the plain run, go through the same `take`, so that nobody is told what it could
work out. The steps themselves are in `fedgeom.preparation`; packages offer more by entry points of the group
``fedgeom.steps``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Ints, Words
from fedgeom.data.rows import dense
from fedgeom.data.sites import SiteData
from fedgeom.data.validation import Finding
from fedgeom.errors import InputError
from fedgeom.federation.messages import Array
from fedgeom.federation.onnx import Graph
from fedgeom.federation.settings import Choice
from fedgeom.privacy.mechanism import SumNoise

SumKind = Literal[
    "cells",
    "floors",
    "bins",
    "moments",
    "products",
    "directions",
    "ranks",
    "class-bins",
    "summaries",
    "cell-sizes",
    "cell-sums",
]
"""What is added up, as the ledger tells it (`fedgeom.protocols.preparation`)."""
Block = Any
"""(some rows, columns): an array, or a sparse ``csr_array``."""
MOST_COLUMNS = 200_000
"""More columns than this cannot be agreed on."""
MOST_UNDONE = 4096
"""A step is told as a matrix where there are no more columns than these."""


class Columns(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What all sites' columns are at one point of a preparation."""

    width: int
    names: tuple[str, ...] = ()
    """One for each column; empty where the sites' columns have no names."""
    categories: dict[int, tuple[str, ...]] = {}
    """For each column of text its words, "" for an empty cell; cells say which, counted from 0."""
    together: tuple[int, ...] = ()
    """The columns of text that have one number more, for all words that are too rare to be named."""
    merged: dict[int, tuple[str, ...]] = {}
    """Of these the words that enough rows have, and that were put with the rare ones to hide these."""
    few_gaps: tuple[int, ...] = ()
    """The columns whose gaps too few rows or sites have, or lack, to become a column of their own."""

    one_hot: tuple[tuple[int, int], ...] = ()
    """The first column, and the one after the last, of each column of text that became columns of 0 and 1; forgotten
    where columns are left out."""

    def with_few_gaps(self, places: Sequence[int]) -> Columns:
        """Return the columns, with those whose gaps become no column."""
        return msgspec.structs.replace(self, few_gaps=tuple(places))

    @property
    def texts(self) -> list[str]:
        """The names of the columns of text."""
        return [self.names[at] for at in self.categories] if self.names else []

    def title(self, at: int) -> str:
        """Return what a column is called in a message."""
        return repr(self.names[at]) if self.names else f"number {at}"

    def kept(self, places: npt.NDArray[np.intp]) -> Columns:
        """Return some of the columns, in their order."""
        if np.array_equal(places, np.arange(self.width)):  # the rule, and asked for at every question
            return self
        new = {old: at for at, old in enumerate(places.tolist())}
        return Columns(
            width=len(new),
            names=tuple(self.names[old] for old in new) if self.names else (),
            categories={new[old]: words for old, words in self.categories.items() if old in new},
            together=tuple(new[old] for old in self.together if old in new),
            merged={new[old]: words for old, words in self.merged.items() if old in new},
            few_gaps=tuple(new[old] for old in self.few_gaps if old in new),
        )


class StepFit(msgspec.Struct, kw_only=True):
    """What is known of a step: how many of its sums were taken, and what follows from them."""

    taken: int = 0
    arrays: dict[str, Array] = {}

    def get(self, name: str) -> npt.NDArray[Any]:
        """Return an array, to be read only."""
        return self.arrays[name].view()

    def put(self, **arrays: npt.ArrayLike) -> None:
        """Keep arrays."""
        self.arrays = self.arrays | {name: Array.of(value) for name, value in arrays.items()}

    def drop(self, *names: str) -> None:
        """Forget arrays that were needed on the way only."""
        self.arrays = {name: value for name, value in self.arrays.items() if name not in names}


@dataclass(frozen=True)
class FitContext:
    """What a step stands on: the columns that come in, the run's seed, and the strictest policy's floors."""

    columns: Columns
    seed: int = 0
    floors: tuple[int, int] = (1, 1)
    """How many sites, and how many rows in all, a column must have to be summed."""
    sites: int = 1
    """Over how many sites is summed, at most: numbers must not overflow."""
    noise: Callable[..., SumNoise] | None = None
    """In a run with privacy: the noise of a sum of so many ``numbers`` with this ``sensitivity``."""
    classes: tuple[str, ...] = ()
    """The classes that the sites agreed on; none where they are not agreed on before rows are prepared."""
    key: bytes = b""
    """Known to the sites, and not to the coordinator."""


class PreparedRows(Protocol):
    """A site's rows as a step sees them: prepared by all steps before, a block at a time."""

    scratch: dict[Any, Any]
    """What a step may keep from one sum to the next; it can be lost at any time."""

    @property
    def labels(self) -> npt.NDArray[np.str_]:
        """The rows' labels, (rows,), text."""

    @property
    def codes(self) -> Ints:
        """The rows' classes, of those that were agreed on, (rows,); -1 for none."""

    def __len__(self) -> int: ...

    def blocks(self) -> Iterator[Block]:
        """Yield the rows in order."""


class FittedBySums(Protocol):
    """How something is learnt by sums: a step itself, or in a run with privacy `Step.bounded`."""

    def sums(self) -> tuple[SumKind, ...]:
        """Return what is summed, in order; some may turn out not to be needed (`length`)."""

    def length(self, ground: FitContext, fit: StepFit) -> int:
        """Return how many words the next sum has; 0 where it is not needed."""

    def summand(self, ground: FitContext, fit: StepFit, rows: PreparedRows) -> npt.NDArray[Any]:
        """Return what a site adds to the next sum."""

    def take(self, ground: FitContext, fit: StepFit, total: Words) -> None:
        """Take the next sum over all sites."""


@dataclass(frozen=True)
class Step(Choice):
    """The base of all steps; its settings are fields, as of a method."""

    kind: ClassVar[str] = "step"
    wanted: ClassVar[str] = "a step"
    fills_gaps: ClassVar[bool] = False
    """Whether cells without a number may come in, and none go out."""
    takes_text: ClassVar[bool] = False
    """Whether columns of text may come in, and only numbers go out."""
    keeps_gaps: ClassVar[bool] = False
    """Whether cells without a number may come in, and stay so for a later step."""
    makes_reals: ClassVar[bool] = False
    """Whether counts come in, and numbers that are none go out."""
    mixes_columns: ClassVar[bool] = False
    """Whether what comes out are sums of columns, none of them alone."""
    before_sums: ClassVar[bool] = False
    """Whether the step stands before all that sum: it makes different numbers the same, and a sum of what came in, less
    one of what goes out, would be of the few that it changed."""

    def sums(self) -> tuple[SumKind, ...]:
        """Return what is summed, in order; some may turn out not to be needed (`length`)."""
        return ()

    def length(self, ground: FitContext, fit: StepFit) -> int:
        """Return how many words the next sum has; 0 where it is not needed."""
        return 0

    def summand(self, ground: FitContext, fit: StepFit, rows: PreparedRows) -> npt.NDArray[Any]:
        """Return what a site adds to the next sum: whole numbers, or ring elements (u8)."""
        raise NotImplementedError(f"{type(self).__name__} sums nothing")

    def take(self, ground: FitContext, fit: StepFit, total: Words) -> None:
        """Take the next sum over all sites; `StepFit.taken` is counted elsewhere."""

    @property
    def affine(self) -> bool:
        """Whether `transform` is a linear map and a shift, so that weights behind it can be told in front of it."""
        return False

    def transform(self, ground: FitContext, fit: StepFit, block: Block) -> Block:
        """Return a block of rows, prepared."""
        return block

    def changes_learnt(self, fit: StepFit) -> bool:
        """Return whether rows that are learnt from are transformed otherwise than others (`transform_learnt`)."""
        return False

    def transform_learnt(self, ground: FitContext, fit: StepFit, block: Block, codes: Ints) -> Block:
        """Return a block of rows that are learnt from, prepared; codes (rows,) are their classes, -1 for none."""
        return self.transform(ground, fit, block)

    def onnx(self, graph: Graph, ground: FitContext, fit: StepFit, rows: str) -> str:
        """Add what `transform` does to an ONNX graph, and return the name of the prepared rows."""
        found = self.linear_map(ground, fit)
        if found is None:
            raise InputError(
                f"the model's step {self.name!r} cannot be exported to ONNX; those that can are one-hot, impute, "
                f"clip, log-counts, and scale without max_value and pca, both of up to {MOST_UNDONE:,} columns"
            )
        return graph.affine(rows, *found)

    def linear_map(self, ground: FitContext, fit: StepFit) -> tuple[Floats, Floats] | None:
        """Return the matrix and the shift that `transform` is; None: it is no linear map, or has too many columns."""
        width = ground.columns.width
        if not self.affine or width > MOST_UNDONE:
            return None
        shift = np.asarray(dense(self.transform(ground, fit, np.zeros((1, width))), "X"), np.float64)
        turned = np.asarray(dense(self.transform(ground, fit, np.eye(width)), "X"), np.float64) - shift
        return turned, shift[0]

    def output(self, ground: FitContext, fit: StepFit) -> Columns:
        """Return the columns that come out."""
        return ground.columns

    def output_bytes(self, ground: FitContext, fit: StepFit, rows: int, came: int) -> int:
        """Return how many bytes so many prepared rows take, where they took ``came`` before."""
        return came

    def check(self, site: SiteData) -> list[Finding]:
        """Return what makes a raw table unfit for this step, where it is the first one that looks at it."""
        return []

    def idle(self, fit: StepFit) -> bool:
        """Return whether the step, as it was fitted, changes nothing, so that no model need have it."""
        return False

    def left_out(self, ground: FitContext, fit: StepFit) -> dict[str, list[str]]:
        """Return the columns that the step leaves out and that a run should name, by why."""
        return {}

    def changed(self, fit: StepFit) -> str:
        """Say what the step changes in rows that are learnt from and that a run should tell; "": nothing."""
        return ""

    def bounded(self) -> FittedByBoundedSums | None:
        """Return how the step is learnt in a run with privacy; None: it learns nothing from rows."""
        if not self.sums():
            return None
        raise InputError(
            f"privacy with the step {self.name!r} given, which has no bound on what one row adds: leave the step out"
        )

    def against_floors(self) -> str:
        """Return why no site whose policy has floors takes part in the step, and what to do; "": they do."""
        return ""

    @property
    def wants_counts(self) -> bool:
        """Whether only counts may come in."""
        return False

    @property
    def most_features(self) -> int:
        """How many columns' products are added up at most (the policy's ``max_features``); 0: of none."""
        return 0


@dataclass(frozen=True)
class FittedByBoundedSums:
    """How a step is learnt in a run with privacy: by one sum of whole numbers, which one row moves by a known length.

    What follows from the sum heeds that it has noise; the step then transforms rows as it always does.
    """

    step: Any
    kind: ClassVar[SumKind]

    def sensitivity(self, ground: FitContext) -> float:
        """Return by how much one row more or less moves all numbers together at most (L2)."""
        raise NotImplementedError

    def numbers(self, ground: FitContext) -> int:
        """Return how many numbers are summed; 0 where the sum is not needed."""
        raise NotImplementedError

    def whole(self, ground: FitContext, rows: PreparedRows) -> Ints:
        """Return a site's whole numbers, (numbers,), i8."""
        raise NotImplementedError

    def learn(self, ground: FitContext, fit: StepFit, total: Floats, spread: float) -> None:
        """Take the noisy sum, (numbers,), f8; ``spread`` is the deviation of its noise."""
        raise NotImplementedError

    def sums(self) -> tuple[SumKind, ...]:
        """Return the one sum."""
        return (self.kind,)

    def length(self, ground: FitContext, fit: StepFit) -> int:
        """Return how many numbers are summed."""
        return self.numbers(ground)

    def summand(self, ground: FitContext, fit: StepFit, rows: PreparedRows) -> Ints:
        """Return a site's whole numbers, to which it adds noise."""
        return self.whole(ground, rows)

    def take(self, ground: FitContext, fit: StepFit, total: Words) -> None:
        """Read the sum as real numbers; without noise (the plain run) as they are."""
        counts = total.view(np.int64)
        if ground.noise is None:
            self.learn(ground, fit, counts.astype(np.float64), 0.0)
            return
        noise = ground.noise(sensitivity=self.sensitivity(ground), numbers=self.numbers(ground))
        self.learn(ground, fit, noise.read(counts), noise.spread)


def learnings(steps: Sequence[Step], *, private: bool) -> tuple[FittedBySums, ...]:
    """Return how each step is learnt; those that learn nothing with privacy have no sums."""
    return tuple((step.bounded() or NothingToFit()) if private else step for step in steps)


@dataclass(frozen=True)
class NothingToFit(FittedByBoundedSums):
    """Nothing is learnt from rows: what the step does stands in the terms."""

    step: Any = None

    def sums(self) -> tuple[SumKind, ...]:
        """Return nothing."""
        return ()


FLOORS = "floors"
"""The step that a run adds by itself (`Method.planned_steps`)."""
OURS = {
    "clip": "fedgeom.preparation.scale:Clip",
    FLOORS: "fedgeom.preparation.floors:ColumnFloors",
    "impute": "fedgeom.preparation.impute:Impute",
    "landmark-map": "fedgeom.preparation.landmark_map:LandmarkMap",
    "log-counts": "fedgeom.preparation.log_counts:LogCounts",
    "one-hot": "fedgeom.preparation.one_hot:OneHot",
    "pca": "fedgeom.preparation.pca:PCA",
    "scale": "fedgeom.preparation.scale:Scale",
    "select-variable": "fedgeom.preparation.select_variable:SelectVariable",
    "summaries": "fedgeom.preparation.summaries:ColumnSummaries",
    "to-disc": "fedgeom.preparation.to_disc:ToDisc",
}
"""The steps that come with fedgeom, which are loaded when they are used."""
for _name, _place in OURS.items():
    Step.registry.offer(_name, _place, needs="fedgeom")

PRESETS: dict[str, tuple[str, ...]] = {
    "counts": ("log-counts", "select-variable", "scale", "pca"),
    "table": ("one-hot", "impute", "scale"),
}
"""What ``prepare = "counts"`` and ``prepare = "table"`` stand for."""


def _as_step(value: Any) -> Any:
    """Return a method that can be a step of another one's preparation as that step; anything else as it came."""
    return value.as_step() if hasattr(value, "as_step") else value


def read_steps(value: Any) -> Any:
    """Return what a preset stands for; anything else as it came, for the settings to read."""
    if value is None:
        return ()
    if not isinstance(value, str):
        some = [value] if isinstance(value, Step) else value
        return [_as_step(one) for one in some] if isinstance(some, list | tuple) else some
    if value not in PRESETS:
        known = ", ".join(f'"{name}" ({", ".join(steps)})' for name, steps in PRESETS.items())
        raise InputError(f"prepare={value!r} given; wanted a list of steps, or one of the presets {known}")
    return list(PRESETS[value])


def check_order(steps: Sequence[Step]) -> None:
    """Refuse steps in an order in which one would get what it cannot take, and any step twice."""
    for at, step in enumerate(steps):
        before = steps[:at]
        summing = next((one for one in before if one.sums()), None)
        if step.before_sums and summing is not None:
            raise InputError(
                f"prepare has {step.name!r} after {summing.name!r}, which sums numbers as they were before: put "
                f"{step.name!r} before it"
            )
        deaf = next((one for one in before if not one.keeps_gaps and not one.fills_gaps), None)
        if step.fills_gaps and deaf is not None:
            raise InputError(
                f"prepare has {step.name!r} after {deaf.name!r}, which takes no gaps: put {step.name!r} before it"
            )
        if step.takes_text and before:
            raise InputError(
                f"prepare has {step.name!r} after {before[0].name!r}, which takes no text: put {step.name!r} first"
            )
        real = next((one for one in before if one.makes_reals), None)
        if step.wants_counts and real is not None:
            raise InputError(
                f"prepare has {step.name!r}, which wants counts, after {real.name!r}, which makes other numbers of "
                f"them: put {step.name!r} before it"
            )
        if any(one.name == step.name for one in before):
            raise InputError(
                f"prepare has {step.name!r} twice; wanted each step once: each more sum tells more of the same rows"
            )


def numbers_only(site: SiteData, known: Collection[str] = ()) -> SiteData:
    """Return a raw table without its columns of text; where some names are ``known``, without all others."""
    places = [
        at for at, name in enumerate(site.columns) if name not in site.categories and (not known or name in known)
    ]
    if len(places) == len(site.columns):
        return site
    return replace(
        site, table=site.table[:, places], columns=tuple(site.columns[at] for at in places), categories={}
    )


def unfit(numbers: SiteData, steps: Sequence[Step]) -> list[Finding]:
    """Return what makes raw numbers unfit for the first step that changes them; those before fill in and encode."""
    for step in steps:
        if not step.fills_gaps and not step.takes_text and not step.keeps_gaps:
            return step.check(numbers)
    return []
