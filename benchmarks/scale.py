"""What the cost model predicts for 10, 1,000 and 100,000 sites, and where each method stops: tables of docs/scale.md.

python benchmarks/scale.py             # prints the tables, and writes them into docs/scale.md
python benchmarks/scale.py --measured  # also holds runs beside the predictions (CPU seconds of one process)
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import fedgeom
from fedgeom.errors import InputError
from fedgeom.protocols.plan import costs_of, shape_like, shape_of, stops_at
from fedgeom.report.table import size

PAGE = Path(__file__).resolve().parents[1] / "docs" / "scale.md"
SHAPE: dict[str, Any] = {"rows": 1000, "columns": 50, "classes": [f"class {k}" for k in range(5)]}
HULLS = {"n_classes": 5, "capacity": 64, "radius": 0.95}
METHODS: dict[str, tuple[Any, dict[str, Any]]] = {
    "Moments, 50 columns": (fedgeom.Moments(), SHAPE),
    'Moments, `rule="centroid"`': (fedgeom.Moments(rule="centroid"), SHAPE),
    "Ridge, 50 linear features": (fedgeom.Ridge(features="linear"), SHAPE),
    "Hulls, own names, 64 corners a site": (fedgeom.Hulls(**HULLS), SHAPE | {"columns": 2}),
    "Hulls, shared names": (
        fedgeom.Hulls(names="shared", capacity=64, radius=0.95),
        SHAPE | {"columns": 2},
    ),
    "FedAvg, 50 rounds, 255 parameters": (fedgeom.FedAvg(n_rounds=50), SHAPE),
    "FedAvg, 50 rounds, in the open": (fedgeom.FedAvg(n_rounds=50, secure=False), SHAPE),
    "Scaffold, 50 rounds": (fedgeom.Scaffold(n_rounds=50), SHAPE),
}
COUNTS = (10, 1000, 100_000)


def predicted() -> str:
    """Return the table of predictions."""
    lines = [
        "| method | sites | questions | to a site | from a site | largest message | the coordinator's line, both ways "
        "| CPU of a site | of the coordinator |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, (method, shape) in METHODS.items():
        for count in COUNTS:
            try:
                one = costs_of(method, shape_like(count, **shape))
            except InputError as error:
                lines.append(f"| {name} | {count:,} | stops: {str(error).partition(':')[0]} | | | | | | |")
                continue
            both = size(one.total_up + one.total_down)
            lines.append(
                f"| {name} | {count:,} | {one.questions} | {size(one.down)} | {size(one.up)} | {size(one.largest)} | "
                f"{both} | {one.site_seconds:.2g} s | {one.coordinator_seconds:.2g} s |"
            )
    return "\n".join(lines)


def stopped() -> str:
    """Return the table of where methods stop with the default policy, and with the largest messages there are."""
    largest = fedgeom.Policy(max_message_bytes=256 * 2**20)
    lines = ["| method | stops at about | why | with messages of 256 MiB |", "|---|---|---|---|"]
    for name, (method, shape) in METHODS.items():
        most, why = stops_at(method, **shape)
        more, _ = stops_at(method, **shape, policy=largest)
        lines.append(f"| {name} | {_rounded(most)} sites | {why.replace(chr(39), '`')} | {_rounded(more)} |")
    return "\n".join(lines)


def _rounded(count: int) -> str:
    digits = max(len(str(count)) - 2, 0)
    return f"{round(count, -digits):,}"


def measured() -> str:
    """Return runs beside their predictions: bytes must be the same, processor times of the same order."""
    lines = [
        "| run | sites | bytes said | bytes of the run | CPU s said | CPU s of the run |",
        "|---|---|---|---|---|---|",
    ]
    rng = np.random.default_rng(0)
    for count in (10, 40, 100):
        kinds = np.arange(200) % 3
        sites = [
            fedgeom.SiteData(f"s{k:03}", rng.normal(size=(200, 20)) + np.eye(20)[kinds] * 3, kinds.astype(str))
            for k in range(count)
        ]
        runs = {
            "Moments": fedgeom.Moments(space="euclidean"),
            "Ridge": fedgeom.Ridge(features="linear"),
            "Hulls": fedgeom.Hulls(embedding="discriminant", n_classes=3),
            "FedAvg, 10 rounds": fedgeom.FedAvg(n_rounds=10),
        }
        for name, method in runs.items():
            told = costs_of(method, shape_of(method, sites))
            fedgeom.run(method, [site.some(30) for site in sites[:3]])  # imports are no part of it
            began = time.process_time()
            run = fedgeom.run(method, sites)
            seconds = time.process_time() - began
            sent = run.ledger.sent() + sum(entry.received for entry in run.ledger)
            said = told.total_up + told.total_down
            lines.append(f"| {name} | {count} | {said:,} | {sent:,} | {told.seconds:.2g} | {seconds:.2g} |")
    return "\n".join(lines)


def main() -> None:
    """Make the tables and write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measured", action="store_true")
    tables = {"predicted": predicted, "stops": stopped}
    if parser.parse_args().measured:
        tables["measured"] = measured
    for name, make in tables.items():
        made = make()
        print(f"{name}\n{made}\n", flush=True)
        if PAGE.exists():
            begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
            head, _, rest = PAGE.read_text(encoding="utf-8").partition(begin)
            PAGE.write_text(f"{head}{begin}\n{made}\n{end}{rest.partition(end)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
