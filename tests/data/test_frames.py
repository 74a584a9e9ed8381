"""Frames of pandas and Parquet files, where the bio extra is installed."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from fedgeom.data.frames import labels_of_series
from fedgeom.data.readers import read_site
from fedgeom.errors import InputError


def test_parquet(tmp_path):
    pandas = pytest.importorskip("pandas", reason="needs the bio extra")
    pytest.importorskip("pyarrow", reason="needs the bio extra")
    file = tmp_path / "a.parquet"
    frame = pandas.DataFrame({"x": [1, 2, 3], "z": [0.5, None, 2], "y": ["a", None, "b"], "w": ["u", "u", "v"]})
    frame.to_parquet(file)
    site = read_site(file, label="y", columns=["x", "z"], drop_unlabelled=True)
    assert site.y.tolist() == ["a", "b"]
    assert site.X.tolist() == [[1, 0.5], [3, 2]]
    with pytest.raises(InputError, match="hold text, wanted numbers: 'w'"):
        read_site(file, label="y", drop_unlabelled=True)


@pytest.mark.skipif(importlib.util.find_spec("pyarrow") is not None, reason="pyarrow is installed")
def test_parquet_says_how_to_install_it(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"pip install 'fedgeom\[bio\]'"):
        read_site(tmp_path / "a.parquet", label="y")


def test_a_date_column_of_parquet_is_named_with_what_to_do(tmp_path):
    pandas = pytest.importorskip("pandas", reason="needs the bio extra")
    pytest.importorskip("pyarrow", reason="needs the bio extra")
    import datetime

    days = pandas.to_datetime(["2024-01-02", None, "2024-01-04"])
    for dates in (days, [datetime.date(2024, 1, 2), None, datetime.date(2024, 1, 4)]):
        file = tmp_path / "a.parquet"
        pandas.DataFrame({"age": [1.0, 2.0, 3.0], "seen": dates, "y": ["a", "b", "a"]}).to_parquet(file)
        with pytest.raises(
            InputError, match=r"a\.parquet.*column 'seen' holds dates, row 0: '2024-01-02.*a date is no number"
        ):
            read_site(file, label="y")
        assert read_site(file, label="y", columns=["age"]).X.tolist() == [[1.0], [2.0], [3.0]]


def test_parquet_keeps_types_gaps_and_names_of_rows(tmp_path):
    pandas = pytest.importorskip("pandas", reason="needs the bio extra")
    pytest.importorskip("pyarrow", reason="needs the bio extra")
    frame = pandas.DataFrame(
        {
            "n": pandas.array([1, None, 3], "Int64"),
            "x": np.array([0.1, np.nan, 2.0], np.float32),
            "yes": [True, False, True],
            "y": pandas.Categorical(["a", None, "b"]),
            "who": [1.0, None, 2.0],
        },
        index=pandas.Index(["p", "q", "r"], name="barcode"),
    )
    file = tmp_path / "a.parquet"
    frame.to_parquet(file)
    site = read_site(file, label="y", columns=["x", "n"])
    np.testing.assert_array_equal(site.X, [[np.float32(0.1), 1], [np.nan, np.nan], [2, 3]])
    assert (site.y.tolist(), site.index.tolist(), site.columns) == (["a", "", "b"], ["p", "q", "r"], ("x", "n"))
    assert site.table.flags.c_contiguous
    assert read_site(file, label="y", columns=["x"]).table.dtype == np.float32
    every = read_site(file, label="y")  # yes and no are numbers as well, which pandas reads
    assert every.columns == ("n", "x", "yes", "who")
    assert every.X[:, 2].tolist() == [1, 0, 1]
    assert every.index.tolist() == ["p", "q", "r"]
    with pytest.raises(InputError, match="column 'who' is empty in 1 of 3 rows, the first of them row 1"):
        read_site(file, label="y", group="who")
    with pytest.raises(InputError, match=r"no columns 'z'; its columns are 'n', 'x', 'yes', 'y', 'who'"):
        read_site(file, label="y", columns=["z"])
    frame.reset_index(drop=True).to_parquet(file)
    assert read_site(file, label="y").index is None
    file.write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        read_site(file, label="y")


def test_parquet_is_read_as_pandas_reads_it(tmp_path):
    pandas = pytest.importorskip("pandas", reason="needs the bio extra")
    pytest.importorskip("pyarrow", reason="needs the bio extra")
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.standard_normal((200_000, 3)), columns=["a", "b", "c"])
    frame = frame.assign(n=rng.integers(0, 99, len(frame)), y=rng.integers(0, 3, len(frame)))
    frame.to_parquet(tmp_path / "a.parquet", row_group_size=70_000)
    site = read_site(tmp_path / "a.parquet", label="y")
    np.testing.assert_array_equal(site.X, frame[["a", "b", "c", "n"]].to_numpy())
    assert (site.y == frame["y"]).all()


def test_labels_of_a_column_are_text():
    pandas = pytest.importorskip("pandas", reason="needs the bio extra")
    for cells, found in (
        ([2.0, None, 2.5], ["2", "", "2.5"]),
        ([True, False], ["True", "False"]),
        ([1, True, None, "a ", 1.0], ["1", "True", "", "a", "1"]),
        (["b", None, "NA", "b"], ["b", "", "", "b"]),
        (pandas.Categorical(["b", None, "a"]), ["b", "", "a"]),
        (pandas.array(["b", None], "string"), ["b", ""]),
        (pandas.array([3, None], "Int64"), ["3", ""]),
    ):
        assert labels_of_series(pandas.Series(cells)).tolist() == found
    mixed = pandas.Series([1, True, None, "a ", 1.0], dtype=object)
    assert labels_of_series(mixed).tolist() == ["1", "True", "", "a", "1"]
