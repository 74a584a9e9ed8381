"""What kind of numbers columns have, and rows to predict that are of another kind."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.data.columns import check_kinds, kinds_of, read_kinds, write_kinds
from fedgeom.data.validation import TableFacts
from fedgeom.errors import InputError


def facts(rows) -> TableFacts:
    return TableFacts.of_table(np.asarray(rows, np.float64), "X")


def table(n=60):
    """Return rows with a flag, whole numbers and fractions."""
    at = np.arange(n)
    return np.column_stack([at % 2, at, at / 7])


def counts(n=60, columns=80):
    return np.random.default_rng(0).poisson(0.7, (n, columns)).astype(np.float64)


def test_a_column_is_of_the_widest_kind_that_any_site_has() -> None:
    assert kinds_of([facts(table())]) == ("flag", "whole", "number")
    other = table()
    other[3, 0], other[4, 1] = 2, 0.5
    assert kinds_of([facts(table()), facts(other)]) == ("whole", "number", "number")
    assert kinds_of([]) == ()


def test_a_few_rows_and_counts_of_molecules_make_no_flag() -> None:
    assert kinds_of([facts(table(20))])[0] == "whole"
    rare = counts()
    rare[:, 0] = np.arange(len(rare)) % 2
    assert set(kinds_of([facts(rare)])) == {"whole"}


def test_gaps_say_nothing_of_the_kind() -> None:
    rows = table()
    rows[5, :] = np.nan
    assert kinds_of([facts(rows)]) == ("flag", "whole", "number")


def test_kinds_are_a_letter_each_in_a_file() -> None:
    assert write_kinds(("flag", "whole", "number")) == "fwn"
    assert read_kinds("fwn") == ("flag", "whole", "number")
    assert read_kinds("fq") == ("flag", "number")  # a later version's
    with pytest.raises(InputError, match="no text"):
        read_kinds(["f"])


def test_another_coding_of_a_flag_is_refused_by_name_row_and_value() -> None:
    rows = np.array([[1.0, 3.0], [2.0, 3.5]])
    kinds = ("flag", "whole")
    with pytest.raises(InputError, match=r"f.csv: .*column 'sex', row 3: 2, 1 of 2 cells are neither 0 nor 1"):
        check_kinds(rows, ("sex", "age"), kinds, "f.csv", first_row=2)
    check_kinds(rows[:1], ("sex", "age"), kinds, "f.csv")
    check_kinds(np.array([[1, 3.5]]), ("sex", "age"), kinds, "X")  # a fraction is the same quantity
    check_kinds(rows, ("sex", "age"), (), "X")
    check_kinds(rows[:0], ("sex", "age"), kinds, "X")


def test_counts_where_logarithms_were_learnt_and_the_other_way_round() -> None:
    rows = counts()
    names = [f"gene {i}" for i in range(rows.shape[1])]
    learnt = kinds_of([facts(np.log1p(rows))])
    with pytest.raises(InputError, match=r"looks like raw counts .*learnt from fractions in 80 of 80 columns"):
        check_kinds(rows[:1], names, learnt, "X")
    check_kinds(np.log1p(rows[:1]), names, learnt, "X")
    with pytest.raises(InputError, match=r"looks like logarithms .*learnt from whole numbers in 80 of 80 columns"):
        check_kinds(np.log1p(rows[:3]), names, kinds_of([facts(rows)]), "X")
    check_kinds(rows[:1], names, kinds_of([facts(rows)]), "X")


def test_a_gap_is_named_by_row_and_column() -> None:
    """ "X has shape (18, 4); wanted finite rows of 4 columns" was all that was said."""
    rows = np.array([[1.0, 3.0], [0.0, np.nan], [np.nan, np.inf]])
    with pytest.raises(
        InputError, match=r"f.csv: 3 cells are empty or no finite numbers, .*row 3, column 'age'; fill"
    ):
        check_kinds(rows, ("sex", "age"), ("flag", "whole"), "f.csv", first_row=2)
