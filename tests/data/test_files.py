"""Every format reads the same table; every error says what to do."""

from __future__ import annotations

import gzip
import importlib.util

import numpy as np
import pytest

from fedgeom.data.checks import check_table
from fedgeom.data.readers import read_rows, read_site, same_columns
from fedgeom.data.sites import SiteData, holdout
from fedgeom.errors import InputError

TEXT = "age,bmi,diagnosis\n61,22.5,ill\n47,,well\n35,31,ill\n"


@pytest.fixture
def csv_file(tmp_path):
    file = tmp_path / "north.csv"
    file.write_text(TEXT)
    return file


def test_csv(csv_file):
    site = read_site(csv_file, label="diagnosis")
    assert site.name == "north"
    assert site.columns == ("age", "bmi")
    assert site.y.tolist() == ["ill", "well", "ill"]
    np.testing.assert_array_equal(site.X, [[61, 22.5], [47, np.nan], [35, 31]])


@pytest.mark.parametrize(("ending", "mark"), [("tsv", "\t"), ("csv", ";")])
def test_other_marks(tmp_path, ending, mark):
    file = tmp_path / f"site.{ending}"
    file.write_text(TEXT.replace(",", mark))
    assert read_site(file, label="diagnosis").X.shape == (3, 2)


def test_zipped_with_a_byte_order_mark_and_row_numbers(tmp_path):
    file = tmp_path / "site.csv.gz"
    lines = TEXT.splitlines()
    numbered = "\n".join([f",{lines[0]}", *(f"{i},{line}" for i, line in enumerate(lines[1:]))])
    file.write_bytes(gzip.compress(b"\xef\xbb\xbf" + numbered.encode()))
    site = read_site(file, label="diagnosis")
    assert site.name == "site"
    assert site.columns == ("age", "bmi")


def test_columns_and_rows(csv_file):
    site = read_site(csv_file, label="diagnosis", columns=["bmi"], rows=[0, 2], name="N")
    assert site.name == "N"
    assert site.X.tolist() == [[22.5], [31.0]]
    assert len(read_site(csv_file, label="diagnosis", rows=np.array([True, False, False]))) == 1


def test_text_columns_are_named(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("age,sex,town,y\n3,f,Bern,a\n4,m,Basel,b\n")
    with pytest.raises(InputError, match=r"hold text.*'sex', 'town'.*columns=.*'age'"):
        read_site(file, label="y")
    assert read_site(file, label="y", columns=["age"]).X.shape == (2, 1)


def test_unlabelled_rows(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("x,y\n1,a\n2,\n3,NA\n4,None\n")
    site = read_site(file, label="y")
    assert site.y.tolist() == ["a", "", "", "None"]
    assert site.classes.tolist() == ["None", "a"]
    with pytest.raises(InputError, match=r"2 of 4 rows have no label.*drop_unlabelled"):
        check_table(site, least_points=1)
    assert read_site(file, label="y", drop_unlabelled=True).y.tolist() == ["a", "None"]


@pytest.mark.parametrize(
    ("y", "known"),
    [
        (np.array(["a", ""]), [True, False]),
        (np.array([1.0, np.nan]), [True, False]),
        (np.array(["a", None, float("nan"), "", "b"], object), [True, False, False, False, True]),
        (np.array([-1, 1]), [True, True]),
    ],
)
def test_which_rows_have_a_label(y, known):
    site = SiteData("a", np.zeros((len(y), 1)), y)
    assert site.has_label.tolist() == known
    _, aside = holdout(SiteData("a", np.zeros((5 * len(y), 1)), np.tile(y, 5)), 0.4)
    assert len(aside) == 2 * sum(known)
    assert aside.has_label.all()


@pytest.mark.parametrize(
    ("text", "label", "options", "message"),
    [
        ("x,y\n1,a\n", "class", {}, "no column 'class' for the labels; its columns are 'x', 'y'"),
        ("x,y\n1,a\n", "y", {"columns": ["z"]}, "no columns 'z'"),
        ("x,y\n1,a\n", "y", {"columns": ["x", "y"]}, "among the features"),
        ("x,y\n1,a\n", "y", {"rows": [7]}, "does not fit"),
        ("x,y\n", "y", {}, "has no rows"),
        ("", "y", {}, "is empty"),
        ("y\na\n", "y", {}, "no columns beside the label"),
        ("x,x,y\n1,2,a\n", "y", {}, "more than once"),
        ("x,y\n1,a\n2\n", "y", {}, "row 3: 1 cells, but the header has 2"),
        ("x,y\n1,\n", "y", {"drop_unlabelled": True}, "no labelled rows"),
    ],
)
def test_bad_csv(tmp_path, text, label, options, message):
    file = tmp_path / "a.csv"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        read_site(file, label=label, **options)


def test_bad_paths(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        read_site(tmp_path / "a.csv", label="y")
    with pytest.raises(InputError, match="is a folder"):
        read_site(tmp_path, label="y")
    (tmp_path / "a.xlsx").write_text("")
    with pytest.raises(InputError, match=r"ends in '\.xlsx'.*\.csv"):
        read_site(tmp_path / "a.xlsx", label="y")
    (tmp_path / "latin.csv").write_bytes("größe,y\n1,a\n".encode("latin-1"))
    with pytest.raises(InputError, match="not UTF-8"):
        read_site(tmp_path / "latin.csv", label="y")


def test_npz(tmp_path):
    file = tmp_path / "a.npz"
    np.savez(
        file, X=np.eye(3), emb=np.ones((3, 2)), y=np.array([0, 1, 1]), short=np.zeros(2), cube=np.zeros((3, 1, 1))
    )
    assert read_site(file, label="y").X.shape == (3, 3)
    site = read_site(file, label="y", columns="emb")
    assert site.X.shape == (3, 2)
    assert site.y.tolist() == ["0", "1", "1"]
    for options, message in [
        ({"label": "z"}, "no key 'z'; its keys are"),
        ({"label": "y", "columns": ["X"]}, "wanted one key"),
        ({"label": "short"}, "3 rows but 2 labels"),
        ({"label": "y", "columns": "cube"}, "wanted a table of numbers"),
        ({"label": "cube"}, "wanted one label per row"),
    ]:
        with pytest.raises(InputError, match=message):
            read_site(file, **options)


def test_npz_never_unpickles(tmp_path):
    file = tmp_path / "a.npz"
    np.savez(file, X=np.array([{}], dtype=object), y=np.zeros(1))
    with pytest.raises(InputError, match="without pickles"):
        read_site(file, label="y")
    file.write_bytes(b"not an archive")
    with pytest.raises(InputError, match="cannot be read"):
        read_site(file, label="y")


def test_rows_for_prediction(csv_file):
    X, y = read_rows(csv_file, label="diagnosis")
    assert X.shape == (3, 2)
    assert y is not None
    with pytest.raises(InputError, match="hold text, wanted numbers: 'diagnosis'"):
        read_rows(csv_file)


def test_columns_are_brought_into_one_order():
    a = SiteData("a", [[1, 2]], ["u"], columns=("x", "y"))
    b = SiteData("b", [[2, 1]], ["v"], columns=("y", "x"))
    c = SiteData("c", [[3, 4]], ["v"])
    same = same_columns([a, b, c])
    assert [site.X.tolist() for site in same] == [[[1, 2]], [[1, 2]], [[3, 4]]]
    with pytest.raises(InputError, match="'d' has other columns than 'a': it lacks 'y' and has 'z'"):
        same_columns([a, SiteData("d", [[1, 2]], ["u"], columns=("x", "z"))])


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
