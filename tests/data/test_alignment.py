"""Whether tables fit together: columns by name, values of one kind, classes that several have."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix

from fedgeom.data.alignment import align, compare_tables, shared_columns
from fedgeom.data.sites import SiteData
from fedgeom.data.validation import TableFacts
from fedgeom.errors import InputError

RNG = np.random.default_rng(0)


def table(name, columns, rows=6, y=None):
    y = np.arange(rows) % 2 if y is None else y
    return SiteData(name, RNG.normal(size=(rows, len(columns))), y, columns=tuple(columns))


def compared(*sites):
    return compare_tables(sites, {site.name: TableFacts.of(site) for site in sites})


def test_another_order_is_put_right():
    a, b = table("a", "xyz"), table("b", "zxy")
    bare = SiteData("c", np.zeros((2, 3)), ["u", "v"])
    (first, second, third), found = align([a, b, bare])
    assert found == []
    assert first is a
    assert third is bare
    assert second.columns == ("x", "y", "z")
    np.testing.assert_array_equal(second.X, b.X[:, [1, 2, 0]])


def test_every_site_whose_columns_differ_is_named_with_what_it_lacks_and_what_it_has_instead():
    sites = [
        table("a", ["age", "bmi", "sex"]),
        table("b", ["AGE", "bmi", "sex"]),
        table("c", ["bmi", "sex", "age"]),
    ]
    sites += [table("d", ["age", "bmi"])]
    same, (of_b, of_d) = align(sites)
    assert same == sites
    assert of_b.what == (
        "has other columns than 'a': it lacks 1: 'age', and it has 1 that are not there: 'AGE'. Is it 'AGE' for 'age'? "
        "Then rename it"
    )
    assert of_b.remedy == 'rename columns alike, or use the 1 that all sites share: columns = ["bmi"]'
    assert of_d.what == "has other columns than 'a': it lacks 1: 'sex'"
    assert (of_b.sites, of_d.sites) == (("b",), ("d",))


def test_gene_sets_that_differ_are_counted_not_listed():
    """Finding 13: the message named the columns that all sites share, all 23,000 of them."""
    genes = [f"GENE{at}" for at in range(23_000)]
    other = [*genes[1000:], *(f"ens{at}" for at in range(500))]
    sites = [SiteData("a", np.zeros((1, 23_000)), ["u"], columns=tuple(genes))]
    sites += [SiteData("b", np.zeros((1, 22_500)), ["u"], columns=tuple(other))]
    _, (found,) = align(sites)
    assert "it lacks 1,000: 'GENE0', 'GENE1'" in found.what
    assert "and it has 500 that are not there: 'ens0'" in found.what
    assert "22,000 columns have the same name at all sites (of 23,000): keep these alone" in found.remedy
    assert len(str(found)) < 600


def test_without_any_shared_column():
    _, (found,) = align([table("a", "xy"), table("b", "uv")])
    assert found.remedy == "no column has the same name at all sites: rename them alike"


def test_without_names_the_number_of_columns_counts():
    sites = [SiteData(name, np.zeros((1, n)), ["u"]) for name, n in (("a", 3), ("b", 3), ("c", 4))]
    _, (found,) = align(sites)
    assert found.what == "sites must have the same columns: most have 3, but site 'c' has 4"


def test_a_column_that_one_site_did_not_measure():
    """In a well-known set of heart patients the cholesterol of one hospital is 0 in all rows."""
    a, b, c = (table(name, ["age", "chol", "gene"], rows=20) for name in "abc")
    c.X[:, 1] = 0.0
    for one in (a, b):
        one.X[:15, 2] = 0.0  # mostly 0 elsewhere, too: then 0 in all rows means little
    c.X[:, 2] = 0.0
    (found,) = compared(a, b, c)
    assert (found.level, found.sites) == ("warning", ("c",))
    assert found.what.endswith("vary at all other sites: 'chol' is 0")
    assert compared(a, b) == []


def test_columns_without_gaps_at_any_site():
    a, b = table("a", "xyz"), table("b", "xyz")
    a.X[2, 0] = np.nan
    (found,) = compared(a, b)
    assert (found.level, found.what) == ("note", "2 of 3 columns have no gap at any site: 'y', 'z'")
    assert found.remedy == 'to use these alone: columns = ["y", "z"]'
    a.X[0], b.X[0] = np.nan, np.nan
    assert compared(a, b) == []


def test_columns_that_say_nothing_anywhere():
    a, b = table("a", "xyz"), table("b", "xyz")
    for one in (a, b):
        one.X[:, 1] = 4.0
    (found,) = compared(a, b)
    assert found.what == "1 of 3 columns have the same value in all rows of all sites: 'y'"
    b.X[:, 1] = 5.0  # a constant of its own tells the sites apart, and something may be learnt
    assert compared(a, b) == []


def test_counts_here_and_logarithms_there():
    counts = RNG.poisson(0.7, size=(30, 100)).astype(float)
    sites = [SiteData("a", counts, np.arange(30) % 2), SiteData("b", np.log1p(counts * 1.1), np.arange(30) % 2)]
    found = [one for one in compared(*sites) if one.topic == "counts"]
    assert [one.what for one in found] == [
        "some tables look like raw counts (a), others like logarithms of counts (b)"
    ]


def test_classes_of_one_site_and_words_that_look_alike():
    a, b = table("a", "x", 6, list("pppqqr")), table("b", "x", 6, ["p", "p", "Q", "q", "q", "s"])
    (lone,) = [one for one in compared(a, b) if one.topic == "classes"]
    assert lone.what == "3 of 5 label names occur at one site only: 'Q' at b, 'r' at a, 's' at b"
    a, b = table("a", "x", 2, ["ill", "well"]), table("b", "x", 2, ["Ill", "well"])
    (words,) = [one for one in compared(a, b) if one.topic == "words"]
    assert words.what == "these label names look like one class: 'Ill' at b, 'ill' at a"
    assert words.sites == ()


def test_shared_columns_stay_sparse_and_belong_to_their_rows():
    a = SiteData("a", csr_array([[1.0, 0.0, 2.0]]), ["u"], columns=("x", "y", "z"))
    b = SiteData("b", np.array([[3, 4]], np.uint8), ["v"], columns=("z", "x"))
    both = shared_columns([a, b])
    assert [site.X.tolist() for site in both] == [[[1, 2]], [[4, 3]]]
    assert both[0].table.format == "csr"
    assert both[1].table.dtype == np.uint8
    with pytest.raises(InputError, match="no column is at all sites: 'a' has 'x', 'y', 'z'"):
        shared_columns([a, SiteData("c", [[1.0]], ["v"], columns=("w",))])
    with pytest.raises(InputError, match="the columns of site 'c' have no names"):
        shared_columns([a, SiteData("c", [[1.0]], ["v"])])


def test_sparse_tables_are_put_in_order_and_compared_without_becoming_dense(monkeypatch):
    counts = np.random.default_rng(0).poisson(0.3, (30, 60))
    names = [f"g{at}" for at in range(60)]
    dense = [SiteData(name, counts, np.arange(30) % 2, columns=names) for name in "ab"]
    sparse = [SiteData("a", csr_matrix(counts), np.arange(30) % 2, columns=names)]
    sparse += [SiteData("b", csr_matrix(counts[:, ::-1]), np.arange(30) % 2, columns=names[::-1])]
    wanted = [(one.what, one.level) for one in compared(*dense)]
    monkeypatch.setattr(SiteData, "X", property(lambda site: pytest.fail("it was made dense")))
    same, found = align(sparse)
    assert found == []
    assert same[1].columns == tuple(names)
    assert [(one.what, one.level) for one in compared(*same)] == wanted
