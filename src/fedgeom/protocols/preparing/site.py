"""The site's half: seal and open columns, count categories, add to every step's sums, and prepare the rows."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec
import numpy as np

from fedgeom.arrays import Ints
from fedgeom.crypto.keys import fingerprint
from fedgeom.crypto.letters import seal, unseal
from fedgeom.data.findings import FaultsError
from fedgeom.data.sites import SiteData
from fedgeom.errors import ProtocolError
from fedgeom.federation.joint_columns import (
    Agreed,
    SiteColumns,
    agree,
    category_floors,
    joint_columns,
    own_columns,
    own_counts,
    uses_union,
    with_given_words,
)
from fedgeom.federation.preparation import Fitting, Preparation
from fedgeom.federation.privacy import privacy_of
from fedgeom.federation.site import Part, answers
from fedgeom.federation.steps import Columns, Fit, Step
from fedgeom.protocols.joining.site import Joining
from fedgeom.protocols.preparing.checking import raw_faults
from fedgeom.protocols.preparing.left_out import left_out, warn_of
from fedgeom.protocols.preparing.messages import (
    PAGE,
    SUMS,
    ColumnsHeld,
    CountCategories,
    HoldColumns,
    JointColumns,
    KeepColumns,
    PrepareRows,
    RowsPrepared,
    SealColumns,
    SealedColumns,
    SumBins,
    SumCells,
    SumDirections,
    SumMoments,
    SumPreparation,
    SumProducts,
    SumRanks,
    hash_columns,
    hidden_order,
    slots_for,
)
from fedgeom.protocols.secure_sum.messages import SumResult


class PreparingMemory(msgspec.Struct, kw_only=True):
    """What a site remembers of the joint columns, and of the steps as far as they are fitted."""

    sealed: bytes = b""
    opened: bytes = b""
    """A hash of the lists: one run has one set of columns."""
    agreed: Agreed | None = None
    raw: Columns | None = None
    fits: list[Fit] = []
    last: bytes = b""
    """A hash of the sum that was taken last: asked again, the site takes it once."""
    done: bool = False


_PREPARED: dict[int, tuple[bytes, SiteData]] = {}
"""For each table that is alive, how it was last prepared: a site is built anew for each question, its rows are not."""


class Preparing(Part[PreparingMemory]):
    """Prepares the site's rows before the method sees them."""

    name: ClassVar[str] = "preparing"
    site: Any

    @property
    def joining(self) -> Joining:
        """The part that joined."""
        found: Joining = self.site.joining
        return found

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps, from the terms on which the site joined."""
        found: tuple[Step, ...] = self.site.settings.preparing
        if not found:
            raise ProtocolError("these terms take rows as they are; nothing is prepared")
        return found

    @property
    def _rows(self) -> SiteData:
        """The raw rows that are learnt from."""
        found: SiteData = self.site.raw_parts[0]
        return found

    def _own(self) -> SiteColumns:
        return own_columns(self._rows, self.steps, self.site.policy.min_rows_per_class, private=self._private)

    @property
    def _private(self) -> bool:
        return privacy_of(self.site.settings) is not None

    @answers(SealColumns)
    def seal_columns(self, ask: SealColumns) -> SealedColumns:
        """Seal what the site's columns and categories are called for the other sites."""
        memory, site = self.memory, self.site
        _ = self.steps
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
        memory, stamp = self.memory, hash_columns(ask.sealed)
        if self.site.name not in ask.sealed or not set(ask.sealed) <= set(self.joining.memory.order):
            raise ProtocolError("the lists of columns are not those of members with this site among them")
        self.joining.check_many_enough(ask.sealed)
        if memory.opened and memory.opened != stamp:
            raise ProtocolError("other lists of columns were opened before; one run has one set of columns")
        memory.agreed = agree(self._open(ask.sealed), union=uses_union(self.steps))
        memory.opened = stamp
        return ColumnsHeld(slots=slots_for(len(memory.agreed.pairs())))

    def _open(self, lists: Mapping[str, bytes]) -> dict[str, SiteColumns]:
        key, found = self.joining.shared_secret(b"columns"), {}
        for name, sealed in sorted(lists.items()):
            text = unseal(key, sealed, fingerprint(b"columns", self.site.run, name.encode()), sender=name)
            try:
                size = int.from_bytes(text[:8], "big")
                found[name] = msgspec.msgpack.decode(text[8 : 8 + size], type=SiteColumns)
            except ValueError as error:
                raise ProtocolError(f"the columns of {name!r} cannot be read: {error}") from error
        return found

    def _agreed(self) -> Agreed:
        if self.memory.agreed is None:
            raise ProtocolError("the site was asked about columns before it knew the others'")
        return self.memory.agreed

    @answers(CountCategories)
    def count_categories(self, ask: CountCategories) -> Any:
        """Add to the secure sum which categories there are here, and how many rows of each."""
        agreed, rows = self._agreed(), self._rows
        if ask.lists != self.memory.opened or not agreed.words or ask.slots != slots_for(len(agreed.pairs())):
            raise ProtocolError("the categories to be counted are not those that this site knows")
        places, vector = self._places(ask.slots), np.zeros(2 * ask.slots, np.int64)
        counts = own_counts(agreed, self._own(), len(rows))
        vector[places], vector[ask.slots + places] = counts > 0, counts
        return self.site.contribute(ask, vector)

    def _places(self, slots: int) -> Ints:
        """Return the number under which each pair of column and word is counted: in an order that only sites know."""
        order = hidden_order(self.joining.shared_secret(b"category slots"), slots)
        return np.array(order[: len(self._agreed().pairs())], np.int64)

    @answers(KeepColumns)
    def keep_columns(self, ask: KeepColumns) -> JointColumns:
        """Check the counts and keep the categories that enough sites and rows have."""
        agreed, memory, pairs = self._agreed(), self.memory, self._agreed().pairs()
        if (ask.result is not None) != bool(pairs):
            raise ProtocolError(
                "categories were counted where there are none, or not counted where there are some"
            )
        sites = rows = np.zeros(0, np.int64)
        if ask.result is not None:
            self.site.sums.check_result(ask.result, CountCategories)
            counts = ask.result.counts()
            slots = len(counts) // 2
            places = self._places(slots)
            sites, rows = counts[places], counts[slots + places]
        if memory.raw is None:
            found = joint_columns(agreed, sites, rows, category_floors(self.steps, self.joining.class_floors))
            memory.raw = with_given_words(found, self.steps)
            warn_of(self.site.name, left_out(self._rows, memory.raw))
        if not memory.raw.width:  # it depends on sums and lists that are the same for all
            raise ProtocolError("no column is left that all sites have and that policies let be summed")
        return JointColumns(columns=memory.raw)

    def fitting(self) -> Fitting:
        """Return how far the preparation is fitted."""
        memory, joined = self.memory, self.joining
        if memory.raw is None:
            raise ProtocolError("the joint columns are not agreed on yet")
        noise = self.site.noising.noise if self._private else None
        known = self.steps, memory.raw, self.site.seed, joined.class_floors, len(joined.memory.order), memory.fits
        return Fitting(*known, uses_union(self.steps), self._private, noise)

    def _take(self, last: SumResult | None) -> Fitting:
        """Take the sum that came before, once, if it is the one that the sites added up; return what follows."""
        memory, fitting = self.memory, self.fitting()
        stamp = b"none" if last is None else fingerprint(b"last", msgspec.msgpack.encode(last))
        if memory.last == stamp:
            return fitting
        if last is None:
            if memory.last:
                raise ProtocolError("the sum that was taken last is missing")
        else:
            wanted = fitting.next()
            if wanted is None or last.round != 1 + fitting.planned() or not memory.last:
                raise ProtocolError("the sum that came is not the one that was taken last")
            self.site.sums.check_result(last, SUMS[wanted[0]])
            fitting.take(last.total.numpy())
        memory.last = stamp
        return fitting

    def _answer(self, ask: SumPreparation) -> Any:
        """Add to the next sum."""
        fitting = self._take(ask.last)
        wanted = fitting.next()
        if wanted is None or SUMS[wanted[0]] is not type(ask) or ask.ticket.round != 1 + fitting.planned():
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

    @answers(PrepareRows)
    def prepare_rows(self, ask: PrepareRows) -> RowsPrepared:
        """Prepare the rows, and look at them as the method does."""
        self._take(ask.last).finished()
        self.memory.done = True
        self.prepared(self._rows, self.site.scratch.pop("preparing", None))
        self.site.check(self.site.settings)
        return RowsPrepared()

    def preparation(self) -> Preparation | None:
        """Return the fitted preparation; None where the terms have none, or it is not done yet."""
        return self.fitting().finished() if self.memory.done else None

    def prepared(self, part: SiteData, scratch: dict[Any, Any] | None = None) -> SiteData:
        """Return rows as the method sees them: prepared, once that is done; ``scratch``: what their sums kept."""
        if not self.memory.done:
            return part
        stamp = fingerprint(b"prepared", self.joining.memory.terms_hash, msgspec.msgpack.encode(self.memory))
        known = _PREPARED.get(id(part))
        if known is None or known[0] != stamp:
            if known is None:
                weakref.finalize(part, _PREPARED.pop, id(part), None)
            made = self.fitting().finished().transform(part, scratch)
            known = _PREPARED[id(part)] = stamp, made
        return known[1]

    def check_raw(self, settings: Any, rows: SiteData) -> None:
        """Refuse a raw table that the steps of these settings cannot take."""
        if faults := raw_faults(rows, settings.preparing):
            raise FaultsError(faults)

    def result(self) -> dict[str, Any]:
        """Return, for the site's own result, what was left out."""
        raw = self.memory.raw
        if raw is None or not self.memory.done:
            return {}
        found = left_out(self._rows, raw)
        return {"prepared": {"columns": raw.width, **found}} if found else {}
