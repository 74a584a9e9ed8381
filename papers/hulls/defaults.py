"""Which λ and which trimming? Candidates compared on rows held out of the *training* parts of Table 1's sets.

    python papers/hulls/defaults.py                  # some five minutes; writes results/defaults.{json,md}
    python papers/hulls/defaults.py --only hipc      # some sets; the others in the results stay as they are
    python papers/hulls/defaults.py --quick --json   # half a minute; writes nothing

A trimming rule gives a class of n points at a site the share of points that its hull leaves out: nothing up to
``low`` points, ``most`` from ``high`` on, in between growing with log n. A split's own test rows are not used; for
the sets without a fixed test part (Olsson, Paul, the hospitals) they may be training rows of another split.
The JSON is {candidate: {data set: mean accuracy in percent on the rows held out}}.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split

import fedgeom
from fedgeom.data.datasets import load_set
from fedgeom.data.split import holdout
from fedgeom.geometry.hyperbolic.grid import PolarGrid
from fedgeom.geometry.hyperbolic.hull import default_trim
from fedgeom.geometry.hyperbolic.svm import PoincareSVC
from fedgeom.methods.hulls import embedding as joint_map
from fedgeom.methods.hulls.core import fit_groups, group_hulls, points_of_groups

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import Floats, Labels, bold, load_data, parser, percent, print_json, table
from papers.hulls import published
from papers.hulls.plain import covering_radius, local_hulls, name_groups
from papers.hulls.runs import RESULTS

Part = tuple[Floats, Labels]


@dataclass(frozen=True)
class Candidate:
    """A trimming rule and a λ."""

    most: float
    low: float
    high: float
    C: float = 5.0

    def trim(self, n: int) -> float:
        """Give the share left out of a hull of n points."""
        return self.most * min(max(math.log(n / self.low) / math.log(self.high / self.low), 0.0), 1.0)

    def __str__(self) -> str:
        grown = f"{self.most:.0%} from {self.low:g} to {self.high:g} points" if self.most else "no trimming"
        same = all(math.isclose(self.trim(n), default_trim(n), abs_tol=1e-9) for n in (5, 40, 300, 9000))
        return f"{grown}, λ = {self.C:g}" + (" (the default)" if same and self.C == fedgeom.Hulls().C else "")


CANDIDATES = [
    Candidate(0.0, 1, 10),
    *(Candidate(0.1, 100, 1000, C) for C in (0.1, 1.0, 5.0, 20.0, 100.0)),
    Candidate(0.1, 30, 300),
    *(Candidate(0.1, 10, 100, C) for C in (1.0, 5.0, 20.0)),
    Candidate(0.2, 100, 1000),
    Candidate(0.2, 30, 300),
    Candidate(0.2, 10, 100),
]


@dataclass(frozen=True)
class Task:
    """Sites to learn from, and rows of the same training set to score."""

    name: str
    sites: list[Part]
    aside: list[Part]


def olsson(quick: bool) -> Iterator[Task]:
    """Give Olsson's cells in many splits."""
    X, y = published.olsson_points()
    for seed in range(2 if quick else 20):
        yield _inside("olsson, 8 classes", X, y, seed)


def paul15(quick: bool) -> Iterator[Task]:
    """Give Paul's clusters in several splits."""
    with load_data("paul15.npz") as file:
        X, y = file["poincare"], file["y"]
    for seed in range(1 if quick else 10):
        yield _inside("paul15, 19 classes", X, y, seed)


def images(quick: bool) -> Iterator[Task]:
    """Give samples of Fashion-MNIST's and CIFAR-10's embeddings, small and large."""
    with load_data("poincare2d_cifar10_fmnist.npz") as file:
        parts = {key: (file[f"{key}_x_train"], file[f"{key}_y_train"]) for key in ("fashion_mnist", "cifar10")}
    for seed in range(1 if quick else 3):
        for key, (X, y) in parts.items():
            for rows in (3_000,) if quick else (3_000, 50_000):
                A, B, a, b = train_test_split(X, y, train_size=rows * 9 // 10, test_size=5_000, random_state=seed)
                yield Task(f"{key}, {rows:,} rows", _dealt(A, a, 5, seed), [(B, b)])


def hipc(quick: bool) -> Iterator[Task]:
    """Give the five hospitals' T cells."""
    for seed in range(1 if quick else 5):
        yield _hospitals(seed)


SETS: dict[str, Callable[[bool], Iterator[Task]]] = {
    "olsson": olsson,
    "paul15": paul15,
    "images": images,
    "hipc": hipc,
}
"""The training sets, each less the rows held out."""


def _inside(name: str, X: Floats, y: Labels, seed: int) -> Task:
    """Repeat Table 1's split, forget its test part, and hold out a fifth of the rest."""
    A, _, a, _ = train_test_split(X, y, test_size=0.15, random_state=seed)
    H, V, h, v = train_test_split(A, a, test_size=0.2, random_state=seed)
    return Task(name, _dealt(H, h, 3, seed), [(V, v)])


def _dealt(X: Floats, y: Labels, n_sites: int, seed: int) -> list[Part]:
    return [(site.X, site.y) for site in fedgeom.split(X, y, n_sites, seed=seed)]


def _hospitals(seed: int) -> Task:
    pieces = [holdout(site, 0.25, seed) for site in load_set("hipc", seed=seed).train]
    total = np.sum([joint_map.site_scatter(kept.X, kept.y) for kept, _ in pieces], axis=0)
    matrix = joint_map.projection(total, pieces[0][0].X.shape[1])
    points = [
        [joint_map.embed(part.X, matrix, joint_map.column_scales(kept.X), c=1.0) for part in (kept, aside)]
        for kept, aside in pieces
    ]
    kept = [(discs[0], piece[0].y) for discs, piece in zip(points, pieces, strict=True)]
    return Task("hipc, 5 hospitals", kept, [(d[1], piece[1].y) for d, piece in zip(points, pieces, strict=True)])


def score(candidate: Candidate, task: Task) -> float:
    """Learn as the method does, with the candidate's trimming, and give the accuracy on the rows held out."""
    grid = PolarGrid(0.01, covering_radius([X for X, _ in task.sites]))
    hulls, labels, owners = [], [], []
    for owner, (X, y) in enumerate(task.sites):
        for label in np.unique(y):
            inside = y == label
            (bins,) = local_hulls(X[inside], y[inside], grid, trim=candidate.trim(int(inside.sum()))).values()
            hulls.append(bins)
            labels.append(str(label))
            owners.append(owner)
    members = group_hulls(hulls, owners, len(set(labels)), grid=grid, how="constrained")
    model = fit_groups(points_of_groups(hulls, members, grid), PoincareSVC(candidate.C))
    names = np.array(name_groups(members, labels))
    return float(np.mean([percent(names[model.predict(X)], y) for X, y in task.aside]))


def measure(quick: bool, only: Sequence[str] = tuple(SETS)) -> dict[str, dict[str, float]]:
    """Score every candidate on every task of some sets and give means."""
    values: dict[str, dict[str, list[float]]] = {str(candidate): {} for candidate in CANDIDATES}
    for task in (task for name in only for task in SETS[name](quick)):
        for candidate in CANDIDATES:
            values[str(candidate)].setdefault(task.name, []).append(score(candidate, task))
    return {
        name: {title: round(float(np.mean(scores)), 2) for title, scores in row.items()}
        for name, row in values.items()
    }


def markdown(result: dict[str, dict[str, float]]) -> str:
    """Lay the result out."""
    titles = list(next(iter(result.values())))
    lines = [
        "# Trimming and λ on held-out training rows: accuracy in percent",
        "",
        "Made by `python papers/hulls/defaults.py` with seeds from 0: 20 splits of Olsson, 10 of Paul, 3 of the",
        "images, 5 of the hospitals. A split's own test rows are unused; for Olsson, Paul and the hospitals they",
        "may be training rows of another split. λ is the `C` of `fedgeom.Hulls`; the paper has no such table.",
        "",
    ]
    best = {title: max(row[title] for row in result.values()) for title in titles}
    rows = [[name, *(bold(f"{row[t]:.2f}", row[t] == best[t]) for t in titles)] for name, row in result.items()]
    return "\n".join([*lines, *table(["trimming of a class at a site", *titles], rows), "", NOTES.strip(), ""])


NOTES = """
λ hardly matters from 5 on, and 0.1 is too small on every set. Trimming a tenth decides the outcome on the large
Fashion-MNIST set and changes little elsewhere. Beginning it at 10 points per class and site, not at 100, gains two
points on Paul and loses nothing that the other sets could show: that is the default.
"""


def main() -> None:
    """Parse, run, print, write."""
    options = parser(__doc__, SETS).parse_args()
    result = measure(options.quick, options.only)
    print(markdown(result))
    if not options.quick:
        before = RESULTS.read("defaults")
        RESULTS.write("defaults", {name: before.get(name, {}) | row for name, row in result.items()}, markdown)
    print_json(options, result)


if __name__ == "__main__":
    main()
