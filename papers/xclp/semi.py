"""Training where few rows have labels: FedAvg+XCLP beside its baselines (Section 4.2, Table 4).

python papers/xclp/semi.py                       # all sets, 3 seeds; writes results/semi.{json,md} after every cell
python papers/xclp/semi.py --only t-cells        # one set; what was computed before stays as it is
python papers/xclp/semi.py --minutes 9           # stop after so long; the same command goes on with the rest
python papers/xclp/semi.py --quick --json        # 1 seed, T cells, 4 rounds; writes nothing

Sets: T cells of 5 hospitals (1,200 of each, 1 % with labels); Fashion-MNIST over 10 sites (300 images each, 200 labels
in all, IID or with 2 classes a site); CIFAR-10 with the authors' own splits (100 clients, 45,000 images; 1,000 or 5,000
labels, IID or 2 classes a client). Rounds, network and share of sites are in `SETS` and far below the paper's 1,500
rounds of a 13-layer network, so the level is not comparable, only the order of the rows. No setting was tuned: rate 0.1
and batch 50 for images, 0.3 and 20 for cells, a third of the rounds on labelled rows first. What is computed are runs
through the secure protocol (`fedgeom.run`); XCLP goes through anchors. All rows take as many steps, also that with the
few labelled rows alone. Accuracy is that of the joint model on rows held out or on the test images.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fedgeom

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import (
    Floats,
    Ints,
    Labels,
    Results,
    figure,
    load_data,
    parser,
    percent,
    plus_minus,
    print_json,
    table,
)
from papers.images import cifar10, fashion_mnist

SEEDS = 3
RESULTS = Results(Path(__file__).resolve().parent / "results")
XCLP = "FedAvg+XCLP"
ROWS: dict[str, Any] = {
    "labelled only": "none",
    "FedAvg+perclientLP": "site",
    "FedAvg+network": "network",
    "FedSem+": {"name": "network", "once": True},
    XCLP: {"name": "xclp", "steps": 3},
}
"""Each row's pseudo-labels."""
IMAGES: dict[str, Any] = {"scale": "pixels", "batch": 50, "rate": 0.1}
LENET = {"name": "lenet"}
SETS: dict[str, dict[str, Any]] = {
    "t-cells": {"rounds": 18, "steps": 60, "batch": 20, "rate": 0.3, "network": {"name": "mlp"}},
    "fashion iid": IMAGES | {"rounds": 18, "steps": 12, "network": LENET, "shape": (1, 28, 28)},
    "fashion 2 classes": IMAGES | {"rounds": 18, "steps": 12, "network": LENET, "shape": (1, 28, 28)},
}
SETS |= {
    f"cifar {labels} {kind}": IMAGES
    | {"rounds": 60, "steps": 18, "share": 0.05, "network": LENET, "shape": (3, 32, 32)}
    for labels in (1000, 5000)
    for kind in ("iid", "2 classes")
}
ANCHORS = {"t-cells": 150, "fashion": 100, "cifar": 100}
PAPER = {
    "cifar 1000 iid": (55.46, 61.75, 60.12, 59.98, 70.91),
    "cifar 5000 iid": (76.13, 85.11, 79.45, 79.49, 86.65),
    "cifar 1000 2 classes": (50.94, 50.94, 60.60, 60.93, 73.76),
    "cifar 5000 2 classes": (75.34, 76.61, 80.07, 79.70, 85.53),
}
"""Table 4, m_L = 100, in the order of the rows."""


class Task(NamedTuple):
    """One set with one seed."""

    sites: list[fedgeom.SiteData]
    """Rows without a label have ""."""
    X: Floats
    y: Labels


def _site(at: int, X: Any, y: Labels, shown: Any) -> fedgeom.SiteData:
    return fedgeom.SiteData(f"site {at:03d}", X, np.where(shown, y.astype(str), ""))


def t_cells(seed: int) -> Task:
    """Take 1,200 cells of each hospital; a quarter is tested on, 1 % of the others have a label."""
    with load_data("hipc_tcell_5hospitals.npz") as file:
        X, y, site = file["X"].astype(np.float64), file["class_names"][file["y"]].astype(str), file["site"]
    rng, sites, held = np.random.default_rng(seed), [], []
    for at in np.unique(site):
        rows = rng.permutation(np.flatnonzero(site == at))[:1200]
        held.append(rows[:300])
        sites.append(_site(int(at), X[rows[300:]], y[rows[300:]], np.arange(900) < 9))
    out = np.concatenate(held)
    return Task(sites, X[out], y[out])


def deal(y: Ints, kind: str, sites: int, rng: np.random.Generator) -> list[Ints]:
    """Deal rows to sites: at random, or sorted by class in two pieces a site."""
    order = rng.permutation(len(y))
    if kind == "iid":
        return np.array_split(order, sites)
    pieces = np.array_split(order[np.argsort(y[order], kind="stable")], 2 * sites)
    drawn = rng.permutation(2 * sites)
    return [np.concatenate([pieces[one], pieces[other]]) for one, other in drawn.reshape(sites, 2)]


def fashion(kind: str, seed: int) -> Task:
    """Deal 3,000 images to ten sites; twenty of each site have labels, and all test images are tested on."""
    (X, y), (test, wanted), rng = fashion_mnist("train"), fashion_mnist("test"), np.random.default_rng(seed)
    rows = rng.permutation(len(y))[:3000]
    X, y = X[rows].reshape(3000, -1), y[rows]
    sites = []
    for at, own in enumerate(deal(y, kind, 10, rng)):
        mixed = rng.permutation(own)
        sites.append(_site(at, X[mixed], y[mixed], np.arange(len(mixed)) < 20))
    return Task(sites, test.reshape(len(test), -1), wanted)


def cifar(labels: int, kind: str, seed: int) -> Task:
    """Take the authors' split with the seed's number."""
    (X, y), (test, wanted) = cifar10("train"), cifar10("test")
    with load_data("xclp_cifar10_splits.npz") as file:
        how = "iid0" if kind == "iid" else "noniid2"
        at = file["name"].tolist().index(f"{labels}_labels_100_labelled_clients_{how}_split{seed}")
        client, shown = file["client"][at], np.unpackbits(file["labelled"], axis=1)[at, :50000].astype(bool)
    X, test = (one.transpose(0, 3, 1, 2).reshape(len(one), -1) for one in (X, test))
    sites = [
        _site(number, X[client == number], y[client == number], shown[client == number]) for number in range(100)
    ]
    return Task(sites, test, wanted)


def draw(name: str, seed: int) -> Task:
    """Return a set with a seed."""
    first, _, kind = name.partition(" ")
    if first == "cifar":
        labels, _, kind = kind.partition(" ")
        return cifar(int(labels), kind, seed)
    return t_cells(seed) if first == "t-cells" else fashion(kind, seed)


def train(name: str, row: str, task: Task, seed: int, rounds: int | None) -> float:
    """Return the accuracy in percent of a row's joint model after a secure run."""
    labels = ROWS[row]
    if row == XCLP:
        labels = labels | {"anchors": ANCHORS[name.split(" ")[0]]}
    settings = SETS[name] | ({} if rounds is None else {"rounds": rounds})
    names = tuple(sorted({str(one) for one in task.y.tolist()}))
    method = fedgeom.XCLPTraining(labels=labels, classes=names, **settings)
    model: Any = fedgeom.run(method, task.sites, seed=seed).model
    return percent(model.predict(task.X), task.y)


def page(results: dict[str, Any]) -> str:
    """Return the table as Markdown."""
    lines = ["# Few labels", "", "Made by `python papers/xclp/semi.py`, whose head says how. Accuracy in percent,"]
    lines += ["± the deviation over seeds; in brackets the paper's, at 1,500 rounds of a larger network.", ""]
    rows = []
    for name, seeds in results.items():
        cells: list[object] = [name, SETS[name]["rounds"], max(map(len, seeds.values()), default=0)]
        for at, row in enumerate(ROWS):
            found = [rows_[row] for rows_ in seeds.values() if row in rows_]
            paper = f" [{PAPER[name][at]:.1f}]" if name in PAPER else ""
            ours = plus_minus(figure(found, spread="sd"), 1) + f" (n={len(found)})" if found else "–"
            cells.append(ours + paper)
        rows.append(cells[:2] + cells[3:])
    return "\n".join([*lines, *table(["set", "rounds", *ROWS], rows), ""])


def measure(
    names: Sequence[str],
    seeds: int,
    results: dict[str, Any],
    keep: Callable[[], None],
    until: float,
    **options: Any,
) -> None:
    """Fill in what is not known yet, seed by seed, until the time is over."""
    for seed in range(seeds):
        for name in names:
            known = results.setdefault(name, {}).setdefault(str(seed), {})
            missing = [row for row in ROWS if row not in known]
            if not missing or time.monotonic() > until:
                continue
            task = draw(name, seed)
            for row in missing:
                if time.monotonic() > until:
                    break
                known[row] = round(train(name, row, task, seed, options.get("rounds")), 2)
                print(f"{name}, seed {seed}, {row}: {known[row]}", file=sys.stderr, flush=True)
                keep()


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, write and print."""
    made = parser(__doc__, SETS)
    made.add_argument("--seeds", type=int, default=SEEDS)
    made.add_argument("--minutes", type=float, default=float("inf"), help="stop after so long")
    options = made.parse_args(arguments)
    results: dict[str, Any] = {} if options.quick else RESULTS.read("semi")
    if options.quick:
        measure(["t-cells"], 1, results, lambda: None, float("inf"), rounds=4)
    else:
        until = time.monotonic() + 60 * options.minutes
        measure(options.only, options.seeds, results, lambda: RESULTS.write("semi", results, page), until)
    print(page(results))
    print_json(options, results)


if __name__ == "__main__":
    main()
