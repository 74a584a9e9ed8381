"""A table as it came, and as dense rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import coo_array, csc_matrix, csr_array, csr_matrix

from fedgeom.data import rows
from fedgeom.data.rows import as_rows, dense, no_gaps, not_finite, shared_gap_check
from fedgeom.errors import InputError

X = np.array([[0.0, 2.0], [3.0, 0.0], [0.0, 0.0]])


@pytest.mark.parametrize("kind", [csr_array, csr_matrix, csc_matrix, coo_array])
def test_what_is_sparse_stays_sparse(kind):
    found = as_rows(kind(X.astype(np.float32)), "it")
    assert isinstance(found, csr_array)
    assert found.dtype == np.float32
    assert dense(found, "it").tolist() == X.tolist()
    assert dense(found, "it").dtype == np.float64


def test_nothing_is_copied_without_need():
    sparse = csr_matrix(X)
    assert np.shares_memory(as_rows(sparse, "it").data, sparse.data)
    assert as_rows(X, "it") is X
    assert dense(X, "it") is X


@pytest.mark.parametrize(
    ("given", "kept"), [("f4", "f4"), ("u1", "u1"), ("?", "?"), ("f8", "f8"), ("i8", "f8"), ("g", "f8")]
)
def test_small_numbers_keep_their_type(given, kept):
    assert as_rows(X.astype(given), "it").dtype == np.dtype(kept)
    assert as_rows([[1, 2]], "it").dtype == np.float64


def test_a_sparse_table_of_other_things_is_refused():
    with pytest.raises(InputError, match="it: X must be numbers; a sparse table of complex128"):
        as_rows(csr_array(X.astype(complex)), "it")


def test_cells_that_are_not_finite_are_found_where_they_are():
    bad = X.copy()
    bad[2, 0], bad[0, 1], bad[2, 1] = np.nan, np.inf, -np.inf
    where = [[0, 1], [2, 0], [2, 1]]
    for table in (bad, bad.astype(np.float32), csr_array(bad), as_rows(csc_matrix(bad), "it")):
        assert not_finite(table).tolist() == where
    for table in (X, csr_array(X), X.astype(np.uint8), csr_array(X.astype(np.uint8))):
        assert not_finite(table).shape == (0, 2)


def test_a_table_too_large_is_refused_with_the_bytes_and_what_to_do(monkeypatch):
    monkeypatch.setattr(rows, "free_memory", lambda: 2**30)
    large = csr_array((100_000, 25_000), dtype=np.float32)
    with pytest.raises(
        InputError, match=r"it: 100,000 rows × 25,000 columns need 18\.6 GiB .*; 1\.0 GiB are free\. Choose fewer"
    ):
        dense(large, "it")
    monkeypatch.setattr(rows, "free_memory", lambda: None)  # where nobody knows, the allocation itself says it
    with pytest.raises(InputError, match="more than there is"):
        dense(csr_array((2**22, 2**25), dtype=np.float32), "it")


def test_large_numbers_whose_sum_overflows_are_finite():
    rows = np.full((3, 2), 1e308)
    assert len(not_finite(rows)) == 0
    rows[1, 1] = np.nan
    assert not_finite(rows).tolist() == [[1, 1]]
    assert not_finite(csr_array(rows)).tolist() == [[1, 1]]


def test_within_a_run_a_table_without_gaps_is_looked_at_once():
    table = np.ones((4, 2))
    with shared_gap_check():
        assert no_gaps(table)
        table[0, 0] = np.nan
        assert no_gaps(table)  # the very same array: it was looked at
        assert not no_gaps(table.copy())
        assert not no_gaps(table[:1])
    assert not no_gaps(table)
    with shared_gap_check():
        assert not no_gaps(table)
        table[0, 0] = 1.0
        assert no_gaps(table)  # gaps are not remembered


def test_another_table_in_the_same_place_is_looked_at():
    with shared_gap_check():
        for value in (1.0, np.nan, np.inf, 2.0):
            assert no_gaps(np.full((3, 3), value)) == np.isfinite(value)
