"""Models that say of a row that it fits no class."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fedgeom.arrays import Floats
from fedgeom.errors import InputError
from fedgeom.federation.model import from_bytes
from tests.federation.test_model import LINE, Frame, Line

RNG = np.random.default_rng(0)
X = np.vstack([RNG.normal([4, 0], 1, size=(200, 2)), RNG.normal([0, 4], 1, size=(200, 2))])
ODD = np.array([[40.0, 0.0], [4.0, 0.0]])


class Dense(Line):
    """A line that knows how dense rows lie."""

    def density_scores(self, X: npt.ArrayLike) -> Floats | None:
        return -np.abs(np.asarray(X, float)).max(axis=1)


def test_a_model_without_densities_says_what_is_possible() -> None:
    for judge in (LINE.unknown, LINE.predict_or_unknown):
        with pytest.raises(
            InputError, match=r"line model alone cannot say .*with_known\(X\).*--known FILE.*--site"
        ):
            judge(X)


def test_known_rows_are_the_measure() -> None:
    model = LINE.with_known(X)
    assert LINE.known is None
    assert model.unknown(ODD).tolist() == [True, False]
    assert model.predict_or_unknown(ODD).tolist() == ["unknown", "above"]
    assert model.predict_or_unknown(ODD, word="?").tolist() == ["?", "above"]
    assert np.mean(model.unknown(X, 0.2)) == pytest.approx(0.2, abs=0.05)
    assert model.unknown(X[:1]).tolist() == model.unknown(X)[:1].tolist()  # each row by itself
    assert (
        "their distance to the known rows' classes, than all but 0.05 of 400 known" in model.fit_threshold(0.05)[1]
    )
    with pytest.raises(InputError, match="the model has a class 'above'; choose another word"):
        model.predict_or_unknown(ODD, word="above")
    with pytest.raises(InputError, match="wanted a share between 0 and 1"):
        model.unknown(X, 5)
    with pytest.raises(InputError, match="wanted finite rows"):
        model.unknown([[np.nan, 0.0]])


def test_a_model_that_knows_densities_is_asked_for_them() -> None:
    model = Dense(LINE.weights, LINE.names).with_known(X)
    assert model.known is not None
    assert model.known.cloud is None
    assert "the model's densities" in model.fit_threshold(0.05)[1]
    assert model.unknown(ODD).tolist() == [True, False]


def test_columns_are_found_by_name() -> None:
    model = LINE.with_columns(["age", "bmi"]).with_known(Frame(["bmi", "age"], X[:, ::-1]))
    assert model.unknown(Frame(["bmi", "age"], ODD[:, ::-1])).tolist() == [True, False]
    assert model.unknown(ODD).tolist() == [True, False]


def test_what_a_model_knows_is_in_its_file_and_another_models_is_not() -> None:
    model: Any = LINE.with_columns(["age", "bmi"]).with_known(X)
    again = Line.from_file(*from_bytes(model.to_bytes())[1:])
    assert again.to_bytes() == model.to_bytes()
    assert again.unknown(ODD).tolist() == [True, False]
    assert LINE.with_columns(["age", "bmi"]).to_bytes() != model.to_bytes()
