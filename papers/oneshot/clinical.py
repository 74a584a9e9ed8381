"""Clinical tables as hospitals have them, gaps and categories included: one run of Ridge with prepare = "table".

    python papers/oneshot/clinical.py                   # all sets, ten seeds; writes results/clinical.{json,md}
    python papers/oneshot/clinical.py --only heart      # one set; those in the results stay as they are
    python papers/oneshot/clinical.py --seeds 3         # fewer seeds
    python papers/oneshot/clinical.py --quick --json    # one seed of the heart patients; writes nothing

Each site keeps a quarter of its rows aside, class by class. What is said of them comes from the secure sum of the run's
test; "pooled" is logistic regression on all sites' rows, prepared by the same steps in one place, "alone" the same on
each site's rows alone. No setting was chosen on these rows: Ridge has its defaults but for balanced classes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fedgeom
from fedgeom.data.frames import as_codes
from fedgeom.preparation import Impute, OneHot, Scale

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import Labels, Results, figure, load_data, parser, plus_minus, print_json, table

RESULTS = Results(Path(__file__).parent / "results")
SCORES = 3
"""The last columns of the intensive care table are clinical scores of others, and are left out."""
MODELS = {
    "own": "Ridge, federated",
    "pooled": "pooled rows",
    "local": "each site alone",
    "majority": "majority class",
}
METRICS = {"auc": "AUC", "balanced_accuracy": "balanced accuracy"}


def heart() -> tuple[list[fedgeom.SiteData], tuple[str, ...]]:
    """Return the four hospitals' heart patients; five columns are codes."""
    data = load_data("heart_disease_4hospitals.npz")
    y = np.where(data["y"] > 0, "ill", "well")
    names = tuple(map(str, data["feature_names"]))
    sites = [
        fedgeom.SiteData(str(name), data["X"][data["site"] == at], y[data["site"] == at], columns=names)
        for at, name in enumerate(data["site_names"])
    ]
    return sites, ("cp", "restecg", "slope", "thal", "exang")


def eicu() -> tuple[list[fedgeom.SiteData], tuple[str, ...]]:
    """Return intensive care stays by region, without clinical scores; three columns hold words."""
    data = load_data("eicu_demo_186hospitals.npz")
    known = (data["y_hosp_mort"] >= 0) & (data["region"] >= 0)
    texts = {
        name: as_codes(np.append(data[f"{name}_names"], "").astype(str)[data[name]])
        for name in ("ethnicity", "unit_type", "admit_source")
    }
    X = np.column_stack([data["X"][:, :-SCORES], *(codes for codes, _ in texts.values())])
    names = (*map(str, data["feature_names"][:-SCORES]), *texts)
    words = {name: some for name, (_, some) in texts.items()}
    y: Labels = np.where(data["y_hosp_mort"] > 0, "died", "lived")
    sites = []
    for at, name in enumerate(data["region_names"]):
        own = known & (data["region"] == at)
        if own.sum() >= 100:
            groups = data["patient"][own].astype(str)
            sites.append(
                fedgeom.SiteData(
                    str(name) or "unknown", X[own], y[own], columns=names, groups=groups, categories=words
                )
            )
    return sites, ()


def tcga() -> tuple[list[fedgeom.SiteData], tuple[str, ...]]:
    """Return breast cancer patients by region; the event is whether they died while they were followed."""
    data = load_data("tcga_brca_6regions.npz")
    y = np.where(data["event"] > 0, "died", "lived")
    names = tuple(map(str, data["feature_names"]))
    sites = [
        fedgeom.SiteData(str(name), data["X"][data["site"] == at], y[data["site"] == at], columns=names)
        for at, name in enumerate(data["site_names"])
    ]
    return sites, ()


SETS: dict[str, Callable[[], tuple[list[fedgeom.SiteData], tuple[str, ...]]]] = {
    "heart": heart,
    "eicu": eicu,
    "tcga": tcga,
}
TITLES = {"heart": "heart disease, 4 hospitals", "eicu": "eICU, regions", "tcga": "TCGA-BRCA, 6 regions"}


def measure(name: str, seeds: int) -> dict[str, Any]:
    """Run one set with some seeds; return the figures of each model, in percent, and what the tables are like."""
    sites, codes = SETS[name]()
    steps = (OneHot(columns=codes or None), Impute(), Scale())  # the preset "table", with codes as categories
    method = fedgeom.Ridge(features="linear", prepare=steps, balanced=True)
    found: dict[str, dict[str, list[float]]] = {metric: {model: [] for model in MODELS} for metric in METRICS}
    features = 0
    for seed in range(seeds):
        run = fedgeom.run(method, sites, seed=seed, holdout=0.25)
        features = int(run.metrics["features"])
        for metric, by_model in found.items():
            for model, values in by_model.items():
                score = getattr(run.evaluation[model], metric) if model in run.evaluation else None
                if score is not None:
                    values.append(100 * score.value)
        print(f"{name}, seed {seed}: {run.evaluation!r}", flush=True)
    gaps = sum(int(np.isnan(site.X).sum()) for site in sites) / sum(site.X.size for site in sites)
    rows: dict[str, Any] = {
        metric: {model: figure(values) for model, values in by_model.items() if values}
        for metric, by_model in found.items()
    }
    return rows | {
        "sites": len(sites),
        "rows": sum(map(len, sites)),
        "columns": sites[0].shape[1],
        "features": features,
        "gaps": round(100 * gaps, 1),
    }


def page(results: dict[str, Any]) -> str:
    """Return the table in Markdown."""
    lines = ["# Clinical tables, gaps and categories as they are", ""]
    seeds = max(one["auc"]["own"]["n"] for one in results.values())
    lines += [
        f"`python papers/oneshot/clinical.py --seeds {seeds}`: seeds 0 to {seeds - 1}, means with 95 % intervals of "
        "the mean. Ridge weighs classes alike, its rivals (logistic regression) do not: compare them by AUC.",
        "",
    ]
    lines += table(
        ["set", "sites", "rows", "raw columns → features", "gaps", "", *MODELS.values()],
        [
            [
                TITLES[name],
                one["sites"],
                f"{one['rows']:,}",
                f"{one['columns']} → {one['features']}",
                f"{one['gaps']} %",
                f"{title} (n = {one[metric]['own']['n']})",
                *(plus_minus(one[metric][model], 1) if model in one[metric] else "–" for model in MODELS),
            ]
            for name, one in results.items()
            for metric, title in METRICS.items()
        ],
    )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Compute the sets that are asked for."""
    made = parser(__doc__, SETS)
    made.add_argument("--seeds", type=int, default=10, help="how many seeds (splits)")
    options = made.parse_args()
    if options.quick:
        print_json(options, {"heart": measure("heart", 1)})
        return
    found: dict[str, Any] = {}
    for name in options.only:
        found[name] = measure(name, options.seeds)
        RESULTS.keep("clinical", found, SETS, page)
    print_json(options, found)


if __name__ == "__main__":
    main()
