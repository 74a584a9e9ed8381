"""scikit-learn's inspection of models on raw frames, with gaps, text and whole numbers."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.metrics import roc_auc_score

import fedgeom
from fedgeom.errors import InputError

pandas = pytest.importorskip("pandas", reason="needs the bio extra")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(
        {
            "age": rng.integers(30, 90, 600),
            "bmi": rng.normal(25, 4, 600),
            "sex": rng.choice(["f", "m"], 600),
            "noise": rng.normal(size=600),
        }
    )
    score = (frame.age - 60) / 10 + 1.5 * (frame.sex == "m") + rng.normal(size=600)
    labels = np.where(score > 0.7, "ill", "well")
    frame.loc[::9, "bmi"] = np.nan
    frame.loc[::11, "sex"] = None
    return frame, labels


@pytest.fixture(scope="module", params=["ridge", "moments", "fedavg", "estimator"])
def model(request, table):
    frame, labels = table
    if request.param == "estimator":
        return fedgeom.FederatedClassifier(fedgeom.Ridge(features="linear", prepare="table")).fit(frame, labels)
    method = {
        "ridge": fedgeom.Ridge(features="linear", prepare="table"),
        "moments": fedgeom.Moments(space="euclidean", prepare="table"),
        "fedavg": fedgeom.FedAvg(n_rounds=20, prepare="table"),
    }[request.param]
    whole = frame.assign(label=labels, at=np.arange(len(frame)) % 3)
    return fedgeom.run(method, fedgeom.SiteData.from_frame(whole, label="label", by="at", text=True)).model


@pytest.mark.parametrize("scoring", [None, "roc_auc", "neg_log_loss", "balanced_accuracy"])
def test_permutation_importance_finds_the_columns_that_count(model, table, scoring):
    found = permutation_importance(model, *table, scoring=scoring, n_repeats=3, random_state=0)
    means = dict(zip(model.feature_names_in_, found.importances_mean, strict=True))
    assert means["age"] > means["sex"] > max(means["bmi"], means["noise"], 0.0)


def test_scorers_and_calibration_take_the_decisions_of_two_classes(model, table):
    frame, labels = table
    exact = roc_auc_score(labels == "well", model.predict_proba(frame)[:, 1])
    if hasattr(model, "decision_function"):
        assert model.decision_function(frame).shape == (len(frame),)
        assert roc_auc_score(labels == "well", model.decision_function(frame)) == pytest.approx(exact)
    calibrated = CalibratedClassifierCV(FrozenEstimator(model)).fit(frame, labels)
    assert roc_auc_score(labels == "well", calibrated.predict_proba(frame)[:, 1]) == pytest.approx(exact, abs=0.01)


def test_partial_dependence_is_scikit_learns_where_that_one_can(model, table):
    frame, _ = table
    own = getattr(model, "model_", model)
    found = own.partial_dependence(frame, "noise", n_points=5)
    wanted = partial_dependence(
        model, frame, ["noise"], custom_values={"noise": np.unique(found["value"])}, method="brute"
    )
    of_second = found[found["class"] == "well"]["probability"]
    np.testing.assert_allclose(of_second, wanted["average"][0], atol=1e-12)


def test_partial_dependence_of_gaps_words_and_whole_numbers(model, table):
    frame, _ = table
    own = getattr(model, "model_", model)
    ages = own.partial_dependence(frame, "age", n_points=6)
    ill = ages[ages["class"] == "ill"]
    assert len(ill) == 6
    assert ill["probability"].is_monotonic_increasing
    assert ill["probability"].iloc[-1] - ill["probability"].iloc[0] > 0.4
    sexes = own.partial_dependence(frame, "sex").set_index(["value", "class"])["probability"]
    assert set(sexes.index.get_level_values(0)) == {"f", "m"}
    assert sexes["m", "ill"] > sexes["f", "ill"] + 0.1
    masses = own.partial_dependence(frame, "bmi", n_points=4)
    assert masses["value"].notna().all()
    assert np.ptp(masses[masses["class"] == "ill"]["probability"]) > 0
    np.testing.assert_allclose(masses.groupby("value")["probability"].sum(), 1.0)


def test_wrong_calls_are_answered(table):
    frame, _ = table
    numbers = frame[["age", "noise"]].to_numpy()
    model = fedgeom.run(
        fedgeom.Ridge(features="linear"), fedgeom.split(numbers, (numbers[:, 0] > 60).astype(int))
    ).model
    of_array = model.partial_dependence(numbers, 0, n_points=3)
    assert of_array["class"].tolist() == [0, 1] * 3
    with pytest.raises(InputError, match="column 7 of X of shape"):
        model.partial_dependence(numbers, 7)
    with pytest.raises(InputError, match="X has no column 'agee'; it has age, bmi"):
        model.partial_dependence(frame, "agee")
    with pytest.raises(InputError, match="n_points=1 given"):
        model.partial_dependence(numbers, 0, n_points=1)
    with pytest.raises(InputError, match="column 'age' has no value in any row"):
        model.partial_dependence(frame.assign(age=np.nan), "age")
