"""The quick reader of text reads what the careful one reads, or leaves it to it."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from fedgeom.data import csv
from fedgeom.data.csv import mark_of, places_of, read_carefully, read_plain
from fedgeom.data.readers import read_site
from fedgeom.errors import InputError
from tests.tiers import examples

pytest.importorskip("pyarrow", reason="needs the bio extra")

NUMBERS = st.one_of(
    st.floats().map(repr),
    st.integers(-(10**25), 10**25).map(str),
    st.sampled_from(
        ["", "NA", "NaN", "n/a", "?", ".", "null", "None", "<NA>", "1e5", "-0", "1.", ".5", "inf", "-Infinity"]
    ),
)
ODD = st.sampled_from(
    ["+1.5", " 1", "1 ", "1_000", "1,5", "<0.5", "f", " NA ", "１", "1e400", "-nan", '"', "0x1p3", "é"]
)
TEXTS = st.one_of(
    st.text(st.characters(exclude_characters="\x00\r", exclude_categories=["Cs"]), max_size=6),
    st.sampled_from(["ill", "well", "", "NA", "2.0", 'a "b" c', "two\nlines", "a;b,c", "grün"]),
)


def quoted(cell, mark, always):
    """Write a cell as spreadsheets do."""
    needs = always or any(sign in cell for sign in (mark, '"', "\n", "\r"))
    return '"' + cell.replace('"', '""') + '"' if needs else cell


@st.composite
def files(draw):
    """A text table as bytes: with or without a mark of order, quotes, blank lines, names of rows."""
    mark = draw(st.sampled_from([",", ";", "\t"]))
    indexed, always = draw(st.booleans()), draw(st.booleans())
    numbers = st.one_of(NUMBERS, ODD) if draw(st.integers(0, 4)) == 0 else NUMBERS
    header = ["", "a", "b", "y", "g"][0 if indexed else 1 :]
    rows = draw(st.lists(st.tuples(TEXTS, numbers, numbers, TEXTS, TEXTS), min_size=0, max_size=5))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    lines = [header, *([*row][0 if indexed else 1 :] for row in rows)]
    text = "".join(
        mark.join(quoted(cell, mark, always) for cell in line) + end + draw(st.sampled_from(["", "", end]))
        for line in lines
    )
    start = draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + draw(st.sampled_from(["", end])).encode()
    raw = start + text.encode()
    return mark, gzip.compress(raw) if draw(st.integers(0, 5)) == 0 else raw


def outcome(read, file, mark):
    """Return what a reader makes of a file: a table, None, or the words of its error."""
    try:
        return read(file, mark, "y", ["a", "b"], ["g"])
    except InputError as error:
        return str(error)


@examples(300, suppress=(HealthCheck.function_scoped_fixture,))
@given(files())
def test_both_readers_read_the_same(tmp_path, drawn):
    mark, raw = drawn
    file = tmp_path / "a.csv"
    file.write_bytes(raw)
    given_mark = "\t" if mark == "\t" else None
    quick, slow = (outcome(read, file, given_mark) for read in (read_plain, read_carefully))
    if quick is None:
        return
    if isinstance(slow, str) or isinstance(quick, str):
        assert quick == slow
        return
    np.testing.assert_array_equal(quick.X, slow.X)
    assert quick.X.flags.c_contiguous
    assert quick.X.dtype == slow.X.dtype
    assert quick.y.tolist() == slow.y.tolist()
    assert quick.also["g"].tolist() == slow.also["g"].tolist()
    assert (quick.index is None) == (slow.index is None)
    assert quick.index is None or quick.index.tolist() == slow.index.tolist()
    assert (quick.columns, quick.first_row) == (slow.columns, slow.first_row)


PLAIN = ",age,bmi,town,y\nAAC-1,61,22.5,Bern,ill\nAAC-2,47,NA,Genève,well\n\nAAC-3,35,?,Bern,\n"


def test_a_plain_file_is_read_quickly(tmp_path, monkeypatch):
    file = tmp_path / "a.csv"
    monkeypatch.setattr(csv, "SMALL", 0)
    monkeypatch.setattr(csv, "read_carefully", lambda *given: pytest.fail("it was left to the careful reader"))
    for raw in (
        PLAIN.encode(),
        b"\xef\xbb\xbf" + PLAIN.encode(),
        gzip.compress(PLAIN.replace("\n", "\r\n").encode()),
    ):
        file.write_bytes(raw)
        site = read_site(file, label="y", columns=["bmi", "age"], group="town")
        np.testing.assert_array_equal(site.X, [[22.5, 61], [np.nan, 47], [np.nan, 35]])
        assert (site.y.tolist(), site.groups.tolist()) == (["ill", "well", ""], ["Bern", "Genève", "Bern"])
        assert site.index.tolist() == ["AAC-1", "AAC-2", "AAC-3"]
        assert site.row_numbers.tolist() == [2, 3, 4]


def test_cells_that_are_no_plain_numbers_are_looked_at_one_by_one(tmp_path, monkeypatch):
    file = tmp_path / "a.csv"
    monkeypatch.setattr(csv, "SMALL", 0)
    monkeypatch.setattr(csv, "read_carefully", lambda *given: pytest.fail("it was left to the careful reader"))
    file.write_text(",x,y\np,+1.5,a\nq, NA ,b\nr,1_000,a\n")
    site = read_site(file, label="y")
    np.testing.assert_array_equal(site.X, [[1.5], [np.nan], [1000]])
    assert (site.index.tolist(), site.y.tolist()) == (["p", "q", "r"], ["a", "b", "a"])
    file.write_text("x,crp,y\n1,0.7,a\n2,<0.5,b\n")
    with pytest.raises(
        InputError, match=r"column 'crp' is 50% numbers; this cell is not: row 3: '<0\.5'; a limit"
    ):
        read_site(file, label="y")


def test_many_blocks_are_put_together(tmp_path, monkeypatch):
    monkeypatch.setattr("fedgeom.data.csv.BLOCK", 2000)
    file = tmp_path / "a.csv"
    rows = [f"{i},{i / 7!r},{'ab'[i % 2]}" for i in range(5000)]
    file.write_text("\n".join(["n,x,y", *rows]))
    found = read_plain(file, None, "y", None, [])
    assert found.X.tolist() == [[float(i), i / 7] for i in range(5000)]
    assert found.y.tolist() == [*"ab"] * 2500


@pytest.mark.parametrize(
    "raw",
    [
        b"x,y\n1,a\n2\n",
        b"x,y\n",
        b"",
        b"\n\n",
        b"x,y\r1,a\r2,b\r",
        b'x,"y\nz"\n1,a\n',
        "x,größe\n1,a\n".encode("latin-1"),
        b"x,y\n1,\xe4\n",
        gzip.compress(b"x,y\n" + b"1,a\n" * 1000, mtime=0)[:-9],
    ],
)
def test_what_is_not_plain_is_left_to_the_careful_reader(tmp_path, raw):
    file = tmp_path / "a.csv"
    file.write_bytes(raw)
    assert read_plain(file, None, None, ["x"], ["y"]) is None


def test_what_is_wrong_with_the_header_is_said_at_once(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("x,x,y\n1,2,a\n")
    with pytest.raises(InputError, match="the header names 'x' more than once"):
        read_plain(file, None, "y", None, [])
    file.write_text("x;z;y\n1;2;a\n")
    with pytest.raises(InputError, match="has no column 'w'; its columns are 'x', 'z', 'y'"):
        read_plain(file, None, "y", None, ["w"])


def test_marks_and_places():
    assert [mark_of(line) for line in ("a,b;c", "a;b", "a")] == [",", ";", ","]
    assert places_of("f", ["", "a", "b"]) == {"a": 1, "b": 2}
    assert places_of("f", [""]) == {"": 0}


def test_a_site_without_arrow_reads_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr("fedgeom.data.csv.find_spec", lambda name: None)
    monkeypatch.setattr(csv, "SMALL", 0)
    (tmp_path / "a.csv").write_text(PLAIN)
    assert read_site(tmp_path / "a.csv", label="y", columns=["age"]).shape == (3, 1)
