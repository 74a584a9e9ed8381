"""A site's table: labels, splitting, and how it shows itself."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.data.holding_out import holdout
from fedgeom.data.sites import SiteData, split
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


def test_every_row_goes_to_one_site():
    X, y = np.arange(60.0)[:, None], np.repeat(["a", "b", "c"], 20)
    for sites in (
        split(X, y, 7),
        split(X, y, 7, "dirichlet", alpha=0.1),
        split(X, y, how="by", by=np.arange(60) % 7),
    ):
        assert len(sites) == 7
        assert sorted(np.concatenate([site.X[:, 0] for site in sites])) == X[:, 0].tolist()
        for site in sites:
            assert (site.y == y[site.X[:, 0].astype(int)]).all()
    even = [list(site.class_counts().values()) for site in split(X, y, 4)]
    assert even == [[5, 5, 5]] * 4


def test_seeds_names_and_extras_of_a_split():
    X, y = np.arange(30.0)[:, None], [0, 1] * 15
    for how in ("iid", "dirichlet"):
        one, same, other = (np.concatenate([s.X for s in split(X, y, 3, how, seed)]) for seed in (1, 1, 2))
        assert np.array_equal(one, same)
        assert not np.array_equal(one, other)
    assert [site.name for site in split(X, y, 10)] == [f"site-{i:02d}" for i in range(1, 11)]
    assert [site.name for site in split(X, y, how="by", by=["n", "s"] * 15)] == ["n", "s"]
    first = split(X, y, 2, names=["a", "b"], extra={"twice": 2 * X[:, 0]})[0]
    assert first.name == "a"
    assert (first.extra["twice"] == 2 * first.X[:, 0]).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"n_sites": 0}, r"n_sites=0 given for 4 rows; wanted 1 … 4"),
        ({"n_sites": 5}, "n_sites=5"),
        ({"how": "random"}, 'how=.random. given; wanted "iid", "dirichlet" or "by"'),
        ({"how": "dirichlet", "alpha": 0}, "alpha=0 given"),
        ({"how": "by"}, "needs `by`"),
        ({"how": "by", "by": [1]}, "needs `by`"),
        ({"names": ["a"]}, "1 names were given for 2 sites"),
        ({"y": [1]}, "4 rows but 1 labels"),
    ],
)
def test_splits_that_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        split(**{"X": np.zeros((4, 1)), "y": [0, 0, 1, 1], "n_sites": 2, **given})


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


def test_by_alone_says_how_to_split_and_contradictions_are_refused():
    X, y, donor = np.arange(12.0)[:, None], [0, 1] * 6, ["n", "s", "w"] * 4
    parts = split(X, y, by=donor)
    assert [site.name for site in parts] == ["n", "s", "w"]
    assert parts[1].X[:, 0].tolist() == [1.0, 4.0, 7.0, 10.0]
    assert [site.name for site in split(X, y, 3, by=donor)] == ["n", "s", "w"]
    for options, message in (
        ({"how": "iid"}, "how='iid' and `by` were given.*leave one of them away"),
        ({"how": "dirichlet"}, "how='dirichlet' and `by` were given"),
        ({"n_sites": 5}, "n_sites=5 given, but `by` has 3 values.*leave n_sites away"),
    ):
        with pytest.raises(InputError, match=message):
            split(X, y, by=donor, **options)
    with pytest.raises(InputError, match=r"an array of shape \(11,\) was given for 12 rows"):
        split(X, y, by=donor[:-1])
    with pytest.raises(InputError, match="nothing was given for 12 rows"):
        split(X, y, how="by")


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


def test_groups_go_with_their_rows():
    site = SiteData("a", [[1.0], [2.0], [3.0]], ["x", "y", "x"], groups=["p", "q", "p"])
    assert site.take([2, 1]).groups.tolist() == ["p", "q"]
    assert site.relabel({"x": "1", "y": "2"}).groups.tolist() == ["p", "q", "p"]
    with pytest.raises(InputError, match=r"groups of shape \(2,\); wanted one for each of 3"):
        SiteData("a", [[1.0], [2.0], [3.0]], ["x", "y", "x"], groups=["p", "q"])
