"""Prediction on features that FedAvg has trained: the "finetuned" half of Table 1 and "linear" of Table 6.

    python papers/xclp/features.py                  # two sets, 3 seeds, a quarter of an hour; writes results/features.*
    python papers/xclp/features.py --only writers   # one set; what was computed before stays as it is
    python papers/xclp/features.py --minutes 5      # begin no cell after so long; the same command goes on
    python papers/xclp/features.py --quick --json   # 1 seed, 6 writers, 3 rounds; writes nothing

- **writers**: MNIST by writer in FEMNIST's place, 25 writers. "linear" is a two-layer linear network trained by FedAvg
  whose first layer, 64 numbers, makes the features, as in Appendix B.1; "network" a small LeNet, its last hidden layer.
- **cifar**: 3,000 images of CIFAR-10 over 10 sites, in Fed-ISIC2019's place. There is no pretrained network among our
  data: "filters" are fixed random ones (`papers.images.filtered`) in EfficientNet's place, "network" 64 numbers that
  FedAvg trains behind them, with the rounds, steps and rate of semi.py.

A share of the training rows has labels and a third of all rows is tested on, as in tables.py. FedAvg trains on the
labelled rows (`fedgeom.FedAvg`, its plain run, which equals the run bit for bit) and its own prediction is the column
FedAvg. On its features, for all rows: propagation per client, and XCLP as Algorithm 1, as the authors' code, as ours;
"identity" rows are the same on raw pixels. Propagation is that of the plain runs. On MNIST rounds, steps and rate were
not tuned.
"""

from __future__ import annotations

import sys
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import fedgeom
from fedgeom.methods.iterative.learners.torch_module import built_learner
from fedgeom.methods.iterative.setup import scaled

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import Floats, Ints, MissingFile, figure, parser, percent, plus_minus, print_json, table
from papers.images import cifar10, filtered
from papers.xclp.plain import per_client, plain
from papers.xclp.tasks import (
    RESULTS,
    SEEDS,
    TEST_SHARE,
    Task,
    mnist_writers,
    remember_distances,
    show_labels,
    spread,
)

LINEAR: dict[str, Any] = {"name": "mlp", "depth": 0, "features": 64, "activation": "none"}
LENET: dict[str, Any] = {"name": "lenet"}
BEHIND: dict[str, Any] = {"name": "mlp", "depth": 0, "features": 64}
EFFORT: dict[str, Any] = {"n_rounds": 20, "steps": 10, "batch_size": 32, "learning_rate": 0.1}
MORE: dict[str, Any] = {"n_rounds": 36, "steps": 10, "batch_size": 50, "learning_rate": 0.05}
SETS: dict[str, dict[str, Any]] = {
    "writers": {
        "shares": (0.1, 0.5),
        "features": ("identity", "linear", "network"),
        "linear": EFFORT | {"network": LINEAR},
        "network": EFFORT | {"network": LENET, "shape": (1, 28, 28)},
    },
    "cifar": {
        "shares": (0.1, 1.0),
        "features": ("identity", "filters", "network"),
        "network": MORE | {"network": BEHIND},
    },
}
COLUMNS = ("FedAvg", "per-client LP paper", "per-client LP ours", "XCLP paper", "XCLP code", "XCLP ours")
PAPER = {
    "Table 1, pretrained and finetuned (n = 954 … 18,597)": {
        "identity": ("–", "30.7 … 55.1", "34.0 … 53.4"),
        "features": ("43.8 … 63.8", "45.4 … 73.3", "47.5 … 74.2"),
    },
    "Table 6, identity and linear (10 … 100 % of labels)": {
        "identity": ("53.1 … 62.9", "33.7 … 51.9", "49.3 … 62.4"),
        "features": ("the same", "37.3 … 59.4", "52.4 … 66.2"),
    },
}


@lru_cache(maxsize=1)
def draw(name: str, seed: int, quick: bool) -> Task:
    """Return a set's rows as pixels."""
    if name == "writers":
        return mnist_writers(seed, "pixels", 6 if quick else 25)
    rng = np.random.default_rng(seed)
    images, y = cifar10("train")
    at = rng.permutation(len(y))[: 400 if quick else 3000]
    X = images[at].transpose(0, 3, 1, 2).reshape(len(at), -1) / 255.0
    return Task(X, y[at], rng.permutation(len(at)) % 10, rng.random(len(at)) < TEST_SHARE)


def behind_filters(X: Floats) -> Floats:
    """Return what fixed filters make of CIFAR-10's pixels."""
    images = (255 * X).round().astype(np.uint8).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.asarray(filtered(images), np.float64)


def trained(task: Task, shown: Any, settings: dict[str, Any], seed: int) -> tuple[Ints, Floats]:
    """Train by FedAvg on labelled rows; return what it predicts for all rows, and their features."""
    sites = [
        fedgeom.SiteData(f"site-{owner:03d}", task.X[rows], task.y[rows].astype(str))
        for owner in np.unique(task.owner)
        for rows in [np.flatnonzero(shown & (task.owner == owner))]
        if rows.size
    ]
    method = fedgeom.FedAvg(scale="none", classes=tuple(map(str, task.classes)), **settings)
    model = method.plain(sites, seed).model
    learner = built_learner(model.learner, dict(model.options))
    X = scaled(task.X, model.centre, model.spread, learner.dtype)
    learner.bind(X.shape[1], len(model.names))
    features = np.asarray(learner.features(model.parameters, X), np.float64)
    return model.predict(task.X).astype(np.int64), features


def propagated(task: Task, shown: Any, X: Floats, seed: int) -> dict[str, float]:
    """Return the accuracy on test rows of every propagation over these features."""
    over, classes = Task(X, task.y, task.owner, task.test), task.classes
    ways = {
        "per-client LP paper": lambda sites: per_client(sites, variant="paper", classes=classes),
        "per-client LP ours": lambda sites: per_client(sites, classes=classes),
        **{
            f"XCLP {variant}": lambda sites, v=variant: plain(sites, classes=classes, seed=seed, variant=v).sites
            for variant in ("paper", "code", "ours")
        },
    }
    said = {name: spread(over, shown, task.all, way) for name, way in ways.items()}
    return {name: percent(labels[task.test], task.y[task.test]) for name, labels in said.items()}


def cell(name: str, share: float, kind: str, seed: int, quick: bool) -> dict[str, float]:
    """Return one row of one seed."""
    task = draw(name, seed, quick)
    shown = show_labels(task, share, seed)
    if name == "cifar" and kind != "identity":
        task = Task(behind_filters(task.X), task.y, task.owner, task.test)
    if kind in ("identity", "filters"):
        return propagated(task, shown, task.X, seed)
    said, features = trained(task, shown, SETS[name][kind] | ({"n_rounds": 3} if quick else {}), seed)
    found = {"FedAvg": percent(said[task.test], task.y[task.test])}
    return found | propagated(task, shown, features, seed)


def page(results: dict[str, Any]) -> str:
    """Return the table as Markdown."""
    lines = [
        "# Prediction on features that FedAvg has trained",
        "",
        "Made by `python papers/xclp/features.py`, whose head says how. Accuracy in percent on test rows, mean ±",
        "deviation over seeds from 10 on; one without ± has one seed so far.",
        "",
    ]
    rows = [
        [title, *("–" if not found.get(c) else plus_minus(figure(found[c], spread="sd"), 1) for c in COLUMNS)]
        for title, found in results.items()
    ]
    lines += [*table(["set, labels, features", *COLUMNS], rows), "", "The paper's, on its own sets:", ""]
    said = [(f"{name}: {how}", *by) for name, both in PAPER.items() for how, by in both.items()]
    return "\n".join([*lines, *table(["", "FedAvg", "per-client LP", "XCLP"], said), ""])


def main() -> None:
    """Go through the cells; what was computed before stays."""
    made = parser(__doc__, SETS)
    made.add_argument("--minutes", type=float, default=1e6, help="begin no cell after so many minutes")
    options = made.parse_args()
    until = time.time() + 60 * options.minutes
    remember_distances(4)
    results: dict[str, Any] = {} if options.quick else RESULTS.read("features")
    order = [
        (seed, name, share, kind)
        for seed in (SEEDS[:1] if options.quick else SEEDS)
        for name in options.only
        for share in (SETS[name]["shares"][:1] if options.quick else SETS[name]["shares"])
        for kind in SETS[name]["features"]
    ]
    for seed, name, share, kind in order:
        title = f"{name} {100 * share:g} %, {kind}"
        have = results.setdefault(title, {})
        if len(have.get("XCLP ours", [])) > SEEDS.index(seed) or time.time() > until:
            continue
        try:
            found = cell(name, share, kind, seed, options.quick)
        except MissingFile as reason:
            print(f"{name} is left out: {reason}")
            continue
        for column, value in found.items():
            have.setdefault(column, []).append(round(value, 2))
        print(title, seed, found, flush=True)
        if not options.quick:
            kept = {title: one for title, one in results.items() if one}
            RESULTS.write("features", dict(sorted(kept.items())), page)
    print_json(options, results)


if __name__ == "__main__":
    main()
