"""A site's table: labels, splitting, and how it shows itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedgeom.data.sites import SiteData
from fedgeom.data.split import holdout, split
from fedgeom.errors import InputError


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


def test_rows_are_taken_with_their_labels_and_extras():
    site = SiteData("a", [[1], [2], [3]], ["x", "y", "x"], {"weight": [7, 8, 9]}, ("n",))
    for rows in ([2, 0], np.array([True, False, True])):
        part = site.take(rows)
        assert sorted(part.X[:, 0]) == [1, 3]
        assert (part.extra["weight"] == part.X[:, 0] + 6).all()
        assert part.columns == ("n",)


def test_other_words():
    site = SiteData("a", [[1], [2]], ["x", "y"])
    assert site.relabel({"x": "u", "y": "v", "z": "w"}).y.tolist() == ["u", "v"]
    with pytest.raises(InputError, match=r"site 'a': no new name for the labels \['y'\]"):
        site.relabel({"x": "u"})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"name": " "}, "a site needs a name"),
        ({"X": [1, 2]}, "X must be a table of rows and columns, 1-D was given"),
        ({"X": [["a"], ["b"]]}, "X must be numbers"),
        ({"y": ["u"]}, r"2 rows but labels of shape \(1,\)"),
        ({"extra": {"w": [1]}}, "extra 'w' has 1 rows, X has 2"),
        ({"columns": ("a", "b")}, "2 column names for 1 columns"),
    ],
)
def test_tables_that_are_none(given, message):
    with pytest.raises(InputError, match=message):
        SiteData(**{"name": "s", "X": [[1], [2]], "y": ["u", "v"], **given})


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_images_are_rows_of_their_own_type_and_are_not_copied(dtype):
    images = np.arange(24).reshape(2, 3, 2, 2).astype(dtype)
    site = SiteData("s", images, ["u", "v"])
    assert site.shape == (2, 12)
    assert site.table.dtype == dtype
    assert np.shares_memory(site.table, images)
    assert site.table[1].tolist() == list(range(12, 24))
    assert SiteData("nobody", images[:0], []).shape == (0, 12)


def test_a_site_shows_itself_briefly():
    site = SiteData("<North>", np.zeros((1204, 3)), ["ill"] * 1200 + ["<b>"] * 3 + [""])
    assert site.class_counts() == {"<b>": 3, "ill": 1200}
    shown = "1,204 rows × 3 columns, 2 classes (<b>: 3, ill: 1,200); 1 without a label"
    assert repr(site) == f"SiteData('<North>', {shown})"
    html = site._repr_html_()
    assert html == f"<b>&lt;North&gt;</b> {shown.replace('<b>', '&lt;b&gt;')}"


def test_many_classes_and_long_names_are_cut():
    site = SiteData("s", np.zeros((500, 1)), [f"{i:03d} {'long ' * 20}" for i in range(500)])
    assert len(repr(site)) < 300
    assert "500 classes (000 long" in repr(site)
    assert repr(site).endswith("…))")
    assert len(site._repr_html_()) < 1500
    assert "1 class (1: 1)" in repr(SiteData("s", [[0]], [1]))
    assert "0 classes; 1 without a label" in repr(SiteData("s", [[0]], [""]))


def test_a_frame_keeps_the_names_of_its_columns():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([[1.0, 2.0], [3.0, 4.0]], columns=["age", "bmi"])
    site = SiteData("north", frame, ["a", "b"])
    assert site.columns == site.take([0]).columns == ("age", "bmi")
    assert [part.columns for part in split(frame, ["a", "b"], n_sites=2)] == [("age", "bmi")] * 2
    with pytest.raises(InputError, match="site 'north': these column names are given more than once: 'age'"):
        SiteData("north", frame.set_axis(["age", "age"], axis=1), ["a", "b"])


def test_a_sparse_table_is_read_as_it_is():
    from scipy.sparse import csc_matrix, csr_array

    X = np.array([[0.0, 2.0], [3.0, 0.0]])
    for sparse in (csr_array(X), csc_matrix(X)):
        assert SiteData("a", sparse, ["x", "y"]).X.tolist() == X.tolist()
        assert np.vstack([site.X for site in split(sparse, ["x", "y"], by=["n", "s"])]).tolist() == X.tolist()


def test_a_cell_that_is_no_number_is_shown():
    with pytest.raises(InputError, match=r"site 'a': X must be numbers .column '1', row 1: '<3', 1 of 2 cells"):
        SiteData("a", [[1, "2"], [3, "<3"]], ["x", "y"])
    with pytest.raises(InputError, match="site 'a': X must be numbers"):
        SiteData("a", [[1, 2], [3]], ["x", "y"])
    pandas = pytest.importorskip("pandas")
    with pytest.raises(InputError, match=r"column 'crp', row 0: '1,5'.*write 1.5"):
        SiteData("a", pandas.DataFrame({"age": [1, 2], "crp": ["1,5", "2"]}), ["x", "y"])


def test_a_table_is_kept_as_it_came_and_made_dense_once():
    from scipy.sparse import csr_matrix

    X = np.array([[0.0, 2.0], [3.0, 0.0]], np.float32)
    site = SiteData("a", csr_matrix(X), ["x", "y"])
    assert (site.table.format, site.table.dtype, site.shape, len(site)) == ("csr", np.float32, (2, 2), 2)
    assert "X" not in vars(replace(site, y=["u", "v"]))
    assert site.X is site.X
    assert site.X.dtype == np.float64
    assert replace(site, X=[[1.0]], y=["z"]).X.tolist() == [[1.0]]
    small = SiteData("b", X, ["x", "y"])
    assert small.table is X
    assert (small.X.dtype, small.X.tolist()) == (np.float64, X.tolist())
    with pytest.raises(AttributeError):
        site.y = np.zeros(2)


def test_rows_are_called_as_the_frame_calls_them():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age": [1.0, 2.0, 3.0]}, index=["p7", "p8", "p9"])
    site = SiteData("a", frame, ["x", "y", "x"], groups=[1, 1, 2])
    assert site.take([2, 0]).index.tolist() == ["p9", "p7"]
    assert site.take([2, 0]).groups.tolist() == [2, 1]
    assert [part.index.tolist() for part in split(frame, ["x", "y", "x"], by=["n", "s", "n"])] == [
        ["p7", "p9"],
        ["p8"],
    ]
    assert SiteData("a", frame.reset_index(drop=True), ["x", "y", "x"]).index is None
    assert SiteData("a", frame.to_numpy(), ["x", "y", "x"], index=["u", "v", "w"]).index.tolist() == [
        "u",
        "v",
        "w",
    ]
    for what in ("index", "groups", "row_numbers"):
        with pytest.raises(
            InputError, match=rf"site 'a': {what.replace('_', ' ')} of shape \(2,\) for 3 rows; wanted one each"
        ):
            SiteData("a", frame, ["x", "y", "x"], **{what: [1, 2]})
    with pytest.raises(InputError, match="wanted rows X and one label per row"):
        SiteData("a")


def test_groups_go_with_their_rows():
    site = SiteData("a", [[1.0], [2.0], [3.0]], ["x", "y", "x"], groups=["p", "q", "p"])
    assert site.take([2, 1]).groups.tolist() == ["p", "q"]
    assert site.relabel({"x": "1", "y": "2"}).groups.tolist() == ["p", "q", "p"]
    with pytest.raises(InputError, match=r"groups of shape \(2,\) for 3 rows; wanted one each"):
        SiteData("a", [[1.0], [2.0], [3.0]], ["x", "y", "x"], groups=["p", "q"])


def test_some_rows_are_all_or_so_many_that_are_drawn():
    site = SiteData("a", np.arange(20.0).reshape(10, 2), np.arange(10) % 2)
    assert site.some(10) is site
    few = site.some(4)
    assert len(few) == 4
    assert (np.diff(few.X[:, 0]) > 0).all()  # in the order of the table
    assert np.array_equal(few.X, site.some(4).X)
    assert few.row_numbers.tolist() == (few.X[:, 0] / 2).astype(int).tolist()


def test_labels_are_counted_once_and_nobody_can_change_them():
    site = SiteData("a", np.zeros((4, 1)), ["b", "a", "", "b"])
    site.classes[0] = "z"
    assert site.classes.tolist() == ["a", "b"]
    assert site.class_counts() == {"a": 1, "b": 2}
