"""Tables as they come from hospitals, made from clean ones for demonstrations: gaps, words, other columns.

Nothing is invented but the faults: numbers are written with four digits, some are taken away, two columns become words,
every site has its columns in an order of its own, and one has a column that the others lack.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import numpy as np

from fedgeom.arrays import Floats
from fedgeom.data.sites import SiteData

GAPS = 0.06
"""The share of cells that are taken away."""
WORDS = ("low", "middle", "high")
LABEL, EXTRA = "diagnosis", "clerk"


def cuts_of(sites: Sequence[SiteData], columns: int = 2) -> dict[int, Floats]:
    """Return where the first columns are cut into low, middle and high, the same at all sites."""
    X = np.vstack([site.X for site in sites])
    return {at: np.quantile(X[:, at], [1 / 3, 2 / 3]) for at in range(min(columns, X.shape[1] - 1))}


def as_raw_text(site: SiteData, cuts: dict[int, Floats], rng: np.random.Generator, *, extra: bool = False) -> str:
    """Return a clean table as the text of a raw CSV file."""
    names = site.columns or tuple(f"measurement {at + 1}" for at in range(site.shape[1]))
    cells = np.array([[f"{value:.4g}" for value in row] for row in site.X.tolist()], object)
    for at, edges in cuts.items():
        cells[:, at] = np.array(WORDS, object)[np.searchsorted(edges, site.X[:, at])]
    cells[rng.random(cells.shape) < GAPS] = ""
    order = rng.permutation(len(names))
    header = [names[at] for at in order]
    found = [[*row, str(label)] for row, label in zip(cells[:, order].tolist(), site.y.tolist(), strict=True)]
    if extra:
        header, found = [EXTRA, *header], [[f"clerk {at % 2 + 1}", *row] for at, row in enumerate(found)]
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([[*header, LABEL], *found])
    return text.getvalue()
