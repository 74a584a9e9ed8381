"""Categories as columns, as scikit-learn makes them of pooled rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.preprocessing import OneHotEncoder

from fedgeom.data.sites import SiteData
from fedgeom.preparation import OneHot, fit_plain
from tests.preparation.raw import WORDS, clinical, pooled


def words_of(sites):
    cells = pooled(sites)[:, 3]
    return np.array([WORDS[int(c)] if np.isfinite(c) else "missing" for c in cells], object)[:, None]


def test_categories_are_those_of_pooled_rows_and_rare_ones_are_together():
    sites = clinical()
    made = fit_plain([OneHot(min_rows=10)], sites)
    assert made.columns.names == ("age", "crp", "bmi", "ward is missing", "ward = a", "ward = b", "ward = c")
    assert fit_plain([OneHot(min_rows=5)], sites).columns.names[-1] == "ward = c"  # four rows of "z" are too few
    encoder = OneHotEncoder(sparse_output=False, min_frequency=2).fit(words_of(sites))
    exact = fit_plain([OneHot(min_rows=2)], sites)
    found = pooled([exact.transform(s) for s in sites])[:, 3:]
    wanted = encoder.transform(words_of(sites))
    order = [list(encoder.categories_[0]).index(word) for word in ("missing", "a", "b", "c", "z")]
    np.testing.assert_array_equal(found, wanted[:, order])


def test_rare_words_share_a_column_where_they_are_enough_together():
    sites = clinical()
    for site in sites:
        site.table[:6, 3] = 3
    made = fit_plain([OneHot(min_rows=25)], sites)
    assert made.columns.names[-1] == "ward is another" if "ward = z" not in made.columns.names else True
    lonely = SiteData(
        "new", [[1.0, 2.0, 3.0, 0.0]], ["ill"], columns=sites[0].columns, categories={"ward": ("new",)}
    )
    assert made.transform(lonely).X[0, 3:].sum() == (made.columns.names[-1] == "ward is another")


def test_numbers_can_be_categories():
    sites = [
        SiteData(
            f"s{i}", np.tile([[1.0, 0.5], [2.0, 0.1], [4.0, 0.2]], (5, 1)), np.zeros(15), columns=("code", "x")
        )
        for i in range(3)
    ]
    made = fit_plain([OneHot(columns=("code",))], sites)
    assert made.columns.names == ("x", "code = 1", "code = 2", "code = 4")
    np.testing.assert_array_equal(made.transform(sites[0]).X[:3, 1:], np.eye(3))


def test_free_text_and_columns_of_two_kinds_are_left_out():
    sites = clinical()
    assert fit_plain([OneHot(max_categories=2)], sites).columns.names == ("age", "crp", "bmi")
    sites[1] = SiteData("s1", sites[1].X, sites[1].y, columns=sites[1].columns)  # numbers, where others have words
    assert fit_plain([OneHot()], sites).columns.names == ("age", "crp", "bmi")


def test_a_site_that_never_filled_a_column_in_has_only_empty_cells():
    sites = clinical()
    empty = sites[3].X.copy()
    empty[:, 3] = np.nan
    sites[3] = SiteData("s3", empty, sites[3].y, columns=sites[3].columns)
    made = fit_plain([OneHot(min_rows=1)], sites)
    assert "ward = a" in made.columns.names
    at = made.columns.names.index("ward is missing")
    assert made.transform(sites[3]).X[:, at].all()


@pytest.mark.parametrize("columns", [("code", "code"), ()])
def test_columns_are_named_once(columns):
    with pytest.raises(ValueError, match="all different"):
        OneHot(columns=columns)
