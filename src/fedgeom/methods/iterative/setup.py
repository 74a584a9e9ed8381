"""What training begins with: sites join, agree on the classes, and scale their columns alike."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt
from numpy.lib.mixins import NDArrayOperatorsMixin

from fedgeom.arrays import Floats
from fedgeom.crypto.keys import fingerprint
from fedgeom.data.sites import SiteData
from fedgeom.data.validation import Collector, check_columns, check_known_labels, check_table, check_two_classes
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.messages import Array, Message, Names, Question, bytes_of
from fedgeom.federation.plan import Ask, Plan, Shape, Steps, Sum
from fedgeom.federation.policy import Policy
from fedgeom.federation.privacy import class_floors
from fedgeom.federation.site import answers
from fedgeom.memo import memoize_last
from fedgeom.methods.iterative.messages import Masked
from fedgeom.methods.iterative.settings import TableSettings, TrainingRule
from fedgeom.protocols.cohort import Cohort
from fedgeom.protocols.fixed_point import fixed_sum
from fedgeom.protocols.names import AgreeOnNames, LabelNames, agree_on_names
from fedgeom.protocols.secure_sum.messages import BY_GROUP, SumQuestion, SumResult
from fedgeom.protocols.site import Contribution, SummingPart

FRACTION_BITS = 20
"""Fewer than elsewhere: squares of raw columns are large."""

BLOCK = 4096
"""How many rows of small numbers are made double at once."""


def fixed_scale(name: str, columns: int) -> tuple[Floats, Floats] | None:
    """Return what is taken off columns and what they are divided by, where no rows decide that; None where they do.

    Returns two of (columns,), f8.
    """
    factors = {"none": 1.0, "pixels": 255.0}
    return (np.zeros(columns), np.full(columns, factors[name])) if name in factors else None


def rows_of(site: SiteData, dtype: type[np.floating[Any]]) -> npt.NDArray[Any]:
    """Return a site's rows, (rows, columns): as they came for learners of single precision, otherwise as double.

    A sparse table is made dense.
    """
    single = np.dtype(dtype).itemsize < 8 and isinstance(site.table, np.ndarray)
    return site.table if single else site.X


def scaled(rows: npt.NDArray[Any], centre: Floats, spread: Floats, dtype: type[np.floating[Any]]) -> Floats:
    """Return rows on the agreed scale, in the learner's precision.

    Rows that came as small numbers (bytes of images, single precision) for a learner of single precision are never made
    double. rows (n, columns), centre and spread (columns,); returns (n, columns).
    """
    small = np.dtype(dtype).itemsize < 8 and rows.dtype.itemsize < 8
    kind: type[np.floating[Any]] = np.float32 if small else np.float64
    found = rows.astype(kind)
    found -= centre.astype(kind)
    found /= spread.astype(kind)
    return np.asarray(found, dtype)


CONVERTED_AT_ONCE = 2**24
"""Of tables of small numbers that would have more bytes on the agreed scale, rows are converted where they are used."""


def is_large(rows: npt.NDArray[Any], dtype: type[np.floating[Any]]) -> bool:
    """Say whether a copy of all rows on the agreed scale is not to be kept."""
    size = np.dtype(dtype).itemsize
    return size < 8 and rows.dtype.itemsize < 8 and rows.size * size > CONVERTED_AT_ONCE


class ScaledRows(NDArrayOperatorsMixin):
    """Rows on the agreed scale, (n, columns), that are converted where they are used, so that no copy of all is kept.

    Some of its rows are such rows again; whatever else numpy does with it, it does with an array.
    """

    ndim = 2

    def __init__(
        self,
        table: npt.NDArray[Any],
        centre: Floats,
        spread: Floats,
        dtype: type[np.floating[Any]],
        rows: Any = slice(None),
    ):
        """``rows`` says which of the table: all, or their numbers, (n,)."""
        self._given = table, centre, spread, dtype
        self._rows = rows
        self.shape = (len(table) if isinstance(rows, slice) else len(rows), table.shape[1])
        self.dtype = np.dtype(dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, int | np.integer | tuple):
            return np.asarray(self)[at]
        if isinstance(at, slice):
            at = np.arange(*at.indices(len(self)))
        numbers = np.asarray(at)
        numbers = np.flatnonzero(numbers) if numbers.dtype == bool else numbers
        return ScaledRows(*self._given, numbers if isinstance(self._rows, slice) else self._rows[numbers])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        table, centre, spread, kind = self._given
        found = scaled(table[self._rows], centre, spread, kind)
        return found if dtype is None else found.astype(dtype, copy=False)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        given = [np.asarray(one) if isinstance(one, ScaledRows) else one for one in inputs]
        return getattr(ufunc, method)(*given, **options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(np.asarray(self), name)


def double_rows(site: SiteData) -> Iterator[Floats]:
    """Yield a site's rows as f8, (some, columns); those of small numbers block by block, so that none are kept."""
    table = site.table
    if not isinstance(table, np.ndarray) or table.dtype.itemsize >= 8:
        yield site.X
        return
    for start in range(0, max(len(table), 1), BLOCK):
        yield table[start : start + BLOCK].astype(np.float64)


def column_sums(X: Floats) -> Floats:
    """Return the number of rows, Σx and Σx²: they add across sites."""
    return np.concatenate([[float(len(X))], X.sum(axis=0), (X**2).sum(axis=0)])


def site_sums(site: SiteData) -> Floats:
    """Return `column_sums` of a site's rows, (1 + 2·columns,), f8."""
    return np.asarray(sum(column_sums(some) for some in double_rows(site)))


def scale_from(sums: Floats) -> tuple[Floats, Floats]:
    """Return mean and deviation of each column; a constant column is divided by 1.

    sums (1 + 2·columns,), f8: rows, sums, sums of squares; returns two of (columns,), f8.
    """
    columns = (len(sums) - 1) // 2
    rows = max(sums[0], 1.0)
    centre = sums[1 : 1 + columns] / rows
    variance = sums[1 + columns :] / rows - centre**2
    # What is left of a constant column after the sums were rounded is not a deviation.
    noise = 1e-9 * (1 + centre**2) + 2.0 ** (1 - FRACTION_BITS)
    return centre, np.sqrt(np.where(variance > noise, variance, 1.0))


def scales(settings: TableSettings, sites: Sequence[SiteData]) -> list[tuple[Floats, Floats]]:
    """Return what is taken off the columns of each of some tables in one process, and what they are divided by.

    Returns for each site two of (columns,), f8.
    """
    fixed = fixed_scale(settings.scale, sites[0].shape[1])
    if fixed is not None:
        return [fixed] * len(sites)
    sums = [site_sums(site) for site in sites]
    if settings.scale == "site":
        return [scale_from(one) for one in sums]
    return [scale_from(fixed_sum(sums, fraction_bits=FRACTION_BITS))] * len(sites)


FARTHEST = 1e6
"""No row is that many deviations away from the mean; farther ones would overflow in training."""


class SumTrainingColumns(
    SumQuestion, kind="train.columns", fraction_bits=FRACTION_BITS, reals=True, checked=True, in_groups=True
):
    """Ask for masked sums over the columns, from which all sites get one common scale."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others: the number of rows, mean and variance of each column"
    ) + BY_GROUP


class CountTrainingRows(SumQuestion, kind="train.rows", checked=True):
    """Ask for how many rows a site has, masked: sites must know the whole before they give their shares of it."""

    answer_reveals: ClassVar[str] = "masked; with all others: the number of rows"


class Ready(Message, kind="train.ready", harmless=True):
    """A site is ready to train."""

    reveals: ClassVar[str] = "nothing: a receipt"


class BeginTraining(Question, kind="train.begin", answer=Ready):
    """Tell a site the classes and the columns' sums, from which it works out the common scale itself."""

    classes: Names
    columns: SumResult | None = None
    """What came of `SumTrainingColumns`; None where the site scales by itself, or not at all."""
    rows: SumResult | None = None
    """What came of `CountTrainingRows`; None where nobody needs it, or the columns' sums have it."""


@dataclass(frozen=True)
class AgreedSetup:
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


def hash_agreed(begin: BeginTraining) -> bytes:
    """Hash what all sites are told: the classes, and the sums of columns and of rows where there are such."""
    columns, rows = (b"" if sums is None else sums.total.data for sums in (begin.columns, begin.rows))
    return fingerprint(b"agreed", *(name.encode() for name in begin.classes), b"scale", columns, b"rows", rows)


def total_rows(begin: BeginTraining) -> float:
    """Return how many rows all sites have, by the sums that they are told; 0 where none tells it."""
    if begin.columns is not None:
        return float(begin.columns.reals(SumTrainingColumns)[0])
    return 0.0 if begin.rows is None else float(begin.rows.counts()[0])


@dataclass(frozen=True)
class AgreeOnScale(Steps):
    """The plan of `agree`; the plan receives the classes."""

    settings: TableSettings

    def steps(self, shape: Shape, private: bool) -> Plan:
        """Yield how sites agree on classes, sum what their scale follows from, and are told."""
        classes = yield AgreeOnNames(self.settings.classes)
        columns = (
            (yield Sum(SumTrainingColumns(), 1 + 2 * shape.columns)) if self.settings.scale == "joint" else None
        )
        rows = (yield Sum(CountTrainingRows(), 1)) if self.settings.sums_rows else None
        yield Ask(BeginTraining(classes=classes, columns=columns, rows=rows), Ready())
        return classes


def agree(cohort: Cohort, settings: TableSettings) -> AgreedSetup:
    """Agree on the class names and the scale of the columns, and tell all sites."""
    classes = agree_on_names(cohort, settings.classes)
    columns = cohort.columns
    joint = settings.scale == "joint"
    sums = cohort.sum_checked(SumTrainingColumns(), length=1 + 2 * columns) if joint else None
    rows = cohort.sum_checked(CountTrainingRows(), length=1) if settings.sums_rows else None
    begin = BeginTraining(classes=classes, columns=sums, rows=rows)
    ready = cohort.sites.ask(begin, of=cohort.left, expect=Ready)
    ready.need(cohort.min_sites, "that they are ready to train")
    cohort.lost_since(ready)
    told = hash_agreed(begin)
    whole = total_rows(begin)
    fixed = fixed_scale(settings.scale, columns)
    if fixed is not None:
        return AgreedSetup(classes, columns, *fixed, told, whole)
    centre, spread = (None, None) if sums is None else scale_from(sums.reals(SumTrainingColumns))
    return AgreedSetup(classes, columns, centre, spread, told, whole)


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
    return values.dtype.kind == "f" and (not values.size or bool(values.max() < limit and values.min() > -limit))


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

    @answers(SumTrainingColumns)
    def sum_columns(self, ask: SumQuestion) -> Contribution:
        """Add this site's column sums to the secure sum."""
        return self.contribute(ask, site_sums(self.site.table))

    @answers(CountTrainingRows)
    def sum_rows(self, ask: SumQuestion) -> Contribution:
        """Add the number of this site's rows to the secure sum."""
        return self.contribute(ask, np.array([len(self.site.table)], np.int64))

    @answers(BeginTraining)
    def begin(self, ask: BeginTraining) -> Ready:
        """Take the classes, and work out the scale from the sum of all sites' columns."""
        self.check_told(ask.classes, scaled=ask.columns is not None, counted=ask.rows is not None)
        centre, spread = self.own_scale() if ask.columns is None else self._joint_scale(ask.columns)
        if ask.rows is not None:
            self.site.sums.check_result(ask.rows, CountTrainingRows)
            if ask.rows.total.shape != (1,):
                raise ProtocolError("one number of rows is wanted")
        return self.keep(ask.classes, centre, spread, total_rows(ask), hash_agreed(ask))

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
        memory = self.memory
        joint = self.settings.scale == "joint"
        with np.errstate(all="ignore"):
            # It depends on the rows, so the site leaves: a coordinator must not ask on until refusals tell them. How
            # long rows are on a scale of its own is the site's own business.
            parts = double_rows(self.site.table)
            far = joint and not all(within((part - centre) / spread, FARTHEST) for part in parts)
            if far or not (within(centre, np.inf) and within(spread, np.inf)):
                raise InputError(f"the scale makes rows of this site larger than {FARTHEST:g}")
        memory.classes = classes
        memory.centre = Array.of(centre)
        memory.spread = Array.of(spread)
        memory.rows = rows
        memory.told = told
        return Ready()

    def _joint_scale(self, sums: SumResult) -> tuple[Floats, Floats]:
        columns = self.site.data.shape[1]
        self.site.sums.check_result(sums, SumTrainingColumns)
        if sums.total.shape != (1 + 2 * columns,):
            raise ProtocolError(f"the sums do not fit a table of {columns} columns")
        return scale_from(sums.reals(SumTrainingColumns))

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
        fixed = fixed_scale(self.settings.scale, self.site.data.shape[1])
        return fixed or scale_from(site_sums(self.site.table))

    @property
    def scale(self) -> tuple[Floats, Floats]:
        """What is taken off the site's columns, and what they are divided by."""
        memory = self.memory
        if memory.centre is None or memory.spread is None:
            raise ProtocolError("the site was asked to train before it was told the classes")
        return memory.centre.numpy(), memory.spread.numpy()

    def scaled(self, dtype: type[np.floating[Any]] = np.float64) -> Floats:
        """Return the site's rows on the agreed scale; they are converted once, and again when they have changed.

        Those of a large table of small numbers are `ScaledRows`.
        """
        rows = rows_of(self.site.table, dtype)
        if is_large(rows, dtype):
            return ScaledRows(rows, *self.scale, dtype)  # type: ignore[return-value]
        known = self.site.scratch
        key = "scaled", self.memory.told, np.dtype(dtype), zlib.crc32(bytes_of(rows))
        if key not in known:
            known[key] = scaled(rows, *self.scale, dtype)
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


class SiteGroup(msgspec.Struct, kw_only=True):
    """A site's group as it was told last."""

    round: int = -1
    """The last round in which the site was told."""
    group: tuple[str, ...] = ()
    factors: dict[str, float] = {}
    """What the weights of the group's sites are multiplied by, as far as they were told."""
    faster: dict[str, bool] = {}
    """Whose learning rate is raised, as far as that was told."""

    def settle(self, rule: TrainingRule, ask: Masked, me: str, min_cohort: int) -> tuple[str, ...]:
        """Take a question's group, weights and raised rates, or refuse them; return the group, empty for all sites."""
        self._check_group(rule, ask, me, min_cohort)
        if not rule.weighs_sites and any(factor != 1.0 for factor in ask.factors.values()):
            raise ProtocolError("the terms of this run have all sites count by their rows alone: no other weights")
        factors, faster = told(ask)
        anew = any(rule.regroups_in(round) for round in range(self.round + 1, ask.round + 1))
        if not anew:
            if ask.group != self.group:
                raise ProtocolError(
                    "the site was told another group before; the terms of this run change no groups"
                )
            if not _agree(factors, self.factors) or not _agree(faster, self.faster):
                raise ProtocolError(
                    "sites of this group were given other weights or learning rates before; the terms change none since"
                )
        if anew or (factors, faster) != (self.factors, self.faster):
            self.factors = dict(factors) if anew else self.factors | factors
            self.faster = dict(faster) if anew else self.faster | faster
        self.group = ask.group
        self.round = max(self.round, ask.round)
        return ask.group

    def _check_group(self, rule: TrainingRule, ask: Masked, me: str, min_cohort: int) -> None:
        group = set(ask.group)
        if rule.groups == 1:
            if group:
                raise ProtocolError("the terms of this run have one group, of all sites")
            return
        if me not in group or not group <= set(ask.ticket.members):
            raise ProtocolError("the group is not a part of the members with this site in it")
        if len(group) < min_cohort:
            raise ProtocolError(
                f"the group has {len(group)} sites; the policy of {me!r} asks for at least {min_cohort}"
            )


@memoize_last  # the very same question comes to many sites of a process
def told(ask: Masked) -> tuple[dict[str, float], dict[str, bool]]:
    """Return, for each site that is summed, by what its weight is multiplied and whether its rate is raised."""
    names = ask.ticket.participants
    raised = frozenset(ask.faster)
    return {name: ask.factors[name] for name in names if name in ask.factors}, {n: n in raised for n in names}


def _agree(new: Mapping[str, float], old: Mapping[str, float]) -> bool:
    """Say whether what is told again is told the same."""
    return new == old or all(old.get(name, value) == value for name, value in new.items())


def asked_again(trained: Mapping[int, bytes], rounds: int, asked: bytes, round: int) -> bool:
    """Refuse a round that is over, or not in the terms; say whether the very same was asked before.

    ``trained`` has for each round a hash of its question, ``asked`` stands for the one that came.
    """
    if round >= rounds:
        raise ProtocolError(f"round {round + 1} was asked for; the site joined on n_rounds={rounds}")
    again = trained.get(round) == asked
    if trained and (round < max(trained) or (round in trained and not again)):
        raise ProtocolError(f"round {round + 1} is over, or was trained for another question already")
    return again
