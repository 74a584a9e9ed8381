"""Readers by file ending: ours, those of this process, and what every one of them goes through."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from fedgeom.data.csv import read_text
from fedgeom.data.readers import READERS, Table, read_site, read_sites_from, read_table, register_reader
from fedgeom.data.validation import check_table
from fedgeom.errors import InputError

TEXT = "age,bmi,diagnosis\n61,22.5,ill\n47,,well\n35,31,ill\n"


@pytest.fixture
def csv_file(tmp_path):
    file = tmp_path / "north.csv"
    file.write_text(TEXT)
    return file


def test_columns_and_rows(csv_file):
    site = read_site(csv_file, label="diagnosis", columns=["bmi"], rows=[0, 2], name="N")
    assert site.name == "N"
    assert site.X.tolist() == [[22.5], [31.0]]
    assert len(read_site(csv_file, label="diagnosis", rows=np.array([True, False, False]))) == 1


def test_a_column_has_the_names_of_the_rows_and_is_no_feature(tmp_path):
    file = tmp_path / "north.csv"
    file.write_text("age,id,y,where\n61,p7,ill,A\n47,p8,well,B\n")
    site = read_site(file, label="y", index="id", columns=["age"])
    assert (site.columns, site.index.tolist()) == (("age",), ["p7", "p8"])
    assert [one.index.tolist() for one in read_sites_from(file, by="where", label="y", index="id")] == [
        ["p7"],
        ["p8"],
    ]
    assert read_site(file, label="y", index="where", group="where", columns=["age"]).groups.tolist() == ["A", "B"]
    with pytest.raises(InputError, match=r'a column with names of rows: index = "…"'):
        read_site(file, label="y")
    with pytest.raises(InputError, match="no column 'nr'"):
        read_site(file, label="y", index="nr", columns=["age"])


def test_unlabelled_rows(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("x,y\n1,a\n2,\n3,NA\n4,None\n")
    site = read_site(file, label="y")
    assert site.y.tolist() == ["a", "", "", "None"]
    assert site.classes.tolist() == ["None", "a"]
    with pytest.raises(InputError, match=r"2 of 4 rows have no label.*drop_unlabelled"):
        check_table(site, min_rows=1)
    assert read_site(file, label="y", drop_unlabelled=True).y.tolist() == ["a", "None"]


def test_bad_paths(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        read_site(tmp_path / "a.csv", label="y")
    with pytest.raises(InputError, match="is a folder"):
        read_site(tmp_path, label="y")
    (tmp_path / "a.docx").write_text("")
    with pytest.raises(InputError, match=r"ends in '\.docx'.*\.csv"):
        read_site(tmp_path / "a.docx", label="y")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xd8\xff\xe0" + bytes(range(256)))
    with pytest.raises(InputError, match="is no text"):
        read_site(tmp_path / "bytes.csv", label="y")


def test_rows_for_prediction(csv_file):
    table = read_table(csv_file, label="diagnosis")
    assert table.X.shape == (3, 2)
    assert table.y is not None
    with pytest.raises(InputError, match="hold text, wanted numbers: 'diagnosis'"):
        read_table(csv_file)


@pytest.fixture
def own_readers(monkeypatch):
    """Readers that a test registers are gone after it."""
    monkeypatch.setattr(READERS, "_known", dict(READERS._known))


def read_pairs(file, label, columns):
    """Lines such as "ill 1 2": a label and numbers."""
    cells = [line.split() for line in read_text(file).splitlines()]
    return Table(
        np.array([row[1:] for row in cells], np.float64), None if label is None else [row[0] for row in cells]
    )


def test_the_built_in_endings():
    assert list(READERS)[:5] == [".csv", ".tsv", ".npz", ".parquet", ".h5ad"]


@pytest.mark.usefixtures("own_readers")
def test_a_reader_of_ones_own(tmp_path):
    file = tmp_path / "North.Pairs"
    file.write_text("ill 1 2\nwell 3 4\n")
    with pytest.raises(InputError, match=r"ends in '\.pairs'; files that can be read end in \.csv, \.tsv, \.npz"):
        read_site(file, label="first")
    register_reader(".pairs", read_pairs)
    site = read_site(file, label="first")
    assert (site.name, site.X.tolist(), site.y.tolist()) == ("North", [[1, 2], [3, 4]], ["ill", "well"])
    table = read_table(file)
    assert (table.X.shape, table.y) == ((2, 2), None)
    with pytest.raises(InputError, match=r"wanted a file that ends in .*\.ods, \.pairs"):
        read_site(tmp_path / "none.pairs", label="y")


@pytest.mark.usefixtures("own_readers")
def test_the_longest_ending_decides(tmp_path):
    register_reader(".labelled.csv", lambda file, label, columns: Table(np.zeros((1, 1)), ["z"]))
    for name, found in (("a.labelled.csv", "z"), ("a.b.csv", "w"), ("a.labelled.csv.gz", "z")):
        (tmp_path / name).write_text("x,y\n1,w\n")
        site = read_site(tmp_path / name, label="y")
        assert site.y.tolist() == [found]
        assert site.name == ("a" if found == "z" else "a.b")


@pytest.mark.usefixtures("own_readers")
def test_an_ending_is_taken_once():
    with pytest.raises(InputError, match=r"there is a reader '\.csv' already \(fedgeom\.data\.csv:read_csv\)"):
        register_reader(".csv", read_pairs)
    register_reader(".pairs", read_pairs)
    assert register_reader(".pairs", read_pairs) is read_pairs  # the same thing once more
    for ending in ("pairs", ".", "", ".Pairs", ".csv.gz"):
        with pytest.raises(InputError, match="wanted a dot and small letters"):
            register_reader(ending, read_pairs)


@pytest.mark.usefixtures("own_readers")
@pytest.mark.parametrize(
    ("found", "message"),
    [
        ([[1.0]], "returned a list; wanted a Table"),
        (Table([1.0, 2.0], None), r"found X of shape \(2,\) and type float64; wanted a table of numbers"),
        (Table([["a"]], None), "wanted a table of numbers"),
        (Table([[1.0], [2.0]], ["a"]), "2 rows but 1 labels"),
        (Table([[1.0], [2.0]], None), "2 rows but 0 labels"),
    ],
)
def test_what_a_reader_returns_is_looked_at(tmp_path, found, message):
    register_reader(".odd", lambda file, label, columns: found)
    (tmp_path / "a.odd").write_text("")
    with pytest.raises(InputError, match=message):
        read_site(tmp_path / "a.odd", label="y")


@pytest.mark.usefixtures("own_readers")
def test_labels_of_a_reader_keep_their_type_and_numbers_become_floats(tmp_path):
    register_reader(".odd", lambda file, label, columns: Table([[1], [2]], [1.0, None], columns=("n",)))
    (tmp_path / "a.odd").write_text("")
    site = read_site(tmp_path / "a.odd", label="y")
    assert (site.X.dtype, site.y.tolist(), site.columns) == (np.float64, [1, ""], ("n",))


def test_rows_keep_the_numbers_that_the_file_gives_them(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,a\n2,\n3,b\n4,b\n")
    site = read_site(tmp_path / "a.csv", label="y", drop_unlabelled=True)
    assert site.row_numbers.tolist() == [2, 4, 5]
    assert read_site(tmp_path / "a.csv", label="y", rows=[3, 0]).row_numbers.tolist() == [5, 2]
    np.savez(tmp_path / "a.npz", X=np.zeros((2, 1)), y=["a", "b"])
    assert read_site(tmp_path / "a.npz", label="y").row_numbers.tolist() == [0, 1]


@pytest.mark.usefixtures("own_readers")
def test_a_reader_without_other_columns_says_so(tmp_path):
    register_reader(".pairs", read_pairs)
    file = tmp_path / "a.pairs"
    file.write_text("ill 1 2\nwell 3 4\n")
    with pytest.raises(InputError, match=r"the reader of '\.pairs' reads label and features only, not 'patient'"):
        read_site(file, label="first", group="patient")


def test_one_file_with_several_sites(tmp_path):
    file = tmp_path / "all.csv"
    file.write_text("x,town,y\n1,B,a\n2,A,\n3,B,b\n4,A,b\n")
    sites = read_sites_from(file, by="town", label="y", drop_unlabelled=True)
    assert [(site.name, site.X[:, 0].tolist()) for site in sites] == [("A", [4]), ("B", [1, 3])]
    sites = read_sites_from(file, by="town", label="y", group="town")
    assert sites[1].groups.tolist() == ["B", "B"]


def test_rows_for_prediction_are_dense_unless_asked_for_as_they_came(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.ones((2, 2), np.float32))
    assert read_table(tmp_path / "a.npz").X.dtype == np.float64
    assert read_table(tmp_path / "a.npz", as_it_came=True).X.dtype == np.float32


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_reading_takes_little_more_memory_than_the_table(tmp_path, ending):
    """Finding 15: a CSV took 22 times the memory of its table, and Parquet 2.4 times; counted, not timed."""
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow", reason="needs the bio extra")
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.normal(size=(20_000, 20)), columns=[f"c{at}" for at in range(20)])
    frame["label"] = np.where(rng.random(len(frame)) < 0.5, "ill", "well")
    file = tmp_path / f"rows{ending}"
    frame.to_csv(file, index=False) if ending == ".csv" else frame.to_parquet(file)
    read_site(file, label="label", rows=[0, 1])  # imports are not counted
    tracemalloc.start()
    site = read_site(file, label="label")
    held, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1.5 * site.table.nbytes
    assert held < 1.2 * site.table.nbytes
    np.testing.assert_allclose(site.X, frame.iloc[:, :20])
