"""Raw tables, with their columns found by name."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.data.sites import SiteData
from fedgeom.data.tables import Table
from fedgeom.errors import InputError
from fedgeom.federation.preparation import Picker, read_raw
from fedgeom.federation.steps import Columns

WANTED = Columns(width=3, names=("w", "x", "y"), categories={0: ("", "u")}, together=(0,))


def site(X, columns, **words):
    return SiteData("s", np.array(X, float), np.zeros(len(X)), columns=columns, categories=words)


def test_words_get_their_joint_numbers_and_columns_their_order():
    own = site([[1, 0, 7, 8], [2, 1, 7, 8], [3, np.nan, 7, 8]], ("x", "w", "more", "y"), w=("u", "v"))
    found = Picker(own, WANTED).pick(own.table)
    np.testing.assert_array_equal(found[:, 0], [1, 2, 0])  # known, another, empty
    np.testing.assert_array_equal(found[:, 1:], [[1, 8], [2, 8], [3, 8]])
    assert own.X[1, 1] == 1  # the site's own table is as it was


def test_a_missing_column_is_an_error_unless_it_is_filled_in():
    own = site([[0, 5]], ("w", "x"), w=("u",))
    with pytest.raises(InputError, match="missing: 'y'"):
        Picker(own, WANTED)
    np.testing.assert_array_equal(Picker(own, WANTED, fill=True).pick(own.table), [[1, 5, np.nan]])


def test_text_where_numbers_were_learnt_from_is_refused():
    own = site([[0, 0, 1]], ("w", "x", "y"), w=("u",), x=("old",))
    with pytest.raises(InputError, match="hold text, but numbers were learnt from: 'x'"):
        Picker(own, WANTED)


def test_numbers_can_stand_for_words():
    wanted = Columns(width=1, names=("code",), categories={0: ("1", "2")})
    own = site([[2], [1], [9]], ("code",))
    np.testing.assert_array_equal(Picker(own, wanted).pick(own.table)[:, 0], [1, 0, np.nan])


def test_without_names_columns_are_counted():
    with pytest.raises(InputError, match="4 columns without names given; wanted 3"):
        Picker(site([[1, 2, 3, 4]], ()), Columns(width=3))
    with pytest.raises(InputError, match="so it wants names"):
        Picker(site([[1, 2, 3]], ()), WANTED)


def test_tables_and_arrays_are_read():
    assert read_raw(Table(np.ones((2, 3)), None, ("a", "b", "c")), WANTED).columns == ("a", "b", "c")
    assert read_raw([[1.0, 2.0]], WANTED).shape == (1, 2)
    with pytest.raises(InputError, match="wanted rows and columns"):
        read_raw([1.0], WANTED)
