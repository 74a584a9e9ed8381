"""The sets of cells of the tables on maps, as counts or measurements at sites, and their components."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp

import fedgeom
from fedgeom.federation.steps import Step
from fedgeom.preparation import PCA, LogCounts, Scale, SelectVariable, fit_plain
from papers.common import Floats, Ints, Labels, load_data

COUNTS = (LogCounts(), SelectVariable(2000), Scale(), PCA(50))
SITES = 3
"""Where a set has no sites of its own, its rows are dealt to so many."""


@dataclass(frozen=True)
class Cells:
    """One set: rows as they come, classes, sites, the steps that prepare them, and a published map of them."""

    title: str
    X: Any
    y: Labels
    site: Ints
    steps: tuple[Step, ...]
    published: Floats | None = None

    def sites(self, rows: Ints | None = None) -> list[fedgeom.SiteData]:
        """Return the sites with their rows, or with some of them."""
        some = np.arange(len(self.y)) if rows is None else rows
        return [
            fedgeom.SiteData(
                f"site {at}", self.X[some[self.site[some] == at]], self.y[some[self.site[some] == at]]
            )
            for at in np.unique(self.site[some])
        ]


def _counts(z: Any) -> Any:
    shape = tuple(z["X_shape"])
    return sp.csr_array((z["X_data"].astype(float), z["X_indices"].astype("int32"), z["X_indptr"]), shape=shape)


def _dealt(rows: int) -> Ints:
    return np.random.default_rng(0).integers(SITES, size=rows)


def olsson() -> Cells:
    """Mouse blood formation, 382 cells of 9 types; no sites of its own."""
    z = load_data("olsson.npz")
    names = z["class_names"][z["y"]].astype(str)
    X = z["X"].astype(float)
    return Cells("Olsson, 9 types", X, names, _dealt(len(names)), (PCA(50),), z["poincare"])


def paul() -> Cells:
    """Mouse myeloid progenitors, 2,730 cells of 19 clusters; no sites of its own."""
    z = load_data("paul15.npz")
    names = z["class_names"][z["y"]].astype(str)
    return Cells("Paul, 19 clusters", _counts(z), names, _dealt(len(names)), COUNTS, z["poincare"])


def kang() -> Cells:
    """Blood of eight donors, 13,371 cells of 7 types."""
    z = load_data("kang_pbmc_8donors.npz")
    known = np.flatnonzero(z["y"] >= 0)
    names = z["class_names"][z["y"][known]].astype(str)
    return Cells("Kang, 7 types, 8 donors", _counts(z)[known], names, z["donor"][known].astype(int), COUNTS)


def lung() -> Cells:
    """Lungs of six donors in two atlases, 2,000 cells of 21 types."""
    z = load_data("lung_2atlases_6donors.npz")
    names = z["mid_names"][z["y_mid"]].astype(str)
    return Cells("lung, 21 types, 6 donors", _counts(z), names, z["donor"].astype(int), COUNTS)


def tcells() -> Cells:
    """T cells of five hospitals, 2,000 of each, 10 types, 7 markers."""
    z = load_data("hipc_tcell_5hospitals.npz")
    rng = np.random.default_rng(0)
    some = np.concatenate([rng.choice(np.flatnonzero(z["site"] == at), 2000, replace=False) for at in range(5)])
    names = z["class_names"][z["y"][some]].astype(str)
    return Cells(
        "T cells, 10 types, 5 hospitals",
        z["X"][some].astype(float),
        names,
        z["site"][some].astype(int),
        (Scale(),),
    )


def pbmc() -> Cells:
    """Blood by three technologies, 1,200 cells of 9 types, log-normalised."""
    z = load_data("pbmc_3tech_1200.npz")
    names = z["class_names"][z["y"]].astype(str)
    return Cells("PBMC, 9 types, 3 technologies", _counts(z), names, z["site"].astype(int), (Scale(), PCA(50)))


SETS: dict[str, Callable[[], Cells]] = {
    "olsson": olsson, "paul": paul, "kang": kang, "lung": lung, "tcells": tcells, "pbmc": pbmc,
}  # fmt: skip


@cache
def prepared(name: str) -> tuple[Cells, Floats]:
    """Return a set, and the components of all its rows, in their order."""
    cells = SETS[name]()
    fitted = fit_plain(cells.steps, cells.sites())
    return cells, fitted.rows(cells.X).astype(float)
