"""Equal to a fit of all rows in one place: `Cox` through secure sums beside statsmodels' PHReg.

    python papers/statistics/survival.py                 # all sets; writes results/survival.{json,md}
    python papers/statistics/survival.py --only TCGA     # one set; those in the results stay as they are
    python papers/statistics/survival.py --quick --json  # one set in one partition; writes nothing

Every run goes through the secure protocol. Three ways: exact times; strata that are sites; and intervals at sites as
strict as their template (`StrictPolicy`), of which is told how far they are from exact times.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import fedgeom
from fedgeom import SiteData
from fedgeom.errors import FedgeomError
from fedgeom.federation.policy import Policy, StrictPolicy

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import Floats, Results, finish, load_data, parser, table
from papers.statistics.sets import at_random, independent, large, stroke_columns, trial

RESULTS = Results(Path(__file__).parent / "results")
STROKE = ("aspirin", "age", "male", "drowsy", "unconscious", "fibrillation", "TACS")
BREAST = 5
"""So many columns of TCGA, the most even ones of which none follows from others."""


@dataclass(frozen=True)
class Times:
    """Rows in one place with times and events, and the ways in which they are parted."""

    X: Floats
    days: Floats
    event: np.ndarray
    columns: tuple[str, ...]
    by: dict[str, np.ndarray]
    """For each partition the site of each row; "" leaves the row out."""
    unit: float = 1.0

    def sites(self, partition: str) -> tuple[list[SiteData], np.ndarray, np.ndarray]:
        """Return the sites, the places of their rows, one site after the other, and the site of each."""
        of = self.by[partition]
        found = []
        places = []
        for name in np.unique(of[of != ""]).tolist():
            at = np.flatnonzero(of == name)
            extra = {"time": self.days[at], "event": self.event[at].astype(float)}
            found.append(SiteData(name, self.X[at], self.event[at].astype(int), extra, columns=self.columns))
            places.append(at)
        return found, np.concatenate(places), np.repeat(np.arange(len(places)), list(map(len, places)))


def stroke() -> Times:
    """Return the International Stroke Trial: days to death or last contact, by treatment and baseline."""
    z = trial()
    known = np.isfinite(z["time_days"]) & (z["time_days"] >= 0)
    columns = {name: one[known] for name, one in stroke_columns(z).items() if name in STROKE}
    by = {
        "36 countries": large(z["country"][known], 1),
        "188 hospitals of 30 patients and more": large(z["hospital"][known], 30),
        "12 random parts": at_random(int(known.sum()), 12, 0),
    }
    X = np.column_stack([columns[name] for name in STROKE])
    return Times(X, z["time_days"][known].astype(float), z["died"][known] > 0, STROKE, by)


def breast() -> Times:
    """Return TCGA's breast cancers: days to death or last contact, by the columns that are most even."""
    z = load_data("tcga_brca_6regions.npz")
    X = z["X"].astype(float)
    usual = np.array([np.unique(column, return_counts=True)[1].max() for column in X.T])
    kept = independent(X, np.argsort(usual, kind="stable"))[:BREAST]
    by = {"6 regions": z["site_names"][z["site"]].astype(str), "20 random parts": at_random(len(X), 20, 2)}
    names = tuple(z["feature_names"][kept].tolist())
    return Times(X[:, kept], z["time_days"].astype(float), z["event"] > 0, names, by)


def stays() -> Times:
    """Return eICU's stays: days in intensive care until death there; who leaves alive is censored."""
    z = load_data("eicu_demo_186hospitals.npz")
    X = z["X"][:, :-3].astype(float)
    kept = np.flatnonzero(np.isfinite(X).mean(axis=0) > 0.9)[:8]
    X = X[:, kept]
    X = np.where(np.isfinite(X), X, np.nanmedian(X, axis=0))
    days = z["icu_los_days"].astype(float)
    fits = np.isfinite(days) & (days > 0) & (z["y_icu_mort"] >= 0)
    hours = np.ceil(days[fits] * 24)
    by = {
        "5 regions": z["region_names"][z["region"][fits]].astype(str),
        "hospitals of 20 stays and more": large(z["hospital"][fits], 20),
    }
    names = tuple(z["feature_names"][kept].tolist())
    return Times(X[fits], hours, z["y_icu_mort"][fits] > 0, names, by)


SETS = {"TCGA, death": breast, "IST, death within six months": stroke, "eICU, death in intensive care": stays}


def pooled(
    rows: Times, places: np.ndarray, strata: np.ndarray | None, told: Any = slice(None)
) -> tuple[Floats, Floats, float]:
    """Return coefficients and errors that statsmodels finds on all rows, and its seconds; ``told``: the columns."""
    import statsmodels.api as sm  # for this comparison only: pip install statsmodels

    X = rows.X[places][:, told]
    spread = X.std(axis=0)
    Z = (X - X.mean(axis=0)) / spread
    status = rows.event[places].astype(int)
    begun = time.process_time()
    model = sm.PHReg(rows.days[places], Z, status=status, ties="efron", strata=strata)
    fitted = model.fit(disp=0, tol=1e-12)
    return fitted.params / spread, fitted.bse / spread, time.process_time() - begun


def measure(rows: Times, partition: str) -> dict[str, Any]:
    """Return how far secure runs are from the pooled fit, and what they take."""
    sites, places, of = rows.sites(partition)
    found: dict[str, Any] = {"sites": len(sites), "rows": len(places), "events": int(rows.event[places].sum())}
    exact = pooled(rows, places, None)
    ways = {
        "exact": (fedgeom.Cox(exact=True, unit=rows.unit), Policy(), exact),
        "strata": (fedgeom.Cox(stratify="site"), Policy(), pooled(rows, places, of)),
        "intervals, strict": (fedgeom.Cox(), StrictPolicy(min_rows_per_class=0), exact),
    }
    for name, (method, policy, (coef, se, pooled_seconds)) in ways.items():
        begun = time.process_time()
        try:
            run = fedgeom.run(method, sites, policy=policy)
        except FedgeomError as error:
            found[name] = {"refused": str(error).splitlines()[0]}
            continue
        seconds = time.process_time() - begun
        model = run.model
        told = model.states == 1
        errors = np.sqrt(np.diag(model.covariance))
        found[name] = {
            "lost": len(run.lost),
            "columns": int(told.sum()) if len(told) == len(coef) else -1,
            "sums": round(sum(one[2] for one in run.ledger.summary() if one[1] == "sum.masked") / len(sites)),
            "intervals": int(model.statistics.get("intervals", 0)),
            "grouping_error": model.statistics.get("grouping_error", 0.0),
            "seconds": round(seconds, 2),
            "pooled_seconds": round(pooled_seconds, 2),
        }
        if len(told) == len(coef):
            if not told.all():  # floors left some out: then of the same columns
                coef, se, _ = pooled(rows, places, None, told)
            else:
                coef, se = coef[told], se[told]
            found[name] |= {
                "coef_in_se": float(np.max(np.abs(model.coefficients[told] - coef) / se)),
                "se": float(np.max(np.abs(errors[told] / se - 1))),
            }
        if rows.columns[0] == "aspirin":
            hazard = model.summary(exponentiate=True).loc["aspirin"]
            found[name]["aspirin"] = [round(float(hazard[key]), 4) for key in ("coef", "low", "high")]
    return found


def page(found: Mapping[str, Any]) -> str:
    """Return the page of the figures."""
    head = ["set", "partition", "sites", "events", "way", "intervals", "coefficients differ by, in errors"]
    head += ["errors, relative", "told error of intervals", "secure sums", "processor seconds", "pooled fit"]
    lines = []
    for name, parts in found.items():
        for partition, one in parts.items():
            for way in ("exact", "strata", "intervals, strict"):
                got = one[way]
                begin = [name, partition, f"{one['sites']}", f"{one['events']:,}", way]
                if "refused" in got:
                    lines.append([*begin, "refused", *[""] * 6])
                    continue
                gaps = [f"{got[key]:.0e}" if key in got else "" for key in ("coef_in_se", "se")]
                told = f"{got['grouping_error']:.2g}" if way.startswith("intervals") else ""
                costs = [f"{got['sums']}", f"{got['seconds']:.1f}", f"{got['pooled_seconds']:.2f}"]
                lines.append([*begin, f"{got['intervals'] or ''}", *gaps, told, *costs])
    said = (
        "Largest difference over all coefficients between `Cox` through secure sums and statsmodels' PHReg on all rows "
        "in one place, in standard errors; and of standard errors, relative. Intervals at strict sites are compared "
        "with exact times. Made by `python papers/statistics/survival.py`."
    )
    return "\n".join(["# Proportional hazards, equal to the pooled fit", "", said, "", *table(head, lines), ""])


def main() -> None:
    """Make the table."""
    options = parser(__doc__, SETS).parse_args()
    found: dict[str, dict[str, Any]] = {}
    wanted = options.only or list(SETS)
    for name in [next(iter(SETS))] if options.quick else wanted:
        rows = SETS[name]()
        parts = ["6 regions"] if options.quick else list(rows.by)
        found[name] = {}
        for partition in parts:
            found[name][partition] = measure(rows, partition)
            print(name, partition, found[name][partition], flush=True)
    finish(options, RESULTS, "survival", found, SETS, page)


if __name__ == "__main__":
    main()
