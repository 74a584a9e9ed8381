"""Comma- and tab-separated files: what is read, and what each error says to do."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from fedgeom.data.csv import read_text
from fedgeom.data.readers import read_site
from fedgeom.errors import InputError

TEXT = "age,bmi,diagnosis\n61,22.5,ill\n47,,well\n35,31,ill\n"


@pytest.fixture
def csv_file(tmp_path):
    file = tmp_path / "north.csv"
    file.write_text(TEXT)
    return file


def test_csv(csv_file):
    site = read_site(csv_file, label="diagnosis")
    assert site.name == "north"
    assert site.columns == ("age", "bmi")
    assert site.y.tolist() == ["ill", "well", "ill"]
    np.testing.assert_array_equal(site.X, [[61, 22.5], [47, np.nan], [35, 31]])


@pytest.mark.parametrize(("ending", "mark"), [("tsv", "\t"), ("csv", ";")])
def test_other_marks(tmp_path, ending, mark):
    file = tmp_path / f"site.{ending}"
    file.write_text(TEXT.replace(",", mark))
    assert read_site(file, label="diagnosis").X.shape == (3, 2)


def test_zipped_with_a_byte_order_mark_and_row_numbers(tmp_path):
    file = tmp_path / "site.csv.gz"
    lines = TEXT.splitlines()
    numbered = "\n".join([f",{lines[0]}", *(f"{i},{line}" for i, line in enumerate(lines[1:]))])
    file.write_bytes(gzip.compress(b"\xef\xbb\xbf" + numbered.encode()))
    site = read_site(file, label="diagnosis")
    assert site.name == "site"
    assert site.columns == ("age", "bmi")


def test_text_columns_are_named(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("age,sex,town,y\n3,f,Bern,a\n4,m,Basel,b\n")
    with pytest.raises(InputError, match=r"hold text.*'sex', 'town'.*columns=.*'age'"):
        read_site(file, label="y")
    assert read_site(file, label="y", columns=["age"]).X.shape == (2, 1)


@pytest.mark.parametrize(
    ("text", "label", "options", "message"),
    [
        ("x,y\n1,a\n", "class", {}, "no column 'class' for the labels; its columns are 'x', 'y'"),
        ("x,y\n1,a\n", "y", {"columns": ["z"]}, "no columns 'z'"),
        ("x,y\n1,a\n", "y", {"columns": ["x", "y"]}, "among the features"),
        ("x,y\n1,a\n", "y", {"rows": [7]}, "does not fit"),
        ("x,y\n", "y", {}, "has no rows"),
        ("", "y", {}, "is empty"),
        ("y\na\n", "y", {}, "no columns beside the label"),
        ("x,x,y\n1,2,a\n", "y", {}, "more than once"),
        ("x,y\n1,a\n2\n", "y", {}, "row 3: 1 cells, but the header has 2"),
        ("x,y\n1,\n", "y", {"drop_unlabelled": True}, "no labelled rows"),
    ],
)
def test_bad_csv(tmp_path, text, label, options, message):
    file = tmp_path / "a.csv"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        read_site(file, label=label, **options)


def test_text_is_unzipped_and_decoded(tmp_path):
    file = tmp_path / "a.txt"
    for raw in (b"gr\xc3\xb6n", b"\xef\xbb\xbfgr\xc3\xb6n", gzip.compress(b"gr\xc3\xb6n")):
        file.write_bytes(raw)
        assert read_text(file) == "grön"
    for encoding in ("latin-1", "utf-16", "utf-16-be"):
        file.write_bytes("grön".encode(encoding))
        assert read_text(file) == "grön"
    file.write_bytes("grön".encode("mac-roman"))
    assert read_text(file, "mac-roman") == "grön"
    file.write_bytes(b"gr\xc3")
    with pytest.raises(InputError, match="is not utf-8 text"):
        read_text(file, "utf-8")
    file.write_bytes(gzip.compress(b"x" * 1000)[:-9])
    with pytest.raises(InputError, match="cannot be unzipped"):
        read_text(file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a;dose;y\n1;1.0;x\n2;1,5;x\n3;2,5;y\n",
            r"column 'dose' is 67% numbers; this cell is not: row 2: '1\.0'; write all cells .* 1\.5 with a point",
        ),
        (
            "a,crp,y\n1,4,x\n2,<0.5,y\n",
            r"bad\.csv.*column 'crp' is 50% numbers; this cell is not: row 3: '<0\.5'; a limit is no number",
        ),
        (
            "a,seen,y\n1,2024-03-01,x\n2,,y\n",
            "column 'seen' holds dates, row 2: '2024-03-01', 1 of 1 .*days since",
        ),
        ("a,sex,y\n1,f,x\n2,m,y\n", "column 'sex', row 2: 'f', 2 of 2 cells are no numbers"),
    ],
)
def test_a_cell_that_is_no_number_is_shown_with_row_column_and_remedy(tmp_path, text, message):
    file = tmp_path / "bad.csv"
    file.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        read_site(file, label="y")
    assert "those of numbers are 'a'" in str(caught.value)


def test_an_unnamed_first_column_says_what_rows_are_called(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text(",x,patient,y\nAAC-1,1,7,a\nAAC-2,2,7,b\n")
    site = read_site(file, label="y", group="patient")
    assert (site.index.tolist(), site.columns) == (["AAC-1", "AAC-2"], ("x",))
    assert site.groups.tolist() == ["7", "7"]
