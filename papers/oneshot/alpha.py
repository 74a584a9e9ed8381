"""How λ is chosen: from the same sums (generalised cross-validation), or by sums over two folds; on cells.

    python papers/oneshot/alpha.py                    # all sets, 3 splits; writes results/alpha.{json,md}
    python papers/oneshot/alpha.py --only tcells      # some sets; what is in the results is not computed again
    python papers/oneshot/alpha.py --quick --json     # one split of the T cells; writes nothing

Rows are prepared in one place (`tables.with_components`: markers as they are, else 20 principal components), Ridge is a
secure run. Nothing was chosen here: both ways stand beside each other, and the λ of the grid that would have been best
on the test rows, which nobody can know beforehand.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import fedgeom
from fedgeom.methods.ridge.features import Fourier

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import Floats, Labels, Results, confidence, parser, percent, print_json, table
from papers.oneshot.tables import with_components

RESULTS = Results(Path(__file__).parent / "results")
SETS = ("tcells", "kang", "lung", "pbmc", "paul")
FEATURES: dict[str, Any] = {"linear": "linear", "Fourier": Fourier(bandwidth=0.7, scale="joint")}
WAYS = ("gcv", "folds")
GRID = (0.01, 1.0, 10.0, 100.0, 1000.0)
"""The numbers among which the best in hindsight is looked for, by the plain run."""
FIRST, SPLITS, FEWEST = 100, 3, 10

Values = dict[str, float]


def log_loss(chances: Floats, classes: Labels, wanted: Labels) -> float:
    """Return the mean surprise of the right classes, in nats."""
    place = {str(name): at for at, name in enumerate(classes.tolist())}
    right = chances[np.arange(len(wanted)), [place[one] for one in wanted.tolist()]]
    return float(-np.log(np.maximum(right, 1e-12)).mean())


def split(name: str, seed: int) -> dict[str, Values]:
    """Return the figures of one split: for each kind of features."""
    cells, found = with_components(name, seed), dict[str, Values]()
    y = np.concatenate([site.y.astype(str) for site in cells.train])
    kept = [one for one, n in zip(*np.unique(y, return_counts=True), strict=True) if n >= FEWEST]
    train = [site.take(np.isin(site.y.astype(str), kept)) for site in cells.train]
    test = [site.take(np.isin(site.y.astype(str), kept)) for site in cells.test]
    X, wanted = np.vstack([s.X for s in test]), np.concatenate([s.y.astype(str) for s in test])
    for title, features in FEATURES.items():
        values: Values = {}
        for way in WAYS:
            run = fedgeom.run(fedgeom.Ridge(features=features, rule="discriminant", alpha=way), train, seed=seed)
            if run.lost:
                raise SystemExit(f"sites were lost: {run.lost}")
            values[f"accuracy {way}"] = percent(run.model.predict(X), wanted)
            values[f"log-loss {way}"] = log_loss(run.model.predict_proba(X), run.model.classes_, wanted)
            values[f"λ {way}"] = run.metrics["alpha"]
        values["accuracy hindsight"] = max(_with(features, one, train, X, wanted, seed) for one in GRID)
        found[title] = values
    return found


def _with(features: Any, alpha: float, train: Any, X: Floats, wanted: Labels, seed: int) -> float:
    """Score the plain run with a given λ."""
    made = fedgeom.Ridge(features=features, rule="discriminant", alpha=alpha).plain(train, seed)
    return percent(made.model.predict(X), wanted)


def page(content: dict[str, dict[str, dict[str, Values]]]) -> str:
    """Write the table."""
    keys = [*(f"{what} {way}" for what in ("accuracy", "log-loss") for way in WAYS), "accuracy hindsight"]
    lines = []
    for name, splits in content.items():
        for title in FEATURES:
            rows = [one[title] for one in splits.values()]
            means = [f"{confidence([row[key] for row in rows])[0]:.{2 if 'loss' in key else 1}f}" for key in keys]
            powers = [", ".join(f"{row[f'λ {way}']:.3g}" for row in rows) for way in WAYS]
            lines.append([name, title, *means, *powers])
    note = (
        f"`python papers/oneshot/alpha.py`: Ridge with discriminants, secure runs, means over splits from {FIRST} on "
        f"({', '.join(f'{len(splits)} of {name}' for name, splits in content.items())}); accuracy in percent. "
        f"Hindsight: the best of λ = {', '.join(f'{one:g}' for one in GRID)} on the test rows of each split."
    )
    head = ["set", "features", *keys, *(f"λ {way}, each split" for way in WAYS)]
    return "# How λ is chosen\n\n" + note + "\n\n" + "\n".join(table(head, lines)) + "\n"


def main() -> None:
    """Compute, print and write; splits that are in the results are not computed again."""
    options = parser(__doc__, SETS).parse_args()
    content: dict[str, dict[str, dict[str, Values]]] = {} if options.quick else RESULTS.read("alpha")
    for name in ("tcells",) if options.quick else options.only:
        done = content.setdefault(name, {})
        for seed in range(FIRST, FIRST + (1 if options.quick else SPLITS)):
            if str(seed) not in done:
                done[str(seed)] = split(name, seed)
                print(name, seed, done[str(seed)], flush=True)
                if not options.quick:
                    RESULTS.write("alpha", content, page)
    print_json(options, content)


if __name__ == "__main__":
    main()
