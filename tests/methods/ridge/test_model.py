"""The model of Ridge: scores, probabilities, refusals and files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fedgeom
from fedgeom.errors import InputError
from fedgeom.methods.ridge.features import Fourier
from fedgeom.methods.ridge.model import RidgeModel
from tests.methods.ridge.making import SHAPE, SMALL_CONV, blobs, images, pooled


@pytest.fixture(scope="module")
def model() -> RidgeModel:
    return fedgeom.Ridge(features=Fourier(n_components=20)).plain(blobs()).model


def test_scores_are_linear_in_the_features(model: RidgeModel) -> None:
    X, _ = pooled(blobs())
    scores = model.features(X) @ model.weights[1:] + model.weights[0]
    np.testing.assert_allclose(model.class_scores(X), scores, atol=1e-12)
    assert model.predict(X).tolist() == np.array(model.names)[scores.argmax(axis=1)].tolist()
    shown = np.exp(scores / model.temperature)
    np.testing.assert_allclose(model.predict_proba(X), shown / shown.sum(axis=1, keepdims=True), rtol=1e-9)


@pytest.mark.parametrize("X", [[[1.0]], [1.0] * 5, [[np.nan] * 5], [["a"] * 5]])
def test_rows_that_do_not_fit_are_refused(model: RidgeModel, X: list[object]) -> None:
    with pytest.raises(InputError, match="wanted finite rows of 5 columns"):
        model.predict(X)  # type: ignore[arg-type]


def test_models_are_saved_and_loaded_without_change(tmp_path: Path, model: RidgeModel) -> None:
    conv = fedgeom.Ridge(features=SMALL_CONV, shape=SHAPE).plain(images()).model
    for at, (one, X) in enumerate([(model, pooled(blobs())[0]), (conv, pooled(images())[0])]):
        one.save(tmp_path / f"{at}.safetensors")
        again = fedgeom.load_model(tmp_path / f"{at}.safetensors")
        assert again.to_bytes() == one.to_bytes()
        np.testing.assert_array_equal(again.predict_proba(X), one.predict_proba(X))
        assert again.width == X.shape[1]


def test_images_may_come_as_bytes(tmp_path: Path) -> None:
    conv = fedgeom.Ridge(features=SMALL_CONV, shape=SHAPE).plain(images()).model
    X = pooled(images())[0]
    np.testing.assert_array_equal(conv.class_scores(X.astype(np.uint8)), conv.class_scores(X))


def test_a_file_whose_parts_do_not_fit_is_refused(model: RidgeModel) -> None:
    arrays, facts = model.tensors()
    with pytest.raises(InputError, match="do not fit its features"):
        RidgeModel.from_tensors(arrays | {"weights": model.weights[:-1]}, facts)
    with pytest.raises(InputError, match="RidgeModel"):
        RidgeModel.from_tensors({k: v for k, v in arrays.items() if k != "moments"}, facts)
    with pytest.raises(InputError, match="unknown"):
        RidgeModel.from_tensors(arrays, facts | {"maps": ["cubic"]})
    assert replace(model, temperature=2.0).predict_proba(blobs()[0].X).max() < 1


def test_convolutions_are_in_single_precision_and_nothing_else_is() -> None:
    sites = fedgeom.split(np.random.default_rng(0).random((60, 16)), np.arange(60) % 2, n_sites=3)
    assert not fedgeom.run(fedgeom.Ridge(features="linear"), sites).model.single
    conv = {"name": "random-conv", "n_filters": 4, "patch_size": 2, "pools": 1, "means": 1}
    assert fedgeom.run(fedgeom.Ridge(features=conv, shape=(4, 4, 1)), sites).model.single
