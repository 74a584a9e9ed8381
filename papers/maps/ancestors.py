"""How often names are right when a model that is unsure names an ancestor of the class, at a risk that users choose.

    python papers/maps/ancestors.py               # T cells and lung; writes results/ancestors.{json,md}
    python papers/maps/ancestors.py --only lung   # one set; the other stays as it is
    python papers/maps/ancestors.py --quick       # lung, one seed; writes nothing

Secure runs with a quarter of each site's rows kept aside. Of these rows one half is known: by it the threshold is
chosen (`ClassTree.confidence_for`, as `fedgeom predict --tree … --known …` does). The other half is tested: a name is
right if it is the row's class or an ancestor of it. T cells have two levels, lung 21 types in 4 compartments. "–": so
many known rows are in a wrong branch of probability 1 that no threshold keeps the risk, in one seed or more.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import fedgeom
from fedgeom.errors import InputError
from fedgeom.geometry.graphs.class_tree import ClassTree

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import Results, confidence, finish, load_data, parser, print_json, table
from papers.maps.figure1 import sites_of
from papers.maps.sets import SETS

RESULTS = Results(Path(__file__).parent / "results")
TREES = {
    "tcells": ("hipc_tcell_5hospitals.npz", slice(0, None)),
    "lung": ("lung_2atlases_6donors.npz", slice(1, None)),
}
"""The file with the tree of each set, and which columns of it are classes and what they are under."""
SEEDS = (0, 1, 2)
RISKS = (0.05, 0.01)


def tree_of(name: str, classes: list[str]) -> ClassTree:
    """Return the tree over some classes of a set."""
    file, columns = TREES[name]
    paths = {path[0]: path for path in load_data(file)["class_tree"].astype(str)[:, columns].tolist()}
    return ClassTree.from_paths([paths[word] for word in classes])


def methods(steps: Any) -> dict[str, fedgeom.Method]:
    """Return what gives probabilities, by title."""
    given: dict[str, Any] = {"prepare": steps, "holdout": 0.25}
    return {
        "PoincareMap": fedgeom.PoincareMap(**given),
        "Ellipses": fedgeom.Ellipses(names="shared", **given),
        "Moments": fedgeom.Moments(space="euclidean", **given),
        "Ridge": fedgeom.Ridge(**given),
    }


def shares(tree: ClassTree, chances: Any, true: Any, seed: int) -> dict[str, list[float] | None]:
    """Return by risk which share of tested rows is named rightly, and which share by a class, in percent."""
    order = np.random.default_rng(seed).permutation(len(true))
    known, tested = order[::2], order[1::2]
    found: dict[str, list[float] | None] = {}
    for risk in RISKS:
        try:
            sure = tree.confidence_for(chances[known], true[known], risk)
        except InputError:
            found[str(risk)] = None
            continue
        nodes, _ = tree.confident(chances[tested], sure)
        named = (tree.above[true[tested], nodes], np.isin(nodes, tree.classes))
        found[str(risk)] = [100 * float(one.mean()) for one in named]
    return found


def measured(name: str, seeds: tuple[int, ...]) -> dict[str, Any]:
    """Return by method how many classes are right, and by risk how many names, with half widths of intervals."""
    cells = SETS[name]()
    found: dict[str, Any] = {}
    for title, method in methods(cells.steps).items():
        flat, each = [], []
        for seed in seeds:
            run = fedgeom.run(method, sites_of(cells), seed=seed)
            classes = [str(word) for word in run.model.classes_]
            tree = tree_of(name, classes)
            number = {node: at for at, node in enumerate(tree.nodes)}
            true = np.array([number[str(word)] for site in run.test for word in site.y.tolist()])
            chances = np.vstack([run.model.predict_proba(site.X) for site in run.test])
            flat.append(100 * float((tree.classes[chances.argmax(axis=1)] == true).mean()))
            each.append(shares(tree, chances, true, seed))
            print(name, title, seed, round(flat[-1], 1), each[-1], flush=True)
        found[title] = {"classes": [round(x, 1) for x in confidence(flat)]}
        for risk in map(str, RISKS):
            kept = [one[risk] for one in each]
            found[title][risk] = (
                None
                if any(one is None for one in kept)
                else [[round(x, 1) for x in confidence(some)] for some in zip(*kept, strict=True)]
            )
    return found


def page(found: dict[str, Any]) -> str:
    """Return the table in Markdown."""
    rows = []
    for name, ways in found.items():
        for title, figures in ways.items():
            cells = [f"{figures['classes'][0]:.1f} ± {figures['classes'][1]:.1f}"]
            for risk in map(str, RISKS):
                pairs = figures[risk] or [None, None]
                cells += ["–" if one is None else f"{one[0]:.1f} ± {one[1]:.1f}" for one in pairs]
            rows.append([name, title, *cells])
    head = ["set", "model", "right class"]
    for risk in RISKS:
        head += [f"right name, risk {risk}", "a class"]
    said = (__doc__ or "").split("\n\n")[-1].strip()
    return "\n".join(["# As deep as it is sure", "", said, "", *table(head, rows), ""])


def main() -> None:
    """Run what is asked for."""
    options = parser(__doc__, TREES).parse_args()
    names = ["lung"] if options.quick else options.only
    found = {}
    for name in names:
        found[name] = measured(name, SEEDS[:1] if options.quick else SEEDS)
        finish(options, RESULTS, "ancestors", {name: found[name]}, TREES, page)
    print_json(options, found)


if __name__ == "__main__":
    main()
