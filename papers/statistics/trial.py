"""The International Stroke Trial's main results, from secure sums over its hospitals.

    python papers/statistics/trial.py            # writes results/trial.{json,md}
    python papers/statistics/trial.py --quick --json    # over countries only; writes nothing

The trial (International Stroke Trial Collaborative Group, Lancet 1997; 349: 1569-81) compared aspirin with no aspirin,
and heparin with none, in 19,435 patients. Its proportions and differences are those of `Regression(treatment=…)`, whose
rows stay at the hospitals: once by country, once at the 188 hospitals with thirty patients or more.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import fedgeom
from fedgeom import SiteData

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import Floats, Results, finish, parser, table
from papers.statistics.sets import large, stroke_columns, trial

RESULTS = Results(Path(__file__).parent / "results")
PUBLISHED = {
    "aspirin: death within 14 days": "9.0 % against 9.4 %",
    "aspirin: dead or dependent at 6 months": "62.2 % against 63.5 %; 13 (SD 7) fewer per 1,000, 2p = 0.07",
    "aspirin: dead or dependent at 6 months, adjusted": "14 (SD 6) fewer per 1,000, 2p = 0.03",
    "heparin: death within 14 days": "9.0 % against 9.3 %",
    "heparin: dead or dependent at 6 months": "62.9 % against 62.9 %",
}
"""What the paper's abstract says."""
ADJUSTED = ("age", "pressure", "delay", "male", "drowsy", "unconscious", "fibrillation", "infarct seen")
ADJUSTED += ("PACS", "POCS", "OTH", "TACS", "RDEF1 yes", "RDEF2 yes", "RDEF3 yes", "RDEF4 yes")


def outcomes(z: Mapping[str, Any]) -> dict[str, tuple[np.ndarray, Floats]]:
    """Return for each outcome which patients it is known of, and 0 or 1 for these."""
    early = np.isin(z["dead14"], ["Y", "N"])
    late = np.isin(z["outcome6"], [1, 2, 3, 4])
    return {
        "death within 14 days": (early, (z["dead14"][early] == "Y").astype(float)),
        "dead or dependent at 6 months": (late, (z["outcome6"][late] <= 2).astype(float)),
    }


def sites_of(X: Floats, y: Floats, of: np.ndarray, columns: tuple[str, ...]) -> list[SiteData]:
    """Return the sites, one for each name."""
    found = []
    for name in np.unique(of[of != ""]).tolist():
        at = of == name
        found.append(SiteData(name, X[at], y[at].astype(int), {"outcome": y[at]}, columns=columns))
    return found


def measure(question: str, by: str) -> dict[str, Any]:
    """Return the two proportions, their difference and its p value, by secure sums."""
    z = trial()
    treatment, _, rest = question.partition(": ")
    what, _, adjusted = rest.partition(", adj")
    known, y = outcomes(z)[what]
    columns = stroke_columns({name: one[known] for name, one in z.items()})
    columns["heparin"] = np.maximum(columns["heparin low"], columns["heparin medium"])
    names = (treatment, *(ADJUSTED if adjusted else ()))
    of = large(z["country"][known], 1) if by == "country" else large(z["hospital"][known], 30)
    sites = sites_of(np.column_stack([columns[name] for name in names]), y, of, names)
    run = fedgeom.run(fedgeom.Regression(treatment=treatment, heterogeneity=False), sites)
    found = {str(name): one for name, *one in run.model.effect_rows()}
    return {
        "sites": len(sites),
        "rows": sum(map(len, sites)),
        "lost": len(run.lost),
        "treated": found["treated"][0],
        "untreated": found["untreated"][0],
        "difference": found["difference"][0],
        "se": found["difference"][1],
        "p": found["difference"][4],
    }


def page(found: Mapping[str, Any]) -> str:
    """Return the page of the figures."""
    head = ["comparison", "published", "by", "sites", "patients", "sites lost", "treated", "not"]
    head += ["difference per 1,000 (error)", "p"]
    lines = [
        [
            question,
            PUBLISHED[question],
            by,
            f"{one['sites']}",
            f"{one['rows']:,}",
            f"{one['lost']}",
            f"{one['treated']:.1%}",
            f"{one['untreated']:.1%}",
            f"{1000 * one['difference']:+.1f} ({1000 * one['se']:.1f})",
            f"{one['p']:.3f}",
        ]
        for question, ways in found.items()
        for by, one in ways.items()
    ]
    said = (
        "`Regression(treatment=…)` through secure sums; proportions are standardised over all rows, errors robust. "
        "Made "
        "by `python papers/statistics/trial.py`. Patients whose outcome is unknown are left out. Recurrent strokes are "
        "not among the columns of the file."
    )
    return "\n".join(["# The International Stroke Trial's results", "", said, "", *table(head, lines), ""])


def main() -> None:
    """Make the table."""
    options = parser(__doc__, PUBLISHED).parse_args()
    ways = ["country"] if options.quick else ["country", "hospital"]
    found = {}
    for question in options.only[: 1 if options.quick else None]:
        found[question] = {by: measure(question, by) for by in ways}
        print(question, found[question], flush=True)
    finish(options, RESULTS, "trial", found, PUBLISHED, page)


if __name__ == "__main__":
    main()
