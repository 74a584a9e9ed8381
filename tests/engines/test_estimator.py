"""A method as scikit-learn's own classifiers are used: its checks, cross-validation, pipelines, searches."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import fedgeom
from fedgeom.engines.estimator import FederatedClassifier
from fedgeom.errors import InputError

X, y = load_wine(return_X_y=True)
HOSPITAL = np.arange(len(y)) % 4
MOMENTS = fedgeom.Moments(space="euclidean")


@parametrize_with_checks([FederatedClassifier(fedgeom.FedAvg(n_rounds=3))])
def test_it_stands_what_scikit_learn_asks_of_its_own(estimator, check):
    check(estimator)


def test_it_learns_what_a_run_over_the_same_sites_learns():
    learner = FederatedClassifier(MOMENTS).fit(X, y, sites=HOSPITAL)
    direct = fedgeom.run(MOMENTS, fedgeom.split(X, y, by=HOSPITAL.astype(str)))
    assert learner.model_.to_bytes() == direct.model.to_bytes()
    assert [site.name for site in learner.run_.sites] == ["0", "1", "2", "3"]
    assert learner.predict(X).dtype == y.dtype  # the labels as they were given, not as texts
    assert learner.score(X, y) > 0.9
    assert np.array_equal(learner.predict_proba(X), direct.model.predict_proba(X))


def test_labels_whose_texts_stand_in_another_order_are_told_apart():
    """10 is before 9 among texts."""
    labels = np.array([9, 10, 11])[y]
    learner = FederatedClassifier(MOMENTS).fit(X, labels)
    assert learner.classes_.tolist() == [9, 10, 11]
    assert (learner.predict(X) == learner.classes_[learner.predict_proba(X).argmax(axis=1)]).all()
    assert learner.score(X, labels) > 0.9


def test_cross_validation_pipelines_and_searches():
    piped = make_pipeline(StandardScaler(), FederatedClassifier(MOMENTS))
    assert cross_val_score(piped, X, y, cv=3).mean() > 0.9
    assert cross_val_score(FederatedClassifier(MOMENTS), X, y, cv=3, params={"sites": HOSPITAL}).mean() > 0.9
    search = GridSearchCV(FederatedClassifier(MOMENTS), {"method__shrinkage": [1.0, 20.0], "seed": [1]}, cv=2)
    assert search.fit(X, y).best_estimator_.method.shrinkage in (1.0, 20.0)
    assert MOMENTS.shrinkage is None  # nothing was changed under it


def test_parameters_of_the_method():
    learner = clone(FederatedClassifier("moments"))
    assert learner.set_params(method__space="euclidean", n_sites=4).method == MOMENTS
    assert (learner.n_sites, learner.get_params()["method__space"]) == (4, "euclidean")
    with pytest.raises(
        InputError, match="'moments' has no setting 'speed'; it has holdout, prepare, aggregation, rule"
    ):
        learner.set_params(method__speed=1)


@pytest.mark.parametrize("method", [fedgeom.LocalOnly(), fedgeom.Hulls(embedding="discriminant")])
def test_methods_without_a_joint_model_in_the_words_of_the_labels_are_refused(method):
    with pytest.raises(
        InputError, match=r"yields no joint model that answers in the words of y; use fedgeom\.run"
    ):
        FederatedClassifier(method).fit(X, np.array(["a", "b", "c"])[y])
    with pytest.raises(InputError, match="in the words of y"):  # the groups of hulls are 0, 1, 2, too
        FederatedClassifier(method).fit(X, y)


def test_a_method_that_prepares_takes_gaps_and_text():
    """They were refused before the method saw them."""
    pandas = pytest.importorskip("pandas", reason="needs the bio extra")
    frame = pandas.DataFrame(X[:, :5], columns=list("abcde"))
    frame.loc[::7, "b"] = np.nan
    frame["label"] = np.where(np.arange(len(y)) % 3 == 0, "north", "south")  # a column like any other
    learner = FederatedClassifier(fedgeom.Ridge(features="linear", prepare="table")).fit(frame, y, sites=HOSPITAL)
    assert learner.feature_names_in_.tolist() == [*"abcde", "label"]
    assert learner.predict(frame).dtype == y.dtype
    assert learner.score(frame, y) > 0.8
    assert learner.predict_proba(frame).shape == (len(y), 3)
    gaps = np.where(np.arange(X.size).reshape(X.shape) % 11 == 0, np.nan, X)
    assert FederatedClassifier(fedgeom.Ridge(features="linear", prepare="table")).fit(gaps, y).score(gaps, y) > 0.8
    with pytest.raises(ValueError, match="NaN"):
        FederatedClassifier(fedgeom.Ridge(features="linear")).fit(gaps, y)
