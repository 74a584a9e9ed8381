"""What every method asks of a site's table; each error names the site."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.data.sites import SiteData
from fedgeom.data.split import holdout
from fedgeom.data.validation import (
    FaultsError,
    check_columns,
    check_finite,
    check_known_labels,
    check_same_names,
    check_table,
    check_two_classes,
)
from fedgeom.errors import InputError


def site(X=((1.0,), (2.0,), (3.0,)), y=("b", "a", "b"), name="north"):
    return SiteData(name, X, y)


def test_a_good_table_gives_its_names_in_order():
    assert check_table(site(), min_rows=1) == ["a", "b"]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (site(X=np.zeros((0, 1)), y=[]), "site 'north' has no rows; leave it out"),
        (
            site(X=[[1], [np.nan], [np.inf]]),
            "site 'north': row 1, column 0 is nan; row 2, column 0 is inf; finite numbers are wanted",
        ),
        (site(y=["a", "", "a"]), "site 'north': 1 of 3 rows have no label.*let XCLP find"),
        (site(), r"site 'north' has classes with fewer than 2 rows: 'a' \(1\); .*min_rows"),
    ],
)
def test_tables_that_cannot_be_used(table, message):
    with pytest.raises(InputError, match=message):
        check_table(table, min_rows=2)


def test_all_that_is_wrong_is_said_at_once():
    with pytest.raises(InputError) as caught:
        check_table(site(X=[[1.0], [np.nan], [2.0]], y=["a", "b", ""]), min_rows=2, min_rows_per_class=5)
    cells, labels, sizes = str(caught.value).splitlines()
    assert "row 1, column 0 is nan" in cells
    assert "1 of 3 rows have no label" in labels
    assert "fewer than 5 rows: 'a' (1), 'b' (1)" in sizes
    assert "min_rows_per_class" in sizes


def test_of_many_gaps_the_first_are_named_and_the_others_counted():
    X = np.ones((100, 3))
    X[10:90, 1] = np.nan
    X[4:10, 2] = np.inf
    with pytest.raises(FaultsError) as caught:
        check_finite(SiteData("north", X, np.zeros(100), columns=("age", "ca", "thal")))
    (found,) = caught.value.findings
    assert found.what.startswith(
        "86 cells in 86 of 100 rows and 2 of 3 columns are no finite numbers, most in 'ca' (80), 'thal' (6); "
        "the first: row 4, column 'thal' is inf; row 5, column 'thal' is inf; row 6"
    )
    assert found.what.endswith("; mostly empty: 'ca'")
    assert found.sites == ("north",)
    assert found.topic == "gaps"


def test_rows_and_columns_are_called_as_where_they_came_from():
    X = np.zeros((60, 2))
    X[50, 1] = np.nan
    whole = SiteData("north", X, np.repeat(["a", "b"], 30), columns=("age", "dose"))
    for seed in range(3):
        kept, aside = holdout(whole, 0.3, seed)
        (part,) = [part for part in (kept, aside) if not np.isfinite(part.X).all()]
        with pytest.raises(InputError, match="row 50, column 'dose' is nan"):
            check_finite(part)


def test_rows_without_a_label_may_be_finite():
    check_finite(site(y=["", "", ""]))


def test_labels_outside_the_agreed_classes():
    check_known_labels("north", ["a"], ["a", "b"])
    check_known_labels("north", ["anything"], None)
    with pytest.raises(InputError, match="site 'north': labels outside the agreed classes: c, d"):
        check_known_labels("north", iter(["d", "a", "c"]), ["a", "b"])
    with pytest.raises(FaultsError) as caught:
        check_known_labels("north", [*"abcdefghijklm", "x\ny"], ["a", "b"])
    odd, unknown = caught.value.findings
    assert "'x\\ny' cannot be a label" in odd.what
    assert unknown.what == "labels outside the agreed classes: c, d, e, f, g, h, i, j and 4 more"
    assert unknown.remedy == "rename them, or add them to `classes`, which has 'a', 'b'"


def test_columns_must_be_as_many_everywhere():
    check_columns({"n": 3, "s": 3})
    with pytest.raises(InputError, match="most have 3, but site 'e' has 2, 'w' has 4"):
        check_columns({"n": 3, "w": 4, "s": 3, "e": 2})


def test_two_classes_over_all_sites():
    lone = site(y=["a", "a", "a"])
    assert check_two_classes([lone, site()]) == {"a", "b"}
    with pytest.raises(InputError, match="one class, a; a classifier needs two"):
        check_two_classes([lone, lone])


@pytest.mark.parametrize("label", ["a\nb", "\x1b[2J", "a\u202eb", ""])
def test_labels_that_others_learn_have_no_control_characters(label):
    with pytest.raises(InputError, match="none of them control characters: rename it"):
        check_known_labels("a", ["fine", label], None)
    check_known_labels("a", ["T-Zelle β", "a\u00a0b"], None)


@pytest.mark.parametrize("name", ["anna\n", "\x1b[2J", "a\u2066b"])
def test_a_sites_name_is_one_line_without_control_characters(name):
    with pytest.raises(InputError, match="one line without control characters"):
        SiteData(name, np.zeros((1, 1)), np.array(["x"]))


def test_known_names_must_be_the_same():
    check_same_names({"a": b"", "b": b"1", "c": b"1"})
    with pytest.raises(InputError, match=r"those of site 'c' differ from those of 2 others.*in site.toml"):
        check_same_names({"a": b"1", "b": b"1", "c": b"2", "d": b""})
