"""Sites out of frames and AnnData: labels, sites and patients are found among the columns."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from fedgeom.data.sites import MOST_SITES, SiteData
from fedgeom.data.split import holdout
from fedgeom.data.tables import Table
from fedgeom.errors import InputError


@pytest.fixture
def frame():
    pandas = pytest.importorskip("pandas", reason="needs the bio extra")
    return pandas.DataFrame(
        {
            "age": [61, 47, 35, 80],
            "bmi": [22.5, None, 31.0, 24.0],
            "town": ["B", "A", "B", "A"],
            "patient": [1.0, 2.0, 1.0, 3.0],
            "ill": pytest.importorskip("pandas").Categorical(["yes", "no", None, "yes"]),
        },
        index=["p1", "p2", "p3", "p4"],
    )


@pytest.fixture
def adata():
    anndata = pytest.importorskip("anndata", reason="needs the bio extra")
    import pandas

    counts = np.arange(20).reshape(5, 4) % 3
    cells = anndata.AnnData(
        csr_matrix(np.log1p(counts).astype(np.float32)),
        obs=pandas.DataFrame(
            {"type": ["T", "B", "T", "B", "T"], "donor": pandas.Categorical(["d2", "d1", "d2", "d1", "d1"])},
            index=[f"AAC{i}-1" for i in range(5)],
        ),
        var=pandas.DataFrame(index=["CD3", "CD4", "CD8", "CD19"]),
        obsm={"X_pca": np.ones((5, 2), np.float32)},
        layers={"counts": csr_matrix(counts.astype(np.uint16))},
    )
    cells.raw = cells
    return cells[:, ["CD8", "CD3"]].copy()


def test_a_frame_is_one_site_with_names(frame):
    site = SiteData.from_frame(frame, label="ill", columns=["bmi", "age"], group="patient", name="north")
    assert (site.name, site.columns, site.shape) == ("north", ("bmi", "age"), (4, 2))
    assert site.y.tolist() == ["yes", "no", "", "yes"]
    assert site.index.tolist() == ["p1", "p2", "p3", "p4"]
    assert site.groups.tolist() == ["1", "2", "1", "3"]
    assert np.isnan(site.X[1, 0])
    named = SiteData.from_frame(frame, label="ill", columns=["age"], drop_unlabelled=True)
    assert (named.name, named.index.tolist(), named.row_numbers.tolist()) == (
        "site",
        ["p1", "p2", "p4"],
        [0, 1, 3],
    )


def test_a_frame_is_many_sites(frame):
    sites = SiteData.from_frame(frame, label="ill", by="town", group="patient")
    assert [site.name for site in sites] == ["A", "B"]
    assert [site.columns for site in sites] == [("age", "bmi")] * 2
    assert [site.index.tolist() for site in sites] == [["p2", "p4"], ["p1", "p3"]]
    assert [site.groups.tolist() for site in sites] == [["2", "3"], ["1", "1"]]
    assert sites[1].X[:, 0].tolist() == [61, 35]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label": "il"}, r"the frame has no column 'il' for the labels; .*Did you mean 'ill'\?"),
        ({"label": "ill", "by": "towm"}, r"the frame has no column 'towm'; .*Did you mean 'town'\?"),
        ({"label": "ill", "by": "patiens"}, r"Did you mean 'patient'\?"),
        ({"label": "ill", "group": "ill"}, "'ill' is the label column; wanted another one"),
        (
            {"label": "ill", "text": False},
            r"hold text, wanted numbers: 'town' \(column 'town', row 0: 'B', 4 of 4",
        ),
        (
            {"label": "patient", "columns": ["age"], "group": "ill"},
            "'ill' is empty in 1 of 4 rows, .* row 2; wanted",
        ),
        ({"label": "town", "columns": ["bmi"], "by": "age"}, "'age' has 4 values in 4 rows, too many to be sites"),
    ],
)
def test_frames_that_do_not_fit(frame, options, message):
    with pytest.raises(InputError, match=message):
        SiteData.from_frame(frame, **options)


def test_other_things_than_frames(frame):
    with pytest.raises(InputError, match="a list was given; wanted a pandas DataFrame"):
        SiteData.from_frame([[1, 2]], label="y")
    with pytest.raises(InputError, match="a DataFrame was given; wanted an AnnData"):
        SiteData.from_anndata(frame, label="ill")
    with pytest.raises(InputError, match="the frame: these column names are given more than once: 'age'"):
        SiteData.from_frame(frame.set_axis(["age", "age", "t", "p", "ill"], axis=1), label="ill")


def test_cells_of_donors_keep_barcodes_genes_and_zeros(adata):
    sites = SiteData.from_anndata(adata, label="type", by="donor")
    assert [site.name for site in sites] == ["d1", "d2"]
    assert sites[1].index.tolist() == ["AAC0-1", "AAC2-1"]
    assert sites[0].columns == ("CD8", "CD3")
    assert all(site.table.format == "csr" and site.table.dtype == np.float32 for site in sites)
    assert sites[1].X.tolist() == adata.X.toarray()[[0, 2]].astype(np.float64).tolist()


def test_layers_raw_and_obsm(adata):
    counts = SiteData.from_anndata(adata, label="type", layer="counts", columns=["CD3"])
    assert counts.table.dtype == np.uint16
    assert counts.X.tolist() == adata.layers["counts"].toarray()[:, [1]].tolist()
    raw = SiteData.from_anndata(adata, label="type", use_raw=True)
    assert raw.columns == ("CD3", "CD4", "CD8", "CD19")
    assert raw.X.tolist() == adata.raw.X.toarray().tolist()
    assert SiteData.from_anndata(adata, label="type", obsm="X_pca").columns == ("X_pca[0]", "X_pca[1]")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label": "typ"}, r"no obs column 'typ'; its obs columns are 'type', 'donor'\. Did you mean 'type'\?"),
        ({"label": "type", "by": "doner"}, r"no obs column 'doner'.*Did you mean 'donor'\?"),
        ({"label": "type", "layer": "count"}, r"no layers 'count'; it has 'counts'\. Did you mean 'counts'\?"),
        ({"label": "type", "obsm": "X_umap"}, "no obsm 'X_umap'; it has 'X_pca'"),
        ({"label": "type", "obsm": "X_pca", "use_raw": True}, "use_raw and obsm were given; wanted one"),
        ({"label": "type", "columns": ["CD19"]}, "no genes 'CD19' among its 2"),
    ],
)
def test_anndata_that_does_not_fit(adata, options, message):
    with pytest.raises(InputError, match=message):
        SiteData.from_anndata(adata, **options)


def test_genes_given_twice_are_refused(adata):
    adata.var_names = ["CD3", "CD3"]
    with pytest.raises(InputError, match="these column names are given more than once: 'CD3'"):
        SiteData.from_anndata(adata, label="type")
    with pytest.raises(InputError, match="these column names are given more than once: 'CD3'"):
        SiteData.from_anndata(adata, label="type", columns=["CD3"])


def test_ten_thousand_values_are_no_sites():
    n = 2 * (MOST_SITES + 1)
    table = Table(np.zeros((n, 1)), np.full(n, "a"), also={"id": (np.arange(n) // 2).astype(str)})
    with pytest.raises(InputError, match=r"f\.csv: column 'id' has 5,001 values in 10,002 rows, too many"):
        SiteData.from_table(table, "f.csv", "f", by="id")


def test_a_large_sparse_table_is_split_and_held_out_without_becoming_dense(monkeypatch):
    from scipy.sparse import random_array

    table = Table(
        random_array((3000, 500), density=0.01, format="csr", dtype=np.float32, rng=np.random.default_rng(0)),
        np.tile(["a", "b"], 1500),
        also={"donor": np.repeat(["d1", "d2", "d3"], 1000)},
    )
    monkeypatch.setattr(SiteData, "X", property(lambda site: pytest.fail("it was made dense")))
    sites = SiteData.from_table(table, "f", "f", by="donor")
    kept, aside = holdout(sites[0], 0.3)
    assert (len(kept), len(aside), kept.table.dtype) == (700, 300, np.float32)
    assert kept.relabel({"a": "u", "b": "v"}).class_counts() == {"u": 350, "v": 350}
    assert "700 rows × 500 columns" in repr(kept)
    assert (aside.table != table.X[aside.row_numbers]).nnz == 0


# --- sets that are read example by example ---


class Examples:
    """As torch's and Hugging Face's sets are: a length, and an example for each number."""

    def __init__(self, examples):
        self.examples = examples

    def __len__(self):
        return len(self.examples)

    def __getitem__(self, at):
        return self.examples[at]


def test_a_torch_dataset_becomes_a_site(tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    rows = torch.arange(24, dtype=torch.uint8).reshape(4, 2, 3)
    dataset = torch.utils.data.TensorDataset(rows, torch.tensor([1, 0, 1, 0]))
    for file in (None, tmp_path / "rows.npy"):
        site = SiteData.from_dataset(dataset, name="anna", file=file)
        assert site.name == "anna"
        assert site.table.dtype == np.uint8
        assert site.table.tolist() == rows.reshape(4, 6).tolist()
        assert site.y.tolist() == [1, 0, 1, 0]
    assert np.shares_memory(site.table, site.table.base)
    assert isinstance(site.table.base.base, np.memmap) or isinstance(site.table.base, np.memmap)
    assert [one.name for one in tmp_path.iterdir()] == ["rows.npy"]


def test_pictures_have_their_channels_first_and_parts_have_names():
    Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    pixels = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    dataset = Examples([{"img": Image.fromarray(pixels), "kind": "cat"}] * 3)
    site = SiteData.from_dataset(dataset, row="img", label="kind")
    assert site.table[0].tolist() == np.moveaxis(pixels, -1, 0).ravel().tolist()
    assert site.y.tolist() == ["cat"] * 3
    with pytest.raises(InputError, match=r"an example has no 0; there is: .img., .kind.\. Say"):
        SiteData.from_dataset(dataset)


def test_sets_that_are_none_are_told(tmp_path):
    pair = (np.zeros(2), "a")
    with pytest.raises(InputError, match="a list was given; wanted a set with a length of 1 or more"):
        SiteData.from_dataset([])
    with pytest.raises(InputError, match=r"example 1 has the shape \(3,\), the first one \(2,\)"):
        SiteData.from_dataset(Examples([pair, (np.zeros(3), "b")]), file=tmp_path / "rows.npy")
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match="a row is a str; wanted an array of numbers"):
        SiteData.from_dataset(Examples([("text", "a")]))


def test_an_arrow_table_is_as_good_as_a_frame():
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    site = SiteData.from_frame(arrow.table({"a": [1.0, 2.0], "b": [3, 4], "y": ["u", "v"]}), label="y")
    assert site.columns == ("a", "b")
    assert site.X.tolist() == [[1, 3], [2, 4]]
    assert site.y.tolist() == ["u", "v"]
