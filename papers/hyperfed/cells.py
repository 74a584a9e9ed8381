"""Cell types in a tree, donors or hospitals as sites: does anything that knows the tree make nearer mistakes?

python papers/hyperfed/cells.py                     # 4 trees, 10 seeds; writes results/cells.{json,md} after every cell
python papers/hyperfed/cells.py --only lung         # one set; what was computed before stays as it is
python papers/hyperfed/cells.py --quick --json      # 1 seed, 3 rounds, lung; writes nothing

A quarter of every site's cells is held out, by the seed, which is also that of the run: rows are paired over seeds.
Where a set has more cells than the sites are given, up to 2,500 more of every site are tested, too; "fewer tested" is
the quarter alone.
All rows have the same body (an MLP with 64 and 64 units; prototypes have an embedding of 20), the same 20 rounds of 3
epochs, batch 32, rate 0.03, momentum 0.9 and weight decay 5e-4; none was tuned. What is done with the tree (targets of
softness 0.5 rather than 1 or 2 or a loss on every level; decisions over classes or nodes) was chosen on
seeds 100 to 102, and the temperature of the probabilities (1.25, rather than 1, 1.5, 2, 2.5 or 3) on seeds 100 to 105,
all of which are not reported. Counts are scaled to 10,000 a cell and logarithmised, and the 200 genes that
vary most over all cells are kept: a choice that looks at all sites, the same for all rows. Classes of fewer than ten
cells are left out. The tree error is the mean number of edges between the true class and what is said. What is computed
are the plain runs, which equal the secure runs bit for bit: `equal_in_secret` looks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import fedgeom
from fedgeom.geometry.graphs.class_tree import softened
from fedgeom.methods.iterative import MLP, TreeTargets
from fedgeom.methods.iterative.heads import tree_lines

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import (
    Floats,
    Ints,
    Results,
    confidence,
    difference,
    parser,
    print_json,
    table,
    with_interval,
)
from papers.hyperfed.cell_sets import FILES, Cells, draw
from papers.pooling import pooled

SEEDS, ROUNDS, QUICK_ROUNDS = 10, 20, 3
RESULTS = Results(Path(__file__).resolve().parent / "results")
FEDAVG, TARGETS, EVEN = "FedAvg", "FedAvg, tree targets", "FedAvg, even targets"
CLASS, NODE, SOFT = ", nearest class", ", nearest node", ", softened, nearest node"
"""How a row's probabilities are read: by the class, or the node of the tree, with the least expected distance; by the
node after they were softened; without any of these, by the likeliest class."""
TEMPERATURE = 1.25
ROWS = (
    FEDAVG,
    FEDAVG + CLASS,
    FEDAVG + NODE,
    FEDAVG + SOFT,
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


def method_of(row: str, cells: Cells, rounds: int) -> Any:
    """Return the method of a row; its probabilities may be read in several ways."""
    usual: dict[str, Any] = {
        "n_rounds": rounds,
        "epochs": 3,
        "batch_size": 32,
        "learning_rate": 0.03,
        "classes": cells.classes,
        "bits": 64,  # of a parameter in a sum, as when the first rows were computed
        "optimizer": {"name": "sgd", "momentum": 0.9, "weight_decay": 5e-4},
    }
    body = MLP(hidden=64, features=64)
    if row.startswith("HyperFed"):
        own: dict[str, Any] = {"network": body, "personal": "none"}
        own |= {} if "Tammes" in row else {"class_tree": cells.tree}
        own |= {"loss": "tree-targets"} if "targets" in row else {}
        return fedgeom.HyperFed.measured(**usual, **own)
    along = TreeTargets(tree=tree_lines(cells.tree), classes=cells.classes, softness=SOFTNESS)
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
    """Say whether one round of a row through the whole secure protocol gives the plain run's model, bit for bit."""
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


def read_from(row: str) -> str:
    """Return the row whose probabilities a row reads."""
    return row.removesuffix(CLASS).removesuffix(SOFT).removesuffix(NODE)


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
    for trained in dict.fromkeys(read_from(row) for row in missing):
        chances = train(trained, cells, seed, rounds)
        nodes = {
            trained: cells.tree.classes[chances.argmax(axis=1)],
            trained + CLASS: cells.tree.classes[cells.tree.nearest(chances)],
            trained + NODE: cells.tree.nearest_node(chances),
            trained + SOFT: cells.tree.nearest_node(softened(chances, TEMPERATURE)),
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
        print(f"{name}: the secure run {'equals' if same else 'DIFFERS FROM'} the plain run", file=sys.stderr)
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
