"""The plain classifier that a federation is measured against."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from fedgeom.protocols import evaluation
from fedgeom.protocols.evaluation import train_baseline


def rows(classes: int, n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(classes)
    y = rng.integers(0, classes, n)
    X = np.column_stack([rng.normal(size=n) + y, 100 * rng.normal(size=n) - 50 * y, np.full(n, 3.0)])
    return X, np.array([f"c{i}" for i in range(classes)])[y]


def test_it_is_scikit_learns_on_standardised_columns():
    for classes in (2, 3):
        X, y = rows(classes)
        found = train_baseline(X, y)
        scaler = StandardScaler().fit(X)
        wanted = LogisticRegression(max_iter=200).fit(scaler.transform(X), y)
        assert np.allclose(found.predict_proba(X), wanted.predict_proba(scaler.transform(X)), atol=1e-8)
        assert (found.predict(X) == wanted.predict(scaler.transform(X))).all()


def test_one_class_is_always_the_answer():
    found = train_baseline(np.zeros((3, 2)), np.array(["a", "a", "a"]))
    assert found.predict(np.ones((2, 2))).tolist() == ["a", "a"]
    assert found.predict_proba(np.ones((2, 2))).tolist() == [[1.0], [1.0]]


def test_the_work_is_bounded_no_class_is_left_out_and_the_same_rows_give_the_same_model(monkeypatch):
    X, y = rows(2, 2000)
    y = y.astype(object).astype("U4")
    y[17] = "rare"
    monkeypatch.setattr(evaluation, "MOST_WORK", 2000)
    found = train_baseline(X, y)
    assert found.names == ("c0", "c1", "rare")
    assert (found.weights == train_baseline(X, y).weights).all()
    assert not np.allclose(found.weights[:, :2], train_baseline(X[:1000], y[:1000]).weights[:, :2])


def test_the_same_table_is_trained_on_once_and_another_anew(monkeypatch):
    trained = []
    train = evaluation._train
    monkeypatch.setattr(evaluation, "_train", lambda X, words: trained.append(len(X)) or train(X, words))
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(41, 3)), np.arange(41) % 2
    first = train_baseline(X, y.astype(str))
    assert train_baseline(X.copy(), y.astype(str)) is first
    train_baseline(X, (1 - y).astype(str))
    train_baseline(X[:, :2], y.astype(str))
    assert trained == [41, 41, 41]
