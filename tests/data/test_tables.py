"""What readers share: cells to numbers, cells to labels, columns to a table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedgeom.data.tables import as_labels, from_columns, listed, numbers
from fedgeom.errors import InputError

CELLS = {"age": ["61", " ", "?"], "town": ["Bern", "Basel", "Bern"], "y": ["a", "NA", "b"]}


def table(label="y", columns=("age",)):
    return from_columns(Path("f.csv"), list(CELLS), CELLS.__getitem__, label, columns)


def test_empty_cells_are_nan():
    np.testing.assert_array_equal(
        numbers(["1", "", "nan", " N/A ", "none", "NULL", "?", ".", None, 2]), [1, *[np.nan] * 8, 2]
    )
    assert numbers(np.array([True, False])).tolist() == [1.0, 0.0]
    with pytest.raises(ValueError, match="could not convert"):
        numbers(["1", "Bern"])


def test_labels_are_text():
    assert as_labels([2.0, 2.5, None, " a ", "NaN", float("nan"), 7]).tolist() == [
        "2",
        "2.5",
        "",
        "a",
        "",
        "",
        "7",
    ]
    assert as_labels(["none", "?"]).tolist() == ["none", "?"]  # which may well be names of classes


def test_a_table_of_columns():
    found = table()
    np.testing.assert_array_equal(found.X, [[61], [np.nan], [np.nan]])
    assert (found.y.tolist(), found.columns) == (["a", "", "b"], ("age",))
    assert table(columns="age").columns == ("age",)
    assert table(label=None).y is None


@pytest.mark.parametrize(
    ("label", "columns", "message"),
    [
        ("z", None, "f.csv has no column 'z' for the labels; its columns are 'age', 'town', 'y'"),
        ("y", ["bmi"], "f.csv has no columns 'bmi'"),
        ("y", ["age", "y"], "the label column 'y' is among the features"),
        ("y", None, r"these columns hold text, wanted numbers: 'town'.*those of numbers are 'age'"),
    ],
)
def test_refusals(label, columns, message):
    with pytest.raises(InputError, match=message):
        table(label, columns)


def test_names_are_listed_up_to_a_number():
    assert listed([]) == "none"
    assert listed(range(14)).endswith("'11' and 2 more")
