"""Table 1 on Scenarios A and B, on two hidden concepts, and on three sets of real hospitals, paired over seeds.

    python papers/ptopofl/table1.py                  # all sets, 20 seeds or more (about an hour on one core)
    python papers/ptopofl/table1.py --only A heart   # some sets; the others in the results stay as they are
    python papers/ptopofl/table1.py --quick --json   # 2 seeds, about a minute; writes nothing
    python papers/ptopofl/table1.py --table          # only write the pages anew

Results go to papers/ptopofl/results/table1.json and table1.md, a digest to docs/ptopofl.md. Sets whose files are not
found are left out.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import fedgeom
from fedgeom.methods.iterative import Interpolation

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import MissingFile, bold, difference, parser, print_json, table, with_interval
from papers.ptopofl.scenarios import SCENARIOS
from papers.ptopofl.scoring import RESULTS, STEADY, measure, published_rows

BEST = "Shrunk (ours)"
DOCS = Path(__file__).parents[2] / "docs" / "ptopofl.md"
BEGIN, END = "<!-- table1: made by the command -->", "<!-- end -->"
SHOWN = {
    BEST: "`Shrunk`",
    **{name: name for name in ("FedAvg", "FedProx", "SCAFFOLD", "pFedMe", "pTopoFL", "local only", "pooled")},
}
"""The rows of the digest."""
COLUMNS = {"A": "A", "B": "B", "heart": "heart", "eicu": "eICU", "tcga": "TCGA"}
"""Its sets."""
PAPER = {
    "A": {
        "pTopoFL": (0.841, 0.786),
        "FedAvg": (0.790, 0.792),
        "FedProx": (0.829, 0.788),
        "SCAFFOLD": (0.805, 0.743),
        "pFedMe": (0.821, 0.749),
    },
    "B": {
        "pTopoFL": (0.910, 0.791),
        "FedAvg": (0.897, 0.856),
        "FedProx": (0.909, 0.785),
        "SCAFFOLD": (0.846, 0.725),
        "pFedMe": (0.902, 0.801),
    },
}
"""The paper's AUC and accuracy."""
FIRST_SEED = 1000
"""What our row tries and how it chooses was settled on seeds 0 to 19; the table is made on others."""
SEEDS = {"A": 20, "eicu": 40, "tcga": 20, "B": 20, "two concepts": 20, "heart": 40}
"""Real hospitals are few, so that more splits are needed to see what differs."""
SEEDS |= {"A, public program": 10, "B, public program": 10}
QUICK_SEEDS = 2
TITLES = {
    "A": "Scenario A: 8 hospitals, 2 of them flip labels",
    "B": "Scenario B: 10 clients with skewed classes",
    "A, public program": "Scenario A of the authors' public program",
    "B, public program": "Scenario B of the authors' public program",
    "two concepts": "Two hidden groups of hospitals",
    "heart": "Heart disease, 4 hospitals",
    "eicu": "eICU demo, regions",
    "tcga": "TCGA-BRCA, 6 regions",
}


PAPER |= {f"{name}, public program": rows for name, rows in PAPER.items()}
FEW = ("local only", BEST)
"""What stands beside the published rows on the authors' public program."""


def rows_of(name: str) -> dict[str, fedgeom.Method]:
    """Return the rows that are measured on a set."""
    rows = all_rows()
    kept = (*published_rows(), *FEW) if "public" in name else tuple(rows)
    return {row: rows[row] for row in kept}


def all_rows() -> dict[str, fedgeom.Method]:
    """Return the published rows and ours."""
    exact: dict[str, Any] = {"solver": "exact", "n_rounds": 3}
    return {
        **published_rows(),
        "pTopoFL, clusters by updates": fedgeom.PTopoFL(cluster_by="updates", trust="none", secure=False, **exact),
        "pTopoFL, by updates, interpolated": fedgeom.PTopoFL(
            cluster_by="updates", trust="none", personal="interpolated", secure=False, **exact
        ),
        "FedAvg, 15 short rounds": fedgeom.FedAvg(n_rounds=15, steps=5, batch_size=None, learning_rate=0.5),
        "pFedMe, 15 short rounds": fedgeom.PFedMe(
            lam=15.0, batch_size=None, n_rounds=15, local_rounds=5, inner_steps=3
        ),
        "Ditto": fedgeom.Ditto(**STEADY),
        "FedDyn": fedgeom.FedDyn(**STEADY),
        "FedAdam": fedgeom.FedAdam(**STEADY),
        "FedPer": fedgeom.FedPer(**STEADY),
        "local only": fedgeom.LocalOnly(solver="exact"),
        "coordinate median": fedgeom.FedAvg(aggregation="median", **STEADY),
        "½ local + ½ joint": fedgeom.Interpolated(personal=Interpolation(0.5), **exact),
        "interpolated, weight by cross-validation": fedgeom.Interpolated(**exact),
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
        "paper's figures are of one seed. Its rounds to converge (Figure 3 D) are in curves.md: its code refits each",
        "site to the optimum in every round, so that little changes after the first. Ours are trained until more",
        "rounds change next to nothing.",
    ]
    for name, title in TITLES.items():
        if name not in results:
            continue
        entry = results[name]
        lines += ["", f"## {title} ({entry['seeds']} seeds)", ""]
        order = sorted(entry["rows"], key=lambda row: -entry["rows"][row]["auc"]["mean"])
        lines += table(HEAD, [_cells(name, entry, row) for row in order])
    return "\n".join(lines) + "\n"


HEAD = ("row", "AUC", "honest sites", "accuracy", "ours − row", "the paper's AUC", "accuracy")


def _cells(name: str, entry: dict[str, Any], row: str) -> list[str]:
    """Write one row of one set down."""
    values, gap = entry["rows"][row], entry["paired"][entry["best"]].get(row)
    return [
        bold(row, row == entry["best"]),
        f"{values['auc']['mean']:.4f} ± {values['auc']['sd']:.4f}",
        f"{values['honest']['mean']:.4f}",
        f"{values['accuracy']['mean']:.3f}",
        "–" if gap is None else with_interval(gap),
        *([f"{value:.3f}" for value in PAPER.get(name, {}).get(row, ())] or ["–", "–"]),
    ]


def digest(results: dict[str, Any]) -> str:
    """Return the small table for the docs: mean AUC, and what ours is ahead by."""
    rows = []
    for row, label in SHOWN.items():
        cells = []
        for name in COLUMNS:
            auc, gap = results[name]["rows"][row]["auc"]["mean"], results[name]["paired"][BEST].get(row)
            first = max(entry["auc"]["mean"] for entry in results[name]["rows"].values())
            ahead = "" if gap is None else f" ({with_interval(gap, 3)})"
            cells.append(bold(f"{auc:.3f}", auc == first) + ahead)
        rows.append([label, *cells])
    return "\n".join(table(["row", *COLUMNS.values()], rows))


def write(results: dict[str, Any]) -> None:
    """Write both pages."""
    RESULTS.write("table1", results, page)
    if set(COLUMNS) <= set(results):
        before, rest = DOCS.read_text(encoding="utf-8").split(BEGIN)
        DOCS.write_text(f"{before}{BEGIN}\n{digest(results)}\n{END}{rest.split(END, 1)[1]}", encoding="utf-8")


def main() -> None:
    """Measure, write and print."""
    made = parser(__doc__, SEEDS)
    made.add_argument("--seeds", type=int, help="how many, for every set; else 20, and more for real hospitals")
    made.add_argument("--table", action="store_true", help="only write the pages anew")
    options = made.parse_args()
    found: dict[str, Any] = {}
    for name in () if options.table else options.only:
        seeds = options.seeds or (QUICK_SEEDS if options.quick else SEEDS[name])
        try:
            rows = measure(rows_of(name), SCENARIOS[name], range(FIRST_SEED, FIRST_SEED + seeds))
        except MissingFile as reason:
            print(f"{name} is left out: {reason}")
            continue
        found[name] = summary(rows, seeds)
        print(f"{TITLES[name]}: done", flush=True)
        if not options.quick:
            RESULTS.keep("table1", {name: found[name]}, SEEDS)
    if not options.quick:
        write(RESULTS.read("table1"))
    print(page(RESULTS.read("table1") if options.table else found))
    print_json(options, found)


if __name__ == "__main__":
    main()
