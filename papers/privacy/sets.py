"""The data sets of the privacy tables, in units that follow from what is known of the columns, not from the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import fedgeom
from papers.common import Floats, Labels, load_data

NORMAL = {
    "age_y": (65, 15),
    "heartrate": (90, 30),
    "meanbp": (80, 30),
    "respiratoryrate": (20, 10),
    "temperature": (36.5, 1),
    "motor": (6, 2),
    "verbal": (5, 2),
    "eyes": (4, 2),
    "sodium": (138, 6),
    "creatinine": (1, 1.5),
    "bun": (20, 20),
    "wbc": (10, 8),
    "hematocrit": (35, 8),
    "albumin": (3.5, 0.8),
    "vent": (0, 1),
    "metastaticcancer": (0, 1),
}
"""For columns of intensive care: a usual value, and how much is much. A gap counts as the usual value."""


@dataclass(frozen=True)
class Case:
    """Rows by site, rows to test on, and the settings that were chosen for them on other seeds."""

    title: str
    train: list[fedgeom.SiteData]
    test: tuple[Floats, Labels]
    moments: dict[str, Any]
    fedavg: dict[str, Any]
    metric: str = "accuracy"

    @property
    def classes(self) -> tuple[str, ...]:
        """The label names, which the terms have to say."""
        return tuple(sorted({str(name) for site in self.train for name in site.classes.tolist()}))


def _parted(sites: list[fedgeom.SiteData], seed: int) -> tuple[list[fedgeom.SiteData], tuple[Floats, Labels]]:
    """Part each site's rows: a quarter to test on, by the seed."""
    rng = np.random.default_rng([seed, 7])
    train, test = zip(*(fedgeom.holdout(site, 0.25, rng) for site in sites), strict=True)
    return list(train), (np.vstack([one.X for one in test]), np.concatenate([one.y for one in test]))


def hospitals(seed: int) -> Case:
    """Return T cells of five hospitals; channels of the instrument, 0 … 4095, go to -2 … 2."""
    data = fedgeom.load_set("hipc")
    whole = [
        fedgeom.SiteData(
            one.name, (np.vstack([one.X, two.X]) - 2048) / 1024, np.concatenate([one.y, two.y]).astype(str)
        )
        for one, two in zip(data.train, data.test, strict=True)
    ]
    train, test = _parted(whole, seed)
    return Case(
        "T cells, 5 hospitals", train, test, {"clip": 3.5}, {"clip": 2.0, "learning_rate": 6.0, "n_rounds": 30}
    )


def eicu(seed: int) -> Case:
    """Return intensive care stays by region, and whether patients died; one stay of each patient."""
    data = load_data("eicu_demo_186hospitals.npz")
    names = [str(name) for name in data["feature_names"]]
    columns = [(data["X"][:, names.index(name)] - centre) / much for name, (centre, much) in NORMAL.items()]
    X = np.clip(np.nan_to_num(np.column_stack(columns).astype(np.float64), nan=0.0), -3, 3)
    _, first = np.unique(data["patient"], return_index=True)
    one_each = np.isin(np.arange(len(X)), first) & (data["y_hosp_mort"] >= 0)
    y: Labels = np.where(data["y_hosp_mort"] > 0, "died", "lived")
    sites = []
    for at, name in enumerate(data["region_names"]):
        own = one_each & (data["region"] == at)
        if own.sum() >= 100:
            sites.append(fedgeom.SiteData(str(name), X[own], y[own]))
    train, test = _parted(sites, seed)
    settings = {"clip": 3.0, "learning_rate": 6.0, "n_rounds": 15}
    return Case("eICU, 5 regions", train, test, {"clip": 3.0, "rule": "centroid"}, settings, metric="AUC")


def fashion(seed: int, rows: int = 20_000) -> Case:
    """Return images of Fashion-MNIST, dealt to ten sites, in pixels of 2 × 2, from -0.3 to 0.7."""
    data = load_data("fashion_mnist.npz")
    kept = np.random.default_rng([seed, 8]).permutation(60_000)[:rows]

    def small(images: Any) -> Floats:
        pooled = images.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)) / 255 - 0.3
        return np.asarray(pooled.reshape(len(images), 196), np.float64)

    X, y = small(data["X_train"][kept]), data["y_train"][kept].astype(str)
    train = fedgeom.split(X, y, n_sites=10, seed=seed)
    test = small(data["X_test"]), data["y_test"].astype(str)
    settings = {"clip": 4.0, "learning_rate": 1.0, "n_rounds": 20}
    return Case("Fashion-MNIST, 10 sites", train, test, {"clip": 4.0, "rule": "centroid"}, settings)


SETS: dict[str, Callable[[int], Case]] = {"hospitals": hospitals, "eicu": eicu, "fashion": fashion}
