"""Trained models: files come back as they were, tables that do not fit are refused, a site's own is its own."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom import FedAvg
from fedgeom.errors import InputError
from fedgeom.methods.iterative import Learner, TrainedModel, Tree, register
from tests.methods.iterative.making import ALGORITHMS, algorithm_class, unlike, whole

SITES = unlike(n_sites=4)
SHORT = {"n_rounds": 2, "epochs": 1, "batch_size": 5}
OPTIONS = {"pfedme": {"local_rounds": 2, "inner_steps": 2}}
MODEL = FedAvg(**SHORT).plain(SITES).model


@pytest.mark.parametrize("name", ALGORITHMS)
def test_files_come_back_as_they_were(name, tmp_path):
    model = algorithm_class(name)(**(SHORT | OPTIONS.get(name, {}))).plain(SITES).model
    model.save(tmp_path / "m.safetensors")
    back = fedgeom.load_model(tmp_path / "m.safetensors")
    assert type(back) is TrainedModel
    assert back.method == name
    assert back.to_bytes() == model.to_bytes()
    assert back.everywhere == model.everywhere == (name not in ("fedper", "local", "fedrep", "fedproto"))
    if model.everywhere:
        X = SITES[0].X
        assert (back.predict_proba(X) == model.predict_proba(X)).all()
        assert (back.predict(X) == model.predict(X)).all()


@pytest.mark.parametrize("name", ["fedper", "local"])
def test_what_the_sites_keep_to_themselves_is_not_in_the_joint_model(name):
    """It predicted by what it had before training, without a word."""
    found = algorithm_class(name)(**SHORT).plain(SITES)
    with pytest.raises(InputError, match=r"so the joint model is not trained; use a site's own: model.for_site"):
        found.model.predict(SITES[0].X)
    own = found.model.for_site(found.local[SITES[0].name])
    assert own.everywhere
    assert own.predict_proba(SITES[0].X).std() > 0
    assert "joint" not in own.tensors()[1]  # as before, and as the other methods' files


def test_other_tables_are_refused():
    with pytest.raises(InputError, match=r"X has shape \(1, 3\); wanted finite rows of 2 columns"):
        MODEL.predict([[1.0, 2.0, 3.0]])
    with pytest.raises(InputError, match=r"X has shape \(2,\); wanted finite rows of 2 columns"):
        MODEL.predict([1.0, 2.0])
    with pytest.raises(InputError, match="wanted finite rows"):
        MODEL.predict([[1.0, np.nan]])


@pytest.mark.parametrize("arrays", [{}, {"a": np.zeros(1), "a/b": np.zeros(1)}])
def test_files_of_something_else_are_refused(arrays):
    with pytest.raises(InputError, match="the file holds no trained model"):
        TrainedModel.from_tensors(arrays, {} if not arrays else MODEL.tensors()[1])


def test_predictions_are_of_scaled_rows_and_named():
    chances = MODEL.predict_proba(SITES[0].X)
    assert chances.shape == (len(SITES[0]), 2)
    assert chances.sum(axis=1) == pytest.approx(np.ones(len(SITES[0])))
    scores = (SITES[0].X - MODEL.centre) / MODEL.spread @ MODEL.parameters["weights"] + MODEL.parameters[
        "intercept"
    ]
    assert chances[:, 1] == pytest.approx(1 / (1 + np.exp(-scores[:, 0])))
    assert MODEL.predict(SITES[0].X).tolist() == [f"class {int(score > 0)}" for score in scores[:, 0]]
    assert MODEL.summary() == "fedavg, 2 classes, 7 numbers"


def test_for_site_takes_the_sites_numbers_and_scale():
    local = {"model": np.array([1.0, 2.0, 3.0]), "centre": np.zeros(2), "spread": np.full(2, 2.0)}
    mine = MODEL.for_site(local)
    assert mine.parameters["intercept"].tolist() == [1.0]
    assert mine.parameters["weights"].ravel().tolist() == [2.0, 3.0]
    assert mine.spread.tolist() == [2.0, 2.0]
    assert (whole(MODEL) != whole(mine)).any()


def test_models_of_sites_with_own_scales_predict_at_home_only():
    done = FedAvg(scale="site", **SHORT).plain(SITES)
    assert not done.model.everywhere
    assert MODEL.everywhere
    with pytest.raises(InputError, match=r"use model.for_site\(run.local\[site\]\) for a site's rows"):
        done.model.predict(SITES[1].X)
    assert done.model.for_site(done.local["s1"]).predict(SITES[1].X).shape == (len(SITES[1]),)


class Branched(Learner):
    """Parameters of several shapes: a branch, an array without dimensions, and float32."""

    name = "test-branched"

    def start(self, columns, classes, rng):
        return Tree(body=Tree(weights=np.zeros(columns, np.float32)), shift=np.zeros(()))

    def _scores(self, parameters, X):
        return X @ parameters["body"]["weights"] + parameters["shift"]

    def predict_proba(self, parameters, X):
        chance = 1 / (1 + np.exp(-self._scores(parameters, X)))
        return np.column_stack([1 - chance, chance])

    def loss(self, parameters, X, y):
        return self.nll(parameters, X, y)

    def gradient(self, parameters, X, y):
        gap = self.predict_proba(parameters, X)[:, 1] - y
        return Tree(body=Tree(weights=X.T @ gap / len(y)), shift=gap.mean())


def test_parameters_of_any_shape_and_dtype(tmp_path):
    register(Branched())
    run = fedgeom.run(FedAvg(learner="test-branched", **SHORT), SITES, record=tmp_path / "run")
    twin = FedAvg(learner="test-branched", **SHORT).plain(SITES)
    assert run.model.to_bytes() == twin.model.to_bytes()
    back = fedgeom.load_model(tmp_path / "run")
    for model in (run.model, back):
        assert model.parameters["body"]["weights"].dtype == np.float32
        assert np.shape(model.parameters["shift"]) == ()
        assert model.parameters["shift"] != 0
    assert (back.predict_proba(SITES[0].X) == run.model.predict_proba(SITES[0].X)).all()
    own = run.model.for_site(run.local["s0"])
    assert own.parameters["body"]["weights"].dtype == np.float32
