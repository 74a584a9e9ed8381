"""What the pTopoFL tables share: the rows that are compared, and how they are scored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

import fedgeom
from fedgeom.federation.method import Plain
from papers.common import Results
from papers.pooling import pooled
from papers.ptopofl.scenarios import Scenario

RESULTS = Results(Path(__file__).parent / "results")

Score = dict[str, float]
"""Mean over sites: "auc" and "accuracy" over all scored sites, "honest" the AUC over those that flip nothing."""

STEADY: dict[str, Any] = {"n_rounds": 30, "steps": 10, "batch_size": None, "learning_rate": 0.5}
"""Whole-batch steps, small enough to descend and many enough to arrive: no row loses for want of training."""


def published_rows() -> dict[str, fedgeom.Method]:
    """Return the rows of the published table, each as its paper defines it."""
    return {
        # Every round refits to the optimum, whatever it began with: rounds after the first change next to nothing.
        "pTopoFL": fedgeom.PTopoFL.published(n_rounds=3),
        "FedAvg": fedgeom.FedAvg(**STEADY),
        "FedProx": fedgeom.FedProx(mu=0.1, **STEADY),
        "SCAFFOLD": fedgeom.Scaffold(**STEADY),
        # η·λ ≤ 1 makes for short steps: it takes this many to arrive.
        "pFedMe": fedgeom.PFedMe(lam=15.0, batch_size=None, n_rounds=60, local_rounds=20, inner_steps=3),
    }


def models(method: fedgeom.Method, scenario: Scenario, seed: int) -> Mapping[str, Any]:
    """Train and return each site's own model, by the plain run, which equals the run.

    pTopoFL is run: its twin follows the paper's Algorithm 1 only.
    """
    runs = isinstance(method, fedgeom.PTopoFL)
    found = fedgeom.run(method, scenario.train, seed=seed) if runs else method.plain(scenario.train, seed)
    return own_models(found)


def own_models(found: fedgeom.Run | Plain) -> dict[str, Any]:
    """Return each site's own model, from a run or a plain run."""
    return {name: found.model.for_site(local) for name, local in found.local.items()}


def score(found: Mapping[str, Any], scenario: Scenario) -> Score:
    """Score each site's model on the site's own test rows."""
    chances = {i: found[site.name].predict_proba(site.X)[:, 1] for i, site in enumerate(scenario.test)}
    auc = {i: roc_auc_score(scenario.test[i].y, chances[i]) for i in scenario.scored}
    right = {i: float(np.mean((chances[i] > 0.5) == scenario.test[i].y)) for i in scenario.scored}
    return {
        "auc": float(np.mean(list(auc.values()))),
        "honest": float(np.mean([auc[i] for i in scenario.honest])),
        "accuracy": float(np.mean(list(right.values()))),
    }


def measure(
    rows: Mapping[str, fedgeom.Method], make: Callable[[int], Scenario], seeds: Sequence[int]
) -> dict[str, list[Score]]:
    """Score every row, and pooled training, on the scenario of every seed."""
    found: dict[str, list[Score]] = {name: [] for name in (*rows, "pooled")}
    for seed in seeds:
        scenario = make(seed)
        for name, row in rows.items():
            found[name].append(score(models(row, scenario, seed), scenario))
        whole = pooled(fedgeom.LocalOnly(solver="exact"), scenario.train, seed)
        found["pooled"].append(score({site.name: whole for site in scenario.test}, scenario))
    return found
