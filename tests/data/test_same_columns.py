"""Sites learn together on the same columns: one order, or those that all have."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from fedgeom.data.same_columns import same_columns, shared_columns
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError


def test_columns_are_brought_into_one_order():
    a = SiteData("a", [[1, 2]], ["u"], columns=("x", "y"))
    b = SiteData("b", [[2, 1]], ["v"], columns=("y", "x"))
    c = SiteData("c", [[3, 4]], ["v"])
    same = same_columns([a, b, c])
    assert [site.X.tolist() for site in same] == [[[1, 2]], [[1, 2]], [[3, 4]]]
    with pytest.raises(InputError, match="'d' has other columns than 'a': it lacks 'y' and has 'z'"):
        same_columns([a, SiteData("d", [[1, 2]], ["u"], columns=("x", "z"))])


def test_sites_that_differ_are_told_how_many_columns_they_share():
    north = SiteData("n", np.zeros((1, 300)), ["u"], columns=[f"g{i}" for i in range(300)])
    south = SiteData("s", np.zeros((1, 300)), ["u"], columns=[f"g{i}" for i in range(50, 350)])
    with pytest.raises(
        InputError, match=r"and 38 more instead\. 250 columns are at all sites: keep these alone with"
    ):
        same_columns([north, south])
    assert [site.columns for site in shared_columns([north, south])] == [
        tuple(f"g{i}" for i in range(50, 300))
    ] * 2


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
