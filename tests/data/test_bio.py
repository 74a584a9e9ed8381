"""Parquet and AnnData, where the bio extra is installed."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.data.readers import read_site
from fedgeom.errors import InputError


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


def test_layers_raw_and_barcodes_of_a_file(tmp_path):
    anndata = pytest.importorskip("anndata", reason="needs the bio extra")
    import pandas
    from scipy.sparse import csc_matrix, csr_matrix

    counts = csr_matrix(np.arange(12).reshape(4, 3) % 5)
    cells = anndata.AnnData(
        csc_matrix(np.log1p(counts.astype(np.float32))),
        obs=pandas.DataFrame({"type": list("TBTB"), "patient": [1, 1, 2, 2]}, index=list("abcd")),
        var=pandas.DataFrame(index=["CD3", "CD4", "CD8"]),
        layers={"counts": counts.astype(np.float32)},
    )
    cells.raw = cells
    cells = cells[:, ["CD4", "CD8"]].copy()
    file = tmp_path / "lab.h5ad"
    cells.write_h5ad(file)
    site = read_site(file, label="type", columns="layers:counts", group="patient")
    assert site.X.tolist() == counts.toarray()[:, 1:].tolist()
    assert (site.table.format, site.table.dtype) == ("csr", np.float32)
    assert (site.index.tolist(), site.groups.tolist()) == (list("abcd"), ["1", "1", "2", "2"])
    assert read_site(file, label="type").table.format == "csr"  # X was written by columns
    raw = read_site(file, label="type", columns="raw")
    assert (raw.columns, raw.shape) == (("CD3", "CD4", "CD8"), (4, 3))
    for columns, message in [
        ("layers:count", r"no layers 'count'; it has 'counts'\. Did you mean 'counts'\?"),
        ("obsm:X_pca", "no obsm 'X_pca'; it has none"),
        (
            "CD19",
            "no genes 'CD19' among its 2; wanted genes of var_names, 'X', 'raw', 'layers:…' with one of 'counts'",
        ),
    ]:
        with pytest.raises(InputError, match=message):
            read_site(file, label="type", columns=columns)
    del cells.raw
    cells.write_h5ad(file)
    with pytest.raises(InputError, match="has no raw; its layers are 'counts'"):
        read_site(file, label="type", columns="raw")


def test_genes_given_twice_in_a_file_are_refused(tmp_path):
    anndata = pytest.importorskip("anndata", reason="needs the bio extra")
    import pandas

    cells = anndata.AnnData(np.eye(2), obs=pandas.DataFrame({"type": ["T", "B"]}, index=list("ab")))
    cells.var_names = ["CD3", "CD3"]
    cells.write_h5ad(tmp_path / "lab.h5ad")
    with pytest.raises(InputError, match=r"lab\.h5ad: these column names are given more than once: 'CD3'"):
        read_site(tmp_path / "lab.h5ad", label="type")
