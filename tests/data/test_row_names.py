"""What files call their rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedgeom.data.readers import RowNames, read_table, row_names
from fedgeom.errors import InputError


def names(file: Path, index: str | None = None) -> RowNames:
    return row_names(file, read_table(file, also=() if index is None else (index,)), index)


def test_text_files_have_a_chosen_column_an_unnamed_index_or_numbers(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("id;age\n007;1\n8;2\n")
    assert names(file, "id") == RowNames("id", ("007", "8"))
    assert names(file) == RowNames("row", (2, 3))  # below the header
    tabs = tmp_path / "a.tsv"
    tabs.write_text("\tindex\tage\nAAAC-1\t5\t1\n")
    assert names(tabs) == RowNames("index", ("AAAC-1",))
    assert names(tabs, "index").names == ("5",)
    with pytest.raises(InputError, match=r"has no column 'key'; its columns are 'id', 'age'"):
        names(file, "key")


def test_archives_have_a_key(tmp_path):
    file = tmp_path / "a.npz"
    np.savez(file, X=np.zeros((2, 1)), donor=np.array(["a", "b"]))
    assert names(file, "donor") == RowNames("donor", ("a", "b"))
    assert names(file) == RowNames("row", (0, 1))


def test_parquet_has_the_index_of_pandas(tmp_path):
    pandas = pytest.importorskip("pandas", reason="needs the bio extra")
    pytest.importorskip("pyarrow", reason="needs the bio extra")
    file = tmp_path / "a.parquet"
    frame = pandas.DataFrame({"age": [1, 2]}, index=pandas.Index(["p", "q"], name="patient"))
    frame.to_parquet(file)
    assert names(file) == RowNames("patient", ("p", "q"))
    frame.rename_axis(None).to_parquet(file)
    assert names(file) == RowNames("index", ("p", "q"))
    frame.reset_index().to_parquet(file)  # an index that only counts
    assert names(file, "patient") == RowNames("patient", ("p", "q"))
    frame.reset_index(drop=True).to_parquet(file)
    assert names(file) == RowNames("row", (0, 1))


def test_cells_have_barcodes(tmp_path):
    anndata = pytest.importorskip("anndata", reason="needs the bio extra")
    pandas = pytest.importorskip("pandas", reason="needs the bio extra")
    obs = pandas.DataFrame({"donor": ["x", "y"]}, index=["AAAC", "TTTG"])
    file = tmp_path / "a.h5ad"
    anndata.AnnData(np.zeros((2, 1)), obs=obs).write_h5ad(file)
    assert names(file) == RowNames("obs_names", ("AAAC", "TTTG"))
    assert names(file, "donor") == RowNames("donor", ("x", "y"))
    anndata.AnnData(np.zeros((2, 1)), obs=obs.rename_axis("barcode")).write_h5ad(file)
    assert names(file).title == "barcode"
