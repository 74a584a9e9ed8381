"""From raw tables to predictions for new raw rows: secure runs with prepare="table" against twins, step after step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedgeom
from tests.methods.iterative import twin as iterative
from tests.methods.moments import twin as moments
from tests.methods.ridge import twin as ridge
from tests.preparation import twin

SEED = 3
SITES = ("north", "south", "east", "west")
NUMBERS = ["age", "crp", "stay"]
NEAR = 3e-4
"""A median is found to 3·10⁻⁵ of itself."""


def frame(rows: int, seed: int, wards: str) -> Any:
    """Draw a table as hospitals have it: units, gaps, words that are rare or missing."""
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(seed)
    ill = rng.random(rows) < 0.45
    X = rng.normal(size=(rows, 3)) * [15, 8, 0.4] + [60, 20, 2] + ill[:, None] * [6, 5, 0.3]
    X[:, 1] = np.exp(X[:, 1] / 10)  # skewed: the mean is not the median
    X[rng.random((rows, 3)) < [0.1, 0.2, 0.0]] = np.nan
    found = pandas.DataFrame(X, columns=NUMBERS)
    drawn = rng.choice(list(wards), rows, p=[0.5, 0.35, 0.09, 0.03, 0.03])
    found["ward"] = np.where(rng.random(rows) < 0.15, None, drawn)
    found["sex"] = rng.choice(["f", "m"], rows)
    found["outcome"] = np.where(ill, "ill", "well")
    return found


def raw(name: str, table: Any, order: int) -> fedgeom.SiteData:
    """Return a frame as a site, with its columns in an order of its own."""
    columns = [*NUMBERS, "ward", "sex"]
    turned = columns[order:] + columns[:order]
    return fedgeom.SiteData.from_frame(table[[*turned, "outcome"]], label="outcome", name=name, text=True)


@pytest.fixture(scope="module")
def case() -> dict[str, Any]:
    """Return raw sites and new rows, and what the twin makes of both."""
    frames = [frame(60 + 10 * at, at, "abxuv") for at in range(4)]
    new = frame(80, 9, "abxuz")  # "z" is a word that nobody knows
    owners = np.repeat(SITES, [len(one) for one in frames])
    numbers = np.vstack([one[NUMBERS].to_numpy(float) for one in frames])
    words = [np.concatenate([one[name].fillna("").to_numpy(str) for one in frames]) for name in ("ward", "sex")]
    new_words = [new[name].fillna("").to_numpy(str) for name in ("ward", "sex")]
    X, Z = twin.table(numbers, words, owners, new[NUMBERS].to_numpy(float), new_words)
    y = np.concatenate([one["outcome"].to_numpy(str) for one in frames])
    return {
        "sites": [raw(name, one, at) for at, (name, one) in enumerate(zip(SITES, frames, strict=True))],
        "new": raw("new", new, 2),
        "tables": {name: (X[owners == name], y[owners == name]) for name in SITES},
        "rows": Z,
    }


def secure(method: Any, case: dict[str, Any]) -> Any:
    """Return a model of raw tables."""
    model = fedgeom.run(method, case["sites"], seed=SEED).model
    assert model.classes_.tolist() == ["ill", "well"]
    return model


def test_centroids(case: dict[str, Any]) -> None:
    """Columns of words sum to one, so that no covariance has an inverse; centroids need none."""
    model = secure(fedgeom.Moments(rule="centroid", space="euclidean", prepare="table"), case)
    expected = moments.fit(case["tables"])
    words = ("ward is missing", "ward = a", "ward = b", "ward = x", "ward is another", "sex = f", "sex = m")
    names = (*NUMBERS, *words, "age is missing", "crp is missing")
    assert sorted(model.preparation.columns.names) == sorted(names)
    order = [model.preparation.columns.names.index(name) for name in names]
    np.testing.assert_allclose(model.preparation.transform(case["new"]).X[:, order], case["rows"], atol=NEAR)
    np.testing.assert_array_equal(model.predict(case["new"]), expected.nearest(case["rows"]))


def test_ridge(case: dict[str, Any]) -> None:
    X, y = moments.pool(case["tables"])
    expected = ridge.ridge(X, y, ["ill", "well"], seed=SEED, alpha=1.0)
    found = secure(fedgeom.Ridge(features="linear", alpha=1.0, prepare="table"), case).predict_proba(case["new"])
    np.testing.assert_allclose(found, expected.probabilities(case["rows"]), atol=NEAR)


def test_fedavg(case: dict[str, Any]) -> None:
    work: dict[str, Any] = {"n_rounds": 4, "learning_rate": 0.1, "epochs": 2, "batch_size": 16}
    made = [fedgeom.SiteData(name, X, y) for name, (X, y) in case["tables"].items()]
    w = iterative.fedavg(iterative.clients_of(made, C=0.5), iterative.Work(**work, seed=SEED))
    well = 1 / (1 + np.exp(-(w[0] + case["rows"] @ w[1:])))
    method = fedgeom.FedAvg(**work, C=0.5, scale="none", prepare="table")
    found = secure(method, case).predict_proba(case["new"])
    np.testing.assert_allclose(found, np.column_stack([1 - well, well]), atol=NEAR)
