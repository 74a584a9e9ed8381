"""Model files: the same bytes for the same model, back as they were, and refused in words when they are none."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.base import is_classifier
from sklearn.metrics import get_scorer
from sklearn.utils.validation import check_is_fitted

from fedgeom.errors import InputError
from fedgeom.federation.model import Model, from_bytes, to_bytes
from tests.tiers import examples


@dataclass(frozen=True, repr=False)
class Line(Model):
    """Says on which side of a line a row lies."""

    weights: npt.NDArray[np.float64]
    names: tuple[str, ...]
    offset: float = 0.0
    method: str = field(default="line", init=False)

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        side = (np.asarray(X) @ self.weights + self.offset > 0).astype(int)
        named: npt.NDArray[Any] = np.array(self.names)[side]
        return named


LINE = Line(np.array([1.0, -1.0]), ("below", "above"), 0.5)

ARRAYS = st.dictionaries(
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=6).filter(lambda name: name != "__metadata__"),
    hnp.arrays(np.float64, hnp.array_shapes(max_dims=3, max_side=3)),
    max_size=4,
)
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-9, 9), st.text(max_size=4), st.lists(st.text(max_size=3), max_size=3)
)
FACTS = st.dictionaries(st.text(max_size=4), VALUES, max_size=4)


@examples(60)
@given(ARRAYS, FACTS)
def test_a_model_file_gives_its_content_back_and_always_has_the_same_bytes(
    arrays: dict[str, np.ndarray], facts: dict[str, Any]
) -> None:
    data = to_bytes("some", arrays, facts)
    method, again, said = from_bytes(data)
    assert (method, said) == ("some", facts)
    assert again.keys() == arrays.keys()
    assert all(again[name].tobytes() == arrays[name].tobytes() for name in arrays)
    assert to_bytes("some", dict(reversed(arrays.items())), dict(reversed(facts.items()))) == data


def test_arrays_that_lie_crosswise_are_written_as_they_are_read() -> None:
    crosswise = np.arange(6.0).reshape(2, 3).T
    assert np.array_equal(from_bytes(to_bytes("some", {"x": crosswise}, {}))[1]["x"], crosswise)


def test_a_dataclass_is_its_own_file(tmp_path: Path) -> None:
    arrays, facts = LINE.tensors()
    assert (set(arrays), facts) == ({"weights"}, {"names": ["below", "above"], "offset": 0.5})
    LINE.save(tmp_path / "line.safetensors")
    method, arrays, facts = from_bytes((tmp_path / "line.safetensors").read_bytes())
    again = Line.from_tensors(arrays, facts)
    assert method == again.method == "line"
    assert again.to_bytes() == LINE.to_bytes()
    assert again.names == LINE.names
    assert again.predict([[1, 0], [0, 1]]).tolist() == ["above", "below"]


@pytest.mark.parametrize("facts", [{"names": []}, {"names": ["a"], "slope": 1}, {}])
def test_a_file_of_another_model_is_refused_in_words(facts: dict[str, Any]) -> None:
    arrays = {} if "names" in facts and not facts["names"] else {"weights": np.zeros(2)}
    with pytest.raises(InputError, match="the file holds no Line"):
        Line.from_tensors(arrays, facts)


def test_a_model_that_is_the_same_for_all_sites_is_its_own() -> None:
    assert LINE.for_site({}) is LINE
    assert LINE.everywhere
    assert not LINE.in_disc


def test_a_model_says_in_a_line_what_it_is() -> None:
    assert LINE.summary() == "line, 2 classes, 2 numbers"
    assert repr(LINE) == "<Line: line, 2 classes, 2 numbers>"
    assert Line(np.zeros(1500), ()).summary() == "line, 1,500 numbers"
    assert Line(np.zeros(1), ("<a>", "b"))._repr_html_() == "<b>Line</b> line, 2 classes, 1 numbers"


class Frame:
    """A table with names for its columns, as pandas and others have them."""

    def __init__(self, columns: list[Any], rows: Any) -> None:
        self.columns, self.rows = columns, np.asarray(rows, float)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return self.rows.astype(dtype or float)


ROWS = [[1.0, 0.0], [0.0, 1.0]]


def test_columns_are_found_by_name() -> None:
    """In another order they were taken as they stood, and the answers were wrong without a word."""
    named = LINE.with_columns(["age", "bmi"])
    right, crossed = LINE.predict(ROWS).tolist(), np.array(ROWS)[:, ::-1]
    assert named.predict(ROWS).tolist() == right  # an array has no names
    assert named.predict(Frame(["age", "bmi"], ROWS)).tolist() == right
    assert named.predict(Frame(["bmi", "age"], crossed)).tolist() == right
    assert named.predict(Frame([0, 1], ROWS)).tolist() == right  # counted, not named
    assert LINE.predict(Frame(["bmi", "age"], ROWS)).tolist() == right  # the model knows no names
    with pytest.raises(InputError, match=r"missing: 'bmi'; there are others .*: 'BMI'"):
        named.predict(Frame(["age", "BMI"], ROWS))
    with pytest.raises(InputError, match=r"Is it 'bmi1' for 'bmi'"):
        named.predict(Frame(["age", "bmi1"], ROWS))
    with pytest.raises(InputError, match=r"does not know these columns: 'id'; leave them out"):
        named.predict(Frame(["age", "bmi", "id"], np.zeros((2, 3))))
    with pytest.raises(InputError, match=r"more than once: 'age'"):
        named.predict(Frame(["age", "age"], ROWS))


def test_names_of_columns_are_kept_in_the_file_where_they_are_known() -> None:
    assert LINE.with_columns([]) is LINE
    named = LINE.with_columns(["age", "bmi"])
    again = Line.from_file(*from_bytes(named.to_bytes())[1:])
    assert again.column_names == ("age", "bmi")
    assert again.to_bytes() == named.to_bytes()
    assert Line.from_file(*from_bytes(LINE.to_bytes())[1:]).column_names == ()
    arrays, facts = LINE.tensors()
    for wrong in ("age", [1, 2]):
        with pytest.raises(InputError, match="columns are no texts"):
            Line.from_file(arrays, facts | {"column_names": wrong})


def test_models_are_classifiers_as_scikit_learn_knows_them() -> None:
    named = LINE.with_columns(["age", "bmi"])
    assert named.feature_names_in_.tolist() == ["age", "bmi"]
    assert named.n_features_in_ == 2
    assert named.classes_.tolist() == ["below", "above"]
    assert named.score(ROWS, ["above", "above"]) == 0.5
    assert Line(np.array([1.0, -1.0]), ("0", "1"), 0.5).score(ROWS, [1, 0]) == 1.0  # labels are learnt as text
    with pytest.raises(InputError, match="wanted a label per row"):
        named.score(ROWS, ["above"])
    assert is_classifier(named)
    check_is_fitted(named)
    assert get_scorer("balanced_accuracy")(named, ROWS, ["above", "below"]) == 1.0
    with pytest.raises(InputError, match=r"run the method over the sites: fedgeom.run"):
        named.fit(ROWS, ["above", "below"])
    for unknown in ("feature_names_in_", "n_features_in_"):
        assert not hasattr(LINE, unknown)
    assert not hasattr(Line(np.zeros(1), ()), "classes_")


def header(content: object) -> bytes:
    text = json.dumps(content).encode()
    return len(text).to_bytes(8, "little") + text


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no file",
        LINE.to_bytes()[:-1],
        LINE.to_bytes()[:40],
        header({}),
        header({"__metadata__": {}}),
        header({"__metadata__": {"fedgeom": "no json"}}),
        header({"__metadata__": {"fedgeom": "[]"}}),
        header({"__metadata__": {"fedgeom": '["fedgeom-model/1", "line", 3]'}}),
        b"\xff" * 100,
    ],
)
def test_what_is_no_model_file_is_refused_in_words(data: bytes) -> None:
    with pytest.raises(InputError, match="not a fedgeom model file"):
        from_bytes(data)


def test_a_file_of_a_later_format_is_named() -> None:
    with pytest.raises(InputError, match=r"has format 'fedgeom-model/99'; this version reads 'fedgeom-model/2'"):
        from_bytes(header({"__metadata__": {"fedgeom": '["fedgeom-model/99", "line", {}]'}}))


@examples(150)
@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=5))
def test_a_spoilt_file_is_read_or_refused_and_nothing_else(edits: list[tuple[int, int]]) -> None:
    data = bytearray(LINE.to_bytes())
    for at, value in edits:
        data[at % len(data)] = value
    try:
        method, arrays, facts = from_bytes(bytes(data))
    except InputError:
        return
    assert isinstance(method, str)
    assert isinstance(facts, dict)
    assert all(isinstance(array, np.ndarray) for array in arrays.values())


def test_kinds_of_columns_are_kept_in_the_file_and_rows_of_another_kind_are_refused_by_name() -> None:
    """A model knew what its columns are called, and took 1 and 2 for what it had learnt as 0 and 1."""
    named = LINE.with_columns(["age", "sex"], ("whole", "flag"))
    again = Line.from_file(*from_bytes(named.to_bytes())[1:])
    assert again.column_kinds == ("whole", "flag")
    assert len(named.to_bytes()) < len(LINE.with_columns(["age", "sex"]).to_bytes()) + 40
    assert Line.from_file(*from_bytes(LINE.with_columns(["age", "sex"]).to_bytes())[1:]).column_kinds == ()
    assert again.predict(Frame(["sex", "age"], [[1.0, 0.5]])).tolist() == again.predict([[0.5, 1.0]]).tolist()
    with pytest.raises(InputError, match=r"column 'sex', row 0: 2, 1 of 1 cells are neither 0 nor 1"):
        again.predict(Frame(["sex", "age"], [[2.0, 0.5]]))
    again.predict([[0.5, 2.0]])  # an array is taken as it stands
    again.with_columns(again.column_names).predict(Frame(["sex", "age"], [[2.0, 0.5]]))
    with pytest.raises(InputError, match="2 names and 1 kinds of columns"):
        LINE.with_columns(["age", "sex"], ("whole",))
    assert again.for_site({}).column_kinds == ("whole", "flag")


def test_a_file_with_single_precision_is_computed_in_it() -> None:
    assert not LINE.single
    assert Line(np.array([1.0, -1.0], np.float32), ("below", "above"), 0.5).single
