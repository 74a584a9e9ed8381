"""Signatures over rounds (Section 4.5, Figure 5): how steady they are, and what follows when two hospitals change.

    python papers/ptopofl/continual.py                      # 10 seeds, some minutes; writes results/continual.*
    python papers/ptopofl/continual.py --only signatures    # one of the two parts
    python papers/ptopofl/continual.py --quick --json       # 1 seed, fewer rounds; writes nothing

- **signatures**: each hospital of Scenario A is described in 20 rounds, each time by 80 of its rows drawn anew. Drift
  is Eq. 9; "normalised" is not defined in the paper, whose figure is .55, so several readings stand side by side.
- **change**: after half of the rounds two hospitals measure otherwise: their columns are rotated and cubed, so that
  both the shape of their rows and what the columns mean for the outcome are others. Runs of `PTopoFL` in the open, with
  signatures tracked in every round (clusters anew and twice the rate for who drifted) and without, beside FedAvg; AUC
  of each hospital's own model on its test rows, before the change and in rounds after it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

import fedgeom
from fedgeom.geometry.topology import clustering as topology
from fedgeom.geometry.topology.descriptors import NAMES, descriptor

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import Floats, finish, parser, table
from papers.ptopofl.scenarios import Scenario, scenario_a
from papers.ptopofl.scoring import RESULTS, own_models

SEEDS, QUICK_SEEDS = 10, 1
ROUNDS, QUICK_ROUNDS = 20, 6
CHANGED = (0, 1)
"""The hospitals that change."""
PAPER = 0.55
LIMIT = 0.25
"""``drift_limit``: above the drift of hospitals that do not change, which the first part measures."""


def readings(history: Floats) -> dict[str, Floats]:
    """Return each site's drift, (sites,), in several readings of "normalised"; history (sites, rounds, 48)."""
    first = history[:, :1]
    spread = history[:, 0].std(axis=0)
    unit = np.array([topology.unit_rows(one) for one in history])
    scaled = history / np.where(spread > 0, spread, 1.0)

    def drift(of: Floats) -> Floats:
        return np.array([topology.drift(one) for one in of])

    return {
        "raw (Eq. 9)": drift(history),
        "over the norm of the first": drift(history) / np.linalg.norm(first[:, 0], axis=1),
        "of unit descriptors": drift(unit),
        "over the mean distance between sites": drift(unit)
        / np.mean(topology.mean_distances(topology.descriptor_distances(history[:, 0]))),
        "each number over its deviation between sites": drift(scaled),
        "the same, a number's share": drift(scaled) / np.sqrt(history.shape[2]),
    }


def signatures(seeds: int, rounds: int) -> dict[str, Any]:
    """Return drift by reading over all seeds, and of the first seed the entropies over rounds (Figure 5)."""
    found: dict[str, list[float]] = {}
    shown: Any = None
    for seed in range(seeds):
        sites = scenario_a(seed).train
        history = np.array(
            [
                [descriptor(s.X, rng=np.random.default_rng([seed, at, r])) for r in range(rounds)]
                for at, s in enumerate(sites)
            ]
        )
        if shown is None:
            places = [at for at, name in enumerate(NAMES) if "entropy" in name]
            shown = history[:, :, places].round(4).tolist()
        for name, values in readings(history).items():
            found.setdefault(name, []).extend(values.tolist())
    return {
        "drift": {
            name: {"mean": round(float(np.mean(v)), 4), "most": round(max(v), 4)} for name, v in found.items()
        },
        "entropies": shown,
    }


def changed(site: fedgeom.SiteData, seed: int) -> Floats:
    """Return a hospital's rows as it measures them after the change."""
    columns = site.X.shape[1]
    turn, _ = np.linalg.qr(np.random.default_rng([seed, 5]).normal(size=(columns, columns)))
    return (site.X @ turn) ** 3


def rows(rounds: int) -> dict[str, Any]:
    """Return what is compared."""
    usual: dict[str, Any] = {"steps": 10, "batch_size": None, "learning_rate": 0.5, "n_rounds": rounds}
    tracked = {"track_every": 1, "drift_limit": LIMIT}
    return {
        "pTopoFL, tracked": fedgeom.PTopoFL(secure=False, **tracked, **usual),
        "pTopoFL, clusters of the first round": fedgeom.PTopoFL(secure=False, **usual),
        "FedAvg": fedgeom.FedAvg(secure=False, **usual),
    }


def held(method: Any, scenario: Scenario, seed: int, at: int) -> tuple[dict[int, float], dict[str, Any]]:
    """Hold a run in which hospitals change when round ``at`` begins; return AUC by hospital, and the run's figures."""
    sites = [fedgeom.SiteData(s.name, s.X.copy(), s.y) for s in scenario.train]
    after = {s.name: changed(s, seed) for i, s in enumerate(scenario.train) if i in CHANGED}
    asked = dict.fromkeys(after, 0)

    def change(name: str, request: bytes) -> str | None:
        if name in after and b"train.open" in request:
            asked[name] += 1
        tracked = getattr(method, "track_every", 0) and b"topo.describe" in request
        if name in after and asked[name] + bool(tracked) > at:
            next(s for s in sites if s.name == name).X[:] = after[name]
        return None

    run = fedgeom.run(method, sites, seed=seed, interfere=change)
    models = own_models(run)
    found = {}
    for i in scenario.honest:
        test = scenario.test[i]
        X = changed(test, seed) if i in CHANGED and method.n_rounds > at else test.X
        found[i] = float(roc_auc_score(test.y, models[test.name].predict_proba(X)[:, 1]))
    return found, run.metrics


def change(seeds: int, rounds: int) -> dict[str, Any]:
    """Return AUC of changed and other hospitals before the change and after it, and who was found to drift."""
    half = rounds // 2
    times = sorted({half, half + 1, half + 3, rounds} & set(range(rounds + 1)))
    found: dict[str, Any] = {name: {str(t): {"changed": [], "others": []} for t in times} for name in rows(1)}
    drifted, regrouped = [0, 0, 0, 0], 0
    for seed in range(seeds):
        scenario = scenario_a(seed, adversarial=0)
        for time in times:
            for name, method in rows(time).items():
                auc, metrics = held(method, scenario, seed, half)
                for i, value in auc.items():
                    found[name][str(time)]["changed" if i in CHANGED else "others"].append(value)
                if name.endswith("tracked") and time == rounds:
                    _, before = held(rows(half)[name], scenario, seed, half)
                    regrouped += metrics["clusters"] != before["clusters"]
                    for i, site in enumerate(scenario.train):
                        moved = metrics["drift"][site.name] > LIMIT
                        drifted[0 if i in CHANGED else 2] += moved
                        drifted[1 if i in CHANGED else 3] += 1
    auc = {
        name: {t: {who: round(float(np.mean(v)), 4) for who, v in both.items()} for t, both in by.items()}
        for name, by in found.items()
    }
    return {
        "auc": auc,
        "seeds": seeds,
        "change before round": half + 1,
        "found to drift": f"{drifted[0]} of {drifted[1]} that changed, {drifted[2]} of {drifted[3]} others",
        "other clusters than before": f"{regrouped} of {seeds}",
    }


def page(found: dict[str, Any]) -> str:
    """Return both parts as Markdown."""
    lines = ["# Signatures over rounds", "", "Made by `python papers/ptopofl/continual.py`."]
    if part := found.get("signatures"):
        lines += ["", f"## Drift of hospitals that do not change (the paper: {PAPER}, “normalised”)", ""]
        lines += table(
            ["reading", "mean", "most"], [(n, one["mean"], one["most"]) for n, one in part["drift"].items()]
        )
    if part := found.get("change"):
        lines += ["", f"## Two hospitals of eight change before round {part['change before round']}", ""]
        lines += [
            f"{part['seeds']} seeds. Found to drift (above {LIMIT}): {part['found to drift']}. In",
            f"{part['other clusters than before']} runs the clusters are others than before the change. AUC after so",
            "many rounds:",
            "",
        ]
        times = list(next(iter(part["auc"].values())))
        head = ["", *(f"round {t}, {who}" for t in times for who in ("changed", "others"))]
        body = [
            [name, *(f"{by[t][who]:.3f}" for t in times for who in ("changed", "others"))]
            for name, by in part["auc"].items()
        ]
        lines += table(head, body)
    return "\n".join(lines) + "\n"


def picture(found: dict[str, Any], path: Path) -> None:
    """Draw Figure 5, and AUC over rounds."""
    from matplotlib.figure import Figure  # only pictures need it

    drawing = Figure(figsize=(12, 3.6), layout="constrained")
    *entropies, after = drawing.subplots(1, 3)
    for at, (ax, name) in enumerate(zip(entropies, ("H0", "H1"), strict=True)):
        for site, history in enumerate(found["signatures"]["entropies"]):
            ax.plot(range(1, len(history) + 1), [one[at] for one in history], label=f"hospital {site + 1}")
        ax.set(title=f"{name} persistence entropy (Figure 5)", xlabel="round")
    entropies[1].legend(fontsize=6, frameon=False, ncols=2)
    for color, (name, by) in zip(("#0072B2", "#E69F00", "#555555"), found["change"]["auc"].items(), strict=True):
        times = [int(t) for t in by]
        after.plot(times, [by[str(t)]["changed"] for t in times], color=color, marker="o", label=name)
        after.plot(times, [by[str(t)]["others"] for t in times], color=color, ls=":", marker=".")
    after.set(title="AUC: hospitals that change; others dotted", xlabel="rounds")
    after.legend(fontsize=7, frameon=False)
    drawing.savefig(path, dpi=110)


PARTS = ("signatures", "change")


def main() -> None:
    """Measure, write and print."""
    options = parser(__doc__, PARTS).parse_args()
    seeds, rounds = (QUICK_SEEDS, QUICK_ROUNDS) if options.quick else (SEEDS, ROUNDS)
    made: dict[str, Any] = {}
    if "signatures" in options.only:
        made["signatures"] = signatures(seeds, rounds)
    if "change" in options.only:
        made["change"] = change(seeds, rounds)
    finish(options, RESULTS, "continual", made, PARTS, page, picture)


if __name__ == "__main__":
    main()
