"""The model of moments: scores by hand, probabilities, refusals, and files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedgeom
from fedgeom.errors import InputError
from fedgeom.geometry.hyperbolic.poincare import distance
from fedgeom.methods.moments.model import MomentsModel


def made(rule: str, curvature: float | None = None) -> MomentsModel:
    """Two classes in two columns: around 0 and around (0.4, 0), with variances 1 and 4."""
    means = np.array([[0.0, 0.0], [0.4, 0.0]])
    covariances = np.array([np.eye(2), 4 * np.eye(2)])
    return MomentsModel(("a", "b"), rule, np.log([0.25, 0.75]), means, covariances, means, curvature)


def test_gaussian_scores_by_hand() -> None:
    """log prior − log √det − half the squared distance in deviations."""
    scores = made("gaussian").class_scores([[0.0, 0.0], [1.0, 2.0]])
    np.testing.assert_allclose(scores[:, 0], [np.log(0.25), np.log(0.25) - 2.5])
    np.testing.assert_allclose(
        scores[:, 1], [np.log(0.75) - np.log(4) - 0.16 / 8, np.log(0.75) - np.log(4) - (0.36 + 4) / 8]
    )


def test_the_nearest_centroid_wins() -> None:
    flat = made("centroid")
    assert flat.predict([[0.19, 5.0], [0.21, 5.0]]).tolist() == ["a", "b"]
    ball = made("centroid", 1.0)
    X = np.array([[0.19, 0.0], [0.25, 0.1]])
    gaps = np.column_stack([distance(X, centroid) for centroid in ball.centroids])
    np.testing.assert_allclose(ball.class_scores(X), -(gaps**2))


def test_probabilities_are_the_softmax_of_scores_however_large() -> None:
    model = made("gaussian")
    p = model.predict_proba([[0.3, 0.1], [1e6, 0.0]])
    scores = model.class_scores([[0.3, 0.1]])[0]
    np.testing.assert_allclose(p[0], np.exp(scores) / np.exp(scores).sum())
    assert p[1].tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("curvature", "X", "words"),
    [
        (None, [[1.0]], "wanted finite rows of 2 columns"),
        (None, [1.0, 2.0], "wanted finite rows of 2 columns"),
        (None, [[np.nan, 0.0]], "finite"),
        (1.0, [[1.2, 0.0]], "norm 1.2"),
    ],
)
def test_rows_that_do_not_fit_are_refused(curvature: float | None, X: list[object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        made("gaussian", curvature).predict(X)  # type: ignore[arg-type]


@pytest.mark.parametrize("rule", ["gaussian", "centroid"])
@pytest.mark.parametrize("curvature", [None, 1.0])
def test_models_are_saved_and_loaded_without_change(tmp_path: Path, rule: str, curvature: float | None) -> None:
    model = made(rule, curvature)
    model.save(tmp_path / "model.safetensors")
    again = fedgeom.load_model(tmp_path / "model.safetensors")
    assert again.to_bytes() == model.to_bytes()
    X = np.array([[0.1, 0.2], [0.3, -0.1]])
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert model.for_site({}) is model
    assert model.everywhere


def test_a_file_that_lacks_something_is_refused() -> None:
    arrays, facts = made("gaussian").tensors()
    with pytest.raises(InputError, match="no moments model"):
        MomentsModel.from_tensors({k: v for k, v in arrays.items() if k != "means"}, facts)
    with pytest.raises(InputError, match="no moments model"):
        MomentsModel.from_tensors(arrays, {"names": ["a", "b"], "rule": "gaussian"})


@pytest.mark.parametrize("alpha", [0.01, 0.1])
def test_rows_far_from_every_gaussian_are_unknown_by_the_quantile_of_chi_square(alpha: float) -> None:
    rng = np.random.default_rng(0)
    covariances = np.array([[[1.0, 0.5], [0.5, 1.0]], [[4.0, 0.0], [0.0, 0.25]]])
    means = np.array([[0.0, 0.0], [40.0, 0.0]])
    model = MomentsModel(("a", "b"), "gaussian", np.log([0.5, 0.5]), means, covariances, means, None)
    for mean, covariance in zip(means, covariances, strict=True):
        rows = rng.multivariate_normal(mean, covariance, size=20_000)
        assert model.unknown(rows, alpha).mean() == pytest.approx(alpha, abs=0.008)
    assert model.unknown([[20.0, 0.0], [0.1, 0.0]], alpha).tolist() == [True, False]
    assert "if classes are Gaussian" in model.fit_threshold(alpha)[1]


def test_centroids_know_no_densities() -> None:
    with pytest.raises(InputError, match="moments model alone cannot say which rows fit no class"):
        made("centroid").unknown([[0.1, 0.1]])
