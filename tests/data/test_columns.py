"""The names of columns: found, put in order, and refused by name."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_array

from fedgeom.data.columns import cells_of, check_distinct, in_order, names_of, order_of
from fedgeom.errors import InputError


def test_names_are_those_of_a_frame_or_an_anndata() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([[1.0, 2.0]], columns=["age", "bmi"])
    assert names_of(frame) == ("age", "bmi")
    assert names_of(pandas.DataFrame([[1.0, 2.0]])) == ()  # counted, not named
    assert names_of(pandas.DataFrame([[1.0, 2.0]], columns=[7157, 672])) == ("7157", "672")
    assert names_of(np.zeros((1, 2))) == ()
    cells = SimpleNamespace(var_names=["TP53", "BRCA1"], X=csr_array(np.eye(2)))
    assert names_of(cells) == ("TP53", "BRCA1")
    assert cells_of(cells).tolist() == np.eye(2).tolist()
    assert cells_of(SimpleNamespace(var_names=["a"], X=[[1.0]])) == [[1.0]]


def test_another_order_is_put_right() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([[1.0, 2.0, 3.0]], columns=["c", "a", "b"])
    assert in_order(frame, ("a", "b", "c")).tolist() == [[2.0, 3.0, 1.0]]
    assert in_order([[1.0, 2.0]], ("a", "b"), "f.csv", ("b", "a")).tolist() == [[2.0, 1.0]]
    assert in_order([[1.0, 2.0]], ("a", "b")) == [[1.0, 2.0]]
    assert in_order(frame, ()) is frame
    assert in_order(csr_array([[1.0, 2.0]]), ("a", "b"), "X", ("b", "a")).tolist() == [[2.0, 1.0]]
    assert in_order(csr_array([[1.0, 0.0]]), ("a", "b")).tolist() == [[1.0, 0.0]]
    with pytest.raises(InputError, match="2 column names; wanted one for each"):
        in_order([[1.0]], ("a", "b"), "f.csv", ("b", "a"))


def test_what_is_missing_or_unknown_is_named() -> None:
    with pytest.raises(InputError, match=r"f.csv: these columns are missing: 'b'; give all columns"):
        order_of(["a"], ["a", "b"], "f.csv")
    with pytest.raises(InputError, match=r"missing: 'mean radius'.*Is it 'mean_radius' for 'mean radius'\?"):
        order_of(["mean_radius"], ["mean radius"], "f.csv")
    with pytest.raises(InputError, match=r"does not know these columns: 'id'; leave them out .*It has 'a'"):
        order_of(["id", "a"], ["a"], "f.csv")


def test_names_given_twice_are_refused() -> None:
    check_distinct(["a", "b"], "X")
    with pytest.raises(InputError, match=r"X: these column names are given more than once: 'a'; rename"):
        check_distinct(["a", "b", "a"], "X")


def test_columns_of_text_are_refused_by_name() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"b": ["1.5", "high", "?"], "a": [1, 2, 3]})
    with pytest.raises(InputError, match=r"learnt from numbers, but column 'b', row 1: 'high', 1 of 3 cells"):
        in_order(frame, ("a", "b"))
    with pytest.raises(InputError, match=r"column 'b', row 1: 'high'"):
        in_order(frame, ())  # a model that knows no names
    assert np.isnan(in_order(frame.iloc[[0, 2]], ("a", "b"))).tolist() == [[False, False], [False, True]]
    whole = pandas.DataFrame({"a": pandas.array([1, None], dtype="Int64"), "b": [True, False]})
    np.testing.assert_array_equal(in_order(whole, ("a", "b")), [[1.0, 1.0], [np.nan, 0.0]])
