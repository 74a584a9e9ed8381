"""Parquet and AnnData, where the bio extra is installed."""

from __future__ import annotations

import importlib.util

import numpy as np
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


def test_h5ad(tmp_path):
    anndata = pytest.importorskip("anndata", reason="needs the bio extra")
    pandas = pytest.importorskip("pandas", reason="needs the bio extra")
    from scipy.sparse import csr_matrix

    cells = anndata.AnnData(
        csr_matrix(np.arange(12.0).reshape(4, 3)),
        obs=pandas.DataFrame({"type": pandas.Categorical(["T", "B", None, "T"])}, index=list("abcd")),
        var=pandas.DataFrame(index=["CD3", "CD4", "CD8"]),
        obsm={"X_poincare": np.full((4, 2), 0.5)},
    )
    file = tmp_path / "lab.h5ad"
    cells.write_h5ad(file)
    site = read_site(file, label="type", drop_unlabelled=True)
    assert site.y.tolist() == ["T", "B", "T"]
    assert read_site(file, label="type").y.tolist() == ["T", "B", "", "T"]
    assert site.columns == ("CD3", "CD4", "CD8")
    assert site.X[1].tolist() == [3, 4, 5]
    genes = read_site(file, label="type", columns=["CD8", "CD3"], drop_unlabelled=True)
    assert genes.X[0].tolist() == [2, 0]
    assert read_site(file, label="type", columns="obsm:X_poincare", drop_unlabelled=True).X.shape == (3, 2)
    for options, message in [
        ({"label": "kind"}, "no obs column 'kind'; its obs columns are 'type'"),
        ({"label": "type", "columns": "obsm:X_pca"}, "no obsm 'X_pca'; it has 'X_poincare'"),
        ({"label": "type", "columns": ["CD19"]}, "no genes 'CD19' among its 3"),
    ]:
        with pytest.raises(InputError, match=message):
            read_site(file, **options)


def test_a_date_column_of_parquet_is_named_with_what_to_do(tmp_path):
    pandas = pytest.importorskip("pandas", reason="needs the bio extra")
    pytest.importorskip("pyarrow", reason="needs the bio extra")
    import datetime

    days = pandas.to_datetime(["2024-01-02", None, "2024-01-04"])
    for dates in (days, [datetime.date(2024, 1, 2), None, datetime.date(2024, 1, 4)]):
        file = tmp_path / "a.parquet"
        pandas.DataFrame({"age": [1.0, 2.0, 3.0], "seen": dates, "y": ["a", "b", "a"]}).to_parquet(file)
        with pytest.raises(
            InputError, match=r"a\.parquet.*column 'seen', row 1: '2024-01-02.*a date is no number"
        ):
            read_site(file, label="y")
        assert read_site(file, label="y", columns=["age"]).X.tolist() == [[1.0], [2.0], [3.0]]
