"""What one site holds: rows, labels, what both are called; and rows kept aside for testing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt

from fedgeom.data.cells import (
    NOTHING_SAID,
    ReadColumn,
    ReadOptions,
    Remark,
    is_empty,
    read_columns,
    written_remarks,
)
from fedgeom.data.columns import check_distinct, index_of, names_of
from fedgeom.data.frames import anndata_table, frame_table, with_text
from fedgeom.data.images import FromDataset
from fedgeom.data.rows import Rows, as_rows, dense
from fedgeom.data.tables import Columns, Table
from fedgeom.errors import InputError, is_name
from fedgeom.memo import memoize

MOST_SITES = 5000
"""A column with more values than this does not say to which site a row belongs."""


OUTCOME, TIME, EVENT, WEIGHTS, OFFSET = "outcome", "time", "event", "weights", "offset"
"""What rows may come with beside columns, in `SiteData.extra`: what is to be explained, and how rows count."""
EVENTS = {"1": 1.0, "true": 1.0, "yes": 1.0, "0": 0.0, "false": 0.0, "no": 0.0}


@dataclass(frozen=True)
class Roles:
    """Which columns have numbers to be explained, where no classes are: an outcome, or times and events."""

    outcome: str = ""
    time: str = ""
    event: str = ""
    weights: str = ""
    offset: str = ""

    @classmethod
    def of(cls, label: str | None, **columns: str | None) -> Roles:
        """Return the roles of columns; refuse several things to be explained at once, and none."""
        found = cls(**{name: column or "" for name, column in columns.items()})
        given = [name for name, one in (("label", label), (OUTCOME, found.outcome), (TIME, found.time)) if one]
        if len(given) != 1 or bool(found.time) != bool(found.event):
            said = ", ".join(
                f"{name}={column!r}" for name, column in {"label": label, **columns}.items() if column
            )
            raise InputError(
                f"{said or 'no column to be explained'} given; wanted one of label (classes), outcome (numbers), or "
                f"time "
                "together with event"
            )
        return found

    def label(self, label: str | None) -> str:
        """Return the column that is read as labels are."""
        return label or self.outcome or self.event

    @property
    def beside(self) -> list[str]:
        """The other columns that are no features."""
        return [one for one in (self.time, self.weights, self.offset) if one]

    def __bool__(self) -> bool:
        return any((self.outcome, self.time, self.weights, self.offset))

    def read(
        self, table: Table, where: str, reading: ReadOptions
    ) -> tuple[npt.NDArray[Any], dict[str, npt.NDArray[np.float64]], tuple[Remark, ...]]:
        """Return labels, extra numbers, and remarks on how cells are written.

        Of 0 and 1 the labels are these; of other numbers, all rows have label 0.
        """
        remarks: list[Remark] = []

        def numbers(column: str, cells: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
            found = _as_numbers(cells, column, where, table.first_row, reading)
            remarks.extend([*written_remarks({column: found}), *found.remarks])
            return np.asarray(found.values)

        extra = {name: numbers(one, table.also[one]) for name, one in self._named() if one in table.also}
        labels: npt.NDArray[Any] = np.asarray(table.y)
        if self.outcome or self.event:
            values = numbers(self.outcome or self.event, labels)
            said = ~np.isnan(values)
            flags = bool(np.isin(values[said], (0.0, 1.0)).all())
            if self.event and not flags:
                odd = labels[said & ~np.isin(values, (0.0, 1.0))][0]
                raise InputError(
                    f"{where}: column {self.event!r} has {str(odd)!r}; wanted 1 where the event happened at the "
                    f"time, and 0 "
                    "where the row was last seen without it (or true and false)"
                )
            labels = np.where(said & flags, values, 0.0).astype(np.int64)
            extra[EVENT if self.event else OUTCOME] = values
        return labels, extra, tuple(remarks)

    def _named(self) -> list[tuple[str, str]]:
        return [(TIME, self.time), (WEIGHTS, self.weights), (OFFSET, self.offset)]

    def missing(self, extra: Mapping[str, npt.NDArray[np.float64]], rows: int) -> npt.NDArray[np.bool_]:
        """Return which rows lack what is to be explained, (rows,)."""
        found = np.zeros(rows, bool)
        for name in (OUTCOME, TIME, EVENT):
            if name in extra:
                found |= np.isnan(extra[name])
        return found


def _as_numbers(
    cells: npt.NDArray[Any], column: str, where: str, first_row: int, reading: ReadOptions
) -> ReadColumn:
    """Return cells as numbers, NaN where they are empty; true, false, yes and no are 1 and 0; refuse other words."""
    found = np.full(len(cells), np.nan)
    texts = np.asarray(cells).astype(str)
    values, back = np.unique(texts, return_inverse=True)
    read = ReadColumn(found)
    for at, text in enumerate(values.tolist()):
        word = text.strip().lower()
        if is_empty(word) or word in reading.missing_words:
            continue
        try:
            found[back == at] = EVENTS[word] if word in EVENTS else float(word)
        except ValueError:
            read = read_columns([column], lambda _: texts.tolist(), [], first_row=first_row, reading=reading)[
                column
            ]
            break
    if read.values is None:
        at, text = next((at, text) for at, text in enumerate(texts.tolist()) if not _is_number(text))
        why = read.why or f"column {column!r} holds text, wanted numbers: row {first_row + at}: {text!r}"
        raise InputError(f"{where}: {why}; {read.remedy or 'mend the cells'}")
    gone = np.isin(read.values, reading.missing_numbers)
    return replace(read, values=np.where(gone, np.nan, read.values)) if gone.any() else read


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return is_empty(text)
    return True


class FromTables(FromDataset):
    """The ways in which a `SiteData` is made from a table with more columns than the features."""

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        label: str | None = None,
        by: str | None = None,
        name: str = "site",
        group: str | None = None,
        columns: Columns | None = None,
        drop_unlabelled: bool = False,
        text: bool = True,
        outcome: str | None = None,
        time: str | None = None,
        event: str | None = None,
        weights: str | None = None,
        offset: str | None = None,
    ) -> Any:
        """Return the rows of a pandas DataFrame as a site, or with ``by`` as a list of sites, one for each value there.

        Names of columns are kept, and the frame's index as `index`.

        Parameters
        ----------
        frame: a DataFrame
            One row for each patient, cell or the like.
        label: text or None; None if not given
            The column with the class of each row. None: there is an outcome, or times and events, instead.
        by: text or None; None if not given
            The column with the row's site (hospital, donor).
        name: text; "site" if not given
            What the one site is called, without ``by``.
        group: text or None; None if not given
            The column with the row's patient or the like. No group is on both sides of a holdout.
        columns: a list of texts or None; None if not given
            The features. None: all other columns.
        drop_unlabelled: true or false; false if not given
            Leave rows without a label out. Otherwise their label is "".
        text: true or false; true if not given
            Keep columns of text, as `categories`, for preparation and for methods of statistics. Others refuse them
            before a run. False: they are refused here.
        outcome: text or None; None if not given
            The column with the number of each row that is to be explained, for `Regression`: 0 and 1, a count, a
            number.
        time, event: text or None; None if not given
            The columns with how long each row was seen, and 1 where that ended with the event, for methods of
            survival.
        weights, offset: text or None; None if not given
            The columns with how many rows each counts for, and with a term of a `Regression` whose coefficient is 1.

        With ``outcome``, ``time`` and ``event``, ``drop_unlabelled`` leaves out rows that lack them.
        """
        roles = Roles.of(label, outcome=outcome, time=time, event=event, weights=weights, offset=offset)

        def read(some: Columns | None, beside: Sequence[str]) -> Table:
            return frame_table(frame, "the frame", roles.label(label), some, also=beside)

        beside = [one for one in (by, group, *roles.beside) if one]
        table = with_text(read, columns, beside) if text else read(columns, beside)
        return cls.from_table(
            table, "the frame", name, by=by, group=group, drop_unlabelled=drop_unlabelled, roles=roles
        )

    @classmethod
    def from_anndata(
        cls,
        adata: Any,
        *,
        label: str,
        by: str | None = None,
        name: str = "site",
        layer: str | None = None,
        use_raw: bool = False,
        obsm: str | None = None,
        group: str | None = None,
        columns: Sequence[str] | None = None,
        drop_unlabelled: bool = False,
    ) -> Any:
        """Return the cells of an AnnData as a site, or with ``by`` as a list of sites, one for each value there.

        Names of genes are kept, and those of cells (barcodes) as `index`.

        Parameters
        ----------
        adata: an AnnData
            One row for each cell.
        label: text
            The column of ``obs`` with the class of each cell.
        by: text or None; None if not given
            The column of ``obs`` with the cell's site (hospital, donor).
        name: text; "site" if not given
            What the one site is called, without ``by``.
        layer: text or None; None if not given
            The layer with the numbers. None: ``X``. Sparse numbers stay sparse.
        use_raw: true or false; false if not given
            Take the numbers of ``raw``.
        obsm: text or None; None if not given
            Take the numbers of this key of ``obsm``.
        group: text or None; None if not given
            The column of ``obs`` with the cell's patient or the like. No group is on both sides of a holdout.
        columns: a list of texts or None; None if not given
            The genes. None: all.
        drop_unlabelled: true or false; false if not given
            Leave cells without a label out. Otherwise their label is "".
        """
        table = anndata_table(
            adata,
            "the AnnData",
            label,
            genes=columns,
            layer=layer,
            use_raw=use_raw,
            obsm=obsm,
            also=[one for one in (by, group) if one],
        )
        return cls.from_table(table, "the AnnData", name, by=by, group=group, drop_unlabelled=drop_unlabelled)

    @classmethod
    def from_table(
        cls,
        table: Table,
        where: str,
        name: str,
        *,
        by: str | None = None,
        group: str | None = None,
        drop_unlabelled: bool = False,
        rows: npt.ArrayLike | None = None,
        roles: Roles | None = None,
        reading: ReadOptions = NOTHING_SAID,
    ) -> Any:
        """Return a table that was read, or some of its rows, as a site, or with ``by`` as a list of sites."""
        if table.y is None or len(table.y) != len(table):
            n = 0 if table.y is None else len(table.y)
            raise InputError(f"{where}: {len(table)} rows but {n} labels; wanted one label per row")
        numbers = table.first_row + np.arange(len(table))
        groups = None if group is None else table.also[group]
        make: Any = cls
        labels, extra, said = (table.y, {}, ()) if not roles else roles.read(table, where, reading)
        kept = (table.index, groups, table.categories, (*table.remarks, *said))
        site = make(name, table.X, labels, extra, table.columns, numbers, *kept)
        owner = None if by is None else table.also[by]
        if roles and (without := roles.missing(extra, len(site))).any():
            if not drop_unlabelled:
                raise InputError(
                    f"{where}: {int(without.sum()):,} of {len(site):,} rows lack "
                    f"{' or '.join(one for one in (roles.outcome, roles.time, roles.event) if one)}, the first of "
                    f"them row "
                    f"{numbers[without][0]}; fill them, or leave these rows out with drop_unlabelled = true"
                )
            site = site.take(~without)
            owner = None if owner is None else owner[~without]
        if rows is not None:
            chosen = np.atleast_1d(np.asarray(rows))
            try:
                site = site.take(chosen)
                owner = None if owner is None else owner[chosen]
            except IndexError as error:
                raise InputError(f"{where} has {len(site)} rows; `rows` does not fit: {error}") from error
        if drop_unlabelled and not site.has_label.all():
            kept = site.has_label
            site = site.take(kept)
            owner = None if owner is None else owner[kept]
        if len(site) == 0:
            raise InputError(f"{where} has no {'labelled ' if drop_unlabelled else ''}rows")
        for column, values in ((group, site.groups), (by, owner)):
            _check_all_said(where, column, values, site)
        if owner is None:
            return site
        values, of_row = np.unique(owner, return_inverse=True)
        n = len(values)
        if n > MOST_SITES or n == len(site) > 2:
            raise InputError(
                f"{where}: column {by!r} has {n:,} values in {len(site):,} rows, too many to be sites; wanted the "
                f"column that says from which hospital, donor or laboratory a row comes, at most {MOST_SITES:,}"
            )
        return [replace(site.take(np.flatnonzero(of_row == i)), name=str(one)) for i, one in enumerate(values)]


def _check_all_said(where: str, column: str | None, values: npt.NDArray[Any] | None, site: Any) -> None:
    """Refuse rows that do not say to which group or site they belong."""
    without = np.empty(0, np.intp) if values is None else np.flatnonzero(values == "")
    if len(without) and site.row_numbers is not None:
        raise InputError(
            f"{where}: column {column!r} is empty in {len(without):,} of {len(site):,} rows, the first of them row "
            f"{site.row_numbers[without[0]]}; wanted a value in each: fill them, or leave these rows out"
        )


@dataclass(frozen=True, init=False)
class SiteData(FromTables):
    """What one site holds: rows, one label per row in the site's own words, and what belongs to each row.

    `from_frame` and `from_anndata` also find labels, sites and patients among the columns. A table is kept as it
    came, in `table`; `X` is the same as dense float64 rows, which are made when they are first read.

    Parameters
    ----------
    name: text
        What the site is called.
    X: an array, a sparse table, a frame or an AnnData; ``table`` if not given
        The rows. Images, (rows, channels, height, width), become rows of columns; a method's ``shape`` says what they
        were.
    y: one label for each row; refused if not given
        The site's own words; "" where there is none.
    extra: arrays by name, or None; None if not given
        One value for each row: what else belongs to it.
    columns: a list of texts; none if not given
        The names of the columns. A frame has its own.
    row_numbers: whole numbers or None; None if not given
        Where the rows were in their file or set.
    index: one name for each row, or None; None if not given
        The rows' own names, such as barcodes.
    groups: one value for each row, or None; None if not given
        The row's patient or the like. No group is on both sides of a holdout.
    categories: lists of texts by column, or None; None if not given
        For columns of text: the words that the numbers stand for.
    remarks: a list of `Remark`; none if not given
        What was found while the table was read, for `fedgeom.check` to tell.
    table: as X; None if not given
        Instead of ``X``: a table that is kept as it is.
    """

    name: str
    table: Rows
    """(rows, columns), as it came: an array of numbers in its own type, or a sparse ``csr_array``."""
    y: npt.NDArray[Any]
    """(rows,): labels in the site's own words, text or numbers."""
    extra: Mapping[str, npt.NDArray[Any]]
    """Row-aligned arrays of any kind, (rows, …) each, by name."""
    columns: tuple[str, ...]
    """The names of X's columns, where they are known; empty otherwise. Those of a frame or an AnnData are kept."""
    row_numbers: npt.NDArray[np.intp] | None
    """(rows,): what each row is called where it came from; None: they are counted from 0."""
    index: npt.NDArray[Any] | None
    """(rows,): what the steward calls each row, such as barcodes, text or numbers; None where they have no names."""
    groups: npt.NDArray[Any] | None
    """(rows,): to which group each row belongs, such as its patient: no group stands on both sides of a holdout."""
    categories: Mapping[str, tuple[str, ...]]
    """For each column of text its words; the column's cells say which, counted from 0. Only preparation reads them."""
    remarks: tuple[Remark, ...]
    """What was found while the table was read."""

    def __init__(
        self,
        name: str,
        X: Any = None,
        y: Any = None,
        extra: Mapping[str, npt.ArrayLike] | None = None,
        columns: Sequence[str] = (),
        row_numbers: npt.ArrayLike | None = None,
        index: npt.ArrayLike | None = None,
        groups: npt.ArrayLike | None = None,
        categories: Mapping[str, Sequence[str]] | None = None,
        remarks: Sequence[Remark] = (),
        *,
        table: Any = None,
    ) -> None:
        """Take rows X (or ``table``, which `dataclasses.replace` hands over) and labels y, and check that they fit."""
        if not isinstance(name, str) or not name.strip():
            raise InputError(f"a site needs a name; {name!r} was given")
        name = str(name)  # NumPy's texts cannot travel
        if not is_name(name):
            raise InputError(f"a site's name is one line without control characters; {name!r} was given")
        given = table if X is None else X
        where = f"site {name!r}"
        if given is None or y is None:
            raise InputError(f"{where}: wanted rows X and one label per row, y: SiteData(name, X, y)")
        rows = as_rows(given, where)
        labels = np.asarray(y)
        n = rows.shape[0]
        if labels.shape != (n,):
            raise InputError(f"{where}: {n} rows but labels of shape {labels.shape}; wanted one label per row")
        extras = {key: np.asarray(value) for key, value in (extra or {}).items()}
        for key, value in extras.items():
            if len(value) != n:
                raise InputError(f"{where}: extra {key!r} has {len(value)} rows, X has {n}")
        names = tuple(map(str, columns)) or names_of(given)
        if names and len(names) != rows.shape[1]:
            raise InputError(f"{where}: {len(names)} column names for {rows.shape[1]} columns")
        check_distinct(names, where)
        along = {
            "row_numbers": row_numbers,
            "index": index_of(given) if index is None else index,
            "groups": groups,
        }
        found = {what: None if one is None else np.asarray(one) for what, one in along.items()}
        for what, one in found.items():
            if one is not None and one.shape != (n,):
                raise InputError(
                    f"{where}: {what.replace('_', ' ')} of shape {one.shape} for {n} rows; wanted one each"
                )
        words = {str(column): tuple(map(str, some)) for column, some in (categories or {}).items()}
        words = {
            column: some for column, some in words.items() if column in names
        }  # columns may have been left out
        fields = {"name": name, "table": rows, "y": labels, "extra": extras, "columns": names, **found}
        fields["categories"] = words
        fields["remarks"] = tuple(remarks)
        for what, one in fields.items():
            object.__setattr__(self, what, one)

    def __len__(self) -> int:
        return int(self.table.shape[0])

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and of columns."""
        return int(self.table.shape[0]), int(self.table.shape[1])

    @cached_property
    def X(self) -> npt.NDArray[np.float64]:  # noqa: N802 - as everybody calls it
        """(rows, columns), float64: the table as dense rows, made when first wanted and then kept.

        A table for which there is no memory raises `InputError`.
        """
        return dense(self.table, f"site {self.name!r}")

    @property
    def has_label(self) -> npt.NDArray[np.bool_]:
        """Which rows have a label: one that is not empty text, None or NaN."""
        if self.y.dtype.kind in "US":
            return np.asarray(self.y != self.y.dtype.type())
        if self.y.dtype.kind == "f":
            return np.asarray(~np.isnan(self.y))
        if self.y.dtype.kind == "O":  # NaN is the one value that differs from itself
            return np.array([label is not None and label != "" and label == label for label in self.y], bool)
        return np.ones(len(self.y), bool)

    @cached_property
    def _counted(self) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
        """The distinct labels, sorted, and how many rows have each; many look at them, and sorting text takes long."""
        return np.unique(self.y[self.has_label], return_counts=True)

    @property
    def classes(self) -> npt.NDArray[Any]:
        """The distinct labels, sorted; rows without a label are left out."""
        return self._counted[0].copy()

    def take(self, rows: npt.ArrayLike) -> SiteData:
        """Return the site with only these rows (indices or a mask)."""
        at = np.asarray(rows)
        numbers = np.arange(len(self)) if self.row_numbers is None else self.row_numbers
        extra = {k: v[at] for k, v in self.extra.items()}
        index, groups = (None if one is None else one[at] for one in (self.index, self.groups))
        more: dict[str, Any] = {"extra": extra, "row_numbers": numbers[at], "index": index, "groups": groups}
        return replace(self, table=self.table[at], y=self.y[at], **more)

    def with_table(self, table: Any, columns: tuple[str, ...]) -> SiteData:
        """Return the site with another table of numbers for the same rows, such as prepared ones."""
        found = replace(self, table=table, columns=columns, categories={})
        if "_counted" in self.__dict__:  # the labels are the same
            found.__dict__["_counted"] = self._counted
        return found

    def some(self, most: int) -> SiteData:
        """Return the site with at most so many rows; of more, some are drawn, the same each time."""
        return self if len(self) <= most else self.take(drawn_rows(len(self), most))

    def relabel(self, names: Mapping[Any, Any]) -> SiteData:
        """Return the site with labels written in other words; every label present needs a new name."""
        known = {str(label): name for label, name in names.items()} | dict(names)  # 0 may be written as "0"
        new = {label: known.get(label, known.get(str(label), label)) for label in self.classes.tolist()}
        unknown = [label for label in new if label not in known and str(label) not in known]
        if unknown:
            raise InputError(f"site {self.name!r}: no new name for the labels {unknown}")
        y = np.array([new[label] if label in new else known[label] for label in self.y.tolist()])
        return replace(self, y=y)

    def class_counts(self) -> dict[str, int]:
        """Return how many rows each class has, by its label as text; rows without a label are left out."""
        labels, counts = self._counted
        return dict(zip(map(str, labels.tolist()), counts.tolist(), strict=True))

    def __repr__(self) -> str:
        return f"SiteData({self.name!r}, {self._shape()}, {self._counts(6)})"

    def _repr_html_(self) -> str:
        return f"<b>{escape(self.name)}</b> {self._shape()}, {escape(self._counts(30))}"

    def _shape(self) -> str:
        return f"{self.shape[0]:,} rows × {self.shape[1]:,} columns"

    def _counts(self, most: int) -> str:
        if TIME in self.extra:
            return f"{int(self.extra[EVENT].sum()):,} events until {float(self.extra[TIME].max(initial=0.0)):.6g}"
        if OUTCOME in self.extra:
            values = self.extra[OUTCOME]
            return f"outcome {values.mean():.4g} on average" if len(values) else "an outcome"
        counts = self.class_counts()
        shown = [f"{_short(label)}: {n:,}" for label, n in list(counts.items())[:most]]
        if len(counts) > most:
            shown.append("…")
        without = len(self) - sum(counts.values())
        nameless = f"; {without:,} without a label" if without else ""
        some = f" ({', '.join(shown)})" if shown else ""
        return f"{len(counts)} class{'' if len(counts) == 1 else 'es'}{some}{nameless}"


@memoize(8)
def drawn_rows(count: int, most: int) -> npt.NDArray[np.int64]:
    """Return at most so many of the rows, all or some drawn, the same each time; several look at the same ones."""
    if count <= most:
        return np.arange(count)
    drawn = np.sort(np.random.default_rng(1).choice(count, most, replace=False))
    drawn.setflags(write=False)
    return drawn


def _short(text: str, most: int = 24) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def as_sites(sites: Any, *beside: Any) -> list[SiteData]:
    """Return sites as a list; of anything else say what it is and what to do.

    >>> as_sites([SiteData("a", [[1.0]], ["x"])])
    [SiteData('a', 1 rows × 1 columns, 1 class (x: 1))]
    """
    if isinstance(sites, SiteData):
        raise InputError(
            f"one site was given, {sites.name!r}; wanted a list of sites. One site has nobody to add up "
            "with: for a trial split its rows, fedgeom.split(X, y, n_sites=3)"
        )
    if hasattr(sites, "train") and hasattr(sites, "test"):
        raise InputError("a whole set was given; wanted its sites to learn from: those of its .train, a list")
    several = not hasattr(sites, "shape") and not isinstance(sites, str | Mapping) and hasattr(sites, "__iter__")
    found = list(sites) if several else []
    rows = [one for one in found if not isinstance(one, SiteData)]
    if several and not rows:
        return found
    alone = not several or len(rows) == len(found)
    numbers = any(isinstance(one, int | float) or hasattr(one, "shape") for one in rows[:8])
    table = alone and (hasattr(sites, "shape") or numbers)
    if table or beside:
        raise InputError(
            f"{_kind(sites)} was given for sites; wanted a list of fedgeom.SiteData(name, X, y), one for each site. To "
            "deal one table to sites for a trial: fedgeom.split(X, y, n_sites=3)"
        )
    odd = rows[0] if rows else sites
    raise InputError(f"{_kind(odd)} was given among the sites; wanted a list of fedgeom.SiteData(name, X, y)")


def _kind(value: Any) -> str:
    """Say what something is, with its shape where it has one."""
    shape = getattr(value, "shape", None)
    name = type(value).__name__
    article = "an" if name[:1].lower() in "aeiou" or name == "ndarray" else "a"
    return f"{article} {name}{'' if shape is None else f' of shape {tuple(shape)}'}"


def merged(sites: Sequence[SiteData], name: str = "all rows") -> SiteData:
    """Return the rows of several sites as one, for comparisons with rows in one place; columns go by their order.

    >>> merged([SiteData("a", [[1.0]], ["x"]), SiteData("b", [[2.0]], ["y"])])
    SiteData('all rows', 2 rows × 1 columns, 2 classes (x: 1, y: 1))
    """
    first = sites[0]
    words = {
        column: tuple(sorted({word for site in sites for word in site.categories.get(column, ())}))
        for column in dict.fromkeys(column for site in sites for column in site.categories)
    }
    tables = []
    for site in sites:
        rows = site.table if isinstance(site.table, np.ndarray) else site.X
        if words:
            rows = rows.astype(np.float64)
        for column, own in site.categories.items():
            at = first.columns.index(column)
            known = ~np.isnan(rows[:, at])
            codes = np.array([words[column].index(word) for word in own], np.float64)
            rows[known, at] = codes[rows[known, at].astype(int)]
        tables.append(rows)
    grouped = all(site.groups is not None for site in sites)
    return SiteData(
        name,
        np.concatenate(tables),
        np.concatenate([site.y for site in sites]),
        columns=first.columns,
        groups=np.concatenate([np.asarray(site.groups) for site in sites]) if grouped else None,
        categories=words,
    )
