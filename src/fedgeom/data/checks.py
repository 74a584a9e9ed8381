"""What every method asks of a site's table, with errors that name the site."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from fedgeom.data.rows import not_finite
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError, is_name

MOST_CELLS = 10
"""How many cells of a site that are no numbers are named; the others are counted."""


def check_table(site: SiteData, *, min_rows: int, min_rows_per_class: int = 0) -> list[str]:
    """Refuse empty tables, numbers that are not finite, missing labels and classes too small to hide a patient in.

    ``min_rows`` is the method's floor, ``min_rows_per_class`` that of the site's own policy. Returns the site's label
    names, sorted. What does not fit is said at once, a line each.
    """
    faults = _cell_faults(site)
    without = len(site) - int(site.has_label.sum())
    if without:
        faults.append(
            f"site {site.name!r}: {without} of {len(site)} rows have no label, which this method cannot use: label "
            "them, leave them out with drop_unlabelled, or let XCLP find their labels"
        )
    labels = site.y[site.has_label].astype(str)
    floor, key = max((min_rows, "min_rows"), (min_rows_per_class, "min_rows_per_class"), key=lambda one: one[0])
    faults += _size_faults(site.name, labels, floor, key)
    if faults:
        raise InputError("\n".join(faults))
    return list(np.unique(labels).tolist())


def check_class_sizes(site: str, labels: npt.ArrayLike, least: int, *, key: str) -> None:
    """Refuse classes with fewer rows than ``key`` says.

    labels (n,): the names of the rows that have one.
    """
    faults = _size_faults(site, labels, least, key)
    if faults:
        raise InputError(faults[0])


def check_finite(site: SiteData) -> None:
    """Refuse a table without rows, or with numbers that are not finite, naming the first of them."""
    faults = _cell_faults(site)
    if faults:
        raise InputError(faults[0])


def _size_faults(site: str, labels: npt.ArrayLike, least: int, key: str) -> list[str]:
    names, counts = np.unique(np.asarray(labels, str), return_counts=True)
    few = [f"{name!r} ({n})" for name, n in zip(names.tolist(), counts, strict=True) if n < least]
    if not few:
        return []
    return [
        f"site {site!r} has classes with fewer than {least} rows: {', '.join(few)}; what so few "
        f"rows send is the patients themselves: merge or drop these classes (or lower {key} knowingly)"
    ]


def _cell_faults(site: SiteData) -> list[str]:
    """Return what is wrong with the numbers of a table: at most one line, with the first cells and how many more."""
    if len(site) == 0:
        return [f"site {site.name!r} has no rows; leave it out of the federation"]
    bad = not_finite(site.table)
    if not bad.size:
        return []
    numbers = np.arange(len(site)) if site.row_numbers is None else site.row_numbers
    names, table = site.columns or range(site.shape[1]), site.table
    cells = [
        f"row {numbers[row]}, column {names[column]!r} is {table[row, column]}"
        for row, column in bad[:MOST_CELLS].tolist()
    ]
    more = f"; and {len(bad) - MOST_CELLS:,} more cells" if len(bad) > MOST_CELLS else ""
    return [
        f"site {site.name!r}: {'; '.join(cells)}{more}; finite numbers are wanted: impute, or drop the "
        f"{'row' if len(set(bad[:, 0].tolist())) == 1 else 'rows'} (rows are counted from 0; in a text file, where the "
        "header is row 1, as there)"
    ]


def check_known_labels(site: str, names: Iterable[str], classes: Sequence[str] | None) -> None:
    """Refuse labels that cannot travel, or are not among the agreed classes, where classes were agreed on."""
    odd = sorted(name for name in set(names) if not is_name(name))
    if odd:
        raise InputError(
            f"site {site!r}: {odd[0]!r} cannot be a label that others learn; wanted one line of up to 200 "
            "characters, none of them control characters: rename it"
        )
    unknown = sorted(set(names) - set(classes)) if classes else []
    if unknown:
        raise InputError(f"site {site!r}: labels outside the agreed classes: {', '.join(unknown[:8])}")


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
    present = {str(name) for site in sites for name in site.classes.tolist()}
    if len(present) < 2:
        raise InputError(f"all sites together have one class, {', '.join(present)}; a classifier needs two")
    return present
