"""What all training begins with: sites join, agree on the classes, and bring their columns to one scale.

Both halves are here: `agree` is the coordinator's, `Agreement` the site's.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.crypto.keys import fingerprint
from fedgeom.data.checks import check_columns, check_known_labels, check_table, check_two_classes
from fedgeom.data.findings import Collector
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.messages import Array, Message, Names, Question, bytes_of
from fedgeom.federation.policy import Policy
from fedgeom.federation.privacy import class_floors
from fedgeom.federation.site import answers
from fedgeom.methods.iterative import scaling
from fedgeom.methods.iterative.table_settings import TableSettings
from fedgeom.protocols.cohort import Cohort
from fedgeom.protocols.names.coordinator import agree_on_names
from fedgeom.protocols.names.site import LabelNames
from fedgeom.protocols.secure_sum.messages import SumQuestion, SumResult
from fedgeom.protocols.site import Contribution, SummingPart

FARTHEST = 1e6
"""No row is that many deviations away from the mean; farther ones would overflow in training."""


class SumColumns(SumQuestion, frozen=True, kw_only=True):
    """Ask for masked sums over the columns, from which all sites get one common scale."""

    kind: ClassVar[str] = "train.columns"
    answer_reveals: ClassVar[str] = "masked; with all others: the number of rows, mean and variance of each column"
    fraction_bits: ClassVar[int] = scaling.FRACTION_BITS
    reals: ClassVar[bool] = True
    checked: ClassVar[bool] = True


class SumRows(SumQuestion, frozen=True, kw_only=True):
    """Ask for how many rows a site has, masked: sites must know the whole before they give their shares of it."""

    kind: ClassVar[str] = "train.rows"
    answer_reveals: ClassVar[str] = "masked; with all others: the number of rows"
    checked: ClassVar[bool] = True


class Ready(Message, frozen=True, kw_only=True):
    """A site is ready to train."""

    kind: ClassVar[str] = "train.ready"
    reveals: ClassVar[str] = "nothing: a receipt"
    harmless: ClassVar[bool] = True


class Begin(Question, frozen=True, kw_only=True):
    """Tell a site the classes and the columns' sums, from which it works out the common scale itself."""

    kind: ClassVar[str] = "train.begin"
    answer: ClassVar[type[Message]] = Ready
    classes: Names
    columns: SumResult | None = None
    """What came of `SumColumns`; None where the site scales by itself, or not at all."""
    rows: SumResult | None = None
    """What came of `SumRows`; None where nobody needs it, or the columns' sums have it."""


@dataclass(frozen=True)
class Agreed:
    """What the sites have agreed on."""

    classes: tuple[str, ...]
    columns: int
    centre: Floats | None
    """(columns,): what a joint model takes off columns; None: each site does that itself."""
    spread: Floats | None
    """(columns,)"""
    hash: bytes
    """Stands for classes, scale and rows in later questions."""
    rows: float = 0.0
    """How many rows all sites have, where that was counted."""


def hash_agreed(begin: Begin) -> bytes:
    """Hash what all sites are told: the classes, and the sums of columns and of rows where there are such."""
    columns, rows = (b"" if sums is None else sums.total.data for sums in (begin.columns, begin.rows))
    return fingerprint(b"agreed", *(name.encode() for name in begin.classes), b"scale", columns, b"rows", rows)


def rows_of(begin: Begin) -> float:
    """Return how many rows all sites have, by the sums that they are told; 0 where none tells it."""
    if begin.columns is not None:
        return float(begin.columns.reals(SumColumns)[0])
    return 0.0 if begin.rows is None else float(begin.rows.counts()[0])


def agree(cohort: Cohort, settings: TableSettings) -> Agreed:
    """Agree on the class names and the scale of the columns, and tell all sites."""
    classes = agree_on_names(cohort, settings.classes)
    columns, joint = cohort.columns, settings.scale == "joint"
    sums = cohort.sum_checked(SumColumns(), length=1 + 2 * columns) if joint else None
    rows = cohort.sum_checked(SumRows(), length=1) if settings.sums_rows else None
    begin = Begin(classes=classes, columns=sums, rows=rows)
    ready = cohort.sites.ask(begin, of=cohort.left, expect=Ready)
    ready.need(settings.min_sites, "that they are ready to train")
    cohort.lost_since(ready)
    told, whole = hash_agreed(begin), rows_of(begin)
    fixed = scaling.fixed_scale(settings.scale, columns)
    if fixed is not None:
        return Agreed(classes, columns, *fixed, told, whole)
    centre, spread = (None, None) if sums is None else scaling.scale_from(sums.reals(SumColumns))
    return Agreed(classes, columns, centre, spread, told, whole)


def check_together(sites: Sequence[SiteData], classes: Sequence[str] | None) -> None:
    """Refuse sites whose tables do not fit together, before anything is sent."""
    check_columns({site.name: site.shape[1] for site in sites})
    if not classes:
        check_two_classes(sites)


def check_site(data: SiteData, settings: TableSettings, policy: Policy) -> None:
    """Refuse data that training cannot use, or that the site's policy keeps out of it, naming the site."""
    faults = Collector(data.name)
    with faults.take():
        check_table(data, **class_floors(settings, settings.min_rows, policy.min_rows_per_class))
    with faults.take():
        check_known_labels(data.name, map(str, data.classes.tolist()), settings.classes)
    faults.raise_all()


def within(values: npt.NDArray[Any], limit: float) -> bool:
    """Say whether all values are numbers smaller than a limit.

    values (…), any numbers.
    """
    return values.dtype.kind == "f" and bool((np.abs(values) < limit).all())


class AgreementMemory(msgspec.Struct, kw_only=True):
    """What a site remembers of the agreement."""

    classes: tuple[str, ...] = ()
    centre: Array | None = None
    """(columns,), f8"""
    spread: Array | None = None
    """(columns,), f8"""
    rows: float = 0.0
    """How many rows all sites have, where that was counted."""
    told: bytes = b""
    """A hash of what the coordinator said (`hash_agreed`)."""


class Agreement(SummingPart[AgreementMemory]):
    """Gives the site's column sums, takes classes and scale."""

    name: ClassVar[str] = "agreement"

    @property
    def names(self) -> LabelNames:
        """The part that agrees on names."""
        found: LabelNames = self.site.names  # type: ignore[attr-defined]
        return found

    @answers(SumColumns)
    def sum_columns(self, ask: SumQuestion) -> Contribution:
        """Add this site's column sums to the secure sum."""
        return self.contribute(ask, scaling.site_sums(self.site.table))

    @answers(SumRows)
    def sum_rows(self, ask: SumQuestion) -> Contribution:
        """Add the number of this site's rows to the secure sum."""
        return self.contribute(ask, np.array([len(self.site.table)], np.int64))

    @answers(Begin)
    def begin(self, ask: Begin) -> Ready:
        """Take the classes, and work out the scale from the sum of all sites' columns."""
        self.check_told(ask.classes, scaled=ask.columns is not None, counted=ask.rows is not None)
        centre, spread = self.own_scale() if ask.columns is None else self._joint_scale(ask.columns)
        if ask.rows is not None:
            self.site.sums.check_result(ask.rows, SumRows)
            if ask.rows.total.shape != (1,):
                raise ProtocolError("one number of rows is wanted")
        return self.keep(ask.classes, centre, spread, rows_of(ask), hash_agreed(ask))

    def check_told(self, classes: Sequence[str], *, scaled: bool, counted: bool) -> None:
        """Refuse classes that were not agreed on, and sums of columns or rows that the terms do not have."""
        self.site.check_size(len(classes) * (1 + self.site.data.shape[1]))  # no smaller model tells them apart
        self.names.check_agreed(classes)
        if (self.settings.scale == "joint") != scaled:
            raise ProtocolError("a joint scale came where the terms have none, or none where they have one")
        if self.settings.sums_rows != counted:
            raise ProtocolError("a number of rows came where the terms have none, or none where they have one")
        if not len(self.site.table):  # it depends on the labels, so the site leaves
            raise InputError("all classes of this site are too rare; there is nothing to train on")

    def keep(self, classes: tuple[str, ...], centre: Floats, spread: Floats, rows: float, told: bytes) -> Ready:
        """Keep what was agreed on; leave where the scale makes the site's rows too large."""
        memory, joint = self.memory, self.settings.scale == "joint"
        with np.errstate(all="ignore"):
            # It depends on the rows, so the site leaves: a coordinator must not ask on until refusals tell them. How
            # long rows are on a scale of its own is the site's own business.
            parts = scaling.double_rows(self.site.table)
            far = joint and not all(within((part - centre) / spread, FARTHEST) for part in parts)
            if far or not (within(centre, np.inf) and within(spread, np.inf)):
                raise InputError(f"the scale makes rows of this site larger than {FARTHEST:g}")
        memory.classes, memory.centre, memory.spread = classes, Array.of(centre), Array.of(spread)
        memory.rows, memory.told = rows, told
        return Ready()

    def _joint_scale(self, sums: SumResult) -> tuple[Floats, Floats]:
        columns = self.site.data.shape[1]
        self.site.sums.check_result(sums, SumColumns)
        if sums.total.shape != (1 + 2 * columns,):
            raise ProtocolError(f"the sums do not fit a table of {columns} columns")
        return scaling.scale_from(sums.reals(SumColumns))

    def check_agreed(self, agreed: bytes) -> None:
        """Refuse a question about classes or a scale that this site was not told.

        The hash is part of every sum's question, and so of its masks. A coordinator that tells sites different scales,
        so that all but one add next to nothing, finds masks that do not cancel.
        """
        if not self.memory.told:
            raise ProtocolError("the site was asked to train before it was told the classes")
        if agreed != self.memory.told:
            raise ProtocolError("the question is about other classes or another scale than this site was told")

    def own_scale(self) -> tuple[Floats, Floats]:
        """Return a scale that follows from the terms, or from this site's rows alone."""
        fixed = scaling.fixed_scale(self.settings.scale, self.site.data.shape[1])
        return fixed or scaling.scale_from(scaling.site_sums(self.site.table))

    @property
    def scale(self) -> tuple[Floats, Floats]:
        """What is taken off the site's columns, and what they are divided by."""
        memory = self.memory
        if memory.centre is None or memory.spread is None:
            raise ProtocolError("the site was asked to train before it was told the classes")
        return memory.centre.numpy(), memory.spread.numpy()

    def scaled(self, dtype: type[np.floating[Any]] = np.float64) -> Floats:
        """Return the site's rows on the agreed scale; they are converted once, and again when they have changed."""
        rows, known = scaling.rows_of(self.site.table, dtype), self.site.scratch
        key = "scaled", self.memory.told, np.dtype(dtype), zlib.crc32(bytes_of(rows))
        if key not in known:
            known[key] = scaling.scaled(rows, *self.scale, dtype)
        found: Floats = known[key]
        return found

    def label_indices(self) -> npt.NDArray[np.int64]:
        """Return the index of each row's label among the agreed classes."""
        return label_indices(self.site.table.y, self.memory.classes)


def label_indices(y: npt.NDArray[Any], classes: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return the index of each label among the classes, 0 for one that is not there.

    y (n,); returns (n,), i8.
    """
    labels = y.astype(str)
    found = np.zeros(len(labels), np.int64)
    for index, name in enumerate(classes):
        found[labels == name] = index
    return found
