"""Fashion-MNIST or CIFAR-10 dealt to ten sites in seven ways: one secure run of Ridge gives the same figure for each.

    python papers/oneshot/niid.py                  # all columns, some CPU minutes each; writes results/niid.{json,md}
    python papers/oneshot/niid.py --set cifar10    # the same for CIFAR-10; writes results/niid-cifar10.{json,md}
    python papers/oneshot/niid.py --only one iid   # some columns; those in the results stay as they are
    python papers/oneshot/niid.py --images 6000 --filters 60     # a smaller one; writes results/niid-6000-60.{json,md}
    python papers/oneshot/niid.py --accurate       # settings for accuracy; writes results/niid-accurate.{json,md}
    python papers/oneshot/niid.py --quick --json   # 2,000 images and 20 filters, a minute or two; writes nothing

A column that is in the results is left out unless --again is given, so that an interrupted script goes on where it was.
Every figure comes from a run with the full protocol: keys, masks, checked sums. λ is chosen from the sums; no test
image is looked at before the last line of a run (how the features came about, docs/ridge.md tells). Beside it stand
published figures of methods that train in rounds. "Accurate" is pools that overlap by 0.5, on CIFAR-10 3 × 3 with
discriminants, on Fashion-MNIST 4 × 4: settled on 5,000 training images, learning from 15,000 and 10,000 others, and not
on test images.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import fedgeom
from fedgeom.methods.ridge.image_features import Conv

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import Ints, Labels, Results, parser, percent, print_json, table
from papers.images import cifar10, fashion_mnist

RESULTS = Results(Path(__file__).parent / "results")
SITES = 10
COLUMNS = {
    "one": "1 class per site",
    "two": "2 classes per site",
    "three": "3 classes per site",
    "dirichlet-0.05": "Dirichlet 0.05",
    "dirichlet-0.1": "Dirichlet 0.1",
    "dirichlet-0.5": "Dirichlet 0.5",
    "iid": "all alike",
}


@dataclass(frozen=True)
class Images:
    """A set of images and what others have published for it, in percent, with methods that train in rounds."""

    title: str
    load: Callable[[str], tuple[Any, Ints]]
    shape: tuple[int, int, int]
    images: int
    file: str
    published: dict[str, dict[str, float]] = field(default_factory=dict)
    note: str = ""
    accurate: dict[str, Any] = field(default_factory=dict)
    """What --accurate changes: settings of the features, and the rule."""


SETS = {
    "fashion-mnist": Images(
        "Fashion-MNIST",
        fashion_mnist,
        (28, 28, 1),
        60_000,
        "niid",
        {
            "FedAvg (niid-bench of Flower)": {"one": 10.0, "two": 81.0, "three": 83.2, "dirichlet-0.5": 88.4},
            "SCAFFOLD (niid-bench of Flower)": {"one": 10.0, "two": 10.0, "three": 84.2, "dirichlet-0.5": 88.4},
            "FedProx (niid-bench of Flower)": {"one": 38.0, "two": 78.8, "three": 82.5, "dirichlet-0.5": 88.6},
            "FedNova (niid-bench of Flower)": {"one": 11.1, "two": 70.5, "three": 83.2, "dirichlet-0.5": 88.1},
            "HyperFed": {"dirichlet-0.1": 89.38, "dirichlet-0.5": 91.16},
        },
        "HyperFed prints 91.83 at Dirichlet 5.",
        {"overlap": 0.5, "pools": 4},
    ),
    "cifar10": Images(
        "CIFAR-10",
        cifar10,
        (32, 32, 3),
        50_000,
        "niid-cifar10",
        {
            "best of NIID-Bench, 50 rounds": {"two": 50.7, "dirichlet-0.5": 69.8},
            "HyperFed": {"dirichlet-0.1": 38.0, "dirichlet-0.5": 71.3},
        },
        "HyperFed prints 75.2 at Dirichlet 5. Larger networks and more rounds do better than both (FedAvg 82 to 84 at "
        "Dirichlet 0.1, with networks trained for hundreds of rounds).",
        {"overlap": 0.5, "rule": "discriminant"},
    ),
}


def owners(y: Labels, column: str, seed: int) -> Ints:
    """Return the site of each row, (rows,)."""
    rng, owner = np.random.default_rng(seed), np.empty(len(y), np.int64)
    if column == "iid":
        owner[rng.permutation(len(y))] = np.arange(len(y)) % SITES
        return owner
    several = {"one": 1, "two": 2, "three": 3}.get(column)
    alpha = 0.0 if several else float(column.split("-")[1])
    while True:
        for label in np.unique(y):
            rows = rng.permutation(np.flatnonzero(y == label))
            if several:
                owner[rows] = (int(label) + np.arange(len(rows)) % several) % SITES
            else:
                cuts = np.floor(np.cumsum(rng.dirichlet(np.full(SITES, alpha))) * len(rows)).astype(int)
                owner[rows] = np.searchsorted(cuts[:-1], np.arange(len(rows)), side="right")
        if np.bincount(owner, minlength=SITES).min() >= 10:  # nobody takes part with no rows
            return owner


def column(
    name: str, images: Images, rows: int, filters: int, seed: int = 0, *, accurate: bool = False
) -> dict[str, Any]:
    """Run Ridge on one partition and return its figures."""
    (X, y), (tested, wanted) = images.load("train"), images.load("test")
    X, y = X[:rows].reshape(rows, -1), y[:rows]
    owner = owners(y, name, seed)
    sites = [fedgeom.SiteData(f"site-{at:02d}", X[owner == at], y[owner == at]) for at in range(SITES)]
    changed = dict(images.accurate) if accurate else {}
    rule = changed.pop("rule", "ridge")
    features = Conv(n_filters=filters, **changed)
    method = fedgeom.Ridge(features=features, shape=images.shape, rule=rule)
    began, clock = time.process_time(), time.time()
    run = fedgeom.run(method, sites, seed=seed)
    seconds = time.process_time() - began
    found = run.model.predict(tested.reshape(len(tested), -1))
    return {
        "accuracy": round(percent(found, wanted), 2),
        "images": rows,
        "features": run.metrics["features"],
        "alpha": run.metrics["alpha"],
        "questions": len({entry.step for entry in run.ledger}),
        "MB sent by a site": round(sum(e.bytes for e in run.ledger) / SITES / 1e6, 1),
        "CPU seconds": round(seconds),
        "seconds": round(time.time() - clock),
    }


def page(figures: dict[str, Any], images: Images = SETS["fashion-mnist"], options: str = "") -> str:
    """Write the table of all columns; ``options`` are what the command was given besides the set."""
    names = [name for name in COLUMNS if name in figures]
    ours = [f"**{figures[name]['accuracy']:.2f}**" for name in names]
    others = [
        [title, *(f"{row[n]:.2f}" if n in row else "–" for n in names)] for title, row in images.published.items()
    ]
    facts = [
        [f"Ridge: {what}", *(str(figures[name][what]) for name in names)]
        for what in ("images", "features", "alpha", "questions", "MB sent by a site", "CPU seconds")
    ]
    command = "python papers/oneshot/niid.py" + (" --set cifar10" if images is SETS["cifar10"] else "")
    command += options
    lines = [
        f"# {images.title}, ten sites, test accuracy in percent",
        "",
        f"Made by `{command}`. Ridge is one run of the secure protocol; the others are published",
        f"figures of methods that train in rounds, on all {images.images:,} images, with networks and settings of",
        "their own.",
        images.note,
        "",
        *table(["", *(COLUMNS[name] for name in names)], [["Ridge, learnt convolutions", *ours], *others, *facts]),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Compute the columns and print them."""
    options = parser(__doc__, COLUMNS)
    options.add_argument("--set", choices=list(SETS), default="fashion-mnist", help="which images")
    options.add_argument("--again", action="store_true", help="compute columns anew that are in the results")
    options.add_argument("--accurate", action="store_true", help="with pools that overlap")
    options.add_argument("--images", type=int, help="learn from so many images")
    options.add_argument("--filters", type=int, default=Conv().n_filters, help="with so many filters")
    given = options.parse_args()
    images = SETS[given.set]
    rows, filters = (2000, 20) if given.quick else (given.images or images.images, given.filters)
    accurate = given.accurate
    file, said = images.file + "-accurate" * accurate, " --accurate" * accurate
    if (rows, filters) != (images.images, Conv().n_filters):
        file += f"-{rows}-{filters}"
        said += f" --images {rows}" * (rows != images.images) + f" --filters {filters}"
    done = {} if given.quick else RESULTS.read(file)
    for name in given.only:
        if name in done and not given.again:
            continue
        done[name] = column(name, images, rows, filters, accurate=accurate)
        print(f"{COLUMNS[name]:20} {done[name]}", flush=True)
        if not given.quick:
            done = RESULTS.keep(file, {name: done[name]}, COLUMNS, lambda figures: page(figures, images, said))
    print_json(given, done)


if __name__ == "__main__":
    main()
