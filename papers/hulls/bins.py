"""What larger bins cost and hide: Figures 7 and 9 and Tables 2 and 3 of the hulls paper, on the sets that can be had.

    python papers/hulls/bins.py                  # some minutes; writes results/bins.{json,md,png}
    python papers/hulls/bins.py --only olsson    # some sets; the others in the results stay as they are
    python papers/hulls/bins.py --quick --json   # less than a minute: one trial, two bin sizes, 6,000 images

For every bin size ε, at L = 3 and at L = 5 sites, with the published settings (λ = 0.1): accuracy of FLP and FLE, and
the complexity of the hulls as they are sent (Definition 4): corners of a class at a site, the mean and the largest over
all classes and sites, and the same divided by the rows of the class there. CP, CE and, trained on the corners of the
pooled classes alone, CH-CP and CH-CE (Table 2) do not depend on ε or L.

The paper has these for UC-Stromal, whose embedding is not public. Here are Olsson's cells at the published split and
trials (one test point is 2.08 %), Paul's cells and the two sets of images. The figures are the plain run's; the first
trial of every setting also goes through the secure protocol, and the script requires the same hulls, groups and
hyperplanes, bit for bit, unless more hulls meet in a bin than labels can tell apart, or the published grouping finds
fewer groups than classes, which a run refuses; "secure" then says so.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

import fedgeom
from fedgeom.errors import FedgeomError
from fedgeom.geometry.hyperbolic.svm import EuclideanSVC
from fedgeom.methods.hulls.core import fit_groups, points_of_groups

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import Floats, Labels, figure, load_data, parser, percent, plus_minus, print_json, table
from papers.hulls import published
from papers.hulls.plain import PlainModel, covering_radius
from papers.hulls.runs import RESULTS, check_twin, plain_twin

EPSILONS = (0.01, 0.03, 0.1, 0.3, 1.0, 2.0, 4.0)
QUICK_EPSILONS = (0.1, 2.0)
SITES = (3, 5)
SPLIT_SEED = 3
"""Of the 85/15 split, as for Olsson's cells in the authors' code."""
METHODS = ("FLP", "FLE")
POOLED = ("CP", "CH-CP", "CE", "CH-CE")


@dataclass(frozen=True)
class Task:
    """A set with its split, and how trials deal it to sites."""

    X: Floats
    y: Labels
    X_test: Floats
    y_test: Labels
    trials: int
    deal: Callable[[int, int], list[fedgeom.SiteData]]
    """Makes the sites of a trial: their number, the trial."""
    seed: Callable[[int], int]


def olsson(quick: bool) -> Task:
    """Olsson's cells: the published split, partitions and seeds."""
    X, X_test, y, y_test = published.olsson_split()

    def deal(n_sites: int, trial: int) -> list[fedgeom.SiteData]:
        parts = published.published_partition(X, y, n_sites, seed=3 * trial)
        return [fedgeom.SiteData(f"site-{i + 1}", *part) for i, part in enumerate(parts)]

    return Task(X, y, X_test, y_test, 1 if quick else published.TRIALS, deal, lambda trial: 4 * trial)


def paul15(quick: bool) -> Task:
    """Paul's 19 clusters in a Poincaré map."""
    with load_data("paul15.npz") as file:
        X, y = file["poincare"], file["class_names"][file["y"]]
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.15, random_state=SPLIT_SEED)
    return _dealt(X, y, X_test, y_test, 1 if quick else 5)


def fashion_mnist(quick: bool) -> Task:
    """Fashion-MNIST embeddings with their own train and test part."""
    return _images("fashion_mnist", quick)


def cifar10(quick: bool) -> Task:
    """CIFAR-10 embeddings with their own train and test part."""
    return _images("cifar10", quick)


TASKS: dict[str, Callable[[bool], Task]] = {
    "olsson": olsson,
    "paul15": paul15,
    "fashion-mnist": fashion_mnist,
    "cifar10": cifar10,
}


def _images(key: str, quick: bool) -> Task:
    with load_data("poincare2d_cifar10_fmnist.npz") as file:
        A, a, B, b = (file[f"{key}_{part}"] for part in ("x_train", "y_train", "x_test", "y_test"))
    return _dealt(A[:6000], a[:6000], B, b, 1) if quick else _dealt(A, a, B, b, 3)


def _dealt(X: Floats, y: Labels, X_test: Floats, y_test: Labels, trials: int) -> Task:
    """Deal the training part to sites with seeds 0, 1, …."""
    return Task(
        X, y, X_test, y_test, trials, lambda n, trial: fedgeom.split(X, y, n, seed=trial), lambda trial: trial
    )


def measure(name: str, quick: bool) -> dict[str, Any]:
    """Measure one set at every bin size and number of sites."""
    task = TASKS[name](quick)
    codes = np.unique(task.y, return_inverse=True)[1]
    found: dict[str, Any] = {"pooled": {}, "points": []}
    for hulls_only, names in ((False, ("CP", "CE")), (True, ("CH-CP", "CH-CE"))):
        for column, model in zip(names, published.centralised(task.X, codes, hulls_only=hulls_only), strict=True):
            said = np.unique(task.y)[model.predict(task.X_test)]
            found["pooled"][column] = figure([percent(said, task.y_test)])
    for n_sites in SITES:
        for epsilon in QUICK_EPSILONS if quick else EPSILONS:
            found["points"].append(_point(task, n_sites, epsilon))
            print(_line(name, found["points"][-1]), flush=True)
    return found


def _point(task: Task, n_sites: int, epsilon: float) -> dict[str, Any]:
    radius = covering_radius([task.X])
    classes = len(np.unique(task.y))
    method = fedgeom.Hulls.published(radius=radius, epsilon=epsilon, n_classes=classes)
    columns: dict[str, list[float]] = {name: [] for name in METHODS}
    corners: list[float] = []
    shares: list[float] = []
    secure = ""
    for trial in range(task.trials):
        sites, seed = task.deal(n_sites, trial), task.seed(trial)
        parts = [(site.X, site.y.astype(str)) for site in sites]
        model = plain_twin(method, parts, radius, classes, seed)
        flat = fit_groups(points_of_groups(model.hulls, model.members, model.grid), EuclideanSVC(method.C))
        names = np.array(published_names(model, parts))
        columns["FLP"].append(percent(names[model.classifier.predict(task.X_test)], task.y_test))
        columns["FLE"].append(percent(names[flat.predict(task.X_test)], task.y_test))
        for sent, rows in complexities(model, parts):
            corners.append(sent)
            shares.append(100 * sent / rows)
        if trial == 0:
            secure = _secure(method, sites, seed, model)
    return {
        "sites": n_sites,
        "epsilon": epsilon,
        **{name: figure(values) for name, values in columns.items()},
        "corners": {"mean": round(float(np.mean(corners)), 1), "largest": int(max(corners))},
        "share": {"mean": round(float(np.mean(shares)), 2), "largest": round(float(max(shares)), 2)},
        "secure": secure,
    }


def published_names(model: PlainModel, parts: list[tuple[Floats, Labels]]) -> list[str]:
    """Name each group by the label of most of its hulls, the smallest on a tie, as the authors' code does."""
    labels = np.array([str(label) for _, y in parts for label in np.unique(y)])
    names = []
    for group in range(int(model.members.max()) + 1):
        called, counts = np.unique(labels[model.members == group], return_counts=True)
        names.append(str(called[counts.argmax()]))
    return names


def complexities(model: PlainModel, parts: list[tuple[Floats, Labels]]) -> Iterator[tuple[int, int]]:
    """Give the corners that each class at each site sends (Definition 4), and how many rows it has there."""
    rows = [int((y == label).sum()) for _, y in parts for label in np.unique(y)]
    yield from zip(map(len, model.hulls), rows, strict=True)


def _secure(method: fedgeom.Hulls, sites: list[fedgeom.SiteData], seed: int, model: PlainModel) -> str:
    """Run with masks and codes and require the twin's result, unless bins are too crowded to take apart."""
    crowd = int(np.unique(np.concatenate(model.hulls), return_counts=True)[1].max())
    try:
        run = fedgeom.run(method, sites, seed=seed)
    except FedgeomError as error:
        if "the hulls fall into" in str(error):  # the library refuses what the authors' code goes on with
            return "refused: fewer groups than classes"
        if "hulls met" not in str(error):
            raise AssertionError(f"the secure run failed where the plain one did not: {error}") from error
        return f"up to {crowd} hulls meet in a bin"
    if run.metrics["crowded_bins"]:
        return f"up to {crowd} hulls meet in a bin"
    check_twin(run, model)
    return "equal"


def _line(name: str, point: dict[str, Any]) -> str:
    values = "  ".join(f"{one} {plus_minus(point[one])}" for one in METHODS)
    hulls = f"corners {point['corners']['mean']:g} … {point['corners']['largest']}"
    shares = f"share {point['share']['mean']:g} … {point['share']['largest']:g} %"
    return f"{name:14} L={point['sites']} ε={point['epsilon']:<5g} {values}  {hulls}  {shares}  {point['secure']}"


def markdown(results: dict[str, Any]) -> str:
    """Lay the figures out set by set."""
    lines = [
        "# Bins of several sizes (Figures 7 and 9, Tables 2 and 3): accuracy in percent, corners per hull",
        "",
        "Made by `python papers/hulls/bins.py`; figures in `bins.json`, picture `bins.png`. Published settings;",
        "trials are the published ones for Olsson, and deals (seeds 0, 1, …) of one fixed split for the others. ± is",
        "the half width of the 95 % interval over trials. Corners and their share of the class's rows: mean, and the",
        "largest of all classes, sites and trials (Definition 4). The paper's own set, UC-Stromal, cannot be had.",
    ]
    for name, found in results.items():
        pooled = ", ".join(f"{one} {found['pooled'][one]['mean']:.2f}" for one in POOLED)
        lines += ["", f"## {name}", "", f"{found['points'][0]['FLP']['n']} trials. Pooled: {pooled}.", ""]
        rows = [
            [
                point["sites"],
                f"{point['epsilon']:g}",
                *(plus_minus(point[one]) for one in METHODS),
                point["corners"]["mean"],
                point["corners"]["largest"],
                point["share"]["mean"],
                point["share"]["largest"],
                point["secure"],
            ]
            for point in found["points"]
        ]
        head = ["L", "ε", *METHODS, "corners", "most", "share, %", "most, %", "secure, first trial"]
        lines += table(head, rows)
    return "\n".join([*lines, ""])


def draw(results: dict[str, Any], path: Path) -> None:
    """Plot a row for each set: accuracy, corners, share of the rows, over ε."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(
        len(results), 3, figsize=(12, 0.9 + 2.7 * len(results)), layout="constrained", squeeze=False, sharex=True
    )
    for row, (name, found) in zip(axes, results.items(), strict=True):
        for n_sites, line in zip(SITES, ("-", "--"), strict=True):
            points = [point for point in found["points"] if point["sites"] == n_sites]
            x = [point["epsilon"] for point in points]
            for method, colour in zip(METHODS, ("#0072B2", "#D55E00"), strict=True):
                mean = np.array([point[method]["mean"] for point in points])
                half = np.array([point[method]["ci95"] for point in points])
                row[0].plot(x, mean, line, color=colour, marker="o", ms=3.5, label=f"{method}, L = {n_sites}")
                row[0].fill_between(x, mean - half, mean + half, color=colour, alpha=0.12, lw=0)
            for ax, key in ((row[1], "corners"), (row[2], "share")):
                for which, colour in (("mean", "#009E73"), ("largest", "#CC79A7")):
                    y = [point[key][which] for point in points]
                    ax.plot(x, y, line, color=colour, marker="o", ms=3.5, label=f"{which}, L = {n_sites}")
        row[0].set_ylabel(f"{name}\naccuracy (%)")
        row[1].set_ylabel("corners sent per class and site")
        row[2].set_ylabel("of the class's rows (%)")
        for ax in row:
            ax.set_xscale("log")
            ax.grid(alpha=0.25, lw=0.6)
            ax.spines[["top", "right"]].set_visible(False)
    for ax in axes[-1]:
        ax.set_xlabel(r"bin size $\varepsilon$")
    for ax in axes[0]:
        ax.legend(frameon=False, fontsize=8)
    fig.suptitle("Bin size, accuracy and hull complexity (Figures 7 and 9); shaded 95 % interval over trials")
    fig.savefig(path, dpi=120)
    plt.close(fig)


def main() -> None:
    """Parse, run, print, write."""
    options = parser(__doc__, TASKS).parse_args()
    made: dict[str, Any] = {}
    for name in options.only:
        made[name] = measure(name, options.quick)
        if not options.quick:
            draw(RESULTS.keep("bins", {name: made[name]}, TASKS, markdown), RESULTS.folder / "bins.png")
    print_json(options, made)


if __name__ == "__main__":
    main()
