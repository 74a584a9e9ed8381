"""Every set of the tables once through the secure protocol: is a site lost, and are the labels those of pooled rows?

    python papers/xclp/secure.py                    # all sets, through anchors and over pairs; more than an hour in all
    python papers/xclp/secure.py --minutes 30       # begin no run after so long; the same command goes on with the rest
    python papers/xclp/secure.py --only anchors     # one graph
    python papers/xclp/secure.py --set "kang by donor"    # one set, or some
    python papers/xclp/secure.py --quick --json     # 400 digits over 4 sites, anchors; writes nothing

The tables come from pooled rows (`plain.py`). Here the sites of the first seed of each set, with a tenth of the labels,
hold a whole run of `fedgeom.XCLP` with its defaults (over pairs: 4,096 hash bits, all distances under
homomorphic encryption, by SEAL or, "lattice", by products of matrices; through anchors: as in the tables). "equal" is
the share of rows whose label is the same there; over pairs the hidden projection is drawn anew, so that hashes, and a
few labels, differ.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import fedgeom

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import MissingFile, parser, print_json, table
from papers.xclp.plain import plain_of
from papers.xclp.tasks import (
    RESULTS,
    SEEDS,
    Task,
    as_sites,
    cells,
    digits,
    fashion,
    hipc,
    mnist_writers,
    show_labels,
)

SHARE = 0.1
SETS: dict[str, Callable[[int], Task]] = {
    "digits iid 20 sites": lambda seed: digits(seed, "iid", 20),
    "digits iid 5 sites": lambda seed: digits(seed, "iid", 5),
    "digits dirichlet 20 sites": lambda seed: digits(seed, "dirichlet", 20),
    "pbmc by technology": lambda seed: cells("pbmc3", seed, 1200, centred=False),
    "hipc by hospital": lambda seed: hipc(seed, 600),
    "mnist by writer pixels": lambda seed: mnist_writers(seed, "pixels", 25),
    "kang by donor": lambda seed: cells("kang", seed, 2400, centred=False),
    "lung by donor": lambda seed: cells("lung", seed, 2000, centred=False),
    "fashion pixels iid 10 sites": lambda seed: fashion(seed, "pixels", "iid", 3000),
    "fashion gradients dirichlet 10 sites": lambda seed: fashion(seed, "gradients", "dirichlet", 3000),
}
GRAPHS: dict[str, dict[str, Any]] = {
    "anchors": {"graph": "anchors", "n_anchors": 300, "min_cell": 5},
    "pairs": {"graph": "pairs", "hamming": "bfv"},
    "lattice": {"graph": "pairs", "hamming": "lattice"},
}
"""Ways of comparing rows: "pairs" by SEAL; "lattice" the same by products of matrices, the default."""


def sites_of(task: Task, seed: int) -> list[fedgeom.SiteData]:
    """Return a task as sites; rows that show no label have none."""
    parts, _ = as_sites(task, show_labels(task, SHARE, seed), task.all)
    return [
        fedgeom.SiteData(f"site {at:02d}", X, np.where(y < 0, "", y.astype(str)))
        for at, (X, y) in enumerate(parts)
    ]


def held(graph: str, sites: Sequence[fedgeom.SiteData], seed: int) -> dict[str, Any]:
    """Hold a secure run and compare it with the twin."""
    names = sorted({str(name) for site in sites for name in site.y.tolist()} - {""})
    method = fedgeom.XCLP(classes=tuple(names), **GRAPHS[graph])
    began = time.process_time()
    run = fedgeom.run(method, sites, seed=seed)
    seconds = time.process_time() - began
    pooled = plain_of(method, [(site.X, site.y) for site in sites], method.classes, seed)
    wanted = [np.array([*names, ""])[one.codes] for one in pooled.sites]
    same = np.concatenate(
        [
            np.array(run.local[site.name]["labels"]) == labels
            for site, labels in zip(sites, wanted, strict=True)
            if site.name in run.local
        ]
    )
    sent = [sum(entry.bytes for entry in run.ledger if entry.site == site.name) for site in sites]
    return {
        "sites": len(sites),
        "rows": sum(map(len, sites)),
        "lost": sorted(run.lost),
        "equal": round(100 * float(same.mean()), 2),
        "MB sent by a site": round(max(sent) / 1e6, 1),
        "CPU s": round(seconds, 1),
    }


def page(results: dict[str, dict[str, Any]]) -> str:
    """Return the table as Markdown."""
    lines = [
        "# Through the secure protocol",
        "",
        "Made by `python papers/xclp/secure.py`, whose head says how.",
        "",
    ]
    rows = [
        [
            name,
            graph,
            found["sites"],
            f"{found['rows']:,}",
            ", ".join(found["lost"]) or "none",
            found["equal"],
            found["MB sent by a site"],
            found["CPU s"],
        ]
        for name, graphs in results.items()
        for graph, found in graphs.items()
    ]
    head = [
        "set",
        "graph",
        "sites",
        "rows",
        "lost",
        "labels as the twin's (%)",
        "MB sent by a site, at most",
        "CPU s",
    ]
    return "\n".join([*lines, *table(head, rows), ""])


def main() -> None:
    """Go through the sets; what was computed before stays."""
    made = parser(__doc__, GRAPHS)
    made.add_argument("--minutes", type=float, default=1e6, help="begin no run after so many minutes")
    made.add_argument("--set", nargs="+", choices=list(SETS), default=list(SETS), help="compute these sets only")
    options = made.parse_args()
    if options.quick:
        task = digits(SEEDS[0], "iid", 4)
        few = Task(task.X[:400], task.y[:400], task.owner[:400], task.test[:400])
        print_json(options, {"digits": held("anchors", sites_of(few, SEEDS[0]), SEEDS[0])})
        return
    until, results = time.time() + 60 * options.minutes, RESULTS.read("secure")
    for graph in options.only:
        for name, make in ((name, SETS[name]) for name in options.set):
            if graph in results.get(name, {}) or time.time() > until:
                continue
            try:
                sites = sites_of(make(SEEDS[0]), SEEDS[0])
            except MissingFile as reason:
                print(f"{name} is left out: {reason}")
                continue
            results.setdefault(name, {})[graph] = held(graph, sites, SEEDS[0])
            print(f"{name}, {graph}: {results[name][graph]}", flush=True)
            RESULTS.write("secure", {name: results[name] for name in SETS if name in results}, page)
    print_json(options, results)


if __name__ == "__main__":
    main()
