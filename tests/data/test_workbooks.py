"""Spreadsheets: what is read, and what is said of those that cannot be."""

from __future__ import annotations

import datetime
import importlib

import numpy as np
import pytest

from fedgeom.data.readers import read_site
from fedgeom.errors import InputError
from tests.data.workbooks import write_workbook

ROWS = [["age", "crp", "ward", "class"], [39, 1.5, "icu", "ill"], [41.5, None, "er", "well"], [50, "2,5", None, 2]]


@pytest.fixture
def calamine():
    return pytest.importorskip("python_calamine", reason="needs the excel extra")


def test_without_the_extra_the_word_is_what_to_install(tmp_path, monkeypatch):
    def refuse(name, *rest):
        if name == "python_calamine":
            raise ImportError("there is none")
        return found(name, *rest)

    found = importlib.import_module
    monkeypatch.setattr(importlib, "import_module", refuse)
    file = write_workbook(tmp_path / "clinic.xlsx", {"A": ROWS})
    with pytest.raises(InputError, match=r"clinic\.xlsx needs python_calamine .*pip install 'fedgeom\[excel\]'"):
        read_site(file, label="class")


@pytest.mark.usefixtures("calamine")
def test_the_first_sheet_or_the_one_that_is_named(tmp_path):
    file = write_workbook(tmp_path / "clinic.xlsx", {"Notes": [["x", "y"], [1, "a"]], "Data": ROWS})
    assert read_site(file, label="y").shape == (1, 1)
    site = read_site(file, label="class", text=True, reading={"sheet": "Data"})
    assert site.name == "clinic"
    assert site.columns == ("age", "crp", "ward")
    np.testing.assert_array_equal(site.X, [[39, 1.5, 1], [41.5, np.nan, 0], [50, 2.5, np.nan]])
    assert site.y.tolist() == ["ill", "well", "2"]
    assert site.row_numbers.tolist() == [2, 3, 4]
    with pytest.raises(InputError, match=r"no sheet 'data'; its sheets are 'Notes', 'Data'\. Did you mean 'Data'"):
        read_site(file, label="class", reading={"sheet": "data"})


@pytest.mark.usefixtures("calamine")
def test_dates_become_durations(tmp_path):
    days = [datetime.date(2000, 1, 2), datetime.date(2000, 2, 1), None]
    rows = [["age", "seen", "y"], *([40 + at, day, "ab"[at % 2]] for at, day in enumerate(days))]
    file = write_workbook(tmp_path / "a.xlsx", {"A": rows})
    with pytest.raises(InputError, match="column 'seen' holds dates, row 2: '2000-01-02', 2 of 2 cells"):
        read_site(file, label="y", text=True)
    site = read_site(file, label="y", reading={"durations": {"t": "days from 2000-01-01 to seen"}})
    np.testing.assert_array_equal(site.X, [[40, 1], [41, 31], [42, np.nan]])


@pytest.mark.usefixtures("calamine")
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "sheet 'A' is empty"),
        ([["u", "y"]], "has no rows, only a header: 'u', 'y'"),
        ([["u", "u", "y"], [1, 2, "a"]], "given more than once: 'u'"),
        ([["u", "y"], *([at, "a"] for at in range(30)), ["sixty", "b"]], "this cell is not: row 32: 'sixty'"),
    ],
)
def test_bad_sheets(tmp_path, rows, message):
    with pytest.raises(InputError, match=message):
        read_site(write_workbook(tmp_path / "a.xlsx", {"A": rows}), label="y")


@pytest.mark.usefixtures("calamine")
def test_what_is_no_workbook_is_refused(tmp_path):
    for raw in (b"", b"PK\x03\x04 broken", b"u,y\n1,a\n"):
        (tmp_path / "a.xlsx").write_bytes(raw)
        with pytest.raises(InputError, match=r"a\.xlsx cannot be read"):
            read_site(tmp_path / "a.xlsx", label="y")


@pytest.mark.usefixtures("calamine")
def test_truths_empty_edges_and_names_of_rows(tmp_path):
    rows = [[None] * 4, [None, "u", "y", None], ["p1", True, "a", None], ["p2", False, "b", None], [None] * 4]
    site = read_site(write_workbook(tmp_path / "a.xlsx", {"A": rows}), label="y")
    assert site.X.tolist() == [[1.0], [0.0]]
    assert site.index.tolist() == ["p1", "p2"]
