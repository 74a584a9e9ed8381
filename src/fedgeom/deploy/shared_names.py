"""Which method is right where one label name means one thing everywhere: by rows of a class for each column.

`Moments` learns a covariance of each class, which takes several rows for each column; where there are fewer, `Ridge`,
which has one set of weights for all rows, does better, with classes balanced so that rare ones are not lost. Chosen and
measured on real sets by ``benchmarks/default_method.py``; docs/choosing.md has the figures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from fedgeom.data.sites import SiteData
from fedgeom.federation.method import METHODS
from fedgeom.methods.ridge.settings import RidgeSettings

ROWS_PER_COLUMN = 3
"""With fewer rows of the median class for each column, a covariance of its own is not worth having."""
WIDEST = RidgeSettings.max_features
"""The most columns that Ridge takes as they are."""


@dataclass(frozen=True)
class Suited:
    """A method that suits sites, with the settings that their tables ask for, and why it does."""

    method: str
    settings: dict[str, Any] = field(default_factory=dict)
    reason: str = ""


def for_shared_names(
    sites: Sequence[SiteData], said: Mapping[str, Any], *, in_disc: bool, prepared: bool = False
) -> Suited:
    """Return the method for sites that share their label names; ``said`` are the settings that a file has.

    Settings that only one of the methods knows mean that one. How many columns are left of rows that are ``prepared``
    first is not known here: then it is Moments.
    """
    counts: Counter[str] = Counter()
    for site in sites:
        counts.update(site.class_counts())
    rows, columns = int(median(counts.values())) if counts else 0, sites[0].shape[1]
    known = {name: set(METHODS.find(name).__dataclass_fields__) for name in ("moments", "ridge")}
    meant = [
        name for name, own in known.items() if any(key in own and key not in _other(known, name) for key in said)
    ]
    few = rows < ROWS_PER_COLUMN * columns and not prepared
    method = meant[0] if len(meant) == 1 else "ridge" if few and not in_disc else "moments"
    if method == "ridge":
        why = f"the median class has {rows:,} rows for {columns:,} columns, too few for a covariance of its own"
        wide = columns > WIDEST  # Fourier features are as many whatever the columns
        return Suited(method, {"balanced": True} | ({"features": "fourier"} if wide else {}), "" if meant else why)
    why = f"the median class has {rows:,} rows, enough for a covariance of its own over {columns:,} columns"
    return Suited(method, {} if in_disc else {"space": "euclidean"}, "" if meant or in_disc or prepared else why)


def _other(known: Mapping[str, set[str]], name: str) -> set[str]:
    """Return the settings of the other methods."""
    return set().union(*(own for other, own in known.items() if other != name))
