"""A site's rows and labels, and ways to split one data set into sites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fedgeom.data.columns import cells_of, check_distinct, names_of
from fedgeom.data.tables import no_number
from fedgeom.errors import InputError, is_name


@dataclass(frozen=True)
class SiteData:
    """What one site holds: rows ``X``, one label per row ``y`` in the site's own words, row-aligned extras."""

    name: str
    X: npt.NDArray[np.float64]
    """(rows, columns), float64; a sparse table is made dense, so choose its columns first."""
    y: npt.NDArray[Any]
    """(rows,): labels in the site's own words, text or numbers."""
    extra: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    """Row-aligned arrays of any kind, (rows, …) each, by name."""
    columns: tuple[str, ...] = ()
    """The names of X's columns, where they are known; empty otherwise. Those of a frame or an AnnData are kept."""
    row_numbers: npt.NDArray[np.intp] | None = None
    """(rows,): what each row is called where it came from; None: they are counted from 0."""
    groups: npt.NDArray[Any] | None = None
    """(rows,): what each row belongs to, such as its patient; None: nothing is known. Rows of one group are never both
    learnt from and tested on (`holdout`)."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise InputError(f"a site needs a name; {self.name!r} was given")
        if not is_name(self.name):
            raise InputError(f"a site's name is one line without control characters; {self.name!r} was given")
        X, y = _rows(self.X, self.name), np.asarray(self.y)
        if y.ndim != 1 or len(y) != len(X):
            raise InputError(
                f"site {self.name!r}: {len(X)} rows but labels of shape {y.shape}; wanted one label per row"
            )
        extra = {key: np.asarray(value) for key, value in self.extra.items()}
        for key, value in extra.items():
            if len(value) != len(X):
                raise InputError(f"site {self.name!r}: extra {key!r} has {len(value)} rows, X has {len(X)}")
        columns = tuple(map(str, self.columns)) or names_of(self.X)
        if columns and len(columns) != X.shape[1]:
            raise InputError(f"site {self.name!r}: {len(columns)} column names for {X.shape[1]} columns")
        check_distinct(columns, f"site {self.name!r}")
        object.__setattr__(self, "columns", columns)
        if self.row_numbers is not None and np.shape(self.row_numbers) != (len(X),):
            raise InputError(f"site {self.name!r}: {np.shape(self.row_numbers)} row numbers for {len(X)} rows")
        if self.groups is not None:
            groups = np.asarray(self.groups)
            if groups.shape != (len(X),):
                raise InputError(
                    f"site {self.name!r}: groups of shape {groups.shape}; wanted one for each of {len(X)}"
                )
            object.__setattr__(self, "groups", groups)
        object.__setattr__(self, "X", X)
        object.__setattr__(self, "y", y)
        object.__setattr__(self, "extra", extra)

    def __len__(self) -> int:
        return len(self.X)

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

    @property
    def classes(self) -> npt.NDArray[Any]:
        """The distinct labels, sorted; rows without a label are left out."""
        return np.unique(self.y[self.has_label])

    def take(self, rows: npt.ArrayLike) -> SiteData:
        """Return the site with only these rows (indices or a mask)."""
        at = np.asarray(rows)
        numbers = np.arange(len(self)) if self.row_numbers is None else self.row_numbers
        extra = {k: v[at] for k, v in self.extra.items()}
        groups = None if self.groups is None else self.groups[at]
        return replace(self, X=self.X[at], y=self.y[at], extra=extra, row_numbers=numbers[at], groups=groups)

    def relabel(self, names: Mapping[Any, Any]) -> SiteData:
        """Return the site with labels written in other words; every label present needs a new name."""
        unknown = [label for label in self.classes.tolist() if label not in names]
        if unknown:
            raise InputError(f"site {self.name!r}: no new name for the labels {unknown}")
        y = np.array([names[label] for label in self.y.tolist()])
        return replace(self, y=y)

    def class_counts(self) -> dict[str, int]:
        """Return how many rows each class has, by its label as text; rows without a label are left out."""
        labels, counts = np.unique(self.y[self.has_label], return_counts=True)
        return dict(zip(map(str, labels.tolist()), counts.tolist(), strict=True))

    def __repr__(self) -> str:
        return f"SiteData({self.name!r}, {self._shape()}, {self._counts(6)})"

    def _repr_html_(self) -> str:
        return f"<b>{escape(self.name)}</b> {self._shape()}, {escape(self._counts(30))}"

    def _shape(self) -> str:
        return f"{len(self.X):,} rows × {self.X.shape[1]:,} columns"

    def _counts(self, most: int) -> str:
        counts = self.class_counts()
        shown = [f"{_short(label)}: {n:,}" for label, n in list(counts.items())[:most]]
        if len(counts) > most:
            shown.append("…")
        without = len(self) - sum(counts.values())
        nameless = f"; {without:,} without a label" if without else ""
        some = f" ({', '.join(shown)})" if shown else ""
        return f"{len(counts)} class{'' if len(counts) == 1 else 'es'}{some}{nameless}"


def _short(text: str, most: int = 24) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _rows(X: npt.ArrayLike, name: str) -> npt.NDArray[np.float64]:
    X = X.toarray() if hasattr(X, "toarray") else X  # SciPy's sparse tables
    try:
        rows = np.asarray(cells_of(X), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"site {name!r}: X must be numbers ({_culprit(X) or error})") from error
    if rows.ndim != 2:
        raise InputError(f"site {name!r}: X must be a table of rows and columns, {rows.ndim}-D was given")
    return rows


def _culprit(X: Any) -> str:
    """Say which cell of a table is no number; "" where the table is none."""
    try:
        cells = np.asarray(X, object)
    except ValueError:  # rows of different lengths
        return ""
    if cells.ndim != 2:
        return ""
    names = list(getattr(X, "columns", range(cells.shape[1])))
    for name, column in zip(names, cells.T, strict=True):
        try:
            column.astype(np.float64)
        except (TypeError, ValueError):
            return no_number(str(name), column, first_row=0)
    return ""


def split(
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    n_sites: int | None = None,
    how: Literal["iid", "dirichlet", "by"] | None = None,
    seed: int = 0,
    *,
    by: npt.ArrayLike | None = None,
    alpha: float = 0.5,
    names: Sequence[str] | None = None,
    extra: Mapping[str, npt.ArrayLike] | None = None,
) -> list[SiteData]:
    """Split one data set into sites.

    - ``iid``, the default: a shuffled deal into ``n_sites`` (3), each class spread evenly;
    - ``dirichlet``: each class is divided by Dirichlet(``alpha``) shares, small alpha meaning skewed sites;
    - ``by``: one site for each value of the array ``by`` (hospital, donor, writer), which alone says this.

    >>> [len(site) for site in split([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], n_sites=2)]
    [2, 2]
    >>> [site.name for site in split([[0.0], [1.0], [2.0]], [0, 1, 1], by=["anna", "bob", "anna"])]
    ['anna', 'bob']
    """
    rows, labels = _rows(X, "the whole set"), np.asarray(y)
    if len(labels) != len(rows):
        raise InputError(f"{len(rows)} rows but {len(labels)} labels were given")
    if how == "by" or by is not None:
        owner, default_names = _by_value(by, len(rows), n_sites, how)
    else:
        asked = 3 if n_sites is None else n_sites
        if not 1 <= asked <= len(rows):
            raise InputError(f"n_sites={asked} given for {len(rows)} rows; wanted 1 … {len(rows)}")
        rng = np.random.default_rng(seed)
        dealt = how is None or how == "iid"
        owner = _deal(labels, asked, rng) if dealt else _dirichlet(labels, asked, str(how), alpha, rng)
        width = len(str(asked))
        default_names = [f"site-{i + 1:0{width}d}" for i in range(asked)]
    titles = list(names) if names is not None else default_names
    if len(titles) != len(default_names):
        raise InputError(f"{len(titles)} names were given for {len(default_names)} sites")
    extras = {key: np.asarray(value) for key, value in (extra or {}).items()}
    whole = SiteData("the whole set", rows, labels, extras, names_of(X))
    parts = []
    for i, title in enumerate(titles):
        part = whole.take(np.flatnonzero(owner == i))
        parts.append(SiteData(title, part.X, part.y, part.extra, part.columns))
    return parts


def _by_value(
    by: npt.ArrayLike | None, rows: int, n_sites: int | None, how: str | None
) -> tuple[npt.NDArray[np.intp], list[str]]:
    """Return the site of each row and the sites' names: one for each value of ``by``."""
    if how not in (None, "by"):
        raise InputError(
            f"how={how!r} and `by` were given; `by` makes a site of each of its values, {how!r} deals rows at random: "
            "leave one of them away"
        )
    if by is None or np.ndim(by) != 1 or len(np.asarray(by)) != rows:
        shape = "nothing" if by is None else f"an array of shape {np.shape(by)}"
        raise InputError(
            'how="by" needs `by`, one value per row that says which site it belongs to; '
            f"{shape} was given for {rows} rows"
        )
    values, owner = np.unique(np.asarray(by), return_inverse=True)
    if n_sites is not None and n_sites != len(values):
        raise InputError(
            f"n_sites={n_sites} given, but `by` has {len(values)} values, which are as many sites: leave n_sites away"
        )
    return owner, [str(value) for value in values.tolist()]


def _deal(labels: npt.NDArray[Any], n_sites: int, rng: np.random.Generator) -> npt.NDArray[np.intp]:
    """Deal class after class like cards, going on where the last class stopped."""
    _, coded = np.unique(labels, return_inverse=True)
    order = np.lexsort((rng.random(len(labels)), coded))
    owner = np.empty(len(labels), np.intp)
    owner[order] = np.arange(len(labels)) % n_sites
    return owner


def _dirichlet(
    labels: npt.NDArray[Any], n_sites: int, how: str, alpha: float, rng: np.random.Generator
) -> npt.NDArray[np.intp]:
    if how != "dirichlet":
        raise InputError(f'how={how!r} given; wanted "iid", "dirichlet" or "by"')
    if not alpha > 0:
        raise InputError(f"alpha={alpha} given; wanted a positive concentration")
    owner = np.empty(len(labels), np.intp)
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        cuts = np.floor(np.cumsum(rng.dirichlet(np.full(n_sites, alpha))) * len(members)).astype(int)
        owner[members] = np.searchsorted(cuts[:-1], np.arange(len(members)), side="right")
    return owner
