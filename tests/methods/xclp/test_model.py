"""The model of label propagation: through anchors for everybody, over pairs for one site's later rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedgeom
from fedgeom.errors import InputError
from fedgeom.methods.xclp.model import XclpModel

ANCHORS = XclpModel(
    ("a", "b"), np.eye(3)[:2], np.array([[4.0, 0.0], [0.0, 1.0]]), np.array([4.0, 1.0]), "code", nearest=1
)
PAIRS = XclpModel(("a", "b"), variant="paper")
LOCAL = {"rows": np.eye(3)[[0, 0, 1]], "scores": [[1.0, 0.0], [1.0, 0.0], [0.0, 3.0]]}


def test_rows_are_labelled_by_their_nearest_anchor() -> None:
    assert ANCHORS.everywhere
    X = np.array([[2.0, 0.1, 0.0], [0.1, 5.0, 0.0], [0.0, 0.0, 0.0]])
    assert ANCHORS.scores(X).tolist() == [[4.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
    assert ANCHORS.predict(X).tolist() == ["a", "b", ""]  # nothing is like a blank row
    assert ANCHORS.predict_proba(X).tolist() == [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
    assert ANCHORS.for_site({}) is ANCHORS


def test_over_pairs_later_rows_are_labelled_by_the_sites_own_most_similar_ones() -> None:
    own = PAIRS.for_site(LOCAL)
    assert not PAIRS.everywhere
    assert own.predict([[3.0, 0.1, 0.0], [0.1, 2.0, 0.0]]).tolist() == ["a", "b"]
    np.testing.assert_allclose(own.predict_proba([[0.0, 1.0, 0.0]]), [[0.0, 1.0]])


def test_a_model_bound_to_a_site_needs_no_other_word() -> None:
    assert (PAIRS.everywhere, PAIRS.for_site(LOCAL).everywhere) == (False, True)


@pytest.mark.parametrize("model", [ANCHORS, PAIRS.for_site(LOCAL)])
def test_rows_of_other_columns_are_refused(model: XclpModel) -> None:
    with pytest.raises(InputError, match="wanted rows of 3 columns"):
        model.predict([[1.0, 2.0]])


def test_without_a_site_nothing_can_be_said_over_pairs() -> None:
    with pytest.raises(InputError, match=r"leaves no model with the coordinator.*for_site.*graph=\"anchors\""):
        PAIRS.predict([[1.0, 0.0, 0.0]])
    for missing in ("rows", "scores"):
        with pytest.raises(
            InputError, match=r"no result of label propagation over pairs; wanted run.local\[site\]"
        ):
            PAIRS.for_site({key: value for key, value in LOCAL.items() if key != missing})


@pytest.mark.parametrize("model", [ANCHORS, PAIRS, PAIRS.for_site(LOCAL)])
def test_models_are_saved_and_loaded_without_change(model: XclpModel, tmp_path: Path) -> None:
    model.save(tmp_path / "model.safetensors")
    again = fedgeom.load_model(tmp_path / "model.safetensors")
    assert again.to_bytes() == model.to_bytes()
    assert (again.classes, again.variant, again.nearest) == (model.classes, model.variant, model.nearest)


@pytest.mark.parametrize(
    ("arrays", "facts", "words"),
    [
        ({}, {}, "no label propagation model"),
        ({}, {"variant": "best"}, "best"),
        ({"anchors": np.eye(3)}, {}, "no label propagation model"),
        ({"anchors": np.eye(3), "anchor_scores": np.ones((2, 2))}, {"variant": "code"}, "do not fit together"),
        ({"rows": np.eye(3)}, {"variant": "code"}, "do not fit together"),
    ],
)
def test_files_that_make_no_sense_are_refused(
    arrays: dict[str, np.ndarray], facts: dict[str, object], words: str
) -> None:
    whole = {"classes": ["a", "b"], "nearest": 3} if facts else {}
    with pytest.raises(InputError, match=words):
        XclpModel.from_tensors(arrays, whole | facts)


def test_with_anchors_rows_far_from_all_are_unknown() -> None:
    assert ANCHORS.anchors is not None
    close = np.random.default_rng(0).normal(5 * ANCHORS.anchors[0], 0.1, size=(50, 3))
    model = ANCHORS.with_known(close)
    assert model.known is not None
    assert model.known.cloud is None
    assert model.unknown([ANCHORS.anchors[0], -ANCHORS.anchors.sum(axis=0)]).tolist() == [False, True]
    assert PAIRS.density_scores(close) is None
