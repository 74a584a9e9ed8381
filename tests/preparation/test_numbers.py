"""Numbers of any size in sums, and sums of blocks."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from fedgeom.preparation.quantiles import as_dense, column_sums, from_deep, small_type, square_sums, to_deep


@pytest.mark.parametrize("unit", [1e-18, 1e-9, 1.0, 1e9, 1e16])
def test_deep_numbers_keep_their_digits(unit):
    values = unit * np.random.default_rng(0).normal(size=(5, 7))
    total = np.add.reduce(np.array([to_deep(row, sites=5) for row in values]), axis=0, dtype=np.uint64)
    np.testing.assert_allclose(from_deep(total), values.sum(axis=0), rtol=1e-6, atol=1e-22)


@pytest.mark.parametrize("kind", [np.uint16, np.int64, np.float32, np.float64])
def test_sums_of_sparse_and_dense_blocks_are_the_same(kind):
    X = np.random.default_rng(0).integers(0, 5, (6, 4)).astype(kind)
    for block in (X, sp.csr_array(X)):
        np.testing.assert_allclose(column_sums(block), X.sum(axis=0))
        np.testing.assert_allclose(square_sums(block), (X.astype(float) ** 2).sum(axis=0))
        assert as_dense(block).dtype == small_type(block) == (np.float64 if X.itemsize == 8 else np.float32)
