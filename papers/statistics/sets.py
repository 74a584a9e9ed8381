"""The data of the statistics: the International Stroke Trial, TCGA's breast cancers, eICU's stays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedgeom import SiteData
from papers.common import Floats, load_data

SYMPTOMS = tuple(f"RDEF{at}" for at in (1, 2, 3, 4, 5, 6, 8))
"""Without RDEF7, which with POCS separates deaths: of 89 patients with the one and not the other none died."""


@dataclass(frozen=True)
class Table:
    """Rows in one place, and the ways in which they are parted."""

    family: str
    X: Floats
    y: Floats
    columns: tuple[str, ...]
    by: dict[str, np.ndarray]
    """For each partition the site of each row; "" leaves the row out."""
    offset: Floats | None = None

    def sites(self, partition: str) -> tuple[list[SiteData], np.ndarray]:
        """Return the sites of a partition, and the places of their rows, one site after the other."""
        of = self.by[partition]
        found = []
        places = []
        for name in np.unique(of[of != ""]).tolist():
            at = np.flatnonzero(of == name)
            flags = self.y[at].astype(int) if self.family == "binomial" else np.zeros(len(at), int)
            extra = {"outcome": self.y[at]} | ({} if self.offset is None else {"offset": self.offset[at]})
            found.append(SiteData(name, self.X[at], flags, extra, columns=self.columns))
            places.append(at)
        return found, np.concatenate(places)


def large(names: np.ndarray, least: int) -> np.ndarray:
    """Return names, "" where fewer rows than ``least`` have one."""
    known, back, counts = np.unique(names.astype(str), return_inverse=True, return_counts=True)
    return np.where(counts[back] >= least, known[back], "")


def at_random(rows: int, sites: int, seed: int) -> np.ndarray:
    """Return a random site for each row; sites differ in size."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(sites, 3.0))
    return rng.choice([f"part-{at:03d}" for at in range(sites)], rows, p=shares)


def independent(X: Floats, order: np.ndarray) -> list[int]:
    """Return the columns, in this order, of which none follows from those before it and a constant."""
    X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12)
    kept: list[int] = []
    for at in order.tolist():
        tried = np.column_stack([np.ones(len(X)), X[:, [*kept, at]]])
        if np.linalg.matrix_rank(tried, tol=1e-6 * np.sqrt(len(X))) == len(kept) + 2:
            kept.append(at)
    return kept


def trial() -> dict[str, np.ndarray]:
    """Return the trial's columns."""
    file = load_data("ist_466hospitals.npz")
    return {name: file[name] for name in file.files}


def stroke_columns(z: dict[str, np.ndarray]) -> dict[str, Floats]:
    """Return 39 columns of numbers: treatments, baseline, squares and a product."""
    yes = {
        "aspirin": z["RXASP"] == "Y",
        "heparin low": z["RXHEP"] == "L",
        "heparin medium": np.isin(z["RXHEP"], ["M", "H"]),
        "male": z["SEX"] == "M",
        "drowsy": z["RCONSC"] == "D",
        "unconscious": z["RCONSC"] == "U",
        "asleep": z["RSLEEP"] == "Y",
        "fibrillation": z["RATRIAL"] == "Y",
        "CT": z["RCT"] == "Y",
        "infarct seen": z["RVISINF"] == "Y",
        "heparin before": z["RHEP24"] == "Y",
        "aspirin before": z["RASP3"] == "Y",
    }
    for name in SYMPTOMS:
        yes |= {f"{name} yes": z[name] == "Y", f"{name} unknown": z[name] == "C"}
    yes |= {name: z["STYPE"] == name for name in ("PACS", "POCS", "OTH", "TACS")}
    found = {name: one.astype(float) for name, one in yes.items()}
    age, pressure, delay = (z[name].astype(float) for name in ("AGE", "RSBP", "RDELAY"))
    found |= {"age": age, "pressure": pressure, "delay": delay}
    found |= {
        "age²": age**2,
        "pressure²": pressure**2,
        "delay²": delay**2,
        "aspirin × age": found["aspirin"] * age,
    }
    found |= {"aspirin × delay": found["aspirin"] * delay, "aspirin × pressure": found["aspirin"] * pressure}
    return found


def stroke() -> Table:
    """Return deaths within 14 days, by 39 columns: a logistic model of 40 coefficients."""
    z = trial()
    known = np.isin(z["dead14"], ["Y", "N"])
    columns = {name: one[known] for name, one in stroke_columns(z).items()}
    rows = int(known.sum())
    by = {
        "36 countries": large(z["country"][known], 1),
        "188 hospitals of 30 patients and more": large(z["hospital"][known], 30),
        "12 random parts": at_random(rows, 12, 0),
        "60 random parts": at_random(rows, 60, 1),
    }
    y = (z["dead14"][known] == "Y").astype(float)
    return Table("binomial", np.column_stack(list(columns.values())), y, tuple(columns), by)


def breast() -> Table:
    """Return deaths per time at risk, by columns that 100 patients have or lack: a Poisson model with an offset."""
    z = load_data("tcga_brca_6regions.npz")
    X = z["X"].astype(float)
    usual = np.array([np.unique(column, return_counts=True)[1].max() for column in X.T])
    kept = [at for at in independent(X, np.arange(X.shape[1])) if len(X) - usual[at] >= 100]
    time = np.maximum(z["time_days"].astype(float), 1.0)
    by = {"6 regions": z["site_names"][z["site"]].astype(str), "20 random parts": at_random(len(X), 20, 2)}
    names = tuple(z["feature_names"][kept].tolist())
    return Table("poisson", X[:, kept], z["event"].astype(float), names, by, np.log(time / 365.25))


def stays(outcome: str) -> Table:
    """Return eICU's stays: death in hospital, or days in intensive care; gaps have the column's median."""
    z = load_data("eicu_demo_186hospitals.npz")
    X = z["X"][:, :-3].astype(float)
    kept = np.flatnonzero(np.isfinite(X).mean(axis=0) > 0.8)
    X = X[:, kept]
    X = np.where(np.isfinite(X), X, np.nanmedian(X, axis=0))
    usual = np.array([np.unique(column, return_counts=True)[1].max() for column in X.T])
    chosen = [at for at in independent(X, np.arange(X.shape[1])) if len(X) - usual[at] >= 60]
    X, kept = X[:, chosen], kept[chosen]
    days = z["icu_los_days"].astype(float)
    fits = np.isfinite(days) & (days > 0) & (z["y_hosp_mort"] >= 0)
    y = z["y_hosp_mort"].astype(float) if outcome == "died" else days
    by = {
        "5 regions": z["region_names"][z["region"][fits]].astype(str),
        "hospitals of 20 stays and more": large(z["hospital"][fits], 20),
        "25 random parts": at_random(int(fits.sum()), 25, 3),
    }
    names = tuple(z["feature_names"][kept].tolist())
    return Table("binomial" if outcome == "died" else "gamma", X[fits], y[fits], names, by)


SETS = {
    "IST, death within 14 days": stroke,
    "TCGA, deaths per year": breast,
    "eICU, death in hospital": lambda: stays("died"),
    "eICU, days in intensive care": lambda: stays("days"),
}
