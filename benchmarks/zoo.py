"""All algorithms that train a network, side by side on one set: the same rows, equal tuning, intervals, and the cost.

    python benchmarks/zoo.py                 # T cells of five hospitals; writes results/zoo.json and docs/training.md
    python benchmarks/zoo.py --quick         # two rows, two rounds, one seed; writes nothing
    python benchmarks/zoo.py --page          # only write the table of what is in results/zoo.json

Each row tries the same three learning rates on rows set aside among those that are learnt from, seed by seed, and is
tested with the best one on the quarter that is kept aside; all other settings are the usual ones. Every run goes
through the whole protocol. What was computed before is kept in build/zoo: called again, the script goes on from there.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.common import keep, parser, read

import fedgeom
from fedgeom.evaluation.benchmark import rival_rows
from fedgeom.methods.iterative import MLP
from fedgeom.report.table import size
from fedgeom.report.tables import TITLES, method_rows
from papers.hyperfed.cell_sets import draw

JOINT = ["FedAvg", "FedProx", "Scaffold", "FedDyn", "FedDC", "FedAvgM", "FedNova", "FedExP", "FedAdam", "FedYogi"]
NETWORKS = ["FedLC", "SphereFed", "Moon", "FedNTD", "FedSAM", "FedRoD", "FedProto", "HyperFed"]
PERSONAL = ["Ditto", "FedMTL", "PFedMe", "FedALA", "FedPer", "FedRep", "FedBABU", "LocalOnly"]
ROWS = [*JOINT, *NETWORKS, *PERSONAL]
RATES = [0.03, 0.1, 0.3]
USUAL: dict[str, Any] = {"network": MLP(hidden=64, features=64), "n_rounds": 20, "epochs": 2}
PAGE = Path(__file__).resolve().parents[1] / "docs" / "training.md"
BUILD = Path(__file__).resolve().parents[1] / "build" / "zoo"
BEGIN, END = "<!-- zoo: begin -->\n", "<!-- zoo: end -->"


def measure(quick: bool) -> dict[str, Any]:
    """Return the table's rows."""
    sites = draw("t-cells, fewer tested", 0).sites
    usual = USUAL | ({"n_rounds": 2} if quick else {})
    rows = {name: getattr(fedgeom, name)(**usual) for name in (ROWS[:2] if quick else ROWS)}
    found = fedgeom.sweep(
        rows,
        sites,
        grid={"learning_rate": RATES[:2] if quick else RATES},
        effort="any",
        seeds=1 if quick else 5,
        folder=None if quick else BUILD,
        watch=lambda one: print(one.row, one.seed, f"{one.seconds:.1f} s", flush=True),
    )
    lines = [{"row": TITLES[row.name], "figures": _plain(row.figures)} for row in rival_rows(found.swept)]
    for row in method_rows(found.swept):
        lines.append({"row": row.name, "figures": _plain(row.figures), "failure": row.failure, "alone": row.alone})
        lines[-1] |= {"sent": row.sent, "seconds": row.seconds, "difference": str(row.difference or "")}
    return {"rows": lines, "command": found.swept.command, "sites": [len(site) for site in sites]}


def _plain(figures: Any) -> dict[str, str]:
    return {name: str(one) for name, one in figures.items()}


def page(found: dict[str, Any]) -> str:
    """Return the table, the best row first."""
    lines = ["| row | balanced accuracy | from the best | left each site |", "|---|---|---|---|"]
    rows = sorted(found["rows"], key=lambda row: row["figures"].get("balanced_accuracy", ""), reverse=True)
    for row in rows:
        sent = size(row["sent"]) if row.get("sent") else ""
        said = row["figures"].get("balanced_accuracy", row.get("failure", ""))
        lines.append(f"| {row['row']} | {said} | {row.get('difference', '')} | {sent} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Measure and write."""
    made = parser(__doc__)
    made.add_argument("--page", action="store_true", help="only write the table")
    options = made.parse_args()
    found = read("zoo") if options.page else measure(options.quick)
    if options.quick:
        print(page(found))
    else:
        keep("zoo", found)
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        PAGE.write_text(before + BEGIN + page(found) + END + rest.partition(END)[2], encoding="utf-8")
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
