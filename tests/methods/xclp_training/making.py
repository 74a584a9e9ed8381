"""Small sites of which few rows have a label, and settings that train them in a moment."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedgeom.data.sites import SiteData
from fedgeom.methods.xclp_training.method import XCLPTraining
from tests.methods.xclp.making import cones

ANCHORS: dict[str, Any] = {"name": "xclp", "n_anchors": 8, "steps": 2, "min_cell": 2}
PAIRS: dict[str, Any] = {"name": "xclp", "graph": "pairs", "hash_bits": 64, "hidden_projection": False}
MLP = {"name": "mlp", "features": 6, "hidden": 8}


def quick(**changes: Any) -> XCLPTraining:
    """Return a method of three short rounds, the first of them on labelled rows."""
    return XCLPTraining(
        **({"n_rounds": 3, "warmup_rounds": 1, "epochs": 2, "batch_size": 8, "labels": ANCHORS} | changes)
    )


def sites(n: int = 4, **options: Any) -> list[SiteData]:
    """Return cones of three classes, a third of the rows with labels."""
    return cones(n, **({"rows": 24, "labelled": 0.34} | options))


def without_labels(site: SiteData, rows: Any = slice(None)) -> SiteData:
    """Return a site of which some rows have lost their label."""
    y = site.y.copy()
    y[rows] = -1
    return SiteData(site.name, site.X, y, site.extra)


def right(model: Any, data: list[SiteData]) -> float:
    """Return the share of all rows that a model puts into their class."""
    return float(np.mean(np.concatenate([model.predict(s.X) == s.extra["truth"] for s in data])))
