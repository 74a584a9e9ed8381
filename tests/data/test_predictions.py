"""Predictions as tables, and as copies of the file they are about."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedgeom.data.predictions import Predictions, as_text, check_target, write_predictions
from fedgeom.data.readers import RowNames
from fedgeom.errors import InputError

MADE = Predictions(
    RowNames("cell", ("a", "b")),
    np.array(["T/NK", "unknown"]),
    np.array([0.75, 0.5]),
    np.array(["T/NK", "B, naive"]),
    ("B, naive", "T/NK"),
    np.array([[0.25, 0.75], [0.5, 0.5]]),
)


def test_a_table_of_text():
    assert as_text(MADE).splitlines() == [
        'cell,class,probability,best_class,"probability_of_B, naive",probability_of_T/NK',
        "a,T/NK,0.7500,T/NK,0.2500,0.7500",
        'b,unknown,0.5000,"B, naive",0.5000,0.5000',
    ]
    bare = Predictions(RowNames("row", (2, 3)), np.array([0, 1]))
    assert as_text(bare, "\t") == "row\tclass\n2\t0\n3\t1\n"


@pytest.mark.parametrize(
    ("out", "source", "message"),
    [
        ("p.xlsx", "a.csv", r"wanted a file that ends in \.csv or \.tsv"),
        ("p.csv.gz", "a.csv", r"wanted a file that ends in \.csv or \.tsv"),
        ("p.h5ad", "a.csv", r"a \.h5ad file can only be made of \.h5ad; write a table instead: --out p\.csv"),
        ("p.parquet", "a.h5ad", r"can only be made of \.parquet or \.csv or \.tsv"),
        ("no/p.csv", "a.csv", "does not exist; make it first"),
        ("folder.csv", "a.csv", "is a folder"),
        ("b.csv", "a.csv", "exists; choose another file, or give --force to replace it"),
        ("link.csv", "a.csv", "exists; choose another file"),
        ("a.csv", "a.csv", "which would be lost"),
    ],
)
def test_what_cannot_be_written_is_found_beforehand(out, source, message, tmp_path):
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "link.csv").symlink_to(tmp_path / "nowhere")
    for name in ("a.csv", "a.h5ad", "b.csv"):
        (tmp_path / name).write_text("x")
    with pytest.raises(InputError, match=message):
        check_target(tmp_path / out, tmp_path / source, force=False)


def test_force_replaces_but_does_not_lose_rows(tmp_path):
    for name in ("a.csv", "b.csv", "a.parquet"):
        (tmp_path / name).write_text("x")
    check_target(tmp_path / "b.csv", tmp_path / "a.csv", force=True)
    check_target(tmp_path / "a.parquet", tmp_path / "a.parquet", force=True)  # a copy has the rows
    with pytest.raises(InputError, match="which would be lost"):
        check_target(tmp_path / "a.csv", tmp_path / "a.csv", force=True)


def test_a_copy_of_a_parquet_file_keeps_columns_index_and_notes(tmp_path):
    pandas = pytest.importorskip("pandas", reason="needs the bio extra")
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the bio extra")
    file = tmp_path / "a.parquet"
    days = pandas.to_datetime(["2024-01-01", "2024-01-02"])
    frame = pandas.DataFrame(
        {"age": [1, 2], "day": days, "kind": pandas.Categorical(["u", "v"])}, pandas.Index(["p", "q"], name="id")
    )
    frame.to_parquet(file)
    table = parquet.read_table(file)
    parquet.write_table(table.replace_schema_metadata(table.schema.metadata | {b"study": b"seven"}), file)
    write_predictions(tmp_path / "b.parquet", file, MADE)
    again = pandas.read_parquet(tmp_path / "b.parquet")
    assert again[frame.columns.tolist()].equals(frame)
    assert again.index.equals(frame.index)
    assert again["fedgeom_class"].tolist() == ["T/NK", "unknown"]
    assert again["fedgeom_probability_of_T/NK"].tolist() == [0.75, 0.5]
    assert parquet.read_schema(tmp_path / "b.parquet").metadata[b"study"] == b"seven"
    write_predictions(file, tmp_path / "b.parquet", MADE)  # once more: replaced, not doubled
    assert parquet.read_schema(file).names == parquet.read_schema(tmp_path / "b.parquet").names


def test_a_copy_of_cells_keeps_everything_else(tmp_path):
    anndata = pytest.importorskip("anndata", reason="needs the bio extra")
    pandas = pytest.importorskip("pandas", reason="needs the bio extra")
    from scipy.sparse import csr_matrix

    file = tmp_path / "a.h5ad"
    cells = anndata.AnnData(
        csr_matrix(np.arange(6.0).reshape(2, 3)),
        obs=pandas.DataFrame({"donor": pandas.Categorical(["x", "y"])}, index=["AAAC", "TTTG"]),
        layers={"counts": csr_matrix(np.ones((2, 3)))},
        obsm={"X_pca": np.ones((2, 2))},
        uns={"note": "kept"},
    )
    cells.raw = cells
    cells.write_h5ad(file, compression="gzip")
    write_predictions(file, file, MADE)  # in place, as with --force
    again = anndata.read_h5ad(file)
    assert again.obs_names.tolist() == ["AAAC", "TTTG"]
    assert again.obs["fedgeom_class"].tolist() == ["T/NK", "unknown"]
    assert again.obs["fedgeom_best_class"].tolist() == ["T/NK", "B, naive"]
    assert again.obs["fedgeom_probability"].tolist() == [0.75, 0.5]
    assert again.obs["donor"].tolist() == ["x", "y"]
    assert again.obsm["fedgeom_probabilities"].tolist() == MADE.probabilities.tolist()
    assert list(again.uns["fedgeom_classes"]) == list(MADE.classes)
    assert (again.uns["note"], again.layers["counts"].sum(), again.raw.X.sum()) == ("kept", 6.0, 15.0)
    assert (again.X != cells.X).nnz == 0


def test_a_copy_that_fails_leaves_what_was_there(tmp_path):
    pytest.importorskip("pyarrow", reason="needs the bio extra")
    out = tmp_path / "p.parquet"
    out.write_text("mine")
    Path(tmp_path / "a.parquet").write_text("no table")
    with pytest.raises(Exception, match=r"[Pp]arquet"):
        write_predictions(out, tmp_path / "a.parquet", MADE)
    assert out.read_text() == "mine"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.parquet", "p.parquet"]
