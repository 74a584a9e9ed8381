"""How often rows are called unknown: rows of known classes, where 5 % are wanted, and rows of a class nobody learnt.

    FEDGEOM_DATA=folder python benchmarks/unknown.py          # a few minutes; writes results/unknown.json
    FEDGEOM_DATA=folder python benchmarks/unknown.py --json   # the last line is one JSON object
    python benchmarks/unknown.py --quick                      # digits alone; writes nothing

Each class in turn is left out of training. 40 % of all rows are kept aside for testing. Rules: "alone", the joint
model's own; "site", each site's own model file, which knows the rows that the site learnt from, on that site's test
rows; "known", the joint model with half of the test rows as known ones, on the other half.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.common import keep, parser
from benchmarks.real_sets import cells, pooled

from papers.common import MissingFile

ALPHA = 0.05
FEWEST = 5
"""Classes of which a site has fewer rows are left out there."""


def sets(quick: bool) -> dict[str, tuple[Any, Any, Any]]:
    """Return the sets that are found here."""
    from fedgeom.data.datasets import available

    found = {"digits": pooled("digits")}
    if quick:
        return found
    if "hipc" in available():
        found["hipc"] = pooled("hipc", rows=2000)
    with contextlib.suppress(MissingFile):
        found["kang"] = cells("kang_pbmc_8donors.npz", "y", "class_names", "donor", 20)
    return found


def shares(X: Any, y: Any, owner: Any, left_out: str, method: Any) -> dict[str, tuple[float, float]]:
    """Return for each rule the share of known rows, and of rows of the class left out, that are called unknown."""
    import fedgeom
    from fedgeom.errors import InputError

    rng = np.random.default_rng(0)
    test, half, new = rng.random(len(y)) < 0.4, rng.random(len(y)) < 0.5, y == left_out
    learnt = ~test & ~new
    for site in np.unique(owner):
        names, counts = np.unique(y[learnt & (owner == site)], return_counts=True)
        learnt &= ~((owner == site) & np.isin(y, names[counts < FEWEST]))
    found: dict[str, tuple[float, float]] = {}
    flags = np.zeros(len(y), bool)

    def judge(model: Any, known: Any) -> tuple[float, float]:
        return float(model.unknown(X[known], ALPHA).mean()), float(model.unknown(X[test & new], ALPHA).mean())

    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "run"
        model = fedgeom.run(method, fedgeom.split(X[learnt], y[learnt], by=owner[learnt]), record=record).model
        for site in np.unique(owner[test]):
            own = fedgeom.load_model(record / "sites" / f"{site}.safetensors")
            flags[test & (owner == site)] = own.unknown(X[test & (owner == site)], ALPHA)
    with contextlib.suppress(InputError):  # no densities
        found["alone"] = judge(model, test & ~new)
    found["site"] = float(flags[test & ~new].mean()), float(flags[test & new].mean())
    found["known"] = judge(model.with_known(X[test & half & ~new]), test & ~half & ~new)
    return found


def main() -> None:
    """Print a table, keep the figures, and with --json print them too."""
    import fedgeom

    methods = {
        "Moments": fedgeom.Moments(space="euclidean"),
        "Ridge": fedgeom.Ridge(features="linear"),
        "Hulls": fedgeom.Hulls(embedding="discriminant"),
        "FedAvg": fedgeom.FedAvg(n_rounds=10),
        "Ditto": fedgeom.Ditto(n_rounds=10),
        "XCLP, anchors": fedgeom.XCLP(graph="anchors", n_anchors=200, hash_bits=512),
        "XCLP, anchors, a quarter kept aside": fedgeom.XCLP(
            graph="anchors", n_anchors=200, hash_bits=512, holdout=0.25
        ),
    }
    options, figures = parser(__doc__).parse_args(), {}
    print("| set | method | rule | known rows, wanted 0.05 (range) | rows of a class left out (range) |")
    print("|---|---|---|---|---|")
    for name, (X, y, owner) in sets(options.quick).items():
        for title, method in methods.items():
            by_rule: dict[str, list[tuple[float, float]]] = defaultdict(list)
            for left_out in np.unique(y):
                for rule, pair in shares(X, y, owner, left_out, method).items():
                    by_rule[rule].append(pair)
            for rule, pairs in by_rule.items():
                known, new = np.array(pairs).T
                cells = [f"{a.mean():.2f} ({a.min():.2f}–{a.max():.2f})" for a in (known, new)]
                print(f"| {name} | {title} | {rule} | {cells[0]} | {cells[1]} |", flush=True)
                figures[f"{name}, {title}, {rule}"] = {
                    "known": known.round(4).tolist(),
                    "left out": new.round(4).tolist(),
                }
    if not options.quick:
        keep("unknown", figures)
    if options.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
