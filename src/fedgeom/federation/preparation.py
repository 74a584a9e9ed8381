"""A fitted preparation: from a raw table to the features that a model learnt from. It is a part of the model.

`Fitting` is the way there: it knows which sum comes next and takes it. Sites, the coordinator and the plain twin each
have one and come to the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Words
from fedgeom.data.rows import dense
from fedgeom.data.sites import SiteData
from fedgeom.data.tables import is_sparse
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.messages import Array
from fedgeom.federation.raw_tables import Picker, read_raw
from fedgeom.federation.step_order import numbers_only, unfit
from fedgeom.federation.steps import (
    Block,
    BoundedLearning,
    Columns,
    Fit,
    Ground,
    Learning,
    Step,
    SumKind,
    learnings,
)
from fedgeom.privacy.mechanism import SumNoise

BLOCK_CELLS = 2**23
"""About how many cells are prepared at once, counted as if they were dense."""
BLOCK_ROWS = 4096
SMALL = 2**28
"""A table of up to so many bytes is kept as it is after a step, so that the next one need not begin anew."""
FACT = "preparation"
"""The fact of a model file that holds the steps, and what the names of their arrays begin with."""


@dataclass(frozen=True)
class Preparation:
    """Steps, what was fitted of each, and the raw columns that they begin with."""

    steps: tuple[Step, ...]
    fits: tuple[Fit, ...]
    raw: Columns
    """The columns of raw tables: names, and the words of columns of text."""
    fill: bool = False
    """Whether a raw table may lack columns: their cells are then empty."""

    @cached_property
    def grounds(self) -> tuple[Ground, ...]:
        """What each step stands on, and after the last one what comes out."""
        found = [Ground(self.raw)]
        for step, fit in zip(self.steps, self.fits, strict=True):
            found.append(Ground(step.output(found[-1], fit)))
        return tuple(found)

    @property
    def columns(self) -> Columns:
        """What comes out."""
        return self.grounds[-1].columns

    def transform(self, site: SiteData, scratch: dict[Any, Any] | None = None) -> SiteData:
        """Return a site's rows prepared, as one table; ``scratch`` is what sums of the same rows kept (`Prepared`)."""
        rows = Prepared(site, self, scratch or {})
        table = _stacked(list(rows.blocks()), (len(site), self.columns.width))
        return site.with_table(table, self.columns.names)

    def rows(self, X: Any) -> npt.NDArray[Any]:
        """Return rows prepared, (rows, columns): of a frame, an AnnData, a `SiteData`, a read table or an array.

        Columns are found by name; those that the preparation does not know are left out. An array has them in order.
        """
        raw = read_raw(X, self.raw)
        wrong = unfit(numbers_only(raw, self.raw.names), self.steps)
        if wrong:
            raise InputError("\n".join(f"{one.what}; {one.remedy}" for one in wrong))
        table = self.transform(raw).table
        return dense(table, "X") if is_sparse(table) else np.asarray(table)

    def stored(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Return the arrays and the fact that a model file keeps."""
        arrays = {
            f"{FACT}/{at}/{name}": array.numpy()
            for at, fit in enumerate(self.fits)
            for name, array in fit.arrays.items()
        }
        steps = [step.plain() for step in self.steps]
        return arrays, {
            FACT: {"steps": steps, "raw": msgspec.to_builtins(self.raw, str_keys=True), "fill": self.fill}
        }

    @classmethod
    def read(cls, arrays: Mapping[str, npt.NDArray[Any]], fact: Any) -> Preparation:
        """Build a preparation from what a model file keeps."""
        try:
            steps = tuple(Step.read(one, "prepare") for one in fact["steps"])
            raw = msgspec.convert(fact["raw"], Columns, strict=False, str_keys=True)
            fill = bool(fact["fill"])
        except (KeyError, TypeError, msgspec.ValidationError) as error:
            raise InputError(f"the file's preparation cannot be read: {error}") from error
        fits = []
        for at, step in enumerate(steps):
            start = f"{FACT}/{at}/"
            own = {k.removeprefix(start): Array.of(v) for k, v in arrays.items() if k.startswith(start)}
            fits.append(Fit(taken=len(step.sums()), arrays=own))
        return cls(steps, tuple(fits), raw, fill)

    def to_bytes(self) -> bytes:
        """Return it as bytes, the same wherever the same was fitted."""
        arrays, fact = self.stored()
        kept = StoredPreparation(arrays={name: Array.of(one) for name, one in arrays.items()}, fact=fact[FACT])
        return msgspec.msgpack.encode(kept, order="deterministic")

    @classmethod
    def from_bytes(cls, data: bytes) -> Preparation:
        """Read it back."""
        try:
            kept = msgspec.msgpack.decode(data, type=StoredPreparation)
        except msgspec.DecodeError as error:
            raise InputError(f"the preparation cannot be read: {error}") from error
        return cls.read({name: one.numpy() for name, one in kept.arrays.items()}, kept.fact)


class StoredPreparation(msgspec.Struct, kw_only=True):
    """A preparation as bytes have it."""

    arrays: dict[str, Array]
    fact: Any


def _stacked(blocks: list[Block], shape: tuple[int, int]) -> Any:
    if not blocks:
        return np.zeros(shape)
    if len(blocks) == 1:
        return blocks[0]
    if is_sparse(blocks[0]):
        from scipy.sparse import csr_array, vstack  # .1 s, which a command that reads nothing should not wait for

        return csr_array(vstack(blocks, format="csr"))
    return np.concatenate(blocks)


@dataclass
class Prepared:
    """A site's rows, prepared by the first steps, a block at a time (`PreparedRows`).

    What is small enough after a step is kept in ``scratch``, so that sums of the next steps begin there.
    """

    site: SiteData
    preparation: Preparation
    scratch: dict[Any, Any] = field(default_factory=dict)
    keep: bool = False

    @property
    def labels(self) -> npt.NDArray[np.str_]:
        """The rows' labels, (rows,), text."""
        return self.site.y.astype(np.str_)

    def __len__(self) -> int:
        return len(self.site)

    def blocks(self) -> Iterator[Block]:
        """Yield the rows in order, prepared by all steps."""
        begun, table = self._begun()
        made, grounds = self.preparation, self.preparation.grounds
        picker = Picker(self.site, made.raw, made.fill) if table is None else None
        source = self.site.table if table is None else table
        step = max(1, min(BLOCK_ROWS, BLOCK_CELLS // max(int(source.shape[1]), 1)))
        for at in range(0, len(self), step):
            block = source[at : at + step]
            if picker is not None:
                block = picker.pick(block)
            for one, ground, fit in list(zip(made.steps, grounds, made.fits, strict=False))[begun:]:
                block = one.transform(ground, fit, block)
            yield block

    def _begun(self) -> tuple[int, Any]:
        """Return how many steps are done in a table that is kept, and that table; None: there is none."""
        kept: tuple[int, Any] = self.scratch.get("prepared", (0, None))
        done = len(self.preparation.steps)
        if kept[0] > done:
            return 0, None
        if self.keep and kept[0] < done and self._size() <= SMALL:
            self.scratch.pop("prepared", None)
            once = Prepared(self.site, self.preparation, {"prepared": kept} if kept[0] else {})
            self.scratch["prepared"] = kept = done, _stacked(list(once.blocks()), (len(self), 0))
        return kept

    def _size(self) -> int:
        """Return how many bytes the prepared table would take."""
        table = self.site.table
        size = int(table.data.nbytes + table.indices.nbytes) if is_sparse(table) else int(table.nbytes)
        made = self.preparation
        for step, ground, fit in zip(made.steps, made.grounds, made.fits, strict=False):
            size = step.output_bytes(ground, fit, len(self), size)
        return size


@dataclass
class Fitting:
    """A preparation on the way: which sum comes next, what a site adds to it, and what follows from it."""

    steps: tuple[Step, ...]
    raw: Columns
    seed: int
    floors: tuple[int, int]
    sites: int
    fits: list[Fit]
    fill: bool = False
    private: bool = False
    """Whether steps are learnt by bounded sums, for a run with privacy (`Step.bounded`)."""
    noise: Callable[..., SumNoise] | None = None
    """The noise in them; None in the plain twin."""

    def __post_init__(self) -> None:
        self._ways: tuple[Learning, ...] = learnings(self.steps, private=self.private)
        self._settled: tuple[int, Ground] | None = None

    def _settle(self) -> tuple[int, Ground]:
        """Return at which step the fitting stands, all sums that are not needed passed over, and its ground."""
        self._settled = self._settled or self._walk()
        return self._settled

    def _walk(self) -> tuple[int, Ground]:
        ground = Ground(self.raw, self.seed, self.floors, self.sites, self.noise)
        for at, (step, way) in enumerate(zip(self.steps, self._ways, strict=True)):
            if at == len(self.fits):
                self.fits.append(Fit())
            fit, planned = self.fits[at], len(way.sums())
            while fit.taken < planned and not way.length(ground, fit):
                fit.taken += 1
            if fit.taken < planned:
                return at, ground
            ground = replace(ground, columns=step.output(ground, fit))
            if not ground.columns.width:
                raise ProtocolError(f"no column is left after the step {step.name!r}")
        return len(self.steps), ground

    def next(self) -> tuple[SumKind, int] | None:
        """Return what is summed next and how many words it has; None: all is fitted."""
        at, ground = self._settle()
        if at == len(self.steps):
            return None
        fit = self.fits[at]
        return self._ways[at].sums()[fit.taken], self._ways[at].length(ground, fit)

    def sensitivity(self) -> float:
        """Return by how much one row moves the next sum, in a run with privacy."""
        at, ground = self._settle()
        way = self._ways[at]
        if not isinstance(way, BoundedLearning):
            raise ProtocolError("the sum that comes next has no bound")
        return way.sensitivity(ground)

    def planned(self) -> int:
        """Return the place of the next sum among all that the steps may need (`planned_sums`)."""
        at, _ = self._settle()
        before = sum(len(way.sums()) for way in self._ways[:at])
        return before + (self.fits[at].taken if at < len(self.steps) else 0)

    def summand(self, site: SiteData, scratch: dict[Any, Any]) -> npt.NDArray[Any]:
        """Return what a site adds to the next sum."""
        at, ground = self._settle()
        before = Preparation(self.steps[:at], tuple(self.fits[:at]), self.raw, self.fill)
        return self._ways[at].summand(ground, self.fits[at], Prepared(site, before, scratch, keep=True))

    def take(self, total: Words) -> None:
        """Take the next sum over all sites."""
        at, ground = self._settle()
        wanted = self.next()
        if wanted is None or total.shape != (wanted[1],):
            raise ProtocolError(f"a sum of {len(total)} words came; wanted {wanted[1] if wanted else 'none'}")
        try:
            self._ways[at].take(ground, self.fits[at], total)
        except (ValueError, ArithmeticError) as error:  # it depends on the sum alone, which is the same for all
            raise ProtocolError(f"nothing follows from the sum that came: {error}") from error
        self.fits[at].taken += 1
        self._settled = None

    def finished(self) -> Preparation:
        """Return the preparation, once all sums were taken."""
        if self.next() is not None:
            raise ProtocolError("the rows are not prepared yet")
        return Preparation(self.steps, tuple(self.fits), self.raw, self.fill)


def planned_sums(steps: Sequence[Step], *, private: bool) -> list[SumKind]:
    """Return all sums that steps may need, in order."""
    return [kind for way in learnings(steps, private=private) for kind in way.sums()]
