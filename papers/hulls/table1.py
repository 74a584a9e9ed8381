"""Table 1 of the hulls paper, and rows that the paper does not have.

    python papers/hulls/table1.py                   # all rows, some ten minutes; writes results/table1.{json,md}
    python papers/hulls/table1.py --only olsson     # some rows; the others in the results stay as they are
    python papers/hulls/table1.py --quick --json    # seconds to a minute; writes nothing

Every federated figure comes from a run with the full protocol (keys, masks, power-sum codes, Sidon labels), and
in every trial the script requires that the plain run gives the same model to the last bit.

Columns: CP and CE are the Poincaré and the Euclidean SVM on pooled rows; FLP is the hull method; FLE a Euclidean
SVM on the same decoded hulls, both with the paper's λ = 0.1, untrimmed hulls and grouping. "FLP ours" is
``fedgeom.Hulls()`` as it comes: λ = 5, hulls trimmed by class size, constrained grouping; "FLP untrimmed" is the
same without trimming. The settings are the same in all rows, and defaults.py compares them on training rows only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import fedgeom
from fedgeom.data.datasets import load_set
from fedgeom.methods.hulls.embedding import column_scales

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import (
    Floats,
    Labels,
    Row,
    figure,
    load_data,
    parser,
    percent,
    print_json,
    print_rows,
)
from papers.hulls import baselines, published
from papers.hulls.plain import covering_radius
from papers.hulls.runs import RESULTS, Federated, require, run_hulls, run_moments
from papers.hulls.table1_page import OUR_C, markdown

Columns = dict[str, list[float]]
Task = tuple[Floats, Labels, Floats, Labels]


def olsson(quick: bool) -> dict[str, Row]:
    """The published row with the published split, seeds and settings; ten trials also when quick."""
    X, X_test, y, y_test = published.olsson_split()
    columns: Columns = {}
    for name, model in zip(("CP", "CE"), published.centralised(X, y), strict=True):
        columns[name] = [percent(model.predict(X_test), y_test)]
    for name, model in zip(("CH-CP", "CH-CE"), published.centralised(X, y, hulls_only=True), strict=True):
        columns[name] = [percent(model.predict(X_test), y_test)]
    radius = float(np.linalg.norm(X, axis=1).max()) + 1e-4
    method = fedgeom.Hulls.published(radius=radius, epsilon=0.01, n_classes=8)
    for trial in range(published.TRIALS):
        parts = published.published_partition(X, y, published.N_SITES, seed=3 * trial)
        sites = [fedgeom.SiteData(f"site-{i + 1}", *part) for i, part in enumerate(parts)]
        federated = run_hulls(method, sites, seed=4 * trial)
        require(len(set(federated.names)) == 8, "two groups have one name; the reference code would merge them")
        found, flat = federated.predict(X_test), federated.predict_flat(X_test)
        poincare, euclidean = published.federated_trial(X, y, trial)
        same = [np.array_equal(found, poincare.predict(X_test).astype(str))]
        same += [np.array_equal(flat, euclidean.predict(X_test).astype(str))]
        require(all(same), f"trial {trial}: the secure run predicts something else than the published code path")
        _add(columns, "FLP", percent(found, y_test))
        _add(columns, "FLE", percent(flat, y_test))
    return {"olsson": {name: figure(values, published.PAPER.get(name)) for name, values in columns.items()}}


def olsson_100(quick: bool) -> dict[str, Row]:
    """The same cells in 100 random splits."""
    return {"olsson-100": _random_splits(*published.olsson_points(), 4 if quick else 100)}


def paul15(quick: bool) -> dict[str, Row]:
    """Paul's 19 clusters in a Poincaré map, in ten random splits."""
    with load_data("paul15.npz") as file:
        X, y = file["poincare"], file["class_names"][file["y"]]
    return {"paul15": _random_splits(X, y, 2 if quick else 10)}


def fashion_mnist(quick: bool) -> dict[str, Row]:
    """Fashion-MNIST embeddings with their own train and test part, at 3, 5 and 10 sites."""
    return _images("fashion-mnist", "fashion_mnist", quick)


def cifar10(quick: bool) -> dict[str, Row]:
    """CIFAR-10 embeddings with their own train and test part, at 3, 5 and 10 sites."""
    return _images("cifar10", "cifar10", quick)


def hipc(quick: bool) -> dict[str, Row]:
    """Five hospitals' T cells: a joint map to the disc, accuracy on each hospital's own test cells, averaged."""
    columns: Columns = {}
    for seed in range(2 if quick else 5):
        data = load_set("hipc", rows=4000, test_share=0.3, seed=seed)
        pairs = list(zip(data.train, data.test, strict=True))
        ours = run_hulls(fedgeom.Hulls(embedding="discriminant"), data.train, seed)
        untrimmed = run_hulls(fedgeom.Hulls(embedding="discriminant", trim=0.0), data.train, seed)
        paper = run_hulls(fedgeom.Hulls.published(embedding="discriminant"), data.train, seed)
        for name, federated in (("FLP", paper), ("FLP untrimmed", untrimmed), ("FLP ours", ours)):
            _add(columns, name, _by_site(_site_predictor(federated), pairs))
        compared = baselines.compare(ours.run, data.train, data.test, C=OUR_C)
        means = compared.means()
        _add(columns, f"CP λ={OUR_C:g}", 100 * means["centralised"])
        _add(columns, "local only", 100 * means["local"])
        _add(columns, "local elsewhere", 100 * means["elsewhere"])
        scaled = [
            (_standardised(kept, column_scales(kept.X)), _standardised(aside, column_scales(kept.X)))
            for kept, aside in pairs
        ]
        rows, labels = np.vstack([kept.X for kept, _ in scaled]), np.concatenate([kept.y for kept, _ in scaled])
        logistic = LogisticRegression(max_iter=2000).fit(rows, labels)
        _add(columns, "logistic, 7 markers", _by_site(_same_everywhere(logistic), scaled))
        for rule in ("centroid", "gaussian"):
            model = run_moments(fedgeom.Moments(rule=rule, space="euclidean"), [kept for kept, _ in scaled])
            _add(columns, f"Moments {rule}", _by_site(_same_everywhere(model), scaled))
    return {"hipc": _figures(columns)}


ROWS: dict[str, Callable[[bool], dict[str, Row]]] = {
    "olsson": olsson,
    "olsson-100": olsson_100,
    "fashion-mnist": fashion_mnist,
    "cifar10": cifar10,
    "paul15": paul15,
    "hipc": hipc,
}


def _random_splits(X: Floats, y: Labels, splits: int) -> Row:
    """Take 85 % to train, dealt to three sites, in each of several random splits."""
    columns: Columns = {}
    for seed in range(splits):
        A, B, a, b = train_test_split(X, y, test_size=0.15, random_state=seed)
        _disc_trial(columns, (A, a, B, b), n_sites=3, seed=seed, pooled=True)
    return _figures(columns)


def _disc_trial(columns: Columns, task: Task, *, n_sites: int, seed: int, pooled: bool) -> None:
    """Fit every method on one split of points in the disc and note the accuracies."""
    A, a, B, b = task
    if pooled:
        _pooled(columns, task)
    sites = fedgeom.split(A, a, n_sites, seed=seed)
    J = len(np.unique(a))
    # A class may have one point at a site; a table of accuracies is no place to refuse it.
    paper = fedgeom.Hulls.published(radius=covering_radius([A]), n_classes=J)
    ours = fedgeom.Hulls(n_classes=J, min_rows=1)
    as_published = run_hulls(paper, sites, seed)
    _add(columns, "FLP", percent(as_published.predict(B), b))
    _add(columns, "FLE", percent(as_published.predict_flat(B), b))
    untrimmed = run_hulls(fedgeom.Hulls(n_classes=J, min_rows=1, trim=0.0), sites, seed)
    _add(columns, "FLP untrimmed", percent(untrimmed.predict(B), b))
    _add(columns, "FLP ours", percent(run_hulls(ours, sites, seed).predict(B), b))
    for rule in ("centroid", "gaussian"):
        model = run_moments(fedgeom.Moments(rule=rule, min_rows=1), sites)
        _add(columns, f"Moments {rule}", percent(model.predict(B), b))


def _pooled(columns: Columns, task: Task) -> None:
    """Fit what needs all rows in one place."""
    A, a, B, b = task
    for name, model in (
        ("CP", fedgeom.PoincareSVC.published(published.C)),
        ("CE", fedgeom.EuclideanSVC(published.C)),
        (f"CP λ={OUR_C:g}", fedgeom.PoincareSVC(OUR_C)),
    ):
        _add(columns, name, percent(model.fit(A, a).predict(B), b))
    codes, counts = np.unique(a, return_inverse=True, return_counts=True)[1:]
    weights = len(a) / (len(counts) * counts[codes])
    balanced = fedgeom.PoincareSVC.published(published.C).fit(A, a, weights)
    _add(columns, "CP balanced", percent(balanced.predict(B), b))


def _images(title: str, key: str, quick: bool) -> dict[str, Row]:
    with load_data("poincare2d_cifar10_fmnist.npz") as file:
        A, a, B, b = (file[f"{key}_{part}"] for part in ("x_train", "y_train", "x_test", "y_test"))
        shipped = file[f"{key}_ref_points"]
    if quick:
        A, a = A[:6000], a[:6000]
    central: Columns = {}
    _pooled(central, (A, a, B, b))
    del central["CP balanced"]  # the classes have equal sizes
    with_reference = fedgeom.PoincareSVC(OUR_C, reference=shipped).fit(A, a)
    _add(central, "CP shipped reference", percent(with_reference.predict(B), b))
    rows = {}
    for n_sites in (3,) if quick else (3, 5, 10):
        columns: Columns = dict(central)
        for seed in range(2 if quick else 5):
            _disc_trial(columns, (A, a, B, b), n_sites=n_sites, seed=seed, pooled=False)
        rows[f"{title} L={n_sites}"] = _figures(columns)
    return rows


def _site_predictor(federated: Federated) -> Callable[[fedgeom.SiteData, Floats], Labels]:
    def predict(site: fedgeom.SiteData, X: Floats) -> Labels:
        own = federated.run.model.for_site(federated.run.local[site.name])
        return np.asarray(own.predict(X))

    return predict


def _same_everywhere(model: Any) -> Callable[[fedgeom.SiteData, Floats], Labels]:
    return lambda site, X: np.asarray(model.predict(X))


def _by_site(
    predict: Callable[[fedgeom.SiteData, Floats], Labels],
    pairs: Sequence[tuple[fedgeom.SiteData, fedgeom.SiteData]],
) -> float:
    return float(np.mean([percent(predict(kept, aside.X), aside.y) for kept, aside in pairs]))


def _standardised(site: fedgeom.SiteData, scales: Floats) -> fedgeom.SiteData:
    return fedgeom.SiteData(site.name, (site.X - scales[0]) / scales[1], site.y)


def _add(columns: Columns, name: str, value: float) -> None:
    columns.setdefault(name, []).append(value)


def _figures(columns: Columns) -> Row:
    return {name: figure(values) for name, values in columns.items()}


def main() -> None:
    """Parse, run, print, write."""
    options = parser(__doc__, ROWS).parse_args()
    made: dict[str, Row] = {}
    for name in options.only:
        rows = ROWS[name](options.quick)
        print_rows(rows)
        made |= rows
        if not options.quick:
            RESULTS.keep("table1", rows, ROWS, markdown)
    print_json(options, made)


if __name__ == "__main__":
    main()
