"""The model of hulls: it is its classifier, speaks a site's words, and is saved without change."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedgeom
import fedgeom.testing
from fedgeom.errors import InputError
from fedgeom.geometry.hyperbolic.poincare import exp0
from fedgeom.geometry.hyperbolic.svm import EuclideanSVC, PoincareSVC
from fedgeom.methods.catalogue import read_model
from fedgeom.methods.hulls.model import HullModel
from tests.methods.hulls.drawing import blobs, pairs


def fitted(classes: int) -> tuple[PoincareSVC, np.ndarray]:
    X, y = pairs(1, classes)[0]
    return PoincareSVC(C=5.0).fit(X, y), X


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_it_is_the_classifier_that_was_fitted(classes: int) -> None:
    svc, X = fitted(classes)
    model = HullModel.of(svc, classes)
    np.testing.assert_array_equal(model.predict(X), svc.predict(X))
    np.testing.assert_allclose(model.predict_proba(X), svc.predict_proba(X), atol=1e-12)
    np.testing.assert_allclose(model.decision_function(X), svc.scores(X), atol=1e-12)
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(np.ones(len(X)))


def test_groups_must_be_numbered_from_0() -> None:
    svc, X = fitted(3)
    shifted = PoincareSVC().fit(X, svc.predict(X) + 1)
    with pytest.raises(InputError, match=r"the groups \[1, 2, 3\] were fitted; wanted 0 … 2"):
        HullModel.of(shifted, 3)


def test_for_a_site_it_speaks_that_sites_words() -> None:
    svc, X = fitted(3)
    model = HullModel.of(svc, 3)
    own = model.for_site({"names": {"rot": 2, "blau": 0}})
    assert own.names == ("blau", "class 1", "rot")  # a class that the site does not have keeps its number
    np.testing.assert_array_equal(own.predict(X), np.array(own.names)[model.predict(X)])
    np.testing.assert_array_equal(own.predict_proba(X), model.predict_proba(X))
    assert model.names == ()


def test_through_a_joint_map_rows_are_scaled_by_the_sites_own_columns() -> None:
    svc, _ = fitted(3)
    P, rng = np.array([[0.5, 0.0], [0.0, 0.5], [0.1, 0.1]]), np.random.default_rng(0)
    model = HullModel.of(svc, 3, P)
    X = rng.normal(size=(30, 3)) * [1, 10, 100] + 7
    scales = [X.mean(axis=0).tolist(), X.std(axis=0).tolist()]
    own = model.for_site({"names": {"a": 0}, "scales": scales})
    np.testing.assert_allclose(own.to_disc(X), exp0((X - X.mean(axis=0)) / X.std(axis=0) @ P), atol=1e-12)
    assert own.predict(X[:1])[0] == own.predict(X)[0]
    with pytest.raises(InputError, match=r"no joint scale.*for_site\(run.local\[site\]\).*--site NAME"):
        model.predict(X)
    assert model.in_disc
    assert (model.everywhere, own.everywhere) == (False, True)


def test_sick_patients_alone_are_as_sick_as_among_others() -> None:
    """It standardised by the rows it was given, so that half of a file of sick patients was called healthy."""
    tumours = fedgeom.load_set("breast-cancer", n_sites=3)
    run = fedgeom.run(fedgeom.Hulls(embedding="discriminant"), tumours.train)
    for site in tumours.test:
        for model in (run.model, run.model.for_site(run.local[site.name])):
            sick = site.y == "malignant"
            np.testing.assert_array_equal(model.predict(site.X[sick]), model.predict(site.X)[sick])
            assert model.predict(site.X[:1])[0] == model.predict(site.X)[0]
        own = model.predict(site.X) == "malignant"
        joint = run.model.predict(site.X)
        sick_class = run.local[site.name]["names"]["malignant"]
        assert np.mean((joint == sick_class) == own) > 0.95  # the joint scale is near the site's own


def test_a_file_whose_map_and_scale_do_not_fit_together_is_refused() -> None:
    svc, _ = fitted(3)
    arrays, facts = HullModel.of(svc, 3, np.ones((3, 2)), np.ones((2, 3))).tensors()
    for wrong in ({"scales": np.ones((2, 4))}, {"embedding": np.ones(3)}, {"embedding": np.ones((3, 3))}):
        with pytest.raises(InputError, match="map or scale has shape"):
            HullModel.from_tensors(arrays | wrong, facts)


@pytest.mark.parametrize(
    ("embedding", "X", "words"),
    [
        (None, [[1.5, 0.0]], "norm 1.5"),
        (None, [[0.1, 0.0, 0.0]], "dimension 2"),
        (np.ones((3, 2)), [[0.1, 0.0]], "wanted rows of 3 columns"),
        (np.ones((3, 2)), [0.1, 0.0, 0.0], "wanted rows of 3 columns"),
    ],
)
def test_rows_that_do_not_fit_are_refused(embedding: np.ndarray | None, X: list[object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        HullModel.of(fitted(3)[0], 3, embedding).predict(X)  # type: ignore[arg-type]


def test_models_are_saved_and_loaded_without_change(tmp_path: Path) -> None:
    run = fedgeom.run(fedgeom.Hulls(embedding="discriminant"), blobs(3, 3))
    path = tmp_path / "model.safetensors"
    run.model.save(path)
    again = fedgeom.load_model(path)
    X = run.sites[0].X
    np.testing.assert_array_equal(again.predict(X), run.model.predict(X))
    np.testing.assert_allclose(again.predict_proba(X), run.model.predict_proba(X), rtol=1e-12)
    assert again.to_bytes() == run.model.to_bytes()
    named = run.model.for_site(run.local["site-1"])
    named.save(path)
    assert fedgeom.load_model(path).predict(X[:1]) == named.predict(X)[:1]
    path.write_bytes(b"no model")
    with pytest.raises(InputError, match="not a fedgeom model"):
        fedgeom.load_model(path)


def test_a_file_that_lacks_something_is_refused() -> None:
    arrays, facts = HullModel.of(fitted(3)[0], 3).tensors()
    for missing in arrays:
        with pytest.raises(InputError, match="no hulls model"):
            HullModel.from_tensors({name: a for name, a in arrays.items() if name != missing}, facts)
    for missing in facts:
        with pytest.raises(InputError, match="no hulls model"):
            HullModel.from_tensors(arrays, {name: fact for name, fact in facts.items() if name != missing})


@pytest.mark.parametrize("classes", [1, 2, 4, 10**9])
@pytest.mark.parametrize("hyperplanes", [3, 0])
def test_a_file_with_other_hyperplanes_than_classes_is_refused(classes: int, hyperplanes: int) -> None:
    """Before a site writes down the names of a thousand million classes that a short message claims."""
    arrays, facts = HullModel.of(fitted(3)[0], 3).tensors()
    few = {name: array[:hyperplanes] for name, array in arrays.items()}
    with pytest.raises(InputError, match=rf"for {classes} classes"):
        HullModel.from_tensors(few, facts | {"classes": classes})
    flat = {name: np.empty((10**9, 0)) for name in arrays}  # no bytes at all
    with pytest.raises(InputError, match="hyperplanes"):
        HullModel.from_tensors(flat, facts | {"classes": 10**9})


@pytest.mark.parametrize("gap", [np.nan, np.inf, -np.inf])
def test_a_row_with_a_gap_gets_no_class(gap: float) -> None:
    sites = fedgeom.testing.example_sites()
    model = fedgeom.run(fedgeom.Hulls(embedding="discriminant"), sites).model
    X = sites[0].X.copy()
    X[2, 1] = gap
    with pytest.raises(InputError, match="X has 1 rows with gaps or infinite numbers, the first is row 2"):
        model.predict(X)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_flat_model_is_the_euclidean_classifier_and_comes_back_from_its_file(classes: int) -> None:
    X, y = (np.concatenate(parts) for parts in zip(*pairs(J=classes), strict=True))
    svc = EuclideanSVC(C=20).fit(X, y)
    model = HullModel.of(svc, classes)
    again = read_model(model.to_bytes())
    assert again.to_bytes() == model.to_bytes()
    np.testing.assert_allclose(again.decision_function(X), svc.scores(X), atol=1e-12)
    np.testing.assert_array_equal(again.predict(X), svc.predict(X))
    arrays, facts = model.tensors()
    with pytest.raises(InputError, match=r"intercepts of shape \(9,\)"):
        HullModel.from_tensors(arrays | {"intercept": np.zeros(9)}, facts)
