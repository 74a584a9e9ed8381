"""Counts and figures to try tables on."""

from __future__ import annotations

import numpy as np

from fedgeom.evaluation.evaluation import Evaluation, evaluate
from fedgeom.protocols.evaluation import BINS, Counts, Tally


def tally(confusion: list[list[int]], scores: bool = True) -> Tally:
    """Return the counts of a model of two classes, its scores sure of what it says."""
    table = np.array(confusion, np.int64)
    histogram = np.zeros((2, BINS), np.int64)
    histogram[:, 0], histogram[:, -1] = table[:2, 0], table[:2, 1]
    return Tally(int(np.trace(table[:2, :2])), table, histogram if scores else None)


def counts(sites: int = 1) -> Counts:
    """Return 20 test rows of two classes: 12 of the first, 8 of the second; 14 are called rightly."""
    own = tally([[9, 3, 0], [2, 5, 1], [0, 0, 0]])
    alone = tally([[6, 6, 0], [4, 4, 0], [0, 0, 0]])
    return Counts(sites, np.array([36, 24, 0]), {"own": own, "joint": Tally.blank(2), "local": alone})


def few() -> Counts:
    """Return three test rows."""
    one = tally([[1, 1, 0], [0, 1, 0], [0, 0, 0]])
    return Counts(1, np.array([4, 4, 0]), {"own": one, "joint": Tally.blank(2), "local": one})


def figures(site: str = "North") -> Evaluation:
    """Return the figures of `counts`, at a site with enough rows, one with few and one without."""
    return evaluate(counts(2), ["no", "yes"], {site: counts(), "West": few(), "South": None})
