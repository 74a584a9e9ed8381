"""The ablation of Figure 7: pTopoFL with one part switched off at a time, on Scenario A.

    python papers/ptopofl/ablation.py

Results go to papers/ptopofl/results/ablation.json and ablation.md.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from common import difference, models, score
from scenarios import scenario_a

import fedgeom

RESULTS = Path(__file__).parent / "results"
FULL = "all parts"
PARTS: dict[str, dict[str, Any]] = {
    FULL: {},
    "one cluster (M = 1)": {"clusters": 1},
    "no blending (β = 0)": {"beta": 0.0},
    "no closeness (Eq. 6)": {"closeness": False},
    "no trust (Eq. 8)": {"trust": "none"},
    "no added columns (Section 3.2)": {"augment": False},
    "size-free descriptors": {"size_free": True},
    "diagrams by Wasserstein distance": {"cluster_by": "diagrams"},
}
PAPER = {FULL: 0.841, "one cluster (M = 1)": 0.790, "no blending (β = 0)": 0.838}


def main() -> None:
    """Measure, write and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    seeds = range(1000, 1000 + parser.parse_args().seeds)
    scores: dict[str, list[float]] = {name: [] for name in PARTS}
    for seed in seeds:
        scenario = scenario_a(seed)
        for name, changes in PARTS.items():
            row = fedgeom.PTopoFL.published(**({"rounds": 2} | changes))
            scores[name].append(score(models(row, scenario, seed), scenario)["auc"])
    results = {
        name: {"auc": round(float(np.mean(values)), 4), "less than all parts": difference(scores[FULL], values)}
        for name, values in scores.items()
    }
    lines = [
        f"# Ablation on Scenario A, {len(seeds)} seeds",
        "",
        "Made by `python papers/ptopofl/ablation.py` (seeds 1000, 1001, …). The paper's figures are one seed.",
        "",
        "| setting | AUC | all parts − setting | the paper's |",
        "|---|---|---|---|",
    ]
    for name, entry in results.items():
        gap = entry["less than all parts"]
        shown = "–" if name == FULL else f"{gap['mean']:+.4f} [{gap['ci95'][0]:+.4f}, {gap['ci95'][1]:+.4f}]"
        lines.append(f"| {name} | {entry['auc']:.4f} | {shown} | {PAPER.get(name, '–')} |")
    text = "\n".join(lines) + "\n"
    (RESULTS / "ablation.json").write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    (RESULTS / "ablation.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
