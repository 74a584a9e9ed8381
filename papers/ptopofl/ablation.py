"""The ablation of Figure 7: pTopoFL with one part switched off at a time, on Scenario A.

python papers/ptopofl/ablation.py                   # 20 seeds, about two minutes; writes results/ablation.{json,md}
python papers/ptopofl/ablation.py --only trust      # some parts; the others in the results stay as they are
python papers/ptopofl/ablation.py --quick --json    # 2 seeds; writes nothing
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import fedgeom

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import difference, finish, parser, table, with_interval
from papers.ptopofl.scenarios import scenario_a
from papers.ptopofl.scoring import RESULTS, models, score

FIRST_SEED, SEEDS, QUICK_SEEDS = 1000, 20, 2
FULL = "all parts"
CHANGES: dict[str, dict[str, Any]] = {
    FULL: {},
    "one cluster (M = 1)": {"n_clusters": 1},
    "no blending (β = 0)": {"beta": 0.0},
    "no closeness (Eq. 6)": {"closeness": False},
    "no trust (Eq. 8)": {"trust": "none"},
    "no added columns (Section 3.2)": {"augment": False},
    "size-free descriptors": {"size_free": True},
    "diagrams by Wasserstein distance": {"cluster_by": "diagrams"},
}
NAMES = ("clusters", "blending", "closeness", "trust", "columns", "size", "diagrams")
PARTS = dict(zip(NAMES, list(CHANGES)[1:], strict=True))
"""What can be computed alone, each beside all parts."""
PAPER = {FULL: 0.841, "one cluster (M = 1)": 0.790, "no blending (β = 0)": 0.838}


def measure(settings: Sequence[str], seeds: Sequence[int]) -> dict[str, Any]:
    """Return each setting's mean AUC and, paired over seeds, how far it is behind all parts."""
    scores: dict[str, list[float]] = {name: [] for name in settings}
    for seed in seeds:
        scenario = scenario_a(seed)
        for name in settings:
            row = fedgeom.PTopoFL.published(**({"n_rounds": 2} | CHANGES[name]))
            scores[name].append(score(models(row, scenario, seed), scenario)["auc"])
    return {
        name: {"auc": round(float(np.mean(values)), 4), "less than all parts": difference(scores[FULL], values)}
        for name, values in scores.items()
    }


def page(results: dict[str, Any], seeds: int = SEEDS) -> str:
    """Return the table as Markdown."""
    rows = []
    for name, entry in results.items():
        gap = "–" if name == FULL else with_interval(entry["less than all parts"])
        rows.append((name, f"{entry['auc']:.4f}", gap, PAPER.get(name, "–")))
    lines = [
        f"# Ablation on Scenario A, {seeds} seeds",
        "",
        "Made by `python papers/ptopofl/ablation.py` (seeds 1000, 1001, …). The paper's figures are one seed.",
        "",
        *table(["setting", "AUC", "all parts − setting", "the paper's"], rows),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, write and print."""
    made = parser(__doc__, PARTS)
    made.add_argument("--seeds", type=int, help=f"how many; else {SEEDS}")
    options = made.parse_args()
    if options.seeds and len(options.only) < len(PARTS) and not options.quick:
        made.error(f"--only keeps the other rows, which have {SEEDS} seeds: leave --seeds out, or add --quick")
    seeds = options.seeds or (QUICK_SEEDS if options.quick else SEEDS)
    settings = [FULL, *(PARTS[name] for name in options.only)]
    results = measure(settings, range(FIRST_SEED, FIRST_SEED + seeds))
    finish(options, RESULTS, "ablation", results, CHANGES, partial(page, seeds=seeds))


if __name__ == "__main__":
    main()
