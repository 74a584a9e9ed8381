"""Accuracy against ε, with differential privacy of single rows: Moments and FedAvg, through the secure sums.

    python papers/privacy/accuracy.py                   # all sets; writes results/accuracy.{json,md,png}
    python papers/privacy/accuracy.py --only eicu       # one set; those in the results stay as they are
    python papers/privacy/accuracy.py --quick --json    # one set, two ε, one seed; writes nothing

δ = 1e-5, one colluder, and ``min_sites`` is the number of sites. A quarter of each site's rows is tested on (of
Fashion-MNIST its own test images). Seeds 0 to 4 part the rows anew (of eICU, which has few, 0 to 19), and noise is new
in every run; ``clip``, rates and rounds were chosen on seed 100. ∞ is the same method without noise and without bounds.
FedAvg per row is logistic regression by gradient descent, one step over all rows a round.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

import fedgeom

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import Results, figure, parser, plus_minus, print_json, table
from papers.privacy.sets import SETS, Case

RESULTS = Results(Path(__file__).parent / "results")
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, float("inf"))
DELTA = 1e-5
POSITIVE = "died"
METHODS = ("Moments", "FedAvg")


def method_of(case: Case, name: str, epsilon: float) -> fedgeom.Method:
    """Return a method with the settings of a case; at ε = ∞ without noise and bounds."""
    settings = dict(case.moments if name == "Moments" else case.fedavg)
    clip = settings.pop("clip")
    settings |= {"classes": case.classes, "min_sites": len(case.train)}
    if np.isfinite(epsilon):
        settings["privacy"] = fedgeom.DP(epsilon=epsilon, delta=DELTA, clip=clip)
    if name == "Moments":
        return fedgeom.Moments(space="euclidean", **settings)
    return fedgeom.FedAvg(steps=1, batch_size=None, C=1e6, scale="none", **settings)


def score(case: Case, model: Any) -> float:
    """Return the share of right answers, or the area under the curve, in percent."""
    X, y = case.test
    if case.metric == "AUC":
        at = [str(name) for name in model.classes_].index(POSITIVE)
        return 100 * float(roc_auc_score(y == POSITIVE, model.predict_proba(X)[:, at]))
    return 100 * float(np.mean(model.predict(X).astype(str) == y))


def measure(name: str, seeds: int, epsilons: Sequence[float] = EPSILONS, rows: int = 0) -> dict[str, Any]:
    """Return what both methods reach on one set, by ε."""
    found: dict[str, dict[str, list[float]]] = {one: {str(e): [] for e in epsilons} for one in METHODS}
    case = None
    for seed in range(seeds):
        case = SETS[name](seed)
        if rows:
            case = replace(case, train=[site.take(np.arange(min(rows, len(site)))) for site in case.train])
        for method in METHODS:
            for epsilon in epsilons:
                run = fedgeom.run(method_of(case, method, epsilon), case.train, seed=seed)
                found[method][str(epsilon)].append(score(case, run.model))
                print(
                    f"{name} seed {seed} {method} ε={epsilon:g}: {found[method][str(epsilon)][-1]:.1f}", flush=True
                )
    assert case is not None
    figures = {one: {e: figure(values) for e, values in by.items()} for one, by in found.items()}
    total = sum(len(site) for site in case.train)
    return {
        "title": case.title,
        "metric": case.metric,
        "rows": total,
        "sites": len(case.train),
        "figures": figures,
    }


def page(rows: Mapping[str, Any]) -> str:
    """Return the tables in Markdown."""
    lines = ["# Accuracy against ε", ""]
    for entry in rows.values():
        lines += [f"## {entry['title']}: {entry['metric']} in percent, {entry['rows']:,} rows", ""]
        names = [("∞" if e == "inf" else f"{float(e):g}") for e in entry["figures"]["Moments"]]
        body = [[one, *(plus_minus(f, 1) for f in by.values())] for one, by in entry["figures"].items()]
        lines += [*table(["ε", *names], body), ""]
    return "\n".join(lines)


def draw(rows: Mapping[str, Any], path: Path) -> None:
    """Draw accuracy against ε for all sets."""
    import matplotlib.pyplot as plt

    shown, axes = plt.subplots(1, len(rows), figsize=(4 * len(rows), 3.2), squeeze=False)
    for axis, entry in zip(axes[0], rows.values(), strict=True):
        for method, marker in zip(METHODS, "os", strict=True):
            by = entry["figures"][method]
            some = [(float(e), f) for e, f in by.items() if e != "inf"]
            axis.errorbar(
                [e for e, _ in some],
                [f["mean"] for _, f in some],
                [f["ci95"] for _, f in some],
                marker=marker,
                capsize=3,
                label=method,
                color={"Moments": "#1b6ca8", "FedAvg": "#b5521b"}[method],
            )
            if "inf" in by:
                color = {"Moments": "#1b6ca8", "FedAvg": "#b5521b"}[method]
                axis.axhline(by["inf"]["mean"], linestyle=":", color=color, linewidth=1)
        axis.set_xscale("log", base=2)
        axis.set_xticks([0.5, 1, 2, 4, 8], ["0.5", "1", "2", "4", "8"])
        axis.set_xlabel("ε (dotted: no noise)")
        axis.set_title(entry["title"], fontsize=10)
        axis.set_ylabel(f"{entry['metric']}, %")
    axes[0][0].legend(frameon=False)
    shown.tight_layout()
    shown.savefig(path, dpi=110)
    plt.close(shown)


def main() -> None:
    """Compute, print and write."""
    made = parser(__doc__, SETS)
    made.add_argument("--seeds", type=int, help="how many; 5, of eICU 20 unless said")
    options = made.parse_args()
    if options.quick:
        content: dict[str, Any] = {"eicu": measure("eicu", 1, (1.0, float("inf")))}
        print(page(content))
        print_json(options, content)
        return
    whole: dict[str, Any] = {}
    for name in options.only:
        seeds = options.seeds or (20 if name == "eicu" else 5)  # few rows: intervals would be wide
        whole = RESULTS.keep("accuracy", {name: measure(name, seeds)}, SETS, page)
    draw(whole, RESULTS.folder / "accuracy.png")
    print(page(whole))
    print_json(options, whole)


if __name__ == "__main__":
    main()
