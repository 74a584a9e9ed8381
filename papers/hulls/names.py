"""Shared or own names, and one scale or each site's own? Names that are right and accuracy, where sites lack classes.

    python papers/hulls/names.py                  # some two minutes; writes results/names.{json,md}
    python papers/hulls/names.py --only hipc      # some sets; the others in the results stay as they are
    python papers/hulls/names.py --quick --json   # half a minute; writes nothing

The sites of a set use the same words. ``names="own"`` does not know that and matches hulls by shape, given the true
number of classes; a name is right if it is in the class in which it belongs by the best assignment of words to classes.
Each site lacks each class with a probability of 0 or one half, drawn anew with each seed. All runs go through the whole
protocol.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import fedgeom
from fedgeom.data.split import holdout
from fedgeom.report.label_names import read_naming

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import Row, bold, figure, load_data, parser, percent, plus_minus, print_json, print_rows, table
from papers.hulls.runs import RESULTS, require
from papers.xclp.tasks import cells

WAYS: dict[str, dict[str, Any]] = {
    "own names, each site's scale": {"names": "own", "scale": "site"},
    "own names, joint scale": {"names": "own", "scale": "joint"},
    "shared names": {"names": "shared"},
}
LACKS = (0.0, 0.5)
SEEDS, FEWEST = 3, 10
"""Splits of each set, and the fewest rows of a class that a site learns from."""

Sites = list[fedgeom.SiteData]


def hipc(seed: int, quick: bool) -> Sites:
    """Give five hospitals' T cells, seven markers, ten types, a sample of each hospital."""
    z, rng = load_data("hipc_tcell_5hospitals.npz"), np.random.default_rng(seed)
    found = []
    for at, name in enumerate(z["site_names"].tolist()):
        mine = rng.permutation(np.flatnonzero(z["site"] == at))[: 600 if quick else 3000]
        found.append(fedgeom.SiteData(name, z["X"][mine], z["class_names"][z["y"][mine]]))
    return found


def kang(seed: int, quick: bool) -> Sites:
    """Give eight donors' blood cells, 20 principal components, seven types."""
    task = cells("kang", seed, 1500 if quick else 13_371, centred=False)
    return [
        fedgeom.SiteData(f"donor {at}", task.X[task.owner == at, :20], task.y[task.owner == at].astype(str))
        for at in np.unique(task.owner).tolist()
    ]


SETS = {"hipc": hipc, "kang": kang}


def lacking(sites: Sequence[fedgeom.SiteData], share: float, seed: int) -> Sites:
    """Take classes away from sites, each with this probability, and those of few rows; no site is left empty."""
    rng = np.random.default_rng([seed, 29])
    words = sorted({str(word) for site in sites for word in site.classes.tolist()})
    found = []
    for site in sites:
        kept = [word for word in words if rng.random() >= share]
        y = site.y.astype(str)
        rows = np.isin(y, [word for word in kept if (y == word).sum() >= FEWEST])
        if rows.any():
            found.append(site.take(rows))
    return found


def score(method: fedgeom.Hulls, train: Sites, test: Sites, seed: int) -> tuple[float, float]:
    """Return the percentage of names that are right, and of test rows that their site's model calls right."""
    run = fedgeom.run(method, train, seed=seed)
    require(not run.lost, f"sites were lost: {run.lost}")
    truth = {site.name: {word: word for word in np.unique(site.y.astype(str)).tolist()} for site in train}
    naming = read_naming(run.local, truth)
    called = [run.model.for_site(run.local[site.name]).predict(site.X) for site in test]
    return 100 * naming.right / naming.total, percent(np.concatenate(called), np.concatenate([s.y for s in test]))


def measure(name: str, quick: bool) -> dict[str, Row]:
    """Return the figures of a set, by how often sites lack classes and by the way."""
    values: dict[str, dict[str, list[float]]] = {}
    for seed in range(1 if quick else SEEDS):
        whole = SETS[name](seed, quick)
        for share in LACKS:
            sites = lacking(whole, share, seed)
            parts = [holdout(site, 0.3, seed) for site in sites]
            train, test = [a for a, _ in parts], [b for _, b in parts]
            number = len({str(word) for site in train for word in site.classes.tolist()})
            for way, settings in WAYS.items():
                own = {"n_classes": number} if settings["names"] == "own" else {}
                named, right = score(fedgeom.Hulls(embedding="discriminant", **settings, **own), train, test, seed)
                row = values.setdefault(f"{name} where sites lack {share:.0%} of the classes", {})
                row.setdefault(f"{way}: names", []).append(named)
                row.setdefault(f"{way}: accuracy", []).append(right)
    return {title: {name: figure(one) for name, one in row.items()} for title, row in values.items()}


def page(rows: dict[str, Row]) -> str:
    """Write the table."""
    lines = []
    for title, row in rows.items():
        best = max(row[f"{way}: accuracy"]["mean"] for way in WAYS)
        for at, way in enumerate(WAYS):
            names, right = row[f"{way}: names"], row[f"{way}: accuracy"]
            lines.append(
                [
                    title if not at else "",
                    way,
                    plus_minus(names, 1),
                    bold(plus_minus(right, 1), right["mean"] == best),
                ]
            )
    head = ["sites", "way", "names right, %", "accuracy, %"]
    return "# Names and scales\n\n`python papers/hulls/names.py`\n\n" + "\n".join(table(head, lines)) + "\n"


def main() -> None:
    """Compute, print and write."""
    options = parser(__doc__, SETS).parse_args()
    found: dict[str, Row] = {}
    for name in options.only:
        rows = measure(name, options.quick)
        print_rows(rows)
        found |= rows
    if not options.quick:
        RESULTS.keep("names", found, SETS, page)
    print_json(options, found)


if __name__ == "__main__":
    main()
