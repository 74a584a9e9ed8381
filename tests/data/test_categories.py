"""Columns of text that are kept as categories."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from fedgeom.data.frames import as_codes
from fedgeom.data.readers import read_site, read_sites_from, read_table
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError

TEXT = "age,ward,crp,class,site\n50,icu,1.5,ill,a\n,er,?,well,a\n70,,2.5,ill,b\n60,icu,3,well,b\n"


def test_text_becomes_numbers_with_words_beside_in_the_order_of_the_file(tmp_path):
    (tmp_path / "a.csv").write_text(TEXT)
    site = read_site(tmp_path / "a.csv", label="class", columns=["age", "ward", "crp"], text=True)
    assert site.columns == ("age", "ward", "crp")
    assert site.categories == {"ward": ("er", "icu")}
    np.testing.assert_array_equal(site.X[:, 1], [1, 0, np.nan, 1])
    np.testing.assert_array_equal(site.X[:, 2], [1.5, np.nan, 2.5, 3])
    parts = read_sites_from(tmp_path / "a.csv", by="site", label="class", text=True)
    assert [part.categories for part in parts] == [{"ward": ("er", "icu")}] * 2


def test_without_being_asked_text_is_refused_and_the_preset_is_named(tmp_path):
    (tmp_path / "a.csv").write_text(TEXT)
    with pytest.raises(InputError, match=r'prepare = "table"'):
        read_site(tmp_path / "a.csv", label="class")


@pytest.mark.parametrize("kind", ["csv.gz", "parquet"])
def test_other_readers_do_the_same(tmp_path, kind):
    pandas = pytest.importorskip("pandas")
    (tmp_path / "a.csv").write_text(TEXT)
    file = tmp_path / f"a.{kind}"
    if kind == "parquet":
        pytest.importorskip("pyarrow")
        pandas.read_csv(tmp_path / "a.csv", na_values=["?"]).to_parquet(file)
    else:
        file.write_bytes(gzip.compress(TEXT.encode()))
    table = read_table(file, label="class", text=True, as_it_came=True)
    assert table.columns == ("age", "ward", "crp", "site")
    assert table.categories == {"ward": ("er", "icu"), "site": ("a", "b")}


def test_a_frame_with_text_is_taken_where_that_is_said():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": [1.0, 2.0], "w": ["u", None], "y": ["a", "b"]})
    site = SiteData.from_frame(frame, label="y", text=True)
    assert site.categories == {"w": ("u",)}
    np.testing.assert_array_equal(site.X, [[1, 0], [2, np.nan]])


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet"])
@pytest.mark.parametrize("many", [1, 10_000])
def test_all_columns_may_be_text(tmp_path, ending, many):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"w": ["u" * 60, "", "v" * 60] * many, "k": ["q", "p", "p"] * many, "class": ["a", "b", "a"] * many}
    )
    file = tmp_path / f"a{ending}"
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
        frame.to_parquet(file)
    else:
        frame.to_csv(file, index=False, sep="\t" if ending == ".tsv" else ",")
    for site in (read_site(file, label="class", text=True), SiteData.from_frame(frame, label="class")):
        assert site.columns == ("w", "k")
        assert site.categories == {"w": ("u" * 60, "v" * 60), "k": ("p", "q")}
        np.testing.assert_array_equal(site.X[-3:], [[0, 1], [np.nan, 0], [1, 0]])
        assert site.y[-3:].tolist() == ["a", "b", "a"]


def test_categories_follow_rows_and_columns():
    site = SiteData(
        "s", [[0.0, 1.0], [1.0, 0.0]], ["a", "b"], columns=("x", "w"), categories={"w": ("u", "v"), "gone": ("q",)}
    )
    assert site.take([1]).categories == {"w": ("u", "v")}


def test_spaces_and_signs_for_nothing_are_empty():
    codes, words = as_codes(np.array([" u", "u", "NA", "null", "."]))
    assert words == ("u",)
    np.testing.assert_array_equal(codes, [0, 0, np.nan, np.nan, np.nan])


@pytest.mark.parametrize("missing", [[], ["None"]])
def test_none_is_a_word_among_words_and_a_gap_among_numbers(tmp_path, missing):
    (tmp_path / "a.csv").write_text("arm,dose,class\nnone,none,x\naspirin,2,y\nNone,3,x\nNA,4,y\n")
    table = read_table(tmp_path / "a.csv", label="class", text=True, reading={"missing": missing})
    words = ["" if np.isnan(at) else table.categories["arm"][int(at)] for at in table.X[:, 0]]
    assert words == (["", "aspirin", "", ""] if missing else ["none", "aspirin", "None", ""])
    np.testing.assert_array_equal(table.X[:, 1], [np.nan, 2, 3, 4])
    said = [(one.what, one.remedy) for one in table.remarks if "none" in one.what]
    assert bool(said) is not bool(missing)
    if said:
        assert said == [
            (
                "'none' is taken for a word like others in 'arm'",
                'where it means "not measured": missing = ["none"]',
            )
        ]
