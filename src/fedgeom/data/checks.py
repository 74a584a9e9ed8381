"""What every method asks of a site's table, with errors that name the site."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from fedgeom.data.findings import FaultsError, Finding, fault
from fedgeom.data.rows import not_finite
from fedgeom.data.sites import SiteData
from fedgeom.data.tables import listed
from fedgeom.errors import InputError, is_name

MOST_CELLS = 10
"""How many cells of a site that are no numbers are named; the others are counted."""
FIRST_CELLS = 3
"""How many are named where there are more."""
MOST_COLUMNS = 5
"""How many columns with most gaps are named."""
MOST_CLASSES = 12
"""How many classes that are too small are named; the others are counted."""
MOSTLY = 0.5
"""A column is mostly empty where this share of its cells is."""


def check_table(site: SiteData, *, min_rows: int, min_rows_per_class: int = 0) -> list[str]:
    """Refuse empty tables, numbers that are not finite, missing labels and classes too small to hide a patient in.

    ``min_rows`` is the method's floor, ``min_rows_per_class`` that of the site's own policy. Returns the site's label
    names, sorted. What does not fit is said at once, a line each.
    """
    faults = _cell_faults(site)
    without = len(site) - int(site.has_label.sum())
    if without:
        faults.append(
            fault(
                f"{without:,} of {len(site):,} rows have no label, which this method cannot use",
                "label them, leave them out with drop_unlabelled = true, or let XCLP find their labels",
                site=site.name,
                topic="labels",
            )
        )
    floor, key = max((min_rows, "min_rows"), (min_rows_per_class, "min_rows_per_class"), key=lambda one: one[0])
    counts = site.class_counts()
    faults += _size_faults(site.name, counts, floor, key)
    if faults:
        raise FaultsError(faults)
    return sorted(counts)


def check_class_sizes(site: str, labels: npt.ArrayLike, least: int, *, key: str) -> None:
    """Refuse classes with fewer rows than ``key`` says.

    labels (n,): the names of the rows that have one.
    """
    names, counts = np.unique(np.asarray(labels, str), return_counts=True)
    faults = _size_faults(site, dict(zip(names.tolist(), counts.tolist(), strict=True)), least, key)
    if faults:
        raise FaultsError(faults)


def check_finite(site: SiteData) -> None:
    """Refuse a table without rows, or with numbers that are not finite, naming the first of them."""
    faults = _cell_faults(site)
    if faults:
        raise FaultsError(faults)


def _size_faults(site: str, counts: Mapping[str, int], least: int, key: str) -> list[Finding]:
    few = [f"{name!r} ({n})" for name, n in sorted(counts.items()) if n < least]
    if not few:
        return []
    shown = f"{', '.join(few[:MOST_CLASSES])}{f' and {len(few) - MOST_CLASSES} more' * (len(few) > MOST_CLASSES)}"
    return [
        fault(
            f"has classes with fewer than {least} rows: {shown}",
            "what so few rows send is the patients themselves: merge or drop these classes (or lower "
            f"{key} knowingly)",
            site=site,
            topic="classes",
        )
    ]


def _cell_faults(site: SiteData) -> list[Finding]:
    """Return what is wrong with the numbers of a table: at most one finding, with the first cells and how many more."""
    if len(site) == 0:
        return [fault("has no rows", "leave it out of the federation", site=site.name, topic="rows")]
    bad = not_finite(site.table)
    if not len(bad):
        return []
    in_column = np.bincount(bad[:, 1], minlength=site.shape[1])
    rows, count = np.unique(bad[:, 0]), len(bad)
    numbers = np.arange(len(site)) if site.row_numbers is None else site.row_numbers
    named = [repr(name) for name in site.columns] or [str(at) for at in range(site.shape[1])]
    many = count > MOST_CELLS
    what = "; ".join(
        f"row {numbers[row]}, column {named[column]} is {site.table[row, column]}"
        for row, column in bad[: FIRST_CELLS if many else MOST_CELLS].tolist()
    )
    if many:
        worst = [at for at in np.argsort(-in_column, kind="stable")[:MOST_COLUMNS].tolist() if in_column[at]]
        what = (
            f"{count:,} cells in {len(rows):,} of {len(site):,} rows and {int((in_column > 0).sum()):,} of "
            f"{len(named):,} columns are no finite numbers, most in "
            f"{', '.join(f'{named[at]} ({in_column[at]:,})' for at in worst)}; the first: {what}"
        )
        mostly = [named[at] for at in np.flatnonzero(in_column >= MOSTLY * len(site)).tolist()]
        more = f" and {len(mostly) - MOST_COLUMNS} more" if len(mostly) > MOST_COLUMNS else ""
        if mostly:
            what += f"; mostly empty: {', '.join(mostly[:MOST_COLUMNS])}{more}"
    remedy = (
        'finite numbers are wanted: let the run fill gaps in (prepare = "table"), drop the rows, or leave columns '
        "that are mostly empty out at all sites (rows are counted from 0; in a text file, where row 1 is the header, "
        "as there)"
    )
    return [fault(what, remedy, site=site.name, topic="gaps")]


def check_ball(site: SiteData, c: float, remedy: str) -> None:
    """Refuse rows that are no points of the ball of curvature -c; say how many, and which is farthest out.

    A row with a gap is neither inside nor outside: that is said by `check_finite`.
    """
    squares = np.einsum("ij,ij->i", site.X, site.X)
    outside = np.flatnonzero(c * squares >= 1.0)
    if not outside.size:
        return
    numbers = np.arange(len(site)) if site.row_numbers is None else site.row_numbers
    farthest = int(outside[squares[outside].argmax()])
    what = (
        f"{outside.size:,} of {len(site):,} rows are no points of the Poincaré ball: row {numbers[farthest]} has norm "
        f"{math.sqrt(squares[farthest]):.6g}, wanted less than {1 / math.sqrt(c):.6g}"
    )
    raise FaultsError([fault(what, remedy, site=site.name, topic="ball")])


def check_known_labels(site: str, names: Iterable[str], classes: Sequence[str] | None) -> None:
    """Refuse labels that cannot travel, or are not among the agreed classes, where classes were agreed on."""
    present = set(names)  # they may come from an iterator, which is read once
    odd = sorted(name for name in present if not is_name(name))
    unknown = sorted(present - set(classes)) if classes else []
    faults = []
    if odd:
        faults.append(
            fault(
                f"{odd[0]!r} cannot be a label that others learn",
                "wanted one line of up to 200 characters, none of them control characters: rename it",
                site=site,
                topic="labels",
            )
        )
    if unknown:
        more = f" and {len(unknown) - 8} more" if len(unknown) > 8 else ""
        faults.append(
            fault(
                f"labels outside the agreed classes: {', '.join(unknown[:8])}{more}",
                f"rename them, or add them to `classes`, which has {listed(list(classes or ()), 8)}",
                site=site,
                topic="labels",
            )
        )
    if faults:
        raise FaultsError(faults)


def check_columns(columns: Mapping[str, int]) -> None:
    """Raise `InputError`, naming the odd ones out, unless all sites have the same number of columns."""
    counts = Counter(columns.values())
    if len(counts) > 1:
        usual = counts.most_common(1)[0][0]
        odd = ", ".join(f"{name!r} has {n}" for name, n in sorted(columns.items()) if n != usual)
        raise InputError(f"sites must have the same columns: most have {usual}, but site {odd}")


def check_same_names(hashes: Mapping[str, bytes]) -> None:
    """Raise `InputError`, naming the odd ones out, unless the column names that are known by a hash are the same."""
    known = {name: value for name, value in hashes.items() if value}
    counts = Counter(known[name] for name in sorted(known))
    if len(counts) > 1:
        usual = counts.most_common(1)[0][0]
        odd = ", ".join(repr(name) for name in sorted(known) if known[name] != usual)
        raise InputError(
            "sites must have the same columns, by the same names and in the same order; those of site "
            f"{odd} differ from those of {sum(value == usual for value in known.values())} others. Names do not leave "
            "the sites, only whether they agree: compare the headers of the files, and list the columns in one order "
            "at each site, columns = […] in site.toml"
        )


def check_two_classes(sites: Sequence[SiteData]) -> set[str]:
    """Return the labels that occur at any site; refuse sites that have one class in all."""
    present = label_names(sites)
    if len(present) < 2:
        raise InputError(f"all sites together have one class, {', '.join(present)}; a classifier needs two")
    return present


def label_names(sites: Sequence[SiteData]) -> set[str]:
    """Return the labels that occur at any site, as text."""
    return {str(name) for site in sites for name in site.classes.tolist()}
