"""Preparing rows over all sites: messages, the site's half and the coordinator's."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np

from fedgeom.arrays import Ints
from fedgeom.crypto.keys import SEAL_BYTES, fingerprint, seal, unseal
from fedgeom.data.sites import SiteData
from fedgeom.data.tables import listed
from fedgeom.data.validation import Collector, FaultsError, Finding, check_finite, fault
from fedgeom.errors import ProtocolError
from fedgeom.federation.messages import Key, Message, Name, Names, Question
from fedgeom.federation.plan import (
    ANY_SHAPE,
    Ask,
    Plan,
    Shape,
    Steps,
    Sum,
    bytes_size,
    find_names_step,
    map_size,
    text_size,
)
from fedgeom.federation.policy import Policy
from fedgeom.federation.preparation import (
    AgreedColumns,
    Fitting,
    Preparation,
    SiteColumns,
    agree,
    category_floors,
    fit_plain,
    joint_columns,
    own_columns,
    own_counts,
    planned_sums,
    uses_union,
    with_given_words,
)
from fedgeom.federation.privacy import privacy_of
from fedgeom.federation.results import RunWarning
from fedgeom.federation.site import Part, answers
from fedgeom.federation.steps import MOST_COLUMNS, Columns, FitContext, Step, StepFit, SumKind, numbers_only, unfit
from fedgeom.memo import memoize, memoize_per_object
from fedgeom.protocols.join.site import JoinPart
from fedgeom.protocols.secure_sum.messages import BY_GROUP, SumQuestion, SumResult, blank_result

SLOTS = 256
"""Categories are counted under numbers up to a multiple of this."""
PAGE = 4096
"""Sealed lists are padded to whole pages, so that their length says little."""
MOST_WORDS = 2**20
"""How many categories there may be in all."""

Last = SumResult | None
"""The sum before, which the next one builds upon; None for the first."""
Sealed = Annotated[bytes, msgspec.Meta(max_length=2**24)]


class SealedColumns(Message, kind="prepare.sealed", harmless=True):
    """A site's columns and categories, sealed for the other sites."""

    reveals: ClassVar[str] = (
        "nothing to the coordinator; to the other sites the names of the site's columns, and of its categories those "
        "that its policy's min_rows_per_class lets it name"
    )
    columns: Sealed


class SealColumns(Question, kind="prepare.seal", answer=SealedColumns):
    """Bring a site its mail and ask for its sealed columns."""

    participants: Names
    letters: dict[Name, bytes]


class ColumnsHeld(Message, kind="prepare.held", harmless=True):
    """A site has everybody's columns."""

    reveals: ClassVar[str] = f"how many categories there are in all, rounded up to a multiple of {SLOTS}"
    slots: Annotated[int, msgspec.Meta(ge=0, le=MOST_WORDS)]
    """0: there is no column of categories."""


class HoldColumns(Question, kind="prepare.hold", answer=ColumnsHeld):
    """Bring a site everybody's sealed columns."""

    sealed: dict[Name, Sealed]


class CountCategories(SumQuestion, kind="prepare.categories", checked=True, decides_floors=True):
    """Ask which categories a site has and how many rows of each, masked, under numbers that only sites understand."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others: at how many sites and in how many rows each category occurs, without the words"
    )
    lists: Key
    """A hash of the lists that were opened."""
    slots: Annotated[int, msgspec.Meta(ge=SLOTS, le=MOST_WORDS)]


class JointColumns(Message, kind="prepare.joint", harmless=True):
    """The columns that the run goes on with."""

    reveals: ClassVar[str] = "the names of the joint columns, and the categories that enough sites and rows have"
    columns: Columns

    def __post_init__(self) -> None:
        if not 0 < self.columns.width <= MOST_COLUMNS or len(self.columns.names) not in (0, self.columns.width):
            raise ValueError("the joint columns do not fit together")


class KeepColumns(Question, kind="prepare.keep", answer=JointColumns):
    """Show a site the counts of categories, where there are any, and ask for the joint columns."""

    result: SumResult | None = None


class SumCells(SumQuestion, kind="prepare.cells", checked=True, decides_floors=True):
    """Ask how many cells of each column have a number, and more counts of cells."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others: in how many rows, and at how many sites, columns have a value"
    )
    last: Last = None


class SumFloors(SumQuestion, kind="prepare.floors", checked=True, decides_floors=True, in_groups=True):
    """Ask how many rows set a column apart: from its usual value, and from each other column."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others: how many rows, up to the policies' floor, and how many sites differ from the usual "
        "value of each column, where columns are summed by class also in each class, and tell two columns apart"
    ) + BY_GROUP
    last: Last = None


class SumBins(SumQuestion, kind="prepare.bins", checked=True, in_groups=True, rounded=True):
    """Ask how many numbers lie in bins around a quantile; where policies have floors, how many means of groups."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others: how many numbers of a column (or depths of rows; where policies have floors, means "
        "of groups of min_rows neighbours) lie in bins around a quantile, and in the end the quantile, to the terms' "
        "bin width"
    ) + BY_GROUP
    last: Last = None


class SumMoments(SumQuestion, kind="prepare.moments", checked=True, in_groups=True, words_per_number=4):
    """Ask for sums of columns and of their squares."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others: the sums of each column, or of its squares, over all rows"
    ) + BY_GROUP
    last: Last = None


class SumProducts(SumQuestion, kind="prepare.products", checked=True, in_groups=True):
    """Ask for sums of products of two columns."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others: the covariances of all columns, over all rows" + BY_GROUP
    )
    last: Last = None


class SumDirections(SumQuestion, kind="prepare.directions", checked=True, in_groups=True):
    """Ask for the covariance times some directions."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others: the covariance of all columns times some directions"
    ) + BY_GROUP
    last: Last = None


class SumRanks(SumQuestion, kind="prepare.ranks", checked=True, in_groups=True):
    """Ask how a site ranks the columns."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others: how many sites choose each column, and the sums of its ranks"
    ) + BY_GROUP
    last: Last = None


class SumCellSizes(SumQuestion, kind="prepare.cell-sizes", checked=True, decides_floors=True):
    """Ask how many rows a site has in each part of the cells from which landmarks are made."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others: how many rows are in each part of a cell of rows that are near each other, and how "
        "they are spread over sites (numbers in which no site counts for more than some rows)"
    )
    last: Last = None


class SumClassBins(SumQuestion, kind="prepare.class-bins", checked=True, rounded=True):
    """Ask how many numbers of each class lie in bins around quantiles."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others: how many numbers of a column (where policies have floors, means of groups of "
        "min_rows neighbours), of all rows and of each class, lie in bins around a quantile, and in the end the "
        "quantile, to the terms' bin width; of gaps that few rows have, at how many sites there are any, and their "
        "numbers in multiples of min_rows"
    )
    last: Last = None


class SumCellRows(SumQuestion, kind="prepare.cell-sums", checked=True):
    """Ask for the sums of a site's rows in each cell that has rows and sites enough."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others: the landmarks, which are means of cells of rows that are near each other"
    )
    last: Last = None


class SumSummaries(SumQuestion, kind="prepare.summaries", checked=True, words_per_number=4):
    """Ask for sums of columns, of their squares and of gaps, of each class."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others: how many rows each class has, and in it the sums of each column, of its squares and "
        "of its gaps"
    )
    last: Last = None


SumPreparation = (
    SumCells
    | SumFloors
    | SumBins
    | SumMoments
    | SumProducts
    | SumDirections
    | SumRanks
    | SumCellSizes
    | SumCellRows
    | SumClassBins
    | SumSummaries
)
"""The sums that steps are fitted from."""
SUMS: dict[SumKind, type[SumPreparation]] = {
    "cells": SumCells,
    "floors": SumFloors,
    "bins": SumBins,
    "moments": SumMoments,
    "products": SumProducts,
    "directions": SumDirections,
    "ranks": SumRanks,
    "cell-sizes": SumCellSizes,
    "cell-sums": SumCellRows,
    "class-bins": SumClassBins,
    "summaries": SumSummaries,
}


class RowsPrepared(Message, kind="prepare.prepared", harmless=True):
    """A site has prepared its rows."""

    reveals: ClassVar[str] = "nothing: a receipt"


class PrepareRows(Question, kind="prepare.rows", answer=RowsPrepared):
    """Show a site the last sum; it checks it and prepares its rows."""

    last: SumResult | None = None


def hash_columns(sealed: Mapping[str, bytes]) -> bytes:
    """Hash sealed lists of columns, with whose they are."""
    return fingerprint(b"columns", *(part for name in sorted(sealed) for part in (name.encode(), sealed[name])))


def slots_for(pairs: int) -> int:
    """Return under how many numbers so many categories are counted: none for none."""
    return SLOTS * -(-pairs // SLOTS)


@memoize(4)  # the same at all sites of a process, and for counting and for reading
def hidden_order(key: bytes, slots: int) -> tuple[int, ...]:
    """Return the numbers under which categories are counted, in an order that only the holders of a key know."""
    return tuple(sorted(range(slots), key=lambda slot: fingerprint(key, str(slot).encode())))


def raw_faults(site: SiteData, steps: Sequence[Step]) -> list[Finding]:
    """Return what makes a raw table unfit for these steps."""
    found: list[Finding] = []
    if not len(site):
        return [fault("has no rows", "leave it out of the federation", site=site.name, topic="rows")]
    if site.categories and not any(step.takes_text for step in steps):
        found.append(
            fault(
                f"these columns hold text: {listed(sorted(site.categories))}",
                'put the step "one-hot" first, take the preset prepare = "table", or name the columns to use',
                site=site.name,
                topic="text",
            )
        )
    given = {name for step in steps for name in getattr(step, "categories", None) or ()}
    strange = sorted(set(site.categories) - given)
    if given and strange:
        found.append(
            fault(
                f"these columns hold text, and the terms do not say which words: {listed(strange)}",
                "name the columns to use, columns = […], or ask for terms that list the words (categories)",
                site=site.name,
                topic="text",
            )
        )
    numbers = numbers_only(site)
    if not any(step.fills_gaps for step in steps):
        collector = Collector(site.name)
        with collector.take():
            check_finite(numbers)
        found += collector.found
    return found + unfit(numbers, steps)


def check_no_text(site: SiteData) -> None:
    """Refuse columns of text where nothing prepares them."""
    if site.categories:
        what = f"these columns hold text: {listed(sorted(site.categories))}"
        remedy = 'let the run prepare them, prepare = "table", or name the columns of numbers, columns = […]'
        raise FaultsError([fault(what, remedy, site=site.name, topic="text")])


log = logging.getLogger(__name__)

MOST_SHOWN = 8
"""How many left out columns or words are named in the log; the others are counted."""
COLUMNS = (
    "columns left out: a site lacks them or has another kind of values there, none has any, or they are free text"
)
WORDS = "categories that too few sites or rows have, taken together"


def left_out(site: SiteData, raw: Columns) -> dict[str, list[str]]:
    """Return which of a site's own columns and categories are not among the joint ones, by why."""
    known = set(raw.names)
    found = dict[str, list[str]]()
    columns = [name for name in site.columns if name not in known] if known else []
    if columns:
        found[COLUMNS] = columns
    words = []
    for at, kept in raw.categories.items():
        name = raw.names[at]
        named = {*kept, *raw.merged.get(at, ())}
        words += [f"{name} = {word}" for word in site.categories.get(name, ()) if word not in named]
    if words:
        found[WORDS] = words
    return found


def warn_of(site: str, found: Mapping[str, list[str]]) -> None:
    """Write what was left out into the site's own log."""
    for what, names in found.items():
        more = f" and {len(names) - MOST_SHOWN:,} more" if len(names) > MOST_SHOWN else ""
        log.warning("site %r: %s: %s%s", site, what, ", ".join(names[:MOST_SHOWN]), more)


class PreparationMemory(msgspec.Struct, kw_only=True):
    """What a site remembers of the joint columns, and of the steps as far as they are fitted."""

    sealed: bytes = b""
    opened: bytes = b""
    """A hash of the lists: one run has one set of columns."""
    agreed: AgreedColumns | None = None
    raw: Columns | None = None
    fits: list[StepFit] = []
    last: bytes = b""
    """A hash of the sum that was taken last: asked again, the site takes it once."""
    done: bool = False


@memoize_per_object(key=lambda part, rare: rare)  # the site is built anew for each question
def _without(part: SiteData, rare: tuple[str, ...]) -> SiteData:
    """Return the rows whose labels are not too rare."""
    return part.take(~np.isin(part.y.astype(str), rare))


@memoize_per_object(key=lambda part, stamp, finished, scratch, classes: (stamp, classes))  # sites are built anew
def _prepared(
    part: SiteData,
    stamp: bytes,
    finished: Callable[[], Preparation | None],
    scratch: dict[Any, Any] | None,
    classes: tuple[str, ...] | None,
) -> SiteData:
    made = finished()
    return part if made is None else made.transform(part, scratch, classes)


def finished_preparation(fitting: Fitting, *, prepares: bool) -> Preparation | None:
    """Return a fitted preparation; None where the terms prepare nothing, and no column is left out."""
    made = fitting.finished()
    return made if prepares or made.steps else None


def first_sum(planned: Sequence[str], *, prepares: bool) -> int:
    """Return the number of the first sum that a step may be fitted from; where raw rows come, categories are before."""
    return planned.index(CountCategories.kind) + 1 if prepares else planned.index(SumFloors.kind)


class PreparationPart(Part[PreparationMemory]):
    """Prepares the site's rows before the method sees them."""

    name: ClassVar[str] = "preparing"
    site: Any

    @property
    def joining(self) -> JoinPart:
        """The part that joined."""
        found: JoinPart = self.site.joining
        return found

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps, from the terms on which the site joined."""
        if not self.wanted:
            raise ProtocolError("these terms take rows as they are; nothing is prepared")
        found: tuple[Step, ...] = self.site.settings.planned_steps
        return found

    @property
    def wanted(self) -> bool:
        """Whether rows are prepared before the method sees them: by the terms, or since a policy has floors."""
        settings = self.site.settings
        return bool(settings.preparing) or (self._floored and bool(settings.planned_steps))

    @property
    def _floored(self) -> bool:
        return self.joining.class_floors != (1, 1)

    @property
    def _rows(self) -> SiteData:
        """The raw rows that are summed: those that are learnt from, without classes that were found too rare."""
        found: SiteData = self.site.raw_parts[0]
        names = getattr(self.site.memory, "names", None)
        return _without(found, names.rare) if names is not None and names.rare else found

    def _check_raw_asked(self) -> None:
        """Refuse questions about raw columns where the terms prepare none."""
        if not self.site.settings.preparing:
            raise ProtocolError("these terms take rows as they are; nothing is prepared")

    def _own(self) -> SiteColumns:
        return own_columns(self._rows, self.steps, self.site.policy.min_rows_per_class, private=self._private)

    @property
    def _private(self) -> bool:
        return privacy_of(self.site.settings) is not None

    @answers(SealColumns)
    def seal_columns(self, ask: SealColumns) -> SealedColumns:
        """Seal what the site's columns and categories are called for the other sites."""
        memory = self.memory
        site = self.site
        self._check_raw_asked()
        self.joining.open_letters(ask.participants, ask.letters)
        if not memory.sealed:
            text = msgspec.msgpack.encode(self._own().told())
            padded = len(text).to_bytes(8, "big") + text + bytes(-(8 + len(text)) % PAGE)
            key = self.joining.shared_secret(b"columns")
            memory.sealed = seal(key, padded, fingerprint(b"columns", site.run, site.name.encode()))
        return SealedColumns(columns=memory.sealed)

    @answers(HoldColumns)
    def hold_columns(self, ask: HoldColumns) -> ColumnsHeld:
        """Open all lists, once, and work out the joint columns."""
        memory = self.memory
        self._check_raw_asked()
        stamp = hash_columns(ask.sealed)
        if self.site.name not in ask.sealed or not set(ask.sealed) <= set(self.joining.memory.order):
            raise ProtocolError("the lists of columns are not those of members with this site among them")
        self.joining.check_many_enough(ask.sealed)
        if memory.opened and memory.opened != stamp:
            raise ProtocolError("other lists of columns were opened before; one run has one set of columns")
        memory.agreed = agree(self._open(ask.sealed), union=uses_union(self.steps))
        memory.opened = stamp
        return ColumnsHeld(slots=slots_for(len(memory.agreed.pairs())))

    def _open(self, lists: Mapping[str, bytes]) -> dict[str, SiteColumns]:
        key = self.joining.shared_secret(b"columns")
        found = {}
        for name, sealed in sorted(lists.items()):
            text = unseal(key, sealed, fingerprint(b"columns", self.site.run, name.encode()), sender=name)
            try:
                size = int.from_bytes(text[:8], "big")
                found[name] = msgspec.msgpack.decode(text[8 : 8 + size], type=SiteColumns)
            except ValueError as error:
                raise ProtocolError(f"the columns of {name!r} cannot be read: {error}") from error
        return found

    def _agreed(self) -> AgreedColumns:
        if self.memory.agreed is None:
            raise ProtocolError("the site was asked about columns before it knew the others'")
        return self.memory.agreed

    @answers(CountCategories)
    def count_categories(self, ask: CountCategories) -> Any:
        """Add to the secure sum which categories there are here, and how many rows of each."""
        agreed = self._agreed()
        rows = self._rows
        if ask.lists != self.memory.opened or not agreed.words or ask.slots != slots_for(len(agreed.pairs())):
            raise ProtocolError("the categories to be counted are not those that this site knows")
        places = self._places(ask.slots)
        vector = np.zeros(2 * ask.slots, np.int64)
        counts = own_counts(agreed, self._own(), len(rows))
        vector[places] = counts > 0
        vector[ask.slots + places] = counts
        return self.site.contribute(ask, vector)

    def _places(self, slots: int) -> Ints:
        """Return the number under which each pair of column and word is counted: in an order that only sites know."""
        order = hidden_order(self.joining.shared_secret(b"category slots"), slots)
        return np.array(order[: len(self._agreed().pairs())], np.int64)

    @answers(KeepColumns)
    def keep_columns(self, ask: KeepColumns) -> JointColumns:
        """Check the counts and keep the categories that enough sites and rows have."""
        agreed = self._agreed()
        memory = self.memory
        pairs = agreed.pairs()
        if (ask.result is not None) != bool(pairs):
            raise ProtocolError(
                "categories were counted where there are none, or not counted where there are some"
            )
        sites = rows = np.zeros(0, np.int64)
        if ask.result is not None:
            self.site.sums.check_result(ask.result, CountCategories)
            counts = ask.result.counts()
            slots = slots_for(len(pairs))
            if len(counts) != 2 * slots:
                raise ProtocolError(f"{len(counts)} counts of categories came where {2 * slots} are planned")
            places = self._places(slots)
            sites = counts[places]
            rows = counts[slots + places]
        if memory.raw is None:
            floors = category_floors(self.steps, self.joining.class_floors)
            settings = self.site.settings
            found = joint_columns(
                agreed,
                sites,
                rows,
                floors,
                hidden=self._floored,
                first=getattr(settings, "treatment", ""),
                last=getattr(settings, "reference", ()),
            )
            memory.raw = with_given_words(found, self.steps)
            warn_of(self.site.name, left_out(self._rows, memory.raw))
        if not memory.raw.width:  # it depends on sums and lists that are the same for all
            raise ProtocolError("no column is left that all sites have and that policies let be summed")
        return JointColumns(columns=memory.raw)

    def fitting(self) -> Fitting:
        """Return how far the preparation is fitted."""
        memory = self.memory
        joined = self.joining
        steps = self.steps
        raw = memory.raw
        if raw is None and self.site.settings.preparing:
            raise ProtocolError("the joint columns are not agreed on yet")
        if raw is None:  # taken as they are: that all sites have as many was checked when they joined
            raw = Columns(width=self.site.whole.shape[1])
        noise = self.site.noising.noise if self._private else None
        known = steps, raw, self.site.seed, joined.class_floors, len(joined.memory.order), memory.fits
        fitting = Fitting(*known, uses_union(steps), self._private, noise)
        fitting.classes = self._classes
        if self._floored:
            fitting.key = joined.shared_secret(b"floors")
        return fitting

    @property
    def _classes(self) -> tuple[str, ...]:
        """The classes, where they were agreed on before rows are prepared."""
        names = getattr(self.site.memory, "names", None)
        if names is None or self._private:
            return ()
        given = self.joining.memory.terms.get("classes")
        known = bool(names.agreed) or (isinstance(given, tuple) and not self._floored)
        return tuple(self.site.names.agreed) if known else ()

    @property
    def _first(self) -> int:
        """The number of the first sum that a step may be fitted from."""
        return first_sum(self.site.sums.steps(), prepares=bool(self.site.settings.preparing))

    def _take(self, last: SumResult | None) -> Fitting:
        """Take the sum that came before, once, if it is the one that the sites added up; return what follows."""
        memory = self.memory
        fitting = self.fitting()
        stamp = b"none" if last is None else fingerprint(b"last", msgspec.msgpack.encode(last))
        if memory.last == stamp:
            return fitting
        if last is None:
            if memory.last:
                raise ProtocolError("the sum that was taken last is missing")
        else:
            wanted = fitting.next()
            if (
                wanted is None
                or self.site.sums.step_of(last.round) != self._first + fitting.planned()
                or not memory.last
            ):
                raise ProtocolError("the sum that came is not the one that was taken last")
            self.site.sums.check_result(last, SUMS[wanted[0]])
            fitting.take(last.total.numpy())
        memory.last = stamp
        return fitting

    def _answer(self, ask: SumPreparation) -> Any:
        """Add to the next sum."""
        fitting = self._take(ask.last)
        wanted = fitting.next()
        if (
            wanted is None
            or SUMS[wanted[0]] is not type(ask)
            or self.site.sums.step_of(ask.ticket.round) != self._first + fitting.planned()
        ):
            raise ProtocolError("the sum that is asked for does not come next")
        self.site.check_size(wanted[1])
        found = fitting.summand(self._rows, self.site.scratch.setdefault("preparing", {}))
        if fitting.private:
            return self.site.contribute_noisy(ask, found, sensitivity=fitting.sensitivity())
        return self.site.contribute(ask, found)

    @answers(SumCells)
    def sum_cells(self, ask: SumCells) -> Any:
        """Add up which cells have values."""
        return self._answer(ask)

    @answers(SumFloors)
    def sum_floors(self, ask: SumFloors) -> Any:
        """Add up how many rows set columns apart."""
        return self._answer(ask)

    @answers(SumBins)
    def sum_bins(self, ask: SumBins) -> Any:
        """Add up how many numbers lie in bins."""
        return self._answer(ask)

    @answers(SumMoments)
    def sum_moments(self, ask: SumMoments) -> Any:
        """Add up columns, or their squares."""
        return self._answer(ask)

    @answers(SumProducts)
    def sum_products(self, ask: SumProducts) -> Any:
        """Add up products of columns."""
        return self._answer(ask)

    @answers(SumDirections)
    def sum_directions(self, ask: SumDirections) -> Any:
        """Add up the covariance times directions."""
        return self._answer(ask)

    @answers(SumRanks)
    def sum_ranks(self, ask: SumRanks) -> Any:
        """Add up how sites rank columns."""
        return self._answer(ask)

    @answers(SumCellSizes)
    def sum_cell_sizes(self, ask: SumCellSizes) -> Any:
        """Add up how many rows are in parts of cells."""
        return self._answer(ask)

    @answers(SumCellRows)
    def sum_cell_rows(self, ask: SumCellRows) -> Any:
        """Add up rows in cells."""
        return self._answer(ask)

    @answers(SumClassBins)
    def sum_class_bins(self, ask: SumClassBins) -> Any:
        """Add up how many numbers of each class lie in bins."""
        return self._answer(ask)

    @answers(SumSummaries)
    def sum_summaries(self, ask: SumSummaries) -> Any:
        """Add up columns, squares and gaps of each class."""
        return self._answer(ask)

    @answers(PrepareRows)
    def prepare_rows(self, ask: PrepareRows) -> RowsPrepared:
        """Prepare the rows, and look at them as the method does."""
        fitting = self._take(ask.last)
        fitting.finished()
        if not self.memory.done and getattr(
            self.site.settings, "predicts", True
        ):  # a description says itself what it lacks
            warn_of(self.site.name, self._left_out(fitting))
        self.memory.done = True
        scratch = self.site.scratch.pop("preparing", None)
        learnt = self.site.raw_parts[0]
        self.prepared(learnt, scratch if self._rows is learnt else None, learnt=True)
        self.site.check(self.site.settings)
        return RowsPrepared()

    def preparation(self) -> Preparation | None:
        """Return the fitted preparation; None where rows are taken as they are, or it is not done yet."""
        prepares = bool(self.site.settings.preparing)
        return finished_preparation(self.fitting(), prepares=prepares) if self.memory.done else None

    def _left_out(self, fitting: Fitting) -> dict[str, list[str]]:
        """Return what steps left out, by why, as the site calls its columns."""
        if self.memory.raw is not None:
            return fitting.left_out()
        named = Columns(width=fitting.raw.width, names=self.site.whole.columns)
        return replace(fitting, raw=named).left_out()

    def prepared(self, part: SiteData, scratch: dict[Any, Any] | None = None, *, learnt: bool = False) -> SiteData:
        """Return rows as the method sees them: prepared, once that is done; ``scratch``: what their sums kept.

        ``learnt``: they are those that are learnt from.
        """
        if not self.memory.done:
            return part
        stamp = fingerprint(b"prepared", self.joining.memory.terms_hash, msgspec.msgpack.encode(self.memory))
        fitting = self.fitting()
        classes = fitting.classes if learnt and fitting.changes_learnt() else None
        return _prepared(
            part, stamp, lambda: (classes or self.preparation()) and fitting.with_idle(), scratch, classes
        )

    def check_raw(self, settings: Any, rows: SiteData) -> None:
        """Refuse a raw table that the steps of these settings cannot take."""
        if faults := raw_faults(rows, settings.preparing):
            raise FaultsError(faults)

    def result(self) -> dict[str, Any]:
        """Return, for the site's own result, what was left out."""
        if not self.memory.done:
            return {}
        fitting = self.fitting()
        found = self._left_out(fitting)
        if self.memory.raw is not None:
            found = left_out(self._rows, self.memory.raw) | found
        return {"prepared": {"columns": fitting.raw.width, **found}} if found else {}


@dataclass(frozen=True)
class Rehearsed:
    """What the messages of a preparation hold, found where one process has all tables."""

    raw: Columns
    slots: int
    sealed: tuple[int, ...]
    """For each site, the bytes of its sealed columns."""
    lengths: tuple[int, ...]
    """For each planned sum how many words it has; 0: it is not needed."""


def rehearse(
    steps: Sequence[Step],
    sites: Sequence[SiteData],
    seed: int,
    policy: Policy,
    *,
    private: bool,
    classes: tuple[str, ...] = (),
) -> tuple[Rehearsed, Preparation]:
    """Return what the messages of a preparation of these rows hold, and the preparation.

    ``classes`` are those that the sites agree on before; none where they do not.
    """
    lengths = [0] * len(planned_sums(steps, private=private))

    def note(fitting: Fitting) -> None:
        wanted = fitting.next()
        if wanted is not None:
            lengths[fitting.planned()] = wanted[1]

    fitted = fit_plain(steps, sites, seed, policy.class_floors, private=private, watch=note, classes=classes)
    told = {
        site.name: own_columns(site, steps, policy.min_rows_per_class, private=private)
        for site in sorted(sites, key=lambda one: one.name)
    }
    sizes = [len(msgspec.msgpack.encode(one.told())) for one in told.values()]
    sealed = tuple(SEAL_BYTES + 8 + size + -(8 + size) % PAGE for size in sizes)
    slots = slots_for(len(agree(told, union=uses_union(steps)).pairs()))
    return Rehearsed(fitted.raw, slots, sealed, tuple(lengths)), fitted


@dataclass(frozen=True)
class PrepareTables(Steps):
    """The plan of `prepare`: how sites agree on columns, and the sums that steps are fitted from."""

    fitted: tuple[Step, ...]

    def steps(self, shape: Shape, private: bool) -> Plan:
        """Yield the steps; lengths are known where the preparation was rehearsed."""
        kinds = planned_sums(self.fitted, private=private)
        known: Rehearsed | None = shape.preparation
        unknown = "" if known is not None else "the columns and categories that the sites agree on decide its size"
        sealed = known.sealed if known is not None else (PAGE,) * shape.n_sites
        raw = known.raw if known is not None else Columns(width=1)
        size = sum(map(bytes_size, sealed))
        yield Ask(
            SealColumns(participants=shape.sites, letters={}),
            SealedColumns(columns=b""),
            up=size / shape.n_sites - bytes_size(0),
            bound=unknown,
        )
        lists = map_size(shape.n_sites, sum(map(text_size, shape.sites)) + size)
        slots = SLOTS if known is None else known.slots
        yield Ask(HoldColumns(sealed={}), ColumnsHeld(slots=slots), down=lists, bound=unknown)
        counted = yield Sum(
            CountCategories(lists=bytes(32), slots=max(slots, SLOTS)),
            2 * slots,
            times=int(slots > 0),
            spare=int(slots == 0),
            bound=unknown,
        )
        yield Ask(KeepColumns(result=counted if slots else None), JointColumns(columns=raw), bound=unknown)
        last: SumResult | None = None
        lengths = known.lengths if known is not None else (1,) * len(kinds)
        for kind, length in zip(kinds, lengths, strict=True):
            times = int(length > 0)
            found = yield Sum(SUMS[kind](last=last), length, times=times, spare=1 - times, bound=unknown)
            last = found if times else last
        yield Ask(PrepareRows(last=last), RowsPrepared(), bound=unknown)


def names_step(settings: Any) -> Steps | None:
    """Return the step in which the sites of a method agree on the classes; None where they do not."""

    def result(step: Ask | Sum) -> SumResult | None:
        return blank_result(0, ANY_SHAPE.sites) if isinstance(step, Sum) else None

    private = privacy_of(settings) is not None
    return find_names_step(settings.plan(ANY_SHAPE), ANY_SHAPE, private, result)


@dataclass(frozen=True)
class FloorColumns(Steps):
    """The plan of `prepare` where the terms take rows as they are: columns that few set apart are left out, if any."""

    fitted: tuple[Step, ...]
    classes: tuple[str, ...]
    """The classes that sites have agreed on before; empty where they do not, as label names are their own."""

    def steps(self, shape: Shape, private: bool) -> Plan:
        """Yield one sum, or two, where a policy has floors."""
        floors = shape.policy.class_floors
        planned = len(planned_sums(self.fitted, private=private))
        if shape.known and floors == (1, 1):
            for _ in range(planned):
                yield Sum(SumFloors(), 1, times=0, spare=1)
            return
        width = shape.columns if shape.raw_columns is None else shape.raw_columns
        some = floors if floors != (1, 1) else (2, 2)
        ground = FitContext(Columns(width=width), floors=some, sites=shape.n_sites, classes=self.classes)
        last: SumResult | None = None
        for taken in range(planned):
            length = self.fitted[0].length(ground, StepFit(taken=taken))
            times = int(length > 0)
            found = yield Sum(SumFloors(last=last), max(length, 1), times=times, spare=1 - times)
            last = found if times else last
        yield Ask(PrepareRows(last=last), RowsPrepared())


def prepare(cohort: Any, steps: Sequence[Step], *, prepares: bool = True) -> Preparation | None:
    """Have all sites of a `Cohort` prepare their rows; those that fail to answer are left out of it.

    Not ``prepares``: the terms take rows as they are, and only columns that too few rows or sites set apart go.
    """
    raw = _agree(cohort) if prepares else Columns(width=cohort.columns)
    private = privacy_of(cohort.settings) is not None
    fitting = Fitting(
        tuple(steps),
        raw,
        cohort.sites.seed,
        cohort.class_floors,
        len(cohort.names),
        [],
        uses_union(steps),
        private,
        cohort.noise if private else None,
        cohort.classes or (),
    )
    first = first_sum(cohort.planned, prepares=prepares)
    last: SumResult | None = None
    while (wanted := fitting.next()) is not None:
        kind, length = wanted
        cohort.skip_to_step(first + fitting.planned())
        found: SumResult = cohort.sum_checked(SUMS[kind](last=last), length=length)
        last = found
        fitting.take(last.total.numpy())
    done = cohort.sites.ask(PrepareRows(last=last), of=cohort.left, expect=RowsPrepared)
    done.need(cohort.min_sites, "that their rows are prepared")
    cohort.lost_since(done)
    own = cohort.sites.columns
    named = replace(fitting, raw=Columns(width=raw.width, names=own)) if not raw.names and own else fitting
    for why, names in (named.left_out() if getattr(cohort.settings, "predicts", True) else {}).items():
        more = f" and {len(names) - MOST_SHOWN:,} more" if len(names) > MOST_SHOWN else ""
        what = f"left out of all sums, since {why}: {', '.join(names[:MOST_SHOWN])}{more}"
        sites, rows = cohort.class_floors
        remedy = (
            f"policies ask for {sites} sites and {rows} rows (min_sites, min_rows): merge rare values, leave the "
            "columns out, or use differential privacy"
        )
        cohort.sites.notices.append(RunWarning(what, remedy=remedy))
    for what in (step.changed(fit) for step, fit in zip(fitting.steps, fitting.fits, strict=True)):
        if what:
            sites, rows = cohort.class_floors
            remedy = (
                f"policies ask for {sites} sites and {rows} rows (min_sites, min_rows) of a class: take components of "
                "the columns (pca), merge classes, or use differential privacy"
            )
            cohort.sites.notices.append(RunWarning(what, remedy=remedy))
    return finished_preparation(fitting, prepares=prepares)


def _agree(cohort: Any) -> Columns:
    """Return the joint columns, as all sites report them."""
    sites = cohort.sites
    questions = {
        name: SealColumns(participants=cohort.names, letters=dict(cohort.mail[name])) for name in cohort.left
    }
    given = sites.ask(questions, expect=SealedColumns)
    cohort.joined.delivered(given)
    given.need(cohort.min_sites, "with their columns")
    sealed = {name: answer.columns for name, answer in given.items()}
    held = sites.ask(HoldColumns(sealed=sealed), of=sealed, expect=ColumnsHeld)
    held.need(cohort.min_sites, "that they have the columns")
    cohort.lost_since(held)
    slots = max(answer.slots for answer in held.values())
    result = None
    if slots:
        ask = CountCategories(lists=hash_columns(sealed), slots=slots)
        result = cohort.sum_checked(ask, length=2 * slots)
    kept = sites.ask(KeepColumns(result=result), of=cohort.left, expect=JointColumns)
    kept.need(cohort.min_sites, "with the joint columns")
    counted = Counter(str(answer.columns) for answer in kept.values())
    if len(counted) > 1:
        raise ProtocolError("the sites do not report the same columns: one of them is at fault; run again")
    cohort.lost_since(kept)
    found: Columns = next(iter(kept.values())).columns
    return found
