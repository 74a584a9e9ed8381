"""Finding anchors from sums: cells and anchors follow from what was added up, and from nothing else."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from fedgeom import XCLP
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.messages import Array
from fedgeom.geometry.graphs.anchors import cell_counts, cell_sums, fit_anchors, unit_rows
from fedgeom.methods.xclp.anchors import AnchorFit, AnchorPlan
from fedgeom.methods.xclp.core import shared_seed

X = np.random.default_rng(0).normal(size=(60, 4))


def plan(**settings: int) -> AnchorPlan:
    return AnchorPlan.of(XCLP(graph="anchors", **settings), 7, (1, 1), 4)  # type: ignore[arg-type]


def sizes(fit: AnchorFit, how: AnchorPlan, rows: np.ndarray) -> np.ndarray:
    counts = cell_counts(fit.deal(rows, how), fit.cells(how))
    return np.concatenate([counts, counts > 0]).astype(float)


def sums(fit: AnchorFit, how: AnchorPlan, rows: np.ndarray) -> np.ndarray:
    cells = fit.deal(rows, how)
    inside, kept = cells >= 0, fit.sums()
    return np.concatenate(
        [cell_counts(cells[inside], kept), cell_sums(rows[inside], cells[inside], kept).ravel()]
    ).astype(float)


@pytest.mark.parametrize(("anchors", "rounds", "min_cell"), [(8, 3, 1), (40, 4, 3), (5, 1, 2), (3, 2, 60)])
def test_step_by_step_it_is_the_loop_on_pooled_rows(anchors: int, rounds: int, min_cell: int) -> None:
    how, fit = plan(n_anchors=anchors, n_rounds=rounds, min_cell=min_cell), AnchorFit()
    fit.take(np.concatenate([[len(X)], unit_rows(X).sum(axis=0)]), how)
    for _ in range(rounds):
        with pytest.raises(ProtocolError, match="not settled yet"):
            fit.finished(how)
        fit.take(sizes(fit, how, X), how)
        fit.take(sums(fit, how, X), how)
        fit = msgspec.msgpack.decode(msgspec.msgpack.encode(fit), type=AnchorFit)  # as between two questions
    wanted = fit_anchors([X], anchors, shared_seed(7), rounds=rounds, least=min_cell)
    np.testing.assert_allclose(fit.finished(how), wanted, atol=1e-12)


def test_rows_are_dealt_to_the_nearest_anchor() -> None:
    rows = np.array([[2.0, 0.1, 0.0], [0.0, 3.0, 0.0], [0.1, 0.0, 1.0]])
    assert AnchorFit(anchors=Array.of(np.eye(3))).deal(rows, plan()).tolist() == [0, 1, 2]


def test_first_cells_follow_from_the_mean_and_the_seed_and_are_numbered_anew_where_small_ones_go() -> None:
    how, fit = plan(n_anchors=6), AnchorFit(mean=Array.of(np.zeros(4)))
    found = fit.deal(X, how)
    assert set(found.tolist()) <= set(range(6))
    other = AnchorPlan.of(XCLP(graph="anchors", n_anchors=6), 8, (1, 1), 4)
    assert not np.array_equal(found, fit.deal(X, other))
    some = AnchorFit(mean=Array.of(np.zeros(4)), kept=Array.of(np.array([2, 4], np.int32)))
    assert some.deal(X, how).tolist() == [{2: 0, 4: 1}.get(cell, -1) for cell in found.tolist()]
    with pytest.raises(ProtocolError, match="before their mean is known"):
        AnchorFit().deal(X, how)


def test_small_cells_and_cells_of_few_sites_are_left_out() -> None:
    how = AnchorPlan(anchors=4, rounds=2, min_cell=5, min_sites=3, seed=bytes(32), columns=2)
    fit = AnchorFit(taken=1, mean=Array.of(np.zeros(2)))
    fit.take(np.array([9.0, 9.0, 4.0, 0.0, 3.0, 2.0, 3.0, 0.0]), how)
    assert fit.kept is not None
    assert fit.kept.numpy().tolist() == [0]
    with pytest.raises(InputError, match="no cluster has 5 rows of 3 sites"):
        AnchorFit(taken=1, mean=Array.of(np.zeros(2))).take(np.array([4.0, 9, 9, 9, 4, 2, 2, 2]), how)


def test_cells_are_summed_only_after_they_were_counted() -> None:
    with pytest.raises(ProtocolError, match="only after the small ones were left out"):
        AnchorFit(taken=1, mean=Array.of(np.zeros(2))).sums()
