"""The model: densities of Gaussians, words for one class or several, files that are no models."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import fedgeom
from fedgeom.errors import InputError
from fedgeom.methods.catalogue import read_model
from fedgeom.methods.ellipses.model import EllipseModel


def model() -> EllipseModel:
    return EllipseModel(
        log_weights=np.log([0.5, 0.2, 0.2, 0.1]),
        means=np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [4.0, 4.0]]),
        covariances=np.array([np.eye(2), 2 * np.eye(2), np.eye(2), np.eye(2)]),
        groups=np.array([0, 1, 2, 2]),
        classes=3,
    )


def test_scores_are_log_densities() -> None:
    made, X = model(), np.array([[1.0, 2.0], [4.0, 3.0]])
    found = made.class_scores(X) - np.log(2 * np.pi)
    normal = [multivariate_normal(made.means[k], made.covariances[k]).pdf(X) for k in range(4)]
    assert np.allclose(found[:, 0], np.log(0.5 * normal[0]))
    assert np.allclose(found[:, 2], np.log(0.2 * normal[2] + 0.1 * normal[3]))
    chances = made.predict_proba(X)
    assert np.allclose(chances.sum(axis=1), 1)
    assert made.predict(X).tolist() == chances.argmax(axis=1).tolist()


def test_a_word_that_stands_for_several_classes_has_the_chances_of_all() -> None:
    X = np.array([[2.0, 1.0]])
    joint = model().predict_proba(X)[0]
    bound = model().for_site({"names": {"a": 0}, "covers": {"a": [0], "T": [1, 2]}})
    assert bound.classes_.tolist() == ["a", "T"]
    assert np.allclose(bound.predict_proba(X)[0], [joint[0], joint[1] + joint[2]])
    assert bound.answer_numbers() == {"a": 0}
    assert bound.joint_classes == 3
    deeper = bound.deeper()
    assert deeper.classes_.tolist() == ["a", "T › class 1", "T › class 2"]
    assert np.allclose(deeper.predict_proba(X)[0], joint)


def test_a_site_that_lacks_a_class_sees_its_number() -> None:
    bound = model().for_site({"names": {"x": 2}})
    assert bound.classes_.tolist() == ["class 0", "class 1", "x"]


def test_rows_far_from_all_classes_are_unknown() -> None:
    threshold, words = model().fit_threshold(0.05)
    scores = model().density_scores(np.array([[0.1, 0.0], [40.0, 40.0]]))
    assert scores[0] > threshold > scores[1]
    assert "if classes are Gaussian" in words


def test_without_a_joint_scale_a_site_must_be_named() -> None:
    scaled = replace(model(), scaled=True)
    assert not scaled.everywhere
    with pytest.raises(InputError, match="say whose rows these are"):
        scaled.predict(np.zeros((1, 2)))
    bound = scaled.for_site({"names": {}, "scales": [[1.0, 1.0], [2.0, 2.0]]})
    assert bound.predict(np.array([[1.0, 1.0]])).tolist() == ["class 0"]


def test_files_come_back_and_false_ones_are_refused() -> None:
    bound = model().for_site({"names": {"x": 2}})
    again = read_model(bound.to_bytes())
    assert again.to_bytes() == bound.to_bytes()
    arrays, facts = bound.tensors()
    for change in (
        {"classes": 4},
        {"classes": 10**12},
        {"names": ["a"]},
        {"classes": "3"},
    ):
        with pytest.raises(InputError):
            EllipseModel.from_tensors(arrays, facts | change)
    with pytest.raises(InputError, match="no Gaussians"):
        EllipseModel.from_tensors(arrays | {"covariances": np.zeros((2, 2))}, facts)
    with pytest.raises(InputError, match="scale has shape"):
        EllipseModel.from_tensors(arrays | {"scales": np.zeros(2)}, facts)


def test_it_is_listed() -> None:
    assert fedgeom.Ellipses.model_type is EllipseModel


def test_classes_that_lie_near_each_other_share_a_branch_of_the_tree() -> None:
    near = replace(model(), means=np.array([[0.0, 0.0], [1.0, 0.0], [9.0, 9.0], [9.0, 8.0]]))
    assert near.class_tree() == {
        "class 0": "group 1",
        "class 1": "group 1",
        "group 1": "all classes",
        "class 2": "all classes",
    }
    named = replace(near, names=("ill", "worse", "well"))
    assert named.class_tree()["worse"] == "group 1"
    assert fedgeom.HyperFed(class_tree=named.class_tree()).class_tree
    with pytest.raises(InputError, match="wanted two or more, one for each and all different"):
        replace(near, names=("T", "T", "B")).class_tree()
