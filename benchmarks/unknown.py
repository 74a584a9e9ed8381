"""How often rows are called unknown: rows of known classes, where 5 % are wanted, and rows of a class nobody learnt.

    FEDGEOM_DATA=folder python benchmarks/unknown.py          # a few minutes; writes results/unknown.json
    FEDGEOM_DATA=folder python benchmarks/unknown.py --json   # the last line is one JSON object

Each class in turn is left out of training. 40 % of all rows are kept aside for testing. Rules: "alone", the joint
model's own; "site", each site's own model file, which knows the rows that the site learnt from, on that site's test
rows; "known", the joint model with half of the test rows as known ones, on the other half.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results" / "unknown.json"
ALPHA = 0.05
FEWEST = 5
"""Classes of which a site has fewer rows are left out there."""


def kang(file: Path) -> tuple[Any, Any, Any]:
    """Read blood cells of 8 donors: 20 principal components of the 1,000 genes that vary most, pooled."""
    import scipy.sparse as sp
    from sklearn.decomposition import PCA

    z = np.load(file)
    parts = (z["X_data"], z["X_indices"].astype("int32"), z["X_indptr"])
    counts = sp.csr_matrix(parts, shape=tuple(z["X_shape"])).astype(float)[z["y"] >= 0]
    scaled = sp.csr_matrix(sp.diags(1e4 / np.asarray(counts.sum(axis=1)).ravel()) @ counts)
    scaled.data = np.log1p(scaled.data)
    spread = np.asarray(scaled.multiply(scaled).mean(axis=0) - np.square(scaled.mean(axis=0))).ravel()
    few = scaled[:, np.argsort(-spread)[:1000]].toarray()
    labelled = z["y"] >= 0
    X = PCA(20, random_state=0).fit_transform(few)
    return X, z["class_names"][z["y"][labelled]], z["donor_names"][z["donor"][labelled]]


def pooled(name: str, **options: Any) -> tuple[Any, Any, Any]:
    """Return a built-in set in one table: rows, labels, and the site of each row."""
    import fedgeom

    found = fedgeom.load_set(name, **options)
    parts = [*found.train, *found.test]
    sites = np.concatenate([np.repeat(site.name, len(site)) for site in parts])
    return np.vstack([site.X for site in parts]), np.concatenate([site.y for site in parts]).astype(str), sites


def sets() -> dict[str, tuple[Any, Any, Any]]:
    """Return the sets that are found here."""
    from fedgeom.data.sets import available, data_folder

    found = {"digits": pooled("digits")}
    if "hipc" in available():
        found["hipc"] = pooled("hipc", rows=2000)
    file = (data_folder() or Path()) / "kang_pbmc_8donors.npz"
    return found | ({"kang": kang(file)} if file.is_file() else {})


def shares(X: Any, y: Any, owner: Any, left_out: str, method: Any) -> dict[str, tuple[float, float]]:
    """Return for each rule the share of known rows, and of rows of the class left out, that are called unknown."""
    import fedgeom
    from fedgeom.errors import InputError

    rng = np.random.default_rng(0)
    test, half, new = rng.random(len(y)) < 0.4, rng.random(len(y)) < 0.5, y == left_out
    learnt = ~test & ~new
    for site in np.unique(owner):
        names, counts = np.unique(y[learnt & (owner == site)], return_counts=True)
        learnt &= ~((owner == site) & np.isin(y, names[counts < FEWEST]))
    found: dict[str, tuple[float, float]] = {}
    flags = np.zeros(len(y), bool)

    def judge(model: Any, known: Any) -> tuple[float, float]:
        return float(model.unknown(X[known], ALPHA).mean()), float(model.unknown(X[test & new], ALPHA).mean())

    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "run"
        model = fedgeom.run(method, fedgeom.split(X[learnt], y[learnt], by=owner[learnt]), record=record).model
        for site in np.unique(owner[test]):
            own = fedgeom.load_model(record / "sites" / f"{site}.safetensors")
            flags[test & (owner == site)] = own.unknown(X[test & (owner == site)], ALPHA)
    with contextlib.suppress(InputError):  # no densities
        found["alone"] = judge(model, test & ~new)
    found["site"] = float(flags[test & ~new].mean()), float(flags[test & new].mean())
    found["known"] = judge(model.with_known(X[test & half & ~new]), test & ~half & ~new)
    return found


def main() -> None:
    """Print a table, keep the figures, and with --json print them too."""
    import fedgeom

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    methods = {
        "Moments": fedgeom.Moments(space="euclidean"),
        "Ridge": fedgeom.Ridge(),
        "Hulls": fedgeom.Hulls(embedding="discriminant"),
        "FedAvg": fedgeom.FedAvg(rounds=10),
        "Ditto": fedgeom.Ditto(rounds=10),
        "XCLP, anchors": fedgeom.XCLP(graph="anchors", anchors=200, bits=512),
        "XCLP, anchors, a quarter kept aside": fedgeom.XCLP(graph="anchors", anchors=200, bits=512, holdout=0.25),
    }
    wanted, figures = parser.parse_args().json, {}
    print("| set | method | rule | known rows, wanted 0.05 (range) | rows of a class left out (range) |")
    print("|---|---|---|---|---|")
    for name, (X, y, owner) in sets().items():
        for title, method in methods.items():
            by_rule: dict[str, list[tuple[float, float]]] = defaultdict(list)
            for left_out in np.unique(y):
                for rule, pair in shares(X, y, owner, left_out, method).items():
                    by_rule[rule].append(pair)
            for rule, pairs in by_rule.items():
                known, new = np.array(pairs).T
                cells = [f"{a.mean():.2f} ({a.min():.2f}–{a.max():.2f})" for a in (known, new)]
                print(f"| {name} | {title} | {rule} | {cells[0]} | {cells[1]} |", flush=True)
                figures[f"{name}, {title}, {rule}"] = {
                    "known": known.round(4).tolist(),
                    "left out": new.round(4).tolist(),
                }
    RESULTS.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    if wanted:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
