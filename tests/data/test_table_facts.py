"""Facts on a table's columns: the same whether the rows are looked at at once or in blocks."""

from __future__ import annotations

import numpy as np
import pytest

from fedgeom.data import validation
from fedgeom.data.sites import SiteData
from fedgeom.data.validation import CACHED, TableFacts

look = validation._look_at


@pytest.mark.parametrize("block", [1, 7, 10**6])
def test_facts(block, monkeypatch):
    monkeypatch.setattr(validation, "BLOCK", block)
    X = np.random.default_rng(0).normal(1e6, 2.0, size=(23, 4))
    X[:, 1] = 7.0
    X[:, 2] = np.arange(23)
    X[3, 0] = np.nan
    X[5, 2] = np.inf
    facts = TableFacts.of(SiteData("s", X, np.zeros(23)))
    good = np.where(np.isfinite(X), X, np.nan)
    np.testing.assert_allclose(facts.low, np.nanmin(good, axis=0))
    np.testing.assert_allclose(facts.high, np.nanmax(good, axis=0))
    np.testing.assert_allclose(facts.spread, np.nanstd(good, axis=0), rtol=1e-9)
    assert facts.finite.tolist() == [22, 23, 22, 23]
    assert facts.zeros.tolist() == [0, 0, 1, 0]
    assert facts.constant.tolist() == [False, True, False, False]
    assert facts.whole.tolist() == [False, True, True, False]
    assert facts.sparsity == 1 / 90
    sums = np.where(np.isfinite(X), X, 0.0).sum(axis=1)
    assert facts.depths == (pytest.approx(sums.min()), pytest.approx(sums.max()))


def test_a_column_without_any_number_is_not_constant():
    facts = TableFacts.of(SiteData("s", [[np.nan, 1.0], [np.nan, 1.0]], ["a", "b"]))
    assert facts.constant.tolist() == [False, True]
    assert facts.spread.tolist() == [0.0, 0.0]


def test_a_table_without_rows():
    facts = TableFacts.of(SiteData("s", np.zeros((0, 2)), []))
    assert (facts.rows, facts.constant.any(), facts.sparsity) == (0, False, 0.0)


def test_tables_of_many_blocks_with_gaps_and_without():
    """Against looking at all cells at once: blocks that are all finite take a shorter way."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (3 * CACHED // 5, 5)).astype(float)
    X[:, 1] += 0.5
    X[3, 2], X[7, 2], X[9, 0], X[-1, 4] = np.nan, np.inf, -np.inf, np.nan
    facts, good = TableFacts.of_table(X, "a"), np.isfinite(X)
    assert facts.zeros.tolist() == ((X == 0) & good).sum(axis=0).tolist()
    assert facts.finite.tolist() == good.sum(axis=0).tolist()
    assert facts.whole.tolist() == [True, False, True, True, True]
    assert (facts.low.tolist(), facts.high.tolist()) == ([0, 0.5, 0, 0, 0], [2, 2.5, 2, 2, 2])
    assert facts.spread == pytest.approx([X[good[:, j], j].std() for j in range(5)])


@pytest.mark.parametrize("place", [0, 3 * CACHED // 5 - 1])
def test_what_the_first_rows_tell_is_what_all_rows_tell(place):
    """A value that decides may stand in the first row or in the last one."""
    X = np.ones((3 * CACHED // 5, 5))
    X[place] = [-1.0, 0.5, 2.0, 1.0, 0.0]
    facts = TableFacts.of_table(X, "a")
    assert facts.negative
    assert facts.whole.tolist() == [True, False, True, True, True]
    assert facts.constant.tolist() == [False, False, False, True, False]
    assert facts.finite.tolist() == [len(X)] * 5
    assert not TableFacts.of_table(np.abs(X), "a").negative


def test_a_table_that_varies_is_not_looked_at_cell_by_cell(monkeypatch):
    X = np.random.default_rng(0).standard_normal((5000, 3))
    looked = []
    monkeypatch.setattr(validation, "_look_at", lambda rows, where: looked.append(len(rows)) or look(rows, where))
    facts = TableFacts.of_table(X, "a")
    assert facts.negative
    assert facts.finite.all()
    assert not facts.whole.any()
    assert not facts.constant.any()
    assert looked == [validation.FIRST]
    assert facts.low.tolist() == X.min(axis=0).tolist()
    assert looked == [validation.FIRST, len(X)]
