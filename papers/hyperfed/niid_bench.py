"""Flower's niid_bench table re-run at a fraction of its size: FedAvg, FedProx, SCAFFOLD, FedNova on Fashion-MNIST.

    python papers/hyperfed/niid_bench.py                 # compute what is missing; writes results/niid-bench.*
    python papers/hyperfed/niid_bench.py --only two one  # some partitions
    python papers/hyperfed/niid_bench.py --only dirichlet-0.5 --images 20000    # more of it; results/niid-bench-20000.*
    python papers/hyperfed/niid_bench.py --report        # only rebuild the table from finished cells
    python papers/hyperfed/niid_bench.py --quick --json  # 600 images and 2 rounds; writes nothing

The published run has all 60,000 images, 10 sites and 50 rounds of 10 epochs; here it is 6,000 images and 10 rounds of 5
epochs, 1/100 of the steps. The rest is as published: LeNet with 6 and 16 channels (44,426 parameters), batch 64, rate
0.01, momentum 0.9, FedProx with μ = 0.01, every site in every round, one seed, accuracy on the 10,000 test images.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import fedgeom
from fedgeom.methods.catalogue import read_model
from fedgeom.methods.iterative import SGD, Algorithm, LeNet

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import Results, parser, percent, print_json, table
from papers.hyperfed.lines import Lines
from papers.hyperfed.report import put
from papers.hyperfed.split import images
from papers.oneshot.niid import COLUMNS, SETS, SITES, owners

RESULTS = Results(Path(__file__).resolve().parent / "results")
IMAGES, ROUNDS, EPOCHS = 6000, 10, 5
PARTITIONS = ("dirichlet-0.5", "two", "three", "one")
METHODS: dict[str, type[Algorithm]] = {
    "FedAvg": fedgeom.FedAvg,
    "FedProx": fedgeom.FedProx,
    "SCAFFOLD": fedgeom.Scaffold,
    "FedNova": fedgeom.FedNova,
}


def compute(
    name: str, partition: str, rows: int = IMAGES, rounds: int = ROUNDS, seed: int = 0, epochs: int = EPOCHS
) -> dict[str, Any]:
    """Train one method on one partition."""
    X, y, X_test, y_test = images("fashion-mnist", coarse=False)
    taken = np.random.default_rng(seed).permutation(len(X))[:rows]
    flat, labels = X[taken].reshape(rows, -1), y[taken]
    owner = owners(labels, partition, seed)
    sites = [fedgeom.SiteData(f"site-{at}", flat[owner == at], labels[owner == at]) for at in range(SITES)]
    more: dict[str, Any] = {"mu": 0.01} if name == "FedProx" else {}
    rule = METHODS[name](
        network=LeNet(),
        shape=(1, 28, 28),
        scale="pixels",
        n_rounds=rounds,
        epochs=epochs,
        batch_size=64,
        learning_rate=0.01,
        optimizer=SGD(momentum=0.9),
        **more,
    )
    test, began = X_test.reshape(len(X_test), -1), time.process_time()
    curve: list[float] = []
    facts: dict[str, Any] = {"method": name, "partition": partition, "images": rows, "rounds": rounds}

    def keep(name: str, file: bytes) -> None:
        model = read_model(file)
        curve.append(round(percent(model.predict(test[:2000]), y_test[:2000]), 2))

    try:
        model: Any = rule.plain(sites, seed, keep=keep).model
    except fedgeom.FedgeomError as error:  # training that went astray is a result, too
        return facts | {"error": str(error)[:120], "accuracy": None, "curve": curve}
    figures = {"accuracy": round(percent(model.predict(test), y_test), 2), "curve": curve}
    return facts | figures | {"seconds": round(time.process_time() - began, 1)}


def summary(lines: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, dict[str, float | None]]]:
    """Return for each partition and method our accuracy and the published one."""
    found: dict[str, dict[str, dict[str, float | None]]] = {}
    for partition in PARTITIONS:
        for name in METHODS:
            line = lines.get(key(name, partition))
            if line is not None:
                theirs = SETS["fashion-mnist"].published[f"{name} (niid-bench of Flower)"].get(partition)
                found.setdefault(partition, {})[name] = {"accuracy": line["accuracy"], "published": theirs}
    return found


def page(found: Mapping[str, Any], images: int = IMAGES) -> str:
    """Write the table."""
    body = []
    for partition, entries in found.items():
        cells: list[object] = [COLUMNS[partition]]
        for name in METHODS:
            entry = entries.get(name)
            ours = "–" if entry is None else "astray" if entry["accuracy"] is None else f"{entry['accuracy']:.1f}"
            cells += [ours, "–" if entry is None else f"{entry['published']:.1f}"]
        body.append(cells)
    head = ["partition", *(text for name in METHODS for text in (name, "published"))]
    about = " ".join((__doc__ or "").split("\n\n")[-1].split())
    about += "" if images == IMAGES else f" This page has {images:,} images instead of {IMAGES:,}."
    return "\n".join(["# Flower's niid_bench at a fraction of its size", "", about, "", *table(head, body), ""])


def key(name: str, partition: str) -> str:
    """Return a cell's name."""
    return f"{partition} | {name}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Compute what is missing, and write the table."""
    made = parser(__doc__, PARTITIONS)
    made.add_argument("--report", action="store_true", help="compute nothing")
    made.add_argument("--images", type=int, default=IMAGES, help="learn from so many images")
    made.add_argument("--cells", type=Path, help="the file of cells")
    options = made.parse_args(arguments)
    file = "niid-bench" if options.images == IMAGES else f"niid-bench-{options.images}"
    lines = Lines(None if options.quick else options.cells or RESULTS.folder / f"{file}.jsonl")
    size = {"rows": 600, "rounds": 2} if options.quick else {"rows": options.images}
    wanted = {
        key(name, partition): partial(compute, name, partition, **size)
        for partition in options.only
        for name in METHODS
    }
    if not options.report:
        lines.go_on(wanted)
    found = summary(lines.lines)
    if not options.quick:
        RESULTS.write(file, found, partial(page, images=options.images))
    if not options.quick and options.images == IMAGES:
        put(RESULTS.folder.parent / "README.md", "niid_bench", page(found).splitlines()[4:])
    print(page(found, options.images))
    print_json(options, found)


if __name__ == "__main__":
    main()
