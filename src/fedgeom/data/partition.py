"""Partitions: how the rows of one set go to sites, as small objects that print and plot themselves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Ints
from fedgeom.data.columns import index_of, names_of
from fedgeom.data.rows import as_rows
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError

MOST_DRAWS = 200
"""How often shares are drawn until every site has enough rows."""
MOST_LISTED = 20
"""How many sites and classes are listed one by one."""


@dataclass(frozen=True)
class Partition(ABC):
    """The base of all partitions: ``partition.over(X, y, n_sites=10, seed=0)`` deals rows."""

    name: ClassVar[str]
    names: ClassVar[dict[str, type[Partition]]] = {}
    """What ``fedgeom.split(how=…)`` may name."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" in cls.__dict__:
            Partition.names[cls.name] = cls

    @abstractmethod
    def owners(self, X: Any, y: npt.NDArray[Any], n_sites: int, rng: np.random.Generator) -> npt.NDArray[np.intp]:
        """Return the number of each row's site, (rows,)."""

    def changed(self, site: SiteData, at: int, n_sites: int, rng: np.random.Generator) -> SiteData:
        """Return a site's rows as it sees them: here as they are."""
        return site

    def over(
        self,
        X: Any,
        y: npt.ArrayLike,
        n_sites: int = 3,
        seed: int = 0,
        *,
        names: Sequence[str] | None = None,
        extra: dict[str, Any] | None = None,
    ) -> Parted:
        """Deal the rows of a table to sites.

        Parameters
        ----------
        X: a table of shape (rows, columns), a frame or images
        y: one label for each row
        n_sites: a whole number; 3 if not given
        seed: a whole number; 0 if not given
            Draws who gets which rows.
        names: a list of texts or None; None if not given
            The sites' names. None: site-1, site-2, …
        extra: arrays by name, or None; None if not given
            What is dealt along with the rows.

        Returns
        -------
        Parted
            It prints the table of sites and classes; ``.sites`` are the sites, ``.plot()`` draws them.
        """
        whole = whole_table(X, y, extra)
        rows = len(whole)
        if not 1 <= n_sites <= rows:
            raise InputError(f"n_sites={n_sites} given for {rows} rows; wanted 1 … {rows}")
        rng = np.random.default_rng(seed)
        owner = self.owners(whole.table, whole.y, n_sites, rng)
        width = len(str(n_sites))
        titles = [f"site-{at + 1:0{width}d}" for at in range(n_sites)] if names is None else list(names)
        if len(titles) != n_sites:
            raise InputError(f"{len(titles)} names were given for {n_sites} sites")
        parts = parted(whole, owner, titles)
        return Parted([self.changed(site, at, n_sites, rng) for at, site in enumerate(parts)], repr(self), seed)


def whole_table(X: Any, y: npt.ArrayLike, extra: dict[str, Any] | None = None) -> SiteData:
    """Return a whole set as one table, or refuse rows and labels that do not fit together."""
    table = as_rows(X, "site 'the whole set'")
    labels = np.asarray(y)
    if len(labels) != table.shape[0]:
        raise InputError(f"{table.shape[0]} rows but {len(labels)} labels were given")
    extras = {key: np.asarray(value) for key, value in (extra or {}).items()}
    return SiteData("the whole set", table, labels, extras, names_of(X), index=index_of(X))


def parted(whole: SiteData, owner: npt.NDArray[np.intp], titles: Sequence[str]) -> list[SiteData]:
    """Return a table's rows as sites."""
    parts = [whole.take(np.flatnonzero(owner == at)) for at in range(len(titles))]
    return [replace(part, name=title, row_numbers=None) for part, title in zip(parts, titles, strict=True)]


@dataclass(frozen=True, repr=False)
class Parted:
    """Sites as they were dealt, or as they are by nature; printed, it is a table of sites and classes."""

    sites: list[SiteData]
    how: str = "as it is"
    """The partition that dealt them."""
    seed: int | None = None

    @property
    def classes(self) -> list[str]:
        """All classes, sorted."""
        return sorted({name for site in self.sites for name in site.class_counts()})

    @property
    def counts(self) -> Ints:
        """(sites, classes): how many rows of each class each site has."""
        known = [site.class_counts() for site in self.sites]
        return np.array([[one.get(name, 0) for name in self.classes] for one in known], np.int64)

    @property
    def skew(self) -> float:
        """How far sites' class shares are from those of all rows, 0 to 1: the mean total variation distance."""
        counts = self.counts[self.counts.sum(axis=1) > 0].astype(float)
        shares = counts / counts.sum(axis=1, keepdims=True)
        return float(np.abs(shares - counts.sum(axis=0) / counts.sum()).sum(axis=1).mean() / 2)

    def frame(self) -> Any:
        """Return the rows of each class at each site as a pandas frame (site, class, rows), or as records without."""
        rows = [
            {"site": site.name, "class": name, "rows": int(count)}
            for site, line in zip(self.sites, self.counts.tolist(), strict=True)
            for name, count in zip(self.classes, line, strict=True)
        ]
        try:
            import pandas  # optional
        except ImportError:
            return rows
        return pandas.DataFrame(rows, columns=["site", "class", "rows"])

    def summary(self) -> str:
        """Return a line for people."""
        sizes = [len(site) for site in self.sites]
        there = (self.counts > 0).sum(axis=1)
        seed = "" if self.seed is None else f", seed {self.seed}"
        return (
            f"{self.how}{seed}: {len(sizes)} sites with {min(sizes):,} to {max(sizes):,} rows and {there.min()} to "
            f"{there.max()} of {len(self.classes)} classes; label skew {self.skew:.2f}"
        )

    def _lines(self) -> list[list[str]]:
        """Return the table: sites down, classes across."""
        classes = self.classes[:MOST_LISTED]
        more = ["…"] if len(self.classes) > MOST_LISTED else []
        lines = [["", "rows", *classes, *more]]
        for site, counts in zip(self.sites[:MOST_LISTED], self.counts.tolist(), strict=False):
            shown = [f"{count:,}" if count else "·" for count in counts[:MOST_LISTED]]
            lines.append([site.name, f"{len(site):,}", *shown, *more])
        if len(self.sites) > MOST_LISTED:
            lines.append([f"{len(self.sites) - MOST_LISTED} more", *[""] * (len(lines[0]) - 1)])
        return lines

    def __repr__(self) -> str:
        lines = self._lines()
        widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
        table = [
            "  ".join(
                cell.rjust(width) if at else cell.ljust(width)
                for at, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        return "\n".join([self.summary(), *table])

    def _repr_html_(self) -> str:
        head, *lines = self._lines()
        top = "".join(f"<th>{escape(one)}</th>" for one in head)
        body = "".join("<tr>" + "".join(f"<td>{escape(one)}</td>" for one in line) + "</tr>" for line in lines)
        return f"<p>{escape(self.summary())}</p><table><tr>{top}</tr>{body}</table>"

    def plot(self, path: str | Path | None = None) -> Any:
        """Draw a bar for each site, divided by class, and return matplotlib's figure; with a path, write it there."""
        from matplotlib import colormaps  # slow to import
        from matplotlib.figure import Figure

        counts = self.counts
        figure = Figure(figsize=(7, 1.2 + 0.22 * min(len(self.sites), 60)), dpi=120, layout="constrained")
        axes = figure.subplots()
        places = np.arange(len(self.sites))
        left = np.zeros(len(self.sites))
        colours = colormaps["tab20" if len(self.classes) > 10 else "tab10"]
        for at, name in enumerate(self.classes):
            colour = colours(at % colours.N)
            axes.barh(places, counts[:, at], left=left, color=colour, label=name, edgecolor="white", linewidth=0.4)
            left += counts[:, at]
        few = len(self.sites) <= 60
        axes.set_yticks(places if few else [], [site.name for site in self.sites] if few else [], fontsize=8)
        axes.invert_yaxis()
        axes.set_xlabel("rows")
        axes.set_title(self.summary(), fontsize=8, loc="left", wrap=True)
        axes.spines[["top", "right"]].set_visible(False)
        if len(self.classes) <= MOST_LISTED:
            axes.legend(frameon=False, fontsize=7, bbox_to_anchor=(1.0, 1.0), loc="upper left")
        if path is not None:
            figure.savefig(path)
        return figure


def natural(sites: Sequence[SiteData]) -> Parted:
    """Return sites as they are, such as hospitals or writers, to print and to plot them.

    >>> print(natural([SiteData("a", [[1.0]], ["x"]), SiteData("b", [[2.0], [3.0]], ["x", "y"])]))
    as it is: 2 sites with 1 to 2 rows and 1 to 2 of 2 classes; label skew 0.25
       rows  x  y
    a     1  1  ·
    b     2  1  1
    """
    return Parted(list(sites))


@dataclass(frozen=True)
class IID(Partition):
    """Each class is dealt evenly, like cards: all sites look alike."""

    name: ClassVar[str] = "iid"

    def owners(self, X: Any, y: npt.NDArray[Any], n_sites: int, rng: np.random.Generator) -> npt.NDArray[np.intp]:
        """Deal class after class, going on where the last class stopped."""
        order = np.lexsort((rng.random(len(y)), codes(y)))
        owner = np.empty(len(y), np.intp)
        owner[order] = np.arange(len(y)) % n_sites
        return owner


@dataclass(frozen=True)
class Dirichlet(Partition):
    """Each class is divided by Dirichlet(α) shares (Hsu et al. 2019): the smaller α, the more sites differ."""

    name: ClassVar[str] = "dirichlet"

    alpha: float = 0.5
    """α, above 0."""
    min_rows: int = 1
    """How many rows each site has at least: shares are drawn again until it is so."""

    def __post_init__(self) -> None:
        _check_alpha(self.alpha)

    def owners(self, X: Any, y: npt.NDArray[Any], n_sites: int, rng: np.random.Generator) -> npt.NDArray[np.intp]:
        """Divide each class by shares of its own."""
        coded = codes(y)

        def draw() -> npt.NDArray[np.intp]:
            owner = np.empty(len(y), np.intp)
            for code in range(coded.max(initial=-1) + 1):
                members = rng.permutation(np.flatnonzero(coded == code))
                owner[members] = _divided(len(members), self.alpha, n_sites, rng)
            return owner

        return _until_enough(draw, n_sites, self.min_rows, "a larger alpha")


@dataclass(frozen=True)
class Pathological(Partition):
    """Each site has rows of so many classes alone; a class is dealt evenly to the sites that have it."""

    name: ClassVar[str] = "pathological"

    classes_per_site: int = 2

    def owners(self, X: Any, y: npt.NDArray[Any], n_sites: int, rng: np.random.Generator) -> npt.NDArray[np.intp]:
        """Deal classes to sites so that all are taken about as often, then rows."""
        coded = codes(y)
        classes = int(coded.max(initial=-1)) + 1
        wanted = self.classes_per_site
        if not 1 <= wanted <= classes or n_sites * wanted < classes:
            raise InputError(
                f"classes_per_site={wanted} given for {classes} classes and {n_sites} sites; wanted from "
                f"{max(1, -(-classes // n_sites))} to {classes}, so that every class is at a site"
            )
        taken = np.zeros(classes, int)
        having: list[list[int]] = [[] for _ in range(classes)]
        for site in rng.permutation(n_sites):
            order = np.lexsort((rng.random(classes), taken))  # those that fewest sites have come first
            for code in order[:wanted].tolist():
                having[code].append(int(site))
                taken[code] += 1
        owner = np.empty(len(y), np.intp)
        for code, sites in enumerate(having):
            members = rng.permutation(np.flatnonzero(coded == code))
            owner[members] = np.asarray(sites)[np.arange(len(members)) % len(sites)]
        return owner


@dataclass(frozen=True)
class Shards(Partition):
    """Rows sorted by class are cut into equal shards, and each site gets so many of them (McMahan et al. 2017)."""

    name: ClassVar[str] = "shards"

    per_site: int = 2

    def owners(self, X: Any, y: npt.NDArray[Any], n_sites: int, rng: np.random.Generator) -> npt.NDArray[np.intp]:
        """Sort, cut and deal."""
        count = n_sites * self.per_site
        if self.per_site < 1 or count > len(y):
            raise InputError(
                f"per_site={self.per_site} given, {count} shards of {len(y)} rows; wanted fewer, 1 or more"
            )
        order = np.lexsort((rng.random(len(y)), codes(y)))
        shard = np.arange(len(y)) * count // len(y)
        owner = np.empty(len(y), np.intp)
        owner[order] = (rng.permutation(count) % n_sites)[shard]
        return owner


@dataclass(frozen=True)
class QuantitySkew(Partition):
    """Sites differ in how many rows they have, by Dirichlet(α) shares, and in nothing else."""

    name: ClassVar[str] = "quantity"

    alpha: float = 0.5
    """α, above 0: the smaller, the more sizes differ."""
    min_rows: int = 1
    """How many rows each site has at least: shares are drawn again until it is so."""

    def __post_init__(self) -> None:
        _check_alpha(self.alpha)

    def owners(self, X: Any, y: npt.NDArray[Any], n_sites: int, rng: np.random.Generator) -> npt.NDArray[np.intp]:
        """Divide shuffled rows."""

        def draw() -> npt.NDArray[np.intp]:
            owner = np.empty(len(y), np.intp)
            owner[rng.permutation(len(y))] = _divided(len(y), self.alpha, n_sites, rng)
            return owner

        return _until_enough(draw, n_sites, self.min_rows, "a larger alpha")


@dataclass(frozen=True)
class FeatureSkew(Partition):
    """Sites hold rows from different parts of the space: by where rows lie along a random direction.

    Columns are standardised first. With ``strength`` 1 sites are slices that do not overlap; with 0 rows are dealt by
    chance.
    """

    name: ClassVar[str] = "feature"

    strength: float = 0.8
    """From 0 to 1: the share of the direction in what decides; the rest is chance."""

    def owners(self, X: Any, y: npt.NDArray[Any], n_sites: int, rng: np.random.Generator) -> npt.NDArray[np.intp]:
        """Sort rows along the direction and cut them into slices of the same size."""
        if not 0 <= self.strength <= 1:
            raise InputError(f"strength={self.strength} given; wanted a number from 0 to 1")
        rows = _standardised(X)
        along = rows @ rng.normal(size=rows.shape[1])
        along = along / (along.std() or 1.0)
        score = self.strength * along + (1 - self.strength) * rng.normal(size=len(along))
        owner = np.empty(len(y), np.intp)
        owner[np.argsort(score, kind="stable")] = np.arange(len(y)) * n_sites // len(y)
        return owner


@dataclass(frozen=True)
class FeatureNoise(IID):
    """Rows are dealt evenly, and each site adds noise of its own strength to them (Li et al. 2022, NIID-Bench).

    Site i of n adds normal noise with the variance ``noise``·i/n, in units of the variance of each of its columns.
    """

    name: ClassVar[str] = "noise"

    noise: float = 0.1

    def changed(self, site: SiteData, at: int, n_sites: int, rng: np.random.Generator) -> SiteData:
        """Add noise to a site's rows."""
        if not self.noise >= 0:
            raise InputError(f"noise={self.noise} given; wanted 0 or more")
        added = rng.normal(size=site.shape) * site.X.std(axis=0) * np.sqrt(self.noise * (at + 1) / n_sites)
        return replace(site, table=site.X + added)


@dataclass(frozen=True)
class ByColumn(Partition):
    """A site for each value of a column of a frame, such as the hospital; the column is no feature then."""

    column: str
    """The name of the column."""

    def owners(self, X: Any, y: npt.NDArray[Any], n_sites: int, rng: np.random.Generator) -> npt.NDArray[np.intp]:
        """Deal nothing: `over` looks at the frame."""
        raise InputError(f"ByColumn({self.column!r}) is for frames, tables with named columns; wanted a DataFrame")

    def over(self, X: Any, y: npt.ArrayLike, n_sites: int | None = None, seed: int = 0, **options: Any) -> Parted:
        """Make a site of each value of the column."""
        if not hasattr(X, "columns") or not hasattr(X, "drop"):
            return self.owners(X, np.asarray(y), 0, np.random.default_rng(0))  # type: ignore[return-value]
        if self.column not in X.columns:
            raise InputError(
                f"X has no column {self.column!r}; it has {', '.join(map(str, list(X.columns)[:10]))}"
            )
        values = np.asarray(X[self.column])
        whole = whole_table(X.drop(columns=[self.column]), y, options.get("extra"))
        owner, titles = by_value(values, len(whole), n_sites)
        return Parted(parted(whole, owner, titles), repr(self))


def by_value(
    by: npt.ArrayLike | None, rows: int, n_sites: int | None, how: object = None
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


def codes(labels: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    """Return the number of each row's class."""
    try:
        return np.unique(labels, return_inverse=True)[1]
    except TypeError:  # numbers among None or text cannot be sorted
        return np.unique(labels.astype(str), return_inverse=True)[1]


def _check_alpha(alpha: float) -> None:
    if not alpha > 0:
        raise InputError(f"alpha={alpha} given; wanted a positive concentration")


def _divided(rows: int, alpha: float, n_sites: int, rng: np.random.Generator) -> npt.NDArray[np.intp]:
    """Return the site of each of some shuffled rows, by Dirichlet shares."""
    cuts = np.floor(np.cumsum(rng.dirichlet(np.full(n_sites, alpha))) * rows).astype(int)
    return np.searchsorted(cuts[:-1], np.arange(rows), side="right")


def _until_enough(draw: Any, n_sites: int, min_rows: int, remedy: str) -> npt.NDArray[np.intp]:
    """Draw again until every site has enough rows, or it seems in vain."""
    for _ in range(MOST_DRAWS):
        owner: npt.NDArray[np.intp] = draw()
        least = int(np.bincount(owner, minlength=n_sites).min())
        if least >= min_rows:
            return owner
    raise InputError(
        f"a site has {least} rows; min_rows={min_rows} given: take fewer sites, a smaller min_rows, or {remedy}"
    )


def _standardised(X: Any) -> Floats:
    rows = np.asarray(X.toarray() if hasattr(X, "toarray") else X, np.float64)
    rows = np.where(np.isfinite(rows), rows, np.nan)
    there = np.maximum(np.isfinite(rows).sum(axis=0), 1)
    centre = np.nansum(rows, axis=0) / there
    spread = np.sqrt(np.nansum((rows - centre) ** 2, axis=0) / there)
    return np.asarray(np.nan_to_num((rows - centre) / np.where(spread > 0, spread, 1.0)), np.float64)
