"""A fitted preparation: from a raw table to the features that a model learnt from. It is a part of the model.

`Fitting` is the way there: it knows which sum comes next and takes it. Sites, the coordinator and the plain run each
have one and come to the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Ints, Words
from fedgeom.data.cells import ReadOptions
from fedgeom.data.columns import names_of
from fedgeom.data.rows import dense
from fedgeom.data.sites import SiteData
from fedgeom.data.tables import Table, as_labels, is_sparse, listed
from fedgeom.errors import InputError, ProtocolError, is_name
from fedgeom.federation.messages import Array, Name
from fedgeom.federation.steps import (
    FLOORS,
    MOST_COLUMNS,
    Block,
    Columns,
    FitContext,
    FittedByBoundedSums,
    FittedBySums,
    Step,
    StepFit,
    SumKind,
    learnings,
    numbers_only,
    unfit,
)
from fedgeom.privacy.mechanism import SumNoise

GIVEN = "X"
"""What rows are called that a model is given; they are no site's."""


@dataclass
class Picker:
    """Takes the agreed columns out of a site's blocks, in the agreed order."""

    site: SiteData
    wanted: Columns
    fill: bool = False
    """Whether columns that the site lacks are empty, instead of an error."""

    def __post_init__(self) -> None:
        own = self.site.columns
        wanted = self.wanted.names
        where = "" if self.site.name == GIVEN else f"site {self.site.name!r}: "
        self.order: npt.NDArray[np.intp] | None = None
        self.codes: dict[int, npt.NDArray[np.float64]] = {}
        if not own and self.wanted.categories:
            raise InputError(
                f"{where}columns without names given; this model learnt from columns of text, so it wants names: "
                "give a frame, a SiteData or a file"
            )
        if not own or not wanted:
            if self.site.shape[1] != self.wanted.width:
                raise InputError(
                    f"{where}{self.site.shape[1]:,} columns without names given; wanted {self.wanted.width:,}, in "
                    "the order in which they were learnt from"
                )
        elif own != wanted:
            places = {name: at for at, name in enumerate(own)}
            missing = [name for name in wanted if name not in places]
            if missing and not self.fill:
                raise InputError(
                    f"{where}these columns are missing: {listed(missing)}; give all raw columns that the model "
                    "learnt from (where gaps are filled in, give them as empty ones)"
                )
            self.order = np.array([places.get(name, -1) for name in wanted], np.intp)
        texts = [
            name
            for at, name in enumerate(wanted)
            if name in self.site.categories and at not in self.wanted.categories
        ]
        if texts:
            raise InputError(
                f"{where}these columns hold text, but numbers were learnt from: {listed(texts)}; mend them"
            )
        for at in self.wanted.categories:
            self.codes[at] = self._translation(at)

    def _translation(self, at: int) -> npt.NDArray[np.float64]:
        """Return the joint number of each of the site's own words of a column, the last one for empty cells."""
        words = self.wanted.categories[at]
        place = {word: float(number) for number, word in enumerate(words)}
        rest = float(len(words)) if at in self.wanted.together else np.nan
        own = self.site.categories.get(self.wanted.names[at], ()) if self.wanted.names else ()
        return np.array([*(place.get(word, rest) for word in own), place.get("", rest)])

    def pick(self, block: Block) -> Block:
        """Return a block's agreed columns."""
        if self.order is not None:
            lacking = np.flatnonzero(self.order < 0)
            if len(lacking) or self.codes:
                block = dense(block, self.site.name)
            block = block[:, self.order]
            if len(lacking):
                block[:, lacking] = np.nan
        for at, numbers in self.codes.items():
            block = dense(block, self.site.name).copy() if at == min(self.codes) else block
            name = self.wanted.names[at]
            cells = block[:, at]
            if name in self.site.categories or not np.isfinite(cells).any():
                empty = ~np.isfinite(cells)
                block[:, at] = numbers[np.where(empty, len(numbers) - 1, cells).astype(np.intp)]
            else:  # numbers that stand for categories
                block[:, at] = self._numbers_as_words(at, cells)
        return block

    def _numbers_as_words(self, at: int, cells: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        words = self.wanted.categories[at]
        place = {word: float(number) for number, word in enumerate(words)}
        rest = float(len(words)) if at in self.wanted.together else np.nan
        found, back = np.unique(cells, return_inverse=True)
        return np.array([place.get(word, rest) for word in as_labels(found).tolist()])[back]


def read_raw(X: Any, wanted: Columns) -> SiteData:
    """Return rows of any kind as a raw table: a `SiteData`, a table that was read, a frame, an AnnData or an array."""
    if isinstance(X, SiteData):
        return X
    if isinstance(X, Table):
        return SiteData(GIVEN, X.X, np.zeros(len(X)), columns=X.columns, categories=X.categories)
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        from fedgeom.data.frames import frame_table, with_text  # pandas is an extra

        known = set(wanted.names)
        some = [name for name in map(str, X.columns) if name in known] if known else None
        if known and not some:
            raise InputError(f"X has none of the columns {listed(wanted.names, 6)}")
        how = ReadOptions(categorical=wanted.texts)

        def read(columns: Any, also: Any) -> Table:
            return frame_table(X, GIVEN, None, columns, also=also, reading=how)

        return read_raw(with_text(read, some, ()), wanted)
    cells = X.X if hasattr(X, "var_names") else X
    rows = cells if is_sparse(cells) else np.asarray(cells)
    if rows.ndim != 2:
        raise InputError(f"X has shape {rows.shape}; wanted rows and columns")
    return SiteData(GIVEN, rows, np.zeros(rows.shape[0]), columns=names_of(X))


BLOCK_CELLS = 2**23
"""About how many cells are prepared at once, counted as if they were dense."""
BLOCK_ROWS = 4096
SMALL = 2**28
"""A table of up to so many bytes is kept as it is after a step, so that the next one need not begin anew."""
FACT = "preparation"
"""The fact of a model file that holds the steps, and what the names of their arrays begin with."""


FAR = 4.0
"""How many deviations from the mean the middle of new rows is odd."""
ENOUGH_ROWS = 20


@dataclass(frozen=True)
class Preparation:
    """Steps, what was fitted of each, and the raw columns that they begin with."""

    steps: tuple[Step, ...]
    fits: tuple[StepFit, ...]
    raw: Columns
    """The columns of raw tables: names, and the words of columns of text."""
    fill: bool = False
    """Whether a raw table may lack columns: their cells are then empty."""

    @cached_property
    def grounds(self) -> tuple[FitContext, ...]:
        """What each step stands on, and after the last one what comes out."""
        found = [FitContext(self.raw)]
        for step, fit in zip(self.steps, self.fits, strict=True):
            found.append(FitContext(step.output(found[-1], fit)))
        return tuple(found)

    @property
    def columns(self) -> Columns:
        """What comes out."""
        return self.grounds[-1].columns

    def far_columns(self, rows: npt.NDArray[Any]) -> dict[str, tuple[float, float, float]]:
        """Return raw columns whose median over prepared rows is far from the rows that were learnt from.

        By name: the median, and the mean and the deviation that were learnt. Only a step that scales, at the end,
        knows them; of few rows, or of columns without names, nothing is said.
        """
        if len(rows) < ENOUGH_ROWS or not self.steps or self.steps[-1].name != "scale":
            return {}
        middle = np.median(rows, axis=0)
        fit = self.fits[-1]
        mean, deviation = fit.get("mean"), fit.get("deviation")
        return {
            name: (float(mean[at] + middle[at] * deviation[at]), float(mean[at]), float(deviation[at]))
            for at, name in enumerate(self.columns.names)
            if name in self.raw.names and abs(middle[at]) > FAR
        }

    def transform(
        self, site: SiteData, scratch: dict[Any, Any] | None = None, classes: tuple[str, ...] | None = None
    ) -> SiteData:
        """Return a site's rows prepared, as one table; ``scratch`` is what sums of the same rows kept (`Prepared`).

        ``classes`` are those that were agreed on, where the rows are learnt from.
        """
        rows = Prepared(site, self, scratch or {}, classes=classes)
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

    def before(self, weights: Floats, intercepts: Floats) -> tuple[Columns, Floats, Floats]:
        """Return linear scores of prepared columns as scores of the columns before scaling, in the data's own units.

        Steps are undone from the last to the first, as far as they are a linear map and a shift: filled gaps and
        columns of 0 and 1 for words stay. weights (columns, scores), intercepts (scores,); returns the columns that
        the scores are of, and both for them.
        """
        grounds = self.grounds
        columns = self.columns
        for step, fit, ground in reversed(list(zip(self.steps, self.fits, grounds, strict=False))):
            found = step.linear_map(ground, fit)
            if found is None:
                break
            turned, shift = found
            intercepts = intercepts + shift @ weights
            weights = turned @ weights
            columns = ground.columns
        return columns, weights, intercepts

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
            fits.append(StepFit(taken=len(step.sums()), arrays=own))
        made = cls(steps, tuple(fits), raw, fill)
        made.check()
        return made

    def check(self) -> None:
        """Refuse parts that do not fit together: a file may come from anybody."""
        width = self.raw.width
        if width != len(self.raw.names) if self.raw.names else not 0 < width <= MOST_COLUMNS:
            raise InputError(f"the file's preparation has {width} columns and {len(self.raw.names)} names of them")
        try:
            _ = self.grounds
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise InputError(f"the file's preparation does not fit together: {error}") from error

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
    classes: tuple[str, ...] | None = None
    """The classes that were agreed on, where the rows are learnt from (`Step.transform_learnt`); None: they are not."""

    @property
    def labels(self) -> npt.NDArray[np.str_]:
        """The rows' labels, (rows,), text."""
        return self.site.y.astype(np.str_)

    @property
    def codes(self) -> Ints:
        """The rows' classes, of those that were agreed on, (rows,); -1 for none."""
        found: Ints = np.full(len(self), -1)
        labels = self.labels
        for at, name in enumerate(self.classes or ()):
            found[labels == name] = at
        return found

    def __len__(self) -> int:
        return len(self.site)

    def blocks(self) -> Iterator[Block]:
        """Yield the rows in order, prepared by all steps."""
        begun, table = self._begun()
        made = self.preparation
        grounds = self.preparation.grounds
        picker = Picker(self.site, made.raw, made.fill) if table is None else None
        source = self.site.table if table is None else table
        step = max(1, min(BLOCK_ROWS, BLOCK_CELLS // max(int(source.shape[1]), 1)))
        codes = self.codes if self.classes else None
        for at in range(0, len(self), step):
            block = source[at : at + step]
            if picker is not None:
                block = picker.pick(block)
            for one, ground, fit in list(zip(made.steps, grounds, made.fits, strict=False))[begun:]:
                if codes is None:
                    block = one.transform(ground, fit, block)
                else:
                    block = one.transform_learnt(ground, fit, block, codes[at : at + step])
            yield block

    def _begun(self) -> tuple[int, Any]:
        """Return how many steps are done in a table that is kept, and that table; None: there is none."""
        kept: tuple[int, Any] = self.scratch.get("prepared", (0, None))
        done = len(self.preparation.steps)
        if kept[0] > done:
            return 0, None
        if self.keep and kept[0] < done and self._size() <= SMALL:
            self.scratch.pop("prepared", None)
            begun = {"prepared": kept} if kept[0] else {}
            once = Prepared(self.site, self.preparation, begun, classes=self.classes)
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


class NoColumnLeftError(InputError):
    """A step leaves out all columns."""


def _nothing_left(step: str, floors: tuple[int, int]) -> str:
    """Say that a step left out all columns, and what to do."""
    if step != FLOORS:
        return f"no column is left after the step {step!r}; leave the step out, or give other columns"
    least_sites, least_rows = floors
    return (
        f"no column is left that may be summed: in each one, fewer than {least_rows} rows (min_rows) or rows of fewer "
        f"than {least_sites} sites (min_sites) set it apart; give more rows or sites, or a run with privacy"
    )


@dataclass
class Fitting:
    """A preparation on the way: which sum comes next, what a site adds to it, and what follows from it."""

    steps: tuple[Step, ...]
    raw: Columns
    seed: int
    floors: tuple[int, int]
    sites: int
    fits: list[StepFit]
    fill: bool = False
    private: bool = False
    """Whether steps are learnt by bounded sums, for a run with privacy (`Step.bounded`)."""
    noise: Callable[..., SumNoise] | None = None
    """The noise in them; None in the plain run."""
    classes: tuple[str, ...] = ()
    """The classes, where they are agreed on before."""
    key: bytes = b""
    """What sites alone know (`FitContext.key`)."""

    def __post_init__(self) -> None:
        self._ways: tuple[FittedBySums, ...] = learnings(self.steps, private=self.private)
        self._settled: tuple[int, FitContext] | None = None

    def _settle(self) -> tuple[int, FitContext]:
        """Return at which step the fitting stands, all sums that are not needed passed over, and its ground."""
        self._settled = self._settled or self._walk()
        return self._settled

    def _walk(self) -> tuple[int, FitContext]:
        ground = FitContext(self.raw, self.seed, self.floors, self.sites, self.noise, self.classes, self.key)
        for at, (step, way) in enumerate(zip(self.steps, self._ways, strict=True)):
            if at == len(self.fits):
                self.fits.append(StepFit())
            fit = self.fits[at]
            planned = len(way.sums())
            while fit.taken < planned and not way.length(ground, fit):
                fit.taken += 1
            if fit.taken < planned:
                return at, ground
            ground = replace(ground, columns=step.output(ground, fit))
            if not ground.columns.width:
                raise NoColumnLeftError(_nothing_left(step.name, self.floors))
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
        if not isinstance(way, FittedByBoundedSums):
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
        return self._ways[at].summand(
            ground, self.fits[at], Prepared(site, before, scratch, keep=True, classes=self.classes)
        )

    def take(self, total: Words) -> None:
        """Take the next sum over all sites."""
        at, ground = self._settle()
        wanted = self.next()
        # Counts that decide floors come once for each drawn group.
        times = len(total) // max(wanted[1], 1) if wanted is not None and wanted[0] == FLOORS else 1
        if wanted is None or total.shape != (max(times, 1) * wanted[1],):
            raise ProtocolError(f"a sum of {len(total)} words came; wanted {wanted[1] if wanted else 'none'}")
        try:
            self._ways[at].take(ground, self.fits[at], total)
        except (ValueError, ArithmeticError) as error:  # it depends on the sum alone, which is the same for all
            raise ProtocolError(f"nothing follows from the sum that came: {error}") from error
        self.fits[at].taken += 1
        self._settled = None

    def with_idle(self) -> Preparation:
        """Return the preparation, once all sums were taken, with steps that change nothing: as sums kept rows."""
        if self.next() is not None:
            raise ProtocolError("the rows are not prepared yet")
        return Preparation(self.steps, tuple(self.fits), self.raw, self.fill)

    def finished(self) -> Preparation:
        """Return the preparation, once all sums were taken."""
        self.with_idle()
        working = [(step, fit) for step, fit in zip(self.steps, self.fits, strict=True) if not step.idle(fit)]
        return Preparation(
            tuple(step for step, _ in working), tuple(fit for _, fit in working), self.raw, self.fill
        )

    def changes_learnt(self) -> bool:
        """Return whether rows that are learnt from are prepared otherwise than rows to predict."""
        return any(step.changes_learnt(fit) for step, fit in zip(self.steps, self.fits, strict=False))

    def left_out(self) -> dict[str, list[str]]:
        """Return the columns that steps left out and that a run should name, by why."""
        found: dict[str, list[str]] = {}
        made = Preparation(self.steps, tuple(self.fits), self.raw, self.fill)
        for step, ground, fit in zip(made.steps, made.grounds, made.fits, strict=False):
            for why, names in step.left_out(ground, fit).items():
                found.setdefault(why, []).extend(names)
        return found


def planned_sums(steps: Sequence[Step], *, private: bool) -> list[SumKind]:
    """Return all sums that steps may need, in order."""
    return [kind for way in learnings(steps, private=private) for kind in way.sums()]


Word = Annotated[str, msgspec.Meta(max_length=200)]
NUMBER = 0
TEXT = 1
EMPTY = 2
FREE = 3
"""What a column holds at a site: numbers, categories, nothing at all, or text with too many different words."""


class SiteColumns(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What one site tells the others of its columns."""

    width: Annotated[int, msgspec.Meta(ge=0, le=MOST_COLUMNS)]
    names: Annotated[tuple[Name, ...], msgspec.Meta(max_length=MOST_COLUMNS)] = ()
    kinds: bytes = b""
    """One byte for each column."""
    words: dict[Name, tuple[Word, ...]] = {}
    """The categories of columns of text, "" among them where cells are empty."""
    counts: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    """How many rows have each; left out of what is sealed."""

    def told(self) -> SiteColumns:
        """Return what the others may know."""
        return msgspec.structs.replace(self, counts={})


class AgreedColumns(msgspec.Struct, frozen=True, kw_only=True):
    """What follows from everybody's lists, before categories are counted."""

    names: tuple[str, ...] = ()
    width: int = 0
    words: dict[int, tuple[str, ...]] = {}
    """For each column of categories, all sites' words, sorted."""

    def pairs(self) -> list[tuple[int, str]]:
        """Return all columns with a word of each, and one for words that sites do not name."""
        return [(at, word) for at, words in self.words.items() for word in (*words, UNNAMED)]


UNNAMED = "\x00"
"""Stands for all words that a site does not name: no word of a table can be this one."""


def own_columns(site: SiteData, steps: Sequence[Step], min_rows: int, *, private: bool = False) -> SiteColumns:
    """Return what a site tells of its columns: a word that fewer of its rows have than ``min_rows`` is not named.

    ``private``: only what columns are called, and nothing that a single row could change.
    """
    if not site.columns:
        return SiteColumns(width=site.shape[1])
    odd = [name for name in site.columns if not is_name(name)]
    if odd:
        raise InputError(
            f"site {site.name!r}: {odd[0]!r} cannot be the name of a column that others learn; rename it"
        )
    encoder = next((step for step in steps if step.takes_text), None)
    if private or getattr(encoder, "categories", None):  # which words there are the terms say
        return SiteColumns(width=site.shape[1], names=site.columns, kinds=bytes(len(site.columns)))
    asked = set(getattr(encoder, "columns", None) or ())
    most = int(getattr(encoder, "max_categories", 0))
    kinds = bytearray(len(site.columns))
    counts = dict[str, dict[str, int]]()
    for at, name in enumerate(site.columns):
        if name in site.categories or name in asked:
            found = _counted(site, at)
            some = sum(1 for word in found if word)
            kinds[at] = EMPTY if not some else FREE if encoder is None or some > most else TEXT
            if kinds[at] == TEXT or (kinds[at] == EMPTY and encoder is not None):
                counts[name] = _named(found, min_rows)
    for at in _empty_columns(site):
        kinds[at] = EMPTY if kinds[at] == NUMBER else kinds[at]
        if encoder is not None:
            counts.setdefault(site.columns[at], {"": len(site)})
    words = {name: tuple(sorted(set(some) - {UNNAMED})) for name, some in counts.items()}
    return SiteColumns(width=site.shape[1], names=site.columns, kinds=bytes(kinds), words=words, counts=counts)


def _named(found: Mapping[str, int], min_rows: int) -> dict[str, int]:
    """Return how many rows each word has, those together that are too rare here, or no words of one line."""
    named: Counter[str] = Counter()
    for word, rows in found.items():
        named[word if not word or (rows >= min_rows and is_name(word)) else UNNAMED] += rows
    return dict(named)


def _counted(site: SiteData, at: int) -> dict[str, int]:
    """Return how many rows have each word of a column; "" for empty cells."""
    cells = dense(site.table[:, [at]], site.name)[:, 0]
    words = site.categories.get(site.columns[at])
    if words is None:
        return dict(Counter(as_labels(cells).tolist()))
    there = np.isfinite(cells)
    counts = np.bincount(cells[there].astype(np.intp), minlength=len(words))
    found = {word: int(n) for word, n in zip(words, counts, strict=True) if n}
    return found | ({"": int((~there).sum())} if not there.all() else {})


def _empty_columns(site: SiteData) -> list[int]:
    """Return the columns of numbers that have none at all."""
    if hasattr(site.table, "indptr") or site.table.dtype.kind != "f":
        return []
    first = np.flatnonzero(~np.isfinite(site.table[0])) if len(site) else np.arange(0)
    return [int(at) for at in first if not np.isfinite(site.table[:, at]).any()]


def agree(lists: Mapping[str, SiteColumns], *, union: bool) -> AgreedColumns:
    """Return the joint columns: those that all sites have, or any; of one kind, in the first site's order."""
    told = [lists[name] for name in sorted(lists)]
    named = [one for one in told if one.names]
    if len(named) < len(told):
        if len({one.width for one in told}) > 1 or len({one.names for one in named}) > 1:
            raise ProtocolError(
                "columns of some sites have no names, and their numbers or the others' names differ"
            )
        return AgreedColumns(names=named[0].names if named else (), width=told[0].width)
    kinds: dict[str, set[int]] = {}
    there: Counter[str] = Counter()
    for one in told:
        if len(one.kinds) != len(one.names) or len(set(one.names)) < len(one.names):
            raise ProtocolError("the columns of a site do not fit together")
        there.update(one.names)
        for name, kind in zip(one.names, one.kinds, strict=True):
            kinds.setdefault(name, set()).add(kind)
    names = tuple(
        name
        for name, found in kinds.items()
        if (union or there[name] == len(told))
        and FREE not in found
        and not {NUMBER, TEXT} <= found
        and found != {EMPTY}
    )
    if not names:
        raise ProtocolError("the sites have no column in common that could be used")
    words: dict[int, tuple[str, ...]] = {}
    for at, name in enumerate(names):
        if TEXT in kinds[name]:
            some = {word for one in told for word in one.words.get(name, ())}
            words[at] = tuple(sorted(some | ({""} if there[name] < len(told) else set())))
    return AgreedColumns(names=names, width=len(names), words=words)


def own_counts(agreed: AgreedColumns, own: SiteColumns, rows: int) -> Ints:
    """Return how many of a site's rows have each of `AgreedColumns.pairs`, (pairs,)."""
    found = []
    for at, word in agreed.pairs():
        counts = own.counts.get(agreed.names[at])
        if counts is None:  # the site lacks the column: all its cells are empty
            counts = {"": rows}
        found.append(counts.get(word, 0))
    return np.array(found, np.int64)


def joint_columns(
    agreed: AgreedColumns,
    sites: Ints,
    rows: Ints,
    floors: tuple[int, int],
    *,
    hidden: bool = False,
    first: str = "",
    last: Sequence[str] = (),
) -> Columns:
    """Return the columns with the categories that enough sites and rows have; the others are put together.

    sites, rows (pairs,): at how many sites, and in how many rows, each of `AgreedColumns.pairs` occurs. ``hidden``:
    where the others are too few, the rarest words join them until they are not, or the column goes; otherwise the
    others' rows are those without any of the words, and all words together show them. ``first`` and ``last`` are
    columns of words, such as "arm = aspirin", that join the others last, or first, and stand there in the order.
    """
    kept: dict[int, list[str]] = {at: [] for at in agreed.words}
    rare: Counter[int] = Counter()
    widest: Counter[int] = Counter()
    counted: dict[tuple[int, str], tuple[int, int]] = {}
    for (at, word), n_sites, n_rows in zip(agreed.pairs(), sites.tolist(), rows.tolist(), strict=True):
        counted[at, word] = n_rows, n_sites
        if word != UNNAMED and n_sites >= floors[0] and n_rows >= floors[1]:
            kept[at].append(word)
        else:
            rare[at] += n_rows
            widest[at] = max(widest[at], n_sites)
    merged: dict[int, list[str]] = {}

    def place(at: int, word: str) -> int:
        name = f"{agreed.names[at]} = {word}" if agreed.names else ""
        return -1 if name and name == first else int(bool(name) and name in last)

    for at, words in kept.items():
        words.sort(key=lambda word, at=at: place(at, word))  # type: ignore[misc]
        # A few rows without any of the words would be all rows less those with one: the rarest word joins them.
        while hidden and words and rare[at] and (rare[at] < floors[1] or widest[at] < floors[0]):
            least = min(words, key=lambda word: (-place(at, word), counted[at, word]))
            words.remove(least)
            merged.setdefault(at, []).append(least)
            rare[at] += counted[at, least][0]
            widest[at] = max(widest[at], counted[at, least][1])
    together = tuple(at for at in agreed.words if rare[at] >= max(floors[1], 1))
    categories = {at: tuple(words) for at, words in kept.items()}
    named = {at: tuple(sorted(words)) for at, words in merged.items() if at in together}
    whole = Columns(width=agreed.width, names=agreed.names, categories=categories, together=together, merged=named)
    useless = {at for at, words in categories.items() if not words and (hidden or at not in together)}
    return (
        whole.kept(np.array([at for at in range(whole.width) if at not in useless], np.intp)) if useless else whole
    )


def with_given_words(raw: Columns, steps: Sequence[Step]) -> Columns:
    """Return the joint columns with the words that the terms give them; all other words are taken together."""
    encoder: Any = next((step for step in steps if getattr(step, "categories", None)), None)
    if encoder is None:
        return raw
    unknown = sorted(set(encoder.categories) - set(raw.names))
    if unknown:
        raise ProtocolError(f"the terms have categories of columns that the sites do not share: {unknown[0]!r}")
    words = {raw.names.index(name): (*some, "") for name, some in encoder.categories.items()}
    ordered = {at: words[at] for at in sorted(words)}
    return Columns(width=raw.width, names=raw.names, categories=ordered, together=tuple(ordered))


def uses_union(steps: Sequence[Step]) -> bool:
    """Say whether columns that a site lacks are filled in, instead of being left out everywhere."""
    return any(getattr(step, "absent", "") == "union" for step in steps)


def category_floors(steps: Sequence[Step], floors: tuple[int, int]) -> tuple[int, int]:
    """Return how many sites and rows a category must have: the terms and the policies may both ask for more."""
    encoder: Any = next((step for step in steps if step.takes_text), None)
    return max(floors[0], getattr(encoder, "min_sites", 1)), max(floors[1], getattr(encoder, "min_rows", 1))


def fit_plain(
    steps: Sequence[Step],
    sites: Sequence[SiteData],
    seed: int = 0,
    floors: tuple[int, int] = (1, 1),
    *,
    private: bool = False,
    watch: Callable[[Fitting], None] = lambda fitting: None,
    classes: tuple[str, ...] = (),
) -> Preparation:
    """Return the preparation that a run over these sites would come to; ``private``: with bounds, but without noise.

    ``watch`` is called before each sum; ``classes`` are those that the sites agreed on before.
    """
    told = {site.name: own_columns(site, steps, 0, private=private) for site in sites}
    agreed = agree(told, union=uses_union(steps))
    counts = np.array([own_counts(agreed, told[site.name], len(site)) for site in sites])
    there = (counts > 0).sum(axis=0)
    hidden = floors != (1, 1)
    raw = joint_columns(agreed, there, counts.sum(axis=0), category_floors(steps, floors), hidden=hidden)
    raw = with_given_words(raw, steps)
    fitting = Fitting(tuple(steps), raw, seed, floors, len(sites), [], uses_union(steps), private, None, classes)
    scratch: list[dict[object, object]] = [{} for _ in sites]
    while fitting.next() is not None:
        watch(fitting)
        terms = [fitting.summand(site, own).view(np.uint64) for site, own in zip(sites, scratch, strict=True)]
        fitting.take(np.add.reduce(np.array(terms), axis=0, dtype=np.uint64))
    return fitting.finished()
