"""Frames of pandas and Parquet files, where the bio extra is installed."""

from __future__ import annotations

import importlib.util

import pytest

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
            InputError, match=r"a\.parquet.*column 'seen', row 0: '2024-01-02.*a date is no number"
        ):
            read_site(file, label="y")
        assert read_site(file, label="y", columns=["age"]).X.tolist() == [[1.0], [2.0], [3.0]]
