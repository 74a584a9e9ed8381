"""What files call their rows."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.data.row_names import RowNames, other_columns, row_names
from fedgeom.errors import InputError


def test_text_files_have_a_chosen_column_an_unnamed_index_or_numbers(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("id;age\n007;1\n8;2\n")
    assert row_names(file, 2, index="id") == RowNames("id", ("007", "8"))
    assert row_names(file, 2, first_row=2) == RowNames("row", (2, 3))
    assert other_columns(file, ("id", None)) == ["age"]
    tabs = tmp_path / "a.tsv"
    tabs.write_text("\tindex\tage\nAAAC-1\t5\t1\n")
    assert row_names(tabs, 1) == RowNames("index", ("AAAC-1",))
    assert row_names(tabs, 1, index="index").names == ("5",)
    assert other_columns(tabs, ()) == ["index", "age"]
    with pytest.raises(
        InputError, match=r"has no column 'key' for the names of rows; its columns are 'id', 'age'"
    ):
        row_names(file, 2, index="key")
    with pytest.raises(InputError, match=r"'id' names 2 rows; wanted 3"):
        row_names(file, 3, index="id")


def test_archives_have_a_key(tmp_path):
    file = tmp_path / "a.npz"
    np.savez(file, X=np.zeros((2, 1)), donor=np.array(["a", "b"]), wide=np.zeros((2, 2)))
    assert row_names(file, 2, index="donor") == RowNames("donor", ("a", "b"))
    assert row_names(file, 2) == RowNames("row", (0, 1))
    assert other_columns(file, ()) is None
    for key, message in (("id", "no key 'id'"), ("wide", r"shape \(2, 2\); wanted one name per row")):
        with pytest.raises(InputError, match=message):
            row_names(file, 2, index=key)


def test_parquet_has_the_index_of_pandas(tmp_path):
    pandas = pytest.importorskip("pandas", reason="needs the bio extra")
    pytest.importorskip("pyarrow", reason="needs the bio extra")
    file = tmp_path / "a.parquet"
    frame = pandas.DataFrame({"age": [1, 2]}, index=pandas.Index(["p", "q"], name="patient"))
    frame.to_parquet(file)
    assert row_names(file, 2) == RowNames("patient", ("p", "q"))
    assert other_columns(file, ()) == ["age"]
    frame.rename_axis(None).to_parquet(file)
    assert row_names(file, 2) == RowNames("index", ("p", "q"))
    frame.reset_index().to_parquet(file)  # an index that only counts
    assert row_names(file, 2, first_row=0) == RowNames("row", (0, 1))
    assert row_names(file, 2, index="patient").names == ("p", "q")
    with pytest.raises(InputError, match="no column 'id'"):
        row_names(file, 2, index="id")


def test_cells_have_barcodes(tmp_path):
    anndata = pytest.importorskip("anndata", reason="needs the bio extra")
    pandas = pytest.importorskip("pandas", reason="needs the bio extra")
    obs = pandas.DataFrame({"donor": ["x", "y"]}, index=["AAAC", "TTTG"])
    file = tmp_path / "a.h5ad"
    anndata.AnnData(np.zeros((2, 1)), obs=obs).write_h5ad(file)
    assert row_names(file, 2) == RowNames("obs_names", ("AAAC", "TTTG"))
    assert row_names(file, 2, index="donor") == RowNames("donor", ("x", "y"))
    anndata.AnnData(np.zeros((2, 1)), obs=obs.rename_axis("barcode")).write_h5ad(file)
    assert row_names(file, 2).title == "barcode"
    with pytest.raises(InputError, match="no obs column 'id' for the names of rows; its obs columns are 'donor'"):
        row_names(file, 2, index="id")


def test_other_kinds_are_counted(tmp_path):
    assert row_names(tmp_path / "a.fcs", 2, first_row=1) == RowNames("row", (1, 2))
    with pytest.raises(InputError, match=r"names of rows are read from \.csv"):
        row_names(tmp_path / "a.fcs", 2, index="id")
