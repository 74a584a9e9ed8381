"""The International Stroke Trial's published results, anew: each from secure sums over countries, hospitals or parts.

    python papers/statistics/ist.py                 # results/ist.{json,md}
    python papers/statistics/ist.py --only aspirin  # one treatment; the other in the results stays as it is
    python papers/statistics/ist.py --quick --json  # aspirin and deaths within 14 days, by country; writes nothing

Published are the shares with an event among those allocated to the treatment and those who were not (Lancet 1997; 349:
1569-81). `Regression(treatment=…)` gives both from its coefficients, with the interval of their difference: for the
treatment alone, and standardised over age, sex, consciousness, fibrillation and kind of stroke. Recurrent strokes are
not among our data. Countries are as strict as a site's template (`StrictPolicy`); the other partitions have no floors.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import fedgeom
from fedgeom import SiteData
from fedgeom.federation.policy import Policy, StrictPolicy

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import Floats, Results, finish, parser, table
from papers.statistics.sets import at_random, large, stroke_columns, trial

RESULTS = Results(Path(__file__).parent / "results")
BASELINE = ("age", "male", "drowsy", "unconscious", "fibrillation", "TACS")
DEAD, DEPENDENT = "dead within 14 days", "dead or dependent after six months"
PUBLISHED = {
    "aspirin": {DEAD: (9.0, 9.4), DEPENDENT: (62.2, 63.5)},
    "heparin": {DEAD: (9.0, 9.3), DEPENDENT: (62.9, 62.9)},
}
"""Per cent of those allocated to the treatment, and of the others."""


def outcomes(z: Mapping[str, np.ndarray]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return for each outcome which patients have it, and of whom it is known."""
    six, died, days = z["outcome6"], z["died"] == 1, z["time_days"]
    return {
        DEAD: (died & (days <= 14), ~(died & np.isnan(days))),
        DEPENDENT: (np.isin(six, [1, 2]), np.isin(six, [1, 2, 3, 4])),
    }


def columns_of(z: dict[str, np.ndarray]) -> dict[str, Floats]:
    """Return the treatments and the baseline, as numbers."""
    found = stroke_columns(z)
    found["heparin"] = (z["RXHEP"] != "N").astype(float)
    return {name: found[name] for name in ("aspirin", "heparin", *BASELINE)}


def partitions(z: Mapping[str, np.ndarray]) -> dict[str, tuple[np.ndarray, Policy]]:
    """Return for each partition the site of each row, "" where it is left out, and how strict sites are."""
    return {
        "36 countries, strict": (z["country"].astype(str), StrictPolicy()),
        "188 hospitals of 30 patients and more": (large(z["hospital"], 30), Policy()),
        "60 random parts": (at_random(len(z["SEX"]), 60, 1), Policy()),
    }


def effect(
    X: Floats, y: np.ndarray, of: np.ndarray, names: tuple[str, ...], treatment: str, policy: Policy
) -> dict[str, Any]:
    """Return the shares with and without the treatment in per cent, the interval of their difference, and the cost."""
    sites = [
        SiteData(name, X[at], y[at].astype(int), {"outcome": y[at].astype(float)}, columns=names)
        for name in np.unique(of[of != ""]).tolist()
        for at in [np.flatnonzero(of == name)]
    ]
    run = fedgeom.run(fedgeom.Regression(treatment=treatment), sites, policy=policy)
    said = run.model.standardised_effect()
    difference = said.loc["difference"]
    counts = sum(one[2] for one in run.ledger.summary() if one[1] == "sum.masked") / len(sites)
    return {
        "sites": len(sites),
        "rows": sum(map(len, sites)),
        "lost": len(run.lost),
        "columns": int(run.model.statistics["coefficients"]) - 1,
        "sums": round(counts),
        "treated": 100 * float(said.loc["treated", "estimate"]),
        "others": 100 * float(said.loc["untreated", "estimate"]),
        "difference": [100 * float(difference[key]) for key in ("estimate", "low", "high")],
        "p": float(difference["p"]),
    }


def measure(
    treatment: str, z: dict[str, np.ndarray], wanted: tuple[str, ...], parts: tuple[str, ...]
) -> dict[str, Any]:
    """Return the effects of a treatment on outcomes, for the treatment alone and with the baseline."""
    X = columns_of(z)
    found: dict[str, Any] = {}
    for outcome in wanted:
        y, known = outcomes(z)[outcome]
        for names in ((treatment,), (treatment, *BASELINE)):
            rows = np.column_stack([X[name] for name in names])
            for part, (of, policy) in partitions(z).items():
                if part in parts:
                    key = f"{outcome} | {'alone' if len(names) == 1 else 'standardised'} | {part}"
                    found[key] = effect(rows[known], y[known], of[known], names, treatment, policy)
                    print(treatment, key, found[key], flush=True)
    return found


def page(found: Mapping[str, Any]) -> str:
    """Return the page of the figures."""
    head = ["treatment", "outcome", "", "sites", "patients", "treated, %", "others, %", "published"]
    head += ["difference, points", "p", "secure sums", "sites lost"]
    lines = []
    for treatment, cells in found.items():
        for key, one in cells.items():
            outcome, way, part = key.split(" | ")
            published = PUBLISHED[treatment][outcome] if way == "alone" else None
            said = "" if published is None else f"{published[0]:.1f}, {published[1]:.1f}"
            low, high = one["difference"][1:]
            lines.append(
                [
                    treatment,
                    outcome,
                    f"{way}, {part}",
                    f"{one['sites']}",
                    f"{one['rows']:,}",
                    f"{one['treated']:.2f}",
                    f"{one['others']:.2f}",
                    said,
                    f"{one['difference'][0]:+.2f} [{low:+.2f}, {high:+.2f}]",
                    f"{one['p']:.2g}",
                    f"{one['sums']}",
                    f"{one['lost']}",
                ]
            )
    said = (__doc__ or "").split("\n\n")[-1].strip()
    return "\n".join(["# The International Stroke Trial anew", "", said, "", *table(head, lines), ""])


def main() -> None:
    """Make the table."""
    options = parser(__doc__, PUBLISHED).parse_args()
    z = trial()
    parts = tuple(partitions(z))
    found = {}
    for name in options.only or list(PUBLISHED):
        if options.quick:
            found[name] = measure(name, z, (DEAD,), parts[:1])
            break
        found[name] = measure(name, z, (DEAD, DEPENDENT), parts)
    finish(options, RESULTS, "ist", found, PUBLISHED, page)


if __name__ == "__main__":
    main()
