"""Learning curves on Fashion-MNIST: one secure run of Ridge beside FedAvg, from 1,000 images to all 60,000.

    python papers/oneshot/curves.py                        # all sizes; writes results/curves.{json,md,png}
    python papers/oneshot/curves.py --only 1000 3000       # some sizes; what is in the results is not computed again
    python papers/oneshot/curves.py --ways Ridge           # one of the two
    python papers/oneshot/curves.py --choose               # FedAvg's rates and batches, on other images; prints them
    python papers/oneshot/curves.py --quick --json         # 300 images, two rounds; writes nothing

Ten sites, Dirichlet 0.5, the first so many images of the set, one seed, accuracy on 10,000 test images, all through the
secure protocol. Ridge has 60 filters, with which it sends about as much as FedAvg, and defaults for the rest (250
filters are in results/niid.md). FedAvg trains the LeNet of Flower's niid_bench (6 and 16 channels, 44,426 parameters)
with momentum 0.9 and batches of 64 in 20 rounds, of fewer epochs the more images there are (`EPOCHS`), for want of
time. Rate and batch were chosen on seed 1 and other images, scored on 5,000 training images that were not learnt from
(`--choose`, `CHOICE`): with 1,000 images 76.8, 75.6 and 10.2 with batches of 16 and rates 0.01, 0.03, 0.1, and 76.5,
77.0 and 10.2 with batches of 64 and 0.03, 0.1, 0.3; with 10,000 images, where a round has more steps, 71.5, 76.5 and
73.2 after five rounds with 0.01, 0.03 and 0.1; with 30,000 images 78.0 and 83.6 after five rounds with 0.01 and 0.03.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fedgeom
from fedgeom.methods.iterative import SGD, LeNet

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import Results, parser, percent, print_json, table
from papers.images import fashion_mnist
from papers.oneshot import niid

RESULTS = Results(Path(__file__).parent / "results")
SIZES = ("1000", "3000", "10000", "30000", "60000")
COLUMN, FILTERS, ROUNDS = "dirichlet-0.5", 60, 20
EPOCHS = {300: 1, 1000: 10, 3000: 10, 10_000: 5, 30_000: 3, 60_000: 2}
"""How many epochs a round has, by the number of images."""
RATE, LARGE_RATE, BATCH = 0.1, 0.03, 64
"""The second rate is for 10,000 images or more."""
CHOICE = {
    (1000, 20, 10): ((16, 0.01), (16, 0.03), (16, 0.1), (64, 0.03), (64, 0.1), (64, 0.3)),
    (10_000, 5, 5): ((64, 0.01), (64, 0.03), (64, 0.1)),
    (30_000, 5, 3): ((64, 0.01), (64, 0.03)),
}
"""For so many images, rounds and epochs: the batches and rates that were tried."""


def ridge(images: int, rounds: int) -> dict[str, float]:
    """Run Ridge over the first so many images."""
    found = niid.column(COLUMN, niid.SETS["fashion-mnist"], images, FILTERS)
    return {what: found[what] for what in ("accuracy", "CPU seconds", "MB sent by a site")}


def fedavg(images: int, rounds: int) -> dict[str, float]:
    """Train FedAvg on the first so many images."""
    X, y = fashion_mnist("train")
    rate = RATE if images < 10_000 else LARGE_RATE
    found = trained(
        X[:images], y[:images], *fashion_mnist("test"), rounds=rounds, epochs=EPOCHS[images], rate=rate
    )
    return found | {"rounds": rounds, "epochs": EPOCHS[images], "rate": rate}


def trained(
    X: Any,
    y: Any,
    tested: Any,
    wanted: Any,
    *,
    rounds: int,
    epochs: int,
    rate: float = RATE,
    batch: int = BATCH,
    seed: int = 0,
) -> dict[str, float]:
    """Train FedAvg by the secure protocol and score it on other images."""
    owner = niid.owners(y, COLUMN, seed)
    flat = X.reshape(len(X), -1)
    sites = [fedgeom.SiteData(f"site-{at:02d}", flat[owner == at], y[owner == at]) for at in range(niid.SITES)]
    method = fedgeom.FedAvg(
        network=LeNet(),
        shape=(1, 28, 28),
        scale="pixels",
        n_rounds=rounds,
        epochs=epochs,
        batch_size=batch,
        learning_rate=rate,
        optimizer=SGD(momentum=0.9),
    )
    began = time.process_time()
    run = fedgeom.run(method, sites, seed=seed)
    return {
        "accuracy": round(percent(run.model.predict(tested.reshape(len(tested), -1)), wanted), 2),
        "CPU seconds": round(time.process_time() - began),
        "MB sent by a site": round(sum(entry.bytes for entry in run.ledger) / niid.SITES / 1e6, 1),
    }


def choose(held: int = 5000) -> dict[str, float]:
    """Score FedAvg's batches and rates on training images that were not learnt from; images and seed are others."""
    X, y = fashion_mnist("train")
    order, found = np.random.default_rng(1).permutation(len(X)), {}
    for (images, rounds, epochs), tried in CHOICE.items():
        mine, others = order[:images], order[images : images + held]
        for batch, rate in tried:
            scored = trained(
                X[mine],
                y[mine],
                X[others],
                y[others],
                rounds=rounds,
                epochs=epochs,
                rate=rate,
                batch=batch,
                seed=1,
            )
            found[f"{images} images, batch {batch}, rate {rate}"] = scored["accuracy"]
            print(f"{images} images, batch {batch}, rate {rate}: {scored}", flush=True)
    return found


PUBLISHED = 88.4, "50 rounds of 10 epochs"
WAYS: dict[str, Callable[[int, int], dict[str, float]]] = {"Ridge": ridge, "FedAvg": fedavg}


def page(content: dict[str, dict[str, dict[str, float]]]) -> str:
    """Write the table: a column for each size."""
    sizes = [size for size in SIZES if size in content]
    lines = [
        [f"{way}: {what}", *(str(content[size][way][what]) if way in content[size] else "–" for size in sizes)]
        for what in ("accuracy", "CPU seconds", "MB sent by a site")
        for way in WAYS
    ]
    trained_so = {int(size): content[size]["FedAvg"]["epochs"] for size in sizes if "FedAvg" in content[size]}
    epochs = ", ".join(f"{number:.0f} at {size:,}" for size, number in trained_so.items())
    note = (
        "`python papers/oneshot/curves.py`: ten sites, Dirichlet 0.5, the first so many images, one seed; test "
        f"accuracy in percent; secure runs. Ridge: {FILTERS} learnt filters (250 filters: 92.0 with 60,000 images, "
        f"[niid.md](niid.md)). FedAvg: a LeNet, momentum 0.9, {ROUNDS} rounds of so many epochs: {epochs}; batch "
        f"{BATCH}, rate {RATE}, from 10,000 images on {LARGE_RATE}, chosen on other images and another seed "
        f"(`--choose`). Published for it with 60,000 images, {PUBLISHED[1]}: {PUBLISHED[0]} (niid_bench of Flower)."
    )
    head = ["images", *(f"{int(size):,}" for size in sizes)]
    title = "# Fashion-MNIST by the number of images\n\n![The same as curves](curves.png)\n\n"
    return title + note + "\n\n" + "\n".join(table(head, lines)) + "\n"


def picture(content: dict[str, dict[str, dict[str, float]]], path: Path) -> None:
    """Draw accuracy by the number of images."""
    from matplotlib.figure import Figure  # only pictures need it

    fig = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = fig.subplots()
    for way, mark in zip(WAYS, ("o-", "s--"), strict=True):
        sizes = [size for size in SIZES if way in content.get(size, {})]
        axes.plot(
            [int(size) for size in sizes], [content[size][way]["accuracy"] for size in sizes], mark, label=way
        )
    axes.plot([60_000], [PUBLISHED[0]], "x", color="black", label=f"FedAvg, published, {PUBLISHED[1]}")
    axes.set_xscale("log")
    axes.set_xticks([int(size) for size in SIZES], [f"{int(size):,}" for size in SIZES])
    axes.minorticks_off()
    axes.set_xlabel("images at ten sites together (Dirichlet 0.5)")
    axes.set_ylabel("test accuracy, %")
    axes.set_title("Fashion-MNIST: one run of Ridge beside 20 rounds of FedAvg", fontsize=11)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    fig.savefig(path, dpi=120)


def main() -> None:
    """Compute what is missing, and print and write it."""
    made = parser(__doc__, SIZES)
    made.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS), help="compute these")
    made.add_argument("--choose", action="store_true", help="score FedAvg's rates on other images; writes nothing")
    options = made.parse_args()
    if options.choose:
        print_json(options, choose())
        return
    content: dict[str, Any] = {} if options.quick else RESULTS.read("curves")
    for size in ["300"] if options.quick else options.only:
        for way in options.ways:
            if way in content.get(size, {}):
                continue
            found = WAYS[way](int(size), 2 if options.quick else ROUNDS)
            content.setdefault(size, {})[way] = found
            print(size, way, found, flush=True)
            if not options.quick:
                RESULTS.write("curves", content, page)
                picture(content, RESULTS.folder / "curves.png")
    print_json(options, content)


if __name__ == "__main__":
    main()
