"""Which columns and categories sites go on with."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.preparation import (
    UNNAMED,
    SiteColumns,
    agree,
    category_floors,
    joint_columns,
    own_columns,
    own_counts,
    uses_union,
)
from fedgeom.preparation import Impute, OneHot, Scale
from tests.preparation.raw import clinical


def told(*sites):
    return {site.name: own_columns(site, [OneHot()], 0) for site in sites}


def test_a_word_that_few_rows_have_is_not_named_to_others():
    own = own_columns(clinical()[0], [OneHot()], 3)
    assert "z" not in own.words["ward"]
    assert own.counts["ward"][UNNAMED] == 1
    assert own.told().counts == {}
    assert UNNAMED not in own.told().words["ward"]


def test_what_all_have_is_joint_or_what_any_has():
    one = SiteData("a", [[1.0, 2.0]], ["x"], columns=("p", "q"))
    other = SiteData("b", [[1.0, 2.0]], ["x"], columns=("r", "p"))
    assert agree(told(one, other), union=False).names == ("p",)
    assert agree(told(one, other), union=True).names == ("p", "q", "r")
    with pytest.raises(ProtocolError, match="no column in common"):
        agree(told(one, SiteData("c", [[1.0]], ["x"], columns=("z",))), union=False)


def test_columns_without_names_go_by_their_number():
    plain = [SiteData(name, np.zeros((2, 3)), ["x", "y"]) for name in "ab"]
    assert agree(told(*plain), union=False).width == 3
    with pytest.raises(ProtocolError, match="no names"):
        agree(told(plain[0], SiteData("c", np.zeros((2, 4)), ["x", "y"])), union=False)


def test_a_list_that_does_not_fit_together_is_refused():
    bad = SiteColumns(width=2, names=("p", "q"), kinds=b"\x00")
    with pytest.raises(ProtocolError, match="do not fit together"):
        agree({"a": bad, "b": bad}, union=False)


def test_floors_decide_which_words_are_named():
    sites = clinical()
    lists = told(*sites)
    agreed = agree(lists, union=False)
    counts = np.array([own_counts(agreed, lists[site.name], len(site)) for site in sites])
    assert counts.sum() == sum(map(len, sites))
    many = joint_columns(agreed, (counts > 0).sum(axis=0), counts.sum(axis=0), (1, 1))
    assert many.categories[3] == ("", "a", "b", "c", "z")
    few = joint_columns(agreed, (counts > 0).sum(axis=0), counts.sum(axis=0), (1, 5))
    assert few.categories[3] == ("", "a", "b", "c")
    assert few.together == ()  # four rows are too few for a column of their own
    none = joint_columns(agreed, (counts > 0).sum(axis=0), counts.sum(axis=0), (5, 1))
    assert none.together == (3,)


def test_terms_and_policies_both_have_floors():
    assert category_floors([OneHot(min_rows=4, min_sites=2)], (3, 1)) == (3, 4)
    assert category_floors([Scale()], (1, 1)) == (1, 1)
    assert uses_union([Impute(absent="union")])
    assert not uses_union([Impute()])


def test_a_name_that_cannot_travel_is_refused():
    with pytest.raises(InputError, match="rename it"):
        own_columns(SiteData("a", [[1.0]], ["x"], columns=("p\x1b",)), [Scale()], 0)
