"""Coefficients and odds ratios of linear models, in the data's own units."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import fedgeom

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3)) * [1.0, 10.0, 0.1] + [0.0, 50.0, 1.0]
y = (X[:, 0] + 0.1 * (X[:, 1] - 50) + RNG.normal(size=300) > 0).astype(int)
LINEAR = fedgeom.Ridge(features="linear", rule="ridge", balanced=False, alpha=1.0)


def log_odds(chances):
    """Return what coefficients are weights of: of two classes the log odds, otherwise logs away from their mean."""
    logs = np.log(chances)
    return logs[:, 1:] - logs[:, :1] if logs.shape[1] == 2 else logs - logs.mean(axis=1, keepdims=True)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("method", [LINEAR, fedgeom.FedAvg(n_rounds=5)])
@pytest.mark.parametrize("prepare", [None, "table"])
def test_they_give_the_probabilities_from_raw_columns(classes, method, prepare):
    labels = y + (X[:, 2] > 1) * (classes - 2)
    run = fedgeom.run(replace(method, prepare=prepare), fedgeom.split(X, labels))
    model = run.model
    assert model.coef_.shape == (1 if classes == 2 else 3, 3)
    found = X @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(found, log_odds(model.predict_proba(X)), atol=1e-6)


def test_words_are_columns_and_units_are_those_of_the_data():
    pandas = pytest.importorskip("pandas", reason="needs the bio extra")
    rng = np.random.default_rng(1)
    age = rng.normal(60, 12, 3000)
    sex = rng.choice(["f", "m"], 3000)
    chance = 1 / (1 + np.exp(-(0.08 * (age - 60) + 1.0 * (sex == "m") - 0.5)))
    ill = (rng.random(3000) < chance).astype(int)
    frame = pandas.DataFrame({"age": age, "sex": sex, "ill": ill, "at": np.arange(3000) % 3})
    sites = fedgeom.SiteData.from_frame(frame, label="ill", by="at", text=True)
    model = fedgeom.run(fedgeom.FedAvg(n_rounds=30, prepare="table"), sites).model
    assert model.feature_names_in_.tolist() == ["age", "sex"]
    table = model.odds_ratios().set_index("column")
    assert set(table["class"]) == {1}
    assert table.loc["age", "odds_ratio"] == pytest.approx(np.exp(0.08), rel=0.05)
    words = [name for name in table.index if name.startswith("sex")]
    men, women = (next(name for name in words if name.endswith(end)) for end in "mf")
    assert table.loc[men, "coefficient"] - table.loc[women, "coefficient"] == pytest.approx(1.0, abs=0.3)


def test_what_is_not_linear_has_none_and_says_so():
    model = fedgeom.run(fedgeom.Moments(space="euclidean"), fedgeom.split(X, y)).model
    assert not hasattr(model, "coef_")
    with pytest.raises(AttributeError, match="this moments model is not linear"):
        model.odds_ratios()
