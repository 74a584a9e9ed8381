"""Describe all sites' rows together: counts, gaps, means, deviations, quantiles and shares of categories.

Everything is learnt as a preparation is (`fedgeom.preparation.summaries`), behind the floors of
`federation.disclosure`; the conversation of its own only tells the sites that the description is done, and where the
terms and all policies allow it, asks each site for its gaps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np

from fedgeom.arrays import Ints
from fedgeom.data.rows import dense
from fedgeom.data.sites import SiteData
from fedgeom.data.validation import Collector, FaultsError, check_table, fault
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.messages import LARGEST_MESSAGE, Array, Message, Question
from fedgeom.federation.method import Method
from fedgeom.federation.model import Model
from fedgeom.federation.plan import Ask, Plan, Shape, array_size
from fedgeom.federation.policy import Policy
from fedgeom.federation.preparation import Preparation
from fedgeom.federation.settings import Between, ClassNames, Distinct, Settings
from fedgeom.federation.site import Memory, Part, Site, answers
from fedgeom.federation.steps import Step
from fedgeom.methods.describe.model import Description, description_of
from fedgeom.preparation.one_hot import OneHot
from fedgeom.preparation.quantiles import BINS
from fedgeom.preparation.summaries import ColumnSummaries
from fedgeom.protocols.cohort import join
from fedgeom.protocols.model_delivery import ModelTaken
from fedgeom.protocols.names import AgreeOnNames, LabelNames, NamesMemory, agree_on_names
from fedgeom.protocols.site import SecureMemory, SummingSite
from fedgeom.registry import did_you_mean

FEW = -1
"""Stands for a number of gaps that is too small to be told."""


@dataclass(frozen=True, kw_only=True)
class DescribeSettings(Settings):
    """What is described."""

    by_class: bool = True
    """Whether each class is described by itself, too: then a column that few rows of a class set apart is left out."""
    quantiles: tuple[float, ...] = (0.25, 0.5, 0.75)
    """Which quantiles are told, each from 0 to 1; none: means and deviations alone."""
    categories: Annotated[tuple[str, ...], Distinct()] | None = None
    """Columns of numbers that are categories, such as codes. Columns of text always are."""
    per_site: bool = False
    """Whether each site tells how many gaps its columns have. Sites with secure_only = true refuse that."""
    classes: ClassNames = None
    """The agreed label names. None: the union of the sites' names, which the sites then work out themselves."""
    bits: Annotated[int, Between(12, 32)] = 20
    """How many bits of a number a quantile is found by: its bin is 2^-(bits - 9) of it wide, 5·10⁻⁴ with 20."""
    min_sites: Annotated[int, Between(1)] = 2
    """The fewest sites that make a result."""

    @property
    def agrees_on_names(self) -> bool:
        """Whether labels are told at all."""
        return self.by_class

    def shows_one_site(self) -> str:
        """Say what the coordinator sees of one site alone."""
        return "how many gaps each site's columns have (per_site = true)" if self.per_site else ""


class GapsTold(Message, kind="describe.gaps-told"):
    """How many gaps a site's columns have."""

    reveals: ClassVar[str] = (
        "how many rows the site has, and how many of them have a gap in each of the joint columns; fewer than the "
        "policy's min_rows are told as few"
    )
    rows: Annotated[int, msgspec.Meta(ge=0)]
    gaps: Array
    """(raw columns,), i8; `FEW` for few."""


class TellGaps(Question, kind="describe.gaps", answer=GapsTold):
    """Ask a site for its gaps."""


class TakeDescription(Question, kind="describe.take", answer=ModelTaken):
    """Tell the sites that all sums were taken; each makes the description from those that it checked."""


class DescribeMemory(SecureMemory, kw_only=True):
    """What the site remembers beside its keys: the agreed names."""

    names: NamesMemory = msgspec.field(default_factory=NamesMemory)


class DescribeSite(SummingSite[DescribeMemory]):
    """Answers the questions of `Describe`."""

    memory_type: ClassVar[type[Memory]] = DescribeMemory
    parts: ClassVar[tuple[type[Part[Any]], ...]] = (LabelNames,)
    takes_models: ClassVar[bool] = False
    names: LabelNames

    def check(self, settings: DescribeSettings) -> None:
        """Refuse classes that the site's policy finds too small, where classes are described."""
        if not settings.by_class:
            return
        faults = Collector(self.name)
        with faults.take():
            check_table(self.data, min_rows=1, min_rows_per_class=self.policy.min_rows_per_class)
        if faults.found:
            remedy = "describe all rows together (--no-classes, or by_class = false), or merge labels"
            last = faults.found[-1]
            raise FaultsError([*faults.found[:-1], fault(last.what, remedy, site=self.name, topic=last.topic)])

    @answers(TellGaps)
    def tell_gaps(self, ask: TellGaps) -> GapsTold:
        """Tell how many gaps the joint columns have here."""
        if not self.settings.per_site:
            raise ProtocolError("the terms of this run do not have sites tell their gaps")
        raw = self._preparation().raw
        gaps = own_gaps(self.raw_parts[0], raw.names, raw.width)
        few = (gaps > 0) & (gaps < self.policy.class_floors[1])
        return GapsTold(rows=len(self.raw_parts[0]), gaps=Array.of(np.where(few, FEW, gaps)))

    @answers(TakeDescription)
    def take_description(self, ask: TakeDescription) -> ModelTaken:
        """Make the description from the sums that the site checked, and keep it."""
        joined = self.joining
        classes = self.names.agreed if self.settings.by_class else ()
        made = description_of(self._preparation(), classes, len(joined.memory.order), joined.class_floors)
        self.handed.keep(made.to_bytes())
        return ModelTaken()

    def _preparation(self) -> Preparation:
        found = self.preparing.preparation()
        if found is None:
            raise ProtocolError("these terms describe nothing: they have no step for it")
        return found

    def result(self) -> dict[str, Any]:
        """Return how many rows the site has in the description."""
        return {"rows": len(self.table), **self.names.left_out()} if self.handed.memory.model else {}


def own_gaps(rows: SiteData, names: Sequence[str], width: int) -> Ints:
    """Return how many gaps each of the joint columns has in a site's table, (columns,); all, where it lacks one."""
    if not rows.columns or not names:
        return np.array([_gaps_of(rows, at) for at in range(width)], np.int64)
    places = {name: at for at, name in enumerate(rows.columns)}
    found = [_gaps_of(rows, places[name]) if name in places else len(rows) for name in names]
    return np.array(found, np.int64)


def _gaps_of(rows: SiteData, at: int) -> int:
    cells = dense(rows.table[:, [at]], rows.name)[:, 0]
    return int((~np.isfinite(cells)).sum())


@dataclass(frozen=True, kw_only=True)
class Describe(DescribeSettings, Method):
    """For a first look at all sites' tables: counts, gaps, means, deviations, quantiles and shares, by class.

    The federated "table one", by secure sums alone: nothing rests on fewer rows or sites than policies ask for. Raw
    tables are taken as they are, with gaps and text. `fedgeom.describe` runs it.
    """

    name: ClassVar[str] = "describe"
    site: ClassVar[type[Site[Any]]] = DescribeSite
    model_type: ClassVar[type[Model]] = Description
    column_floors: ClassVar[bool] = True
    predicts: ClassVar[bool] = False

    def __post_init__(self) -> None:
        given = self.prepare
        steps = self._steps()
        if given is None:
            object.__setattr__(self, "prepare", steps)
        super().__post_init__()
        if self.preparing and self.preparing != steps:
            raise InputError(
                f"prepare={given!r} given; a description is of raw tables, so leave it out (categories = […] names "
                "columns of codes)"
            )
        if self.holdout is not None:
            raise InputError(f"holdout={self.holdout!r} given; a description is of all rows, so leave it out")

    def _steps(self) -> tuple[Step, ...]:
        summaries = ColumnSummaries(quantiles=self.quantiles, by_class=self.by_class, bits=self.bits)
        return OneHot(columns=self.categories, min_rows=1), summaries

    def check_categories(self, sites: Sequence[SiteData]) -> None:
        """Refuse names of columns of codes that no site has."""
        known = {name for site in sites for name in site.columns}
        for name in self.categories or ():
            if name not in known:
                hint = did_you_mean(name, known)
                raise InputError(f"categories has {name!r}, but no column is called {name!r} at any site.{hint}")

    @property
    def sums_by_class(self) -> bool:  # type: ignore[override]
        """Whether columns have floors in each class."""
        return self.by_class

    def check_limits(self, sites: Sequence[SiteData], policy: Policy) -> None:
        """Refuse tables with so many columns that no message holds their bins."""
        limit = min(policy.max_message_bytes, LARGEST_MESSAGE)
        columns = sites[0].shape[1]
        classes = len({str(name) for site in sites for name in site.classes.tolist()}) if self.by_class else 0
        step = self._steps()[-1]
        assert isinstance(step, ColumnSummaries)
        size = 8 * (1 + classes) * columns * (2 * len(step.shares) * BINS + 12)
        if size > limit:
            what = (
                f"counts in bins of {columns:,} columns and {classes} classes are a message of {size:,} bytes; the "
                f"limit is {limit:,} (max_message_bytes in the policy)"
            )
            remedy = (
                "describe fewer columns (columns = […]), all rows together (by_class = false), or quantiles = []"
            )
            raise FaultsError([fault(what, remedy, topic="size")])

    def plan(self, shape: Shape) -> Plan:
        """Agree on names, which preparation needs; ask for gaps; let the sites make the description."""
        if self.by_class:
            yield AgreeOnNames(self.classes)
        if self.per_site:
            width = shape.columns if shape.raw_columns is None else shape.raw_columns
            blank = GapsTold(rows=shape.rows, gaps=Array.of(np.zeros(0, np.int64)))
            yield Ask(
                TellGaps(),
                blank,
                up=array_size("i8", width) - array_size("i8", 0),
                bound="how many columns the sites agree on",
            )
        yield Ask(TakeDescription(), ModelTaken())

    def conduct(self, sites: Coordinator) -> Description:
        """Hold the conversation: join, where rows are described, and tell."""
        cohort = join(sites, self)
        if cohort.preparation is None:
            raise InputError("prepare=() given; a description is learnt by its own steps, so leave it out")
        classes = agree_on_names(cohort, self.classes) if self.by_class else ()
        gaps: Mapping[str, GapsTold] = {}
        if self.per_site:
            gaps = sites.ask(TellGaps(), of=cohort.left, expect=GapsTold)
        made = description_of(cohort.preparation, classes, len(cohort.names), cohort.class_floors)
        if gaps:
            made = made.with_gaps({name: (one.rows, one.gaps.numpy()) for name, one in sorted(gaps.items())})
        told = sites.ask(TakeDescription(), of=cohort.left, expect=ModelTaken)
        told.need(1, "that they have the description")
        sites.metrics |= {"sites": len(cohort.left), "columns": len(made.raw), "classes": len(classes)}
        return made
