"""Equal to a fit of all rows in one place: `Regression` through secure sums beside statsmodels.

    python papers/statistics/equal.py                    # all sets; writes results/equal.{json,md}
    python papers/statistics/equal.py --only eICU        # one set; those in the results stay as they are
    python papers/statistics/equal.py --quick --json     # one set in one partition; writes nothing

Every run goes through the secure protocol. Sites have no floors (`Policy()`), so that no column is left out. Seconds
are processor time of one process that plays all sites and the coordinator, beside those of one fit by statsmodels.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import fedgeom

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import Results, finish, parser, table
from papers.statistics.sets import SETS, Table

RESULTS = Results(Path(__file__).parent / "results")


def pooled(rows: Table, places: np.ndarray, groups: np.ndarray) -> dict[str, Any]:
    """Return what statsmodels finds on all rows: coefficients, errors, errors by site, seconds."""
    import statsmodels.api as sm  # for this comparison only: pip install statsmodels

    X = sm.add_constant(rows.X[places], has_constant="add")
    families = {
        "binomial": sm.families.Binomial(),
        "poisson": sm.families.Poisson(),
        "gamma": sm.families.Gamma(link=sm.families.links.Log()),
    }
    # Standardised, as statsmodels' least squares lose digits of columns such as squares of ages.
    centre, spread = X[:, 1:].mean(axis=0), X[:, 1:].std(axis=0)
    Z = np.column_stack([np.ones(len(X)), (X[:, 1:] - centre) / spread])
    offset = None if rows.offset is None else rows.offset[places]
    model = sm.GLM(rows.y[places], Z, family=families[rows.family], offset=offset)
    begun = time.process_time()
    fitted = model.fit(tol=1e-14, maxiter=100)
    seconds = time.process_time() - begun
    scores = model.score_factor(fitted.params, scale=1.0)[:, None] * Z
    totals = np.array([scores[groups == at].sum(axis=0) for at in np.unique(groups)])
    count = len(totals) / (len(totals) - 1) * (len(Z) - 1) / (len(Z) - Z.shape[1])
    # By the expected information, as ours: statsmodels' own take the observed one where the link is not canonical.
    by_site = count * fitted.normalized_cov_params @ totals.T @ totals @ fitted.normalized_cov_params
    T = np.diag(np.concatenate([[1.0], 1 / spread]))
    T[0, 1:] = -centre / spread

    def errors(covariance: np.ndarray) -> np.ndarray:
        return np.sqrt(np.diag(T @ covariance @ T.T))

    found = {"coef": T @ fitted.params, "se": errors(fitted.cov_params()), "cluster": errors(by_site)}
    return found | {"seconds": seconds}


def measure(rows: Table, partition: str) -> dict[str, float]:
    """Return how far a secure run is from the pooled fit, and what it takes."""
    sites, places = rows.sites(partition)
    groups = np.concatenate([np.full(len(site), at) for at, site in enumerate(sites)])
    theirs = pooled(rows, places, groups)
    method = fedgeom.Regression(family=rows.family, errors="cluster", offset=rows.offset is not None)
    begun = time.process_time()
    run = fedgeom.run(method, sites)
    seconds = time.process_time() - begun
    model = run.model
    by_site = np.sqrt(np.diag(model.cluster)) if model.cluster.size else np.zeros(0)  # few sites: none are told
    sums = sum(one[2] for one in run.ledger.summary() if one[1] == "sum.masked") / len(sites)
    return {
        "sites": len(sites),
        "rows": len(places),
        "coefficients": int(model.statistics["coefficients"]),
        "lost": len(run.lost),
        "coef": float(np.max(np.abs(model.coefficients / theirs["coef"] - 1))),
        "coef_in_se": float(np.max(np.abs(model.coefficients - theirs["coef"]) / theirs["se"])),
        "se": float(np.max(np.abs(model.errors_of("model")[0] / theirs["se"] - 1))),
        "cluster": float(np.max(np.abs(by_site / theirs["cluster"] - 1))) if by_site.size else None,
        "sums": round(sums),
        "seconds": round(seconds, 2),
        "pooled_seconds": round(theirs["seconds"], 3),
    }


def page(found: Mapping[str, Any]) -> str:
    """Return the page of the figures."""
    head = [
        "set",
        "partition",
        "sites",
        "rows",
        "coefficients",
        "sites lost",
        "coefficients differ by",
        "in errors",
    ]
    head += ["errors", "errors by site", "secure sums", "processor seconds", "pooled fit"]
    lines = []
    for name, parts in found.items():
        for partition, one in parts.items():
            counts = [f"{one['sites']}", f"{one['rows']:,}", f"{one['coefficients']}", f"{one['lost']}"]
            gaps = [
                "–" if one[key] is None else f"{one[key]:.0e}" for key in ("coef", "coef_in_se", "se", "cluster")
            ]
            costs = [f"{one['sums']}", f"{one['seconds']:.1f}", f"{one['pooled_seconds']:.2f}"]
            lines.append([name, partition, *counts, *gaps, *costs])
    said = (
        "Largest difference over all coefficients between `Regression` through secure sums and statsmodels' GLM on all "
        "rows in one place: relative, and in standard errors; of standard errors, relative. Made by "
        "`python papers/statistics/equal.py`."
    )
    return "\n".join(["# Equal to the pooled fit", "", said, "", *table(head, lines), ""])


def main() -> None:
    """Make the table."""
    options = parser(__doc__, SETS).parse_args()
    found: dict[str, dict[str, Any]] = {}
    wanted = options.only or list(SETS)
    for name in [next(iter(SETS))] if options.quick else wanted:
        rows = SETS[name]()
        parts = ["12 random parts"] if options.quick else list(rows.by)
        found[name] = {}
        for partition in parts:
            found[name][partition] = measure(rows, partition)
            print(name, partition, found[name][partition], flush=True)
    finish(options, RESULTS, "equal", found, SETS, page)


if __name__ == "__main__":
    main()
