"""Table 1 on Scenarios A and B, on two hidden concepts, and on three sets of real hospitals, paired over seeds.

    python papers/ptopofl/table1.py                # all sets, 20 seeds (about an hour on one core)
    python papers/ptopofl/table1.py --only A heart --seeds 5

Results go to papers/ptopofl/results/table1.json and table1.md; sets that are not run again keep their figures.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from common import STEADY, difference, measure, published_rows
from scenarios import SCENARIOS

import fedgeom
from fedgeom import training
from fedgeom.training.table import Row

RESULTS = Path(__file__).parent / "results"
BEST = "Shrunk (ours)"
PAPER = {
    "A": {"pTopoFL": 0.841, "FedAvg": 0.790, "FedProx": 0.829, "SCAFFOLD": 0.805, "pFedMe": 0.821},
    "B": {"pTopoFL": 0.910, "FedAvg": 0.897, "FedProx": 0.909, "SCAFFOLD": 0.846, "pFedMe": 0.902},
}
FIRST_SEED = 1000
"""What our row tries and how it chooses was settled on seeds 0 to 19; the table is made on others."""
SEEDS = {"A": 20, "eicu": 40, "tcga": 20, "B": 20, "two concepts": 20, "heart": 40}
"""Real hospitals are few, so that more splits are needed to see what differs."""
TITLES = {
    "A": "Scenario A: 8 hospitals, 2 of them flip labels",
    "B": "Scenario B: 10 clients with skewed classes",
    "two concepts": "Two hidden groups of hospitals",
    "heart": "Heart disease, 4 hospitals",
    "eicu": "eICU demo, regions",
    "tcga": "TCGA-BRCA, 6 regions",
}


def all_rows() -> dict[str, Row]:
    """Return the published rows and ours."""
    exact: dict[str, Any] = {"solver": "exact", "rounds": 3}
    return {
        **published_rows(),
        "pTopoFL, clusters by updates": fedgeom.PTopoFL(cluster_by="updates", trust="none", secure=False, **exact),
        "pTopoFL, by updates, interpolated": fedgeom.PTopoFL(
            cluster_by="updates", trust="none", personal="interpolated", secure=False, **exact
        ),
        "FedAvg, 15 short rounds": training.FedAvg(rounds=15, steps=5, batch=None, rate=0.5),
        "pFedMe, 15 short rounds": training.PFedMe(lam=15.0, batch=None, rounds=15, local_rounds=5, inner_steps=3),
        "Ditto": training.Ditto(**STEADY),
        "FedDyn": training.FedDyn(**STEADY),
        "FedAdam": training.FedAdam(**STEADY),
        "FedPer": training.FedPer(**STEADY),
        "local only": training.LocalOnly(solver="exact"),
        "coordinate median": training.FedAvg(aggregation="median", **STEADY),
        "½ local + ½ joint": training.Interpolated(mix=0.5, **exact),
        "interpolated, weight by cross-validation": training.Interpolated(**exact),
        BEST: fedgeom.Shrunk(),
    }


def summary(found: dict[str, list[dict[str, float]]], seeds: int) -> dict[str, Any]:
    """Return one set's entry in the results."""
    rows = {
        name: {
            key: {
                "mean": round(float(np.mean([s[key] for s in scores])), 4),
                "sd": round(float(np.std([s[key] for s in scores], ddof=1)), 4),
            }
            for key in ("auc", "honest", "accuracy")
        }
        for name, scores in found.items()
    }
    auc = {name: [s["auc"] for s in scores] for name, scores in found.items()}
    paired = {name: difference(auc[BEST], values) for name, values in auc.items() if name != BEST}
    return {"seeds": seeds, "first_seed": FIRST_SEED, "best": BEST, "rows": rows, "paired": {BEST: paired}}


def page(results: dict[str, Any]) -> str:
    """Return the tables as Markdown."""
    lines = [
        "# Table 1, with paired differences",
        "",
        "Made by `python papers/ptopofl/table1.py` on seeds 1000, 1001, …: a seed draws the hospitals, or splits real",
        "ones into train and test rows. (Our row was settled on seeds 0–19.) AUC is the mean over sites of each site's",
        "own model on its own test rows, then the mean ± deviation over seeds; “honest” leaves out the sites that flip",
        "labels. “Ours − row” is the mean paired difference over seeds with its 95 % interval (Student's t). The",
        "paper's column is one seed.",
    ]
    for name, title in TITLES.items():
        if name not in results:
            continue
        entry = results[name]
        lines += ["", f"## {title} ({entry['seeds']} seeds)", ""]
        lines += [
            "| row | AUC | honest sites | accuracy | ours − row | the paper's AUC |",
            "|---|---|---|---|---|---|",
        ]
        order = sorted(entry["rows"], key=lambda row: -entry["rows"][row]["auc"]["mean"])
        for row in order:
            values, gap = entry["rows"][row], entry["paired"][entry["best"]].get(row)
            shown = "–" if gap is None else f"{gap['mean']:+.4f} [{gap['ci95'][0]:+.4f}, {gap['ci95'][1]:+.4f}]"
            said = PAPER.get(name, {}).get(row)
            label = f"**{row}**" if row == entry["best"] else row
            lines.append(
                f"| {label} | {values['auc']['mean']:.4f} ± {values['auc']['sd']:.4f} | {values['honest']['mean']:.4f} "
                f"| {values['accuracy']['mean']:.3f} | {shown} | {'–' if said is None else said} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, write and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=list(SCENARIOS), default=list(SEEDS), help="which sets")
    parser.add_argument("--seeds", type=int, help="how many, for every set; else 20, and more for real hospitals")
    options = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / "table1.json"
    results: dict[str, Any] = {}
    for name in options.only:
        seeds = options.seeds or SEEDS[name]
        entry = summary(measure(all_rows(), SCENARIOS[name], range(FIRST_SEED, FIRST_SEED + seeds)), seeds)
        results = (json.loads(file.read_text()) if file.exists() else {}) | {name: entry}
        file.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
        (RESULTS / "table1.md").write_text(page(results))
        print(f"{TITLES[name]}: done", flush=True)
    print(page(results))


if __name__ == "__main__":
    main()
