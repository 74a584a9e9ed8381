"""Cell types in a tree, donors or hospitals as sites: does anything that knows the tree make nearer mistakes?

python papers/hyperfed/cells.py                     # 3 sets, 10 seeds; writes results/cells.{json,md} after every cell
python papers/hyperfed/cells.py --only lung         # one set; what was computed before stays as it is
python papers/hyperfed/cells.py --quick --json      # 1 seed, 3 rounds, lung; writes nothing

A quarter of every site's cells is held out, by the seed, which is also that of the run: rows are paired over seeds.
All rows have the same body (an MLP with 64 and 64 units; prototypes have an embedding of 20), the same 20 rounds of 3
epochs, batch 32, rate 0.03, momentum 0.9 and weight decay 5e-4; none was tuned. What is done with the tree (targets of
softness 0.5 rather than 1 or 2 or a loss on every level; decisions over classes or nodes) was chosen on
seeds 100 to 102, which are not reported. Counts are scaled to 10,000 a cell and logarithmised, and the 200 genes that
vary most over all cells are kept: a choice that looks at all sites, the same for all rows. Classes of fewer than ten
cells are left out. The tree error is the mean number of edges between the true class and what is said. What is computed
are the plain twins, which equal the secure runs bit for bit: `equal_in_secret` looks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import fedgeom
from fedgeom.geometry.graphs.class_tree import ClassTree
from fedgeom.methods.iterative import MLP, TreeTargets, pooled
from fedgeom.methods.iterative.heads.poincare import tree_lines

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import (
    Floats,
    Ints,
    Results,
    confidence,
    difference,
    load_data,
    parser,
    print_json,
    table,
    with_interval,
)

SEEDS, ROUNDS, QUICK_ROUNDS, GENES, FEWEST = 10, 20, 3, 200, 10
RESULTS = Results(Path(__file__).resolve().parent / "results")
FILES = {
    "t-cells": ("hipc_tcell_5hospitals.npz", "site", 600),
    "kang": ("kang_pbmc_8donors.npz", "donor", 400),
    "lung": ("lung_2atlases_6donors.npz", "donor", 10**6),
}
"""For each set the file, the column of the sites, and how many cells of a site are taken at most."""
FEDAVG, TARGETS, EVEN = "FedAvg", "FedAvg, tree targets", "FedAvg, even targets"
CLASS, NODE = ", nearest class", ", nearest node"
"""How a row's probabilities are read: by the class, or the node of the tree, with the least expected distance; without
either, by the likeliest class."""
ROWS = (
    FEDAVG,
    FEDAVG + CLASS,
    FEDAVG + NODE,
    EVEN,
    TARGETS,
    TARGETS + CLASS,
    TARGETS + NODE,
    "HyperFed, Tammes prototypes",
    "HyperFed, tree prototypes",
    "HyperFed, tree prototypes and targets",
    "pooled",
)
FIRST = tuple(row for row in ROWS if row.startswith("FedAvg"))
"""The rows that are computed for all seeds before the others."""
SOFTNESS = 0.5


class Cells(NamedTuple):
    """One set with one seed."""

    sites: list[fedgeom.SiteData]
    X: Floats
    """(rows, genes or markers): those held out."""
    y: Ints
    """(rows,): their classes by number."""
    classes: tuple[str, ...]
    tree: ClassTree


def features(file: Any) -> Floats:
    """Return markers as they are, counts as logarithms of the genes that vary most."""
    if "X" in file:
        return np.asarray(file["X"], np.float64)
    parts = (file["X_data"], file["X_indices"].astype(np.int32), file["X_indptr"])
    counts = sp.csr_matrix(parts, shape=tuple(file["X_shape"])).astype(np.float64)
    totals = np.maximum(np.asarray(counts.sum(axis=1)).ravel(), 1.0)
    logs = (sp.diags(1e4 / totals) @ counts).log1p().tocsc()
    mean, square = (np.asarray(one.mean(axis=0)).ravel() for one in (logs, logs.multiply(logs)))
    return np.asarray(logs[:, np.sort(np.argsort(mean**2 - square)[:GENES])].toarray())


def draw(name: str, seed: int) -> Cells:
    """Take a set's cells apart into sites' and held-out ones."""
    path, column, most = FILES[name]
    with load_data(path) as file:
        X, y, site = features(file), file["y"].astype(np.int64), file[column]
        names, paths = file["class_names"].astype(str), file["class_tree"].astype(str)
    rng = np.random.default_rng(seed)
    common = np.bincount(y[y >= 0], minlength=len(names)) >= FEWEST
    known = np.flatnonzero((y >= 0) & common[y])
    taken = [rng.permutation(known[site[known] == one])[:most] for one in np.unique(site)]
    tree = ClassTree.from_paths(paths[common])
    parents = {tree.nodes[at]: tree.nodes[up] for at, up in enumerate(tree.parents.tolist()) if up >= 0}
    classes = tuple(sorted(names[common].tolist()))
    held = [rows[: len(rows) // 4] for rows in taken]
    sites = [
        fedgeom.SiteData(f"site {at}", X[rows[len(rows) // 4 :]], names[y[rows[len(rows) // 4 :]]])
        for at, rows in enumerate(taken)
    ]
    out = np.concatenate(held)
    number = {label: at for at, label in enumerate(classes)}
    wanted = np.array([number[label] for label in names[y[out]].tolist()])
    return Cells(sites, X[out], wanted, classes, ClassTree.read(parents, classes))


def method_of(row: str, cells: Cells, rounds: int) -> Any:
    """Return the method of a row; its probabilities may be read in several ways."""
    usual: dict[str, Any] = {
        "rounds": rounds,
        "epochs": 3,
        "batch": 32,
        "rate": 0.03,
        "classes": cells.classes,
        "bits": 64,  # of a parameter in a sum, as when the first rows were computed
        "optimizer": {"name": "sgd", "momentum": 0.9, "weight_decay": 5e-4},
    }
    tree = cells.tree
    parents = {tree.nodes[at]: tree.nodes[up] for at, up in enumerate(tree.parents.tolist()) if up >= 0}
    body = MLP(hidden=64, features=64)
    if row.startswith("HyperFed"):
        own: dict[str, Any] = {"network": body, "personal": "none"}
        own |= {} if "Tammes" in row else {"class_tree": parents}
        own |= {"loss": "tree-targets"} if "targets" in row else {}
        return fedgeom.HyperFed.measured(**usual, **own)
    along = TreeTargets(tree=tree_lines(parents), classes=cells.classes, softness=SOFTNESS)
    losses = {TARGETS: along, EVEN: even_targets(cells)}
    return fedgeom.FedAvg(network=body, **usual, **({"loss": losses[row]} if row in losses else {}))


def even_targets(cells: Cells) -> TreeTargets:
    """Return targets that give all other classes the same, and together as much as the tree's do: they know no tree."""
    near = np.exp(-cells.tree.distances() / SOFTNESS)
    others = float(np.mean(near.sum(axis=1)) - 1)  # in units of what the own class has
    flat = tuple(f"{name} < all" for name in cells.classes)
    softness = 2 / np.log((len(cells.classes) - 1) / others)
    return TreeTargets(tree=flat, classes=cells.classes, softness=float(softness))


def train(row: str, cells: Cells, seed: int, rounds: int) -> Floats:
    """Return the probabilities that a row's model gives the held-out cells, (rows, classes)."""
    method = method_of(row, cells, rounds)
    found = pooled(method, cells.sites, seed) if row == "pooled" else method.plain(cells.sites, seed).model
    return np.asarray(found.predict_proba(cells.X))


def equal_in_secret(row: str, cells: Cells, seed: int = 0) -> bool:
    """Say whether one round of a row through the whole secure protocol gives the plain twin's model, bit for bit."""
    method = method_of(row, cells, 1)
    run, plain = fedgeom.run(method, cells.sites, seed), method.plain(cells.sites, seed)
    return bool(run.model.to_bytes() == plain.model.to_bytes())


def judge(cells: Cells, said: Ints) -> dict[str, Any]:
    """Return the figures of what is said of the held-out cells: nodes of the tree by number, (rows,)."""
    tree, true = cells.tree, cells.tree.classes[cells.y]
    apart = tree.node_distances()[true, said]
    deepest = int(tree.depths[tree.classes].max())
    by_depth = [np.mean(tree.at_depth(true, d) == tree.at_depth(said, d)) for d in range(1, deepest + 1)]
    return {
        "accuracy": round(float(np.mean(apart == 0)), 4),
        "tree error": round(float(apart.mean()), 4),
        "per mistake": round(float(apart.sum() / max(np.sum(apart > 0), 1)), 3),
        "by depth": [round(float(one), 4) for one in by_depth],
    }


def measure(
    name: str,
    seed: int,
    rounds: int,
    known: dict[str, Any],
    keep: Callable[[], None],
    wanted: Sequence[str] = ROWS,
) -> None:
    """Fill in the wanted rows of a set and a seed that are not known yet; rows that differ in reading train once."""
    missing = [row for row in wanted if row not in known]
    if not missing:
        return
    cells = draw(name, seed)
    for trained in dict.fromkeys(row.removesuffix(CLASS).removesuffix(NODE) for row in missing):
        chances = train(trained, cells, seed, rounds)
        nodes = {
            trained: cells.tree.classes[chances.argmax(axis=1)],
            trained + CLASS: cells.tree.classes[cells.tree.nearest(chances)],
            trained + NODE: cells.tree.nearest_node(chances),
        }
        for row in missing:
            if row in nodes:
                known[row] = judge(cells, nodes[row])
                print(f"{name}, seed {seed}, {row}: {known[row]}", file=sys.stderr)
        keep()


def summary(seeds: dict[str, Any]) -> dict[str, Any]:
    """Return each row's means over its seeds, and its tree error less FedAvg's, paired."""
    found = {}
    for row in ROWS:
        paired = [(rows[row], rows[FEDAVG]) for rows in seeds.values() if row in rows and FEDAVG in rows]
        if not paired:
            continue
        entry: dict[str, Any] = {}
        for key in ("accuracy", "tree error", "per mistake"):
            mean, half = confidence([own[key] for own, _ in paired])
            entry[key] = {"mean": round(mean, 4), "ci95": round(half, 4), "n": len(paired), "paper": None}
        entry["by depth"] = np.mean([own["by depth"] for own, _ in paired], axis=0).round(4).tolist()
        if len(paired) > 1:
            errors = zip(*((own["tree error"], other["tree error"]) for own, other in paired), strict=True)
            entry["tree error less FedAvg's"] = difference(*errors)
        found[row] = entry
    return found


def page(results: dict[str, Any]) -> str:
    """Return the tables as Markdown."""
    lines = ["# Cell types in a tree", "", "Made by `python papers/hyperfed/cells.py`, whose head says how.", ""]
    for name, seeds in results.items():
        rows = []
        for row, entry in summary(seeds).items():
            gap = entry.get("tree error less FedAvg's")
            rows.append(
                (
                    row,
                    entry["accuracy"]["n"],
                    f"{entry['accuracy']['mean']:.4f}",
                    f"{entry['tree error']['mean']:.4f}",
                    "–" if gap is None or row == FEDAVG else with_interval(gap),
                    f"{entry['per mistake']['mean']:.2f}",
                    " / ".join(f"{one:.3f}" for one in entry["by depth"]),
                )
            )
        head = [
            "row",
            "seeds",
            "accuracy",
            "tree error",
            "less FedAvg's",
            "edges per mistake",
            "accuracy by depth",
        ]
        lines += [f"## {name}", "", *table(head, rows), ""]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, write and print."""
    made = parser(__doc__, FILES)
    made.add_argument("--seeds", type=int, default=SEEDS)
    options = made.parse_args(arguments)
    results: dict[str, Any] = {} if options.quick else RESULTS.read("cells")
    sets = ["lung"] if options.quick else options.only
    rounds, seeds = (QUICK_ROUNDS, 1) if options.quick else (ROUNDS, options.seeds)
    keep = (lambda: None) if options.quick else (lambda: RESULTS.write("cells", results, page))
    for name in sets:
        same = equal_in_secret(TARGETS, draw(name, 0))
        print(f"{name}: the secure run {'equals' if same else 'DIFFERS FROM'} the plain twin", file=sys.stderr)
        assert same
    for wanted in (FIRST, ROWS):
        for seed in range(seeds):
            for name in sets:
                known = results.setdefault(name, {}).setdefault(str(seed), {})
                measure(name, seed, rounds, known, keep, wanted)
    print(page(results))
    print_json(options, {name: summary(seeds) for name, seeds in results.items()})


if __name__ == "__main__":
    main()
