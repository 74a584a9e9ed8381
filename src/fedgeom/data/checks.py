"""What every method asks of a site's table, with errors that name the site."""

from __future__ import annotations

import numpy as np

from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError


def check_table(site: SiteData, *, least_points: int) -> list[str]:
    """Refuse empty tables, numbers that are not finite, missing labels and classes too small to hide a patient in.

    Returns the site's label names, sorted.
    """
    if len(site) == 0:
        raise InputError(f"site {site.name!r} has no rows; leave it out of the federation")
    bad = np.argwhere(~np.isfinite(site.X))
    if bad.size:
        row, column = bad[0]
        raise InputError(
            f"site {site.name!r}: row {row}, column {column} is {site.X[row, column]}; finite numbers are wanted: "
            "impute, or drop the row"
        )
    without = len(site) - int(site.has_label.sum())
    if without:
        raise InputError(
            f"site {site.name!r}: {without} of {len(site)} rows have no label, which this method cannot use: label "
            "them, leave them out with drop_unlabelled, or let XCLP find their labels"
        )
    names, counts = np.unique(site.y.astype(str), return_counts=True)
    few = [f"{name!r} ({n})" for name, n in zip(names.tolist(), counts, strict=True) if n < least_points]
    if few:
        raise InputError(
            f"site {site.name!r} has classes with fewer than {least_points} rows: {', '.join(few)}; what so few "
            "rows send is the patients themselves: merge or drop these classes (or lower least_points knowingly)"
        )
    return list(names.tolist())
