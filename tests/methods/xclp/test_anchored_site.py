"""Anchors, at the site: rows are dealt to cells, no more of them than agreed, and small ones are not summed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from fedgeom import XCLP
from fedgeom.errors import ProtocolError
from fedgeom.federation.messages import Array
from fedgeom.methods.xclp.anchor_messages import Cells, CountCells, ReadModel, SumCells, SumCodes
from fedgeom.methods.xclp.anchored_site import deal
from fedgeom.methods.xclp.model import XclpModel
from tests.methods.coordinators import hold, refusals, stamped
from tests.methods.xclp.making import cones

replace = msgspec.structs.replace
METHOD = XCLP(graph="anchors", anchors=8, rounds=3, min_cell=2)
SITES = cones(3, rows=14, labelled=0.5)
WIDE = XclpModel(("0", "1"), np.eye(7), np.zeros((7, 2)), np.ones(2)).to_bytes()
OVER_PAIRS = XclpModel(("0", "1")).to_bytes()


def cells(**changes: Any) -> Callable[[Any], Any]:
    """Return a lie about the cells, with a ticket that fits it."""
    return lambda ask: stamped(ask, cells=replace(ask.cells, **changes))


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        (CountCells, cells(count=5000), "anchors=8"),
        (CountCells, cells(mean=None, anchors=None), "neither anchors nor a mean"),
        (CountCells, cells(mean=None, anchors=Array.of(np.eye(3))), "the anchors that came are not"),
        (SumCells, cells(kept=None), "small ones"),
        (SumCells, cells(kept=Array.of(np.array([99], np.int32))), "not among the cells"),
        (SumCodes, lambda ask: stamped(ask, nearest=1), "code=1"),
        (SumCodes, lambda ask: replace(ask, nearest=1), "another question"),
        (SumCodes, lambda ask: stamped(ask, anchors=Array.of(np.eye(3))), "the anchors that came are not"),
        (
            SumCodes,
            lambda ask: stamped(ask, anchors=Array.of(ask.anchors.numpy() * np.nan)),
            "the anchors that came are not",
        ),
        (ReadModel, lambda ask: replace(ask, model=b"no model"), "the model that came cannot be used"),
        (ReadModel, lambda ask: replace(ask, model=WIDE), "does not fit this site's columns"),
        (ReadModel, lambda ask: replace(ask, model=OVER_PAIRS), "does not fit this site's columns"),
    ],
)
def test_questions_that_depart_from_the_terms_are_refused(
    kind: type[Any], change: Callable[[Any], Any], words: str
) -> None:
    assert all(words in reason for reason in refusals(METHOD, SITES, kind, change, to="site-2"))


def test_rows_are_dealt_to_the_nearest_anchor_and_left_out_where_it_is_not_kept() -> None:
    X = np.array([[2.0, 0.1, 0.0], [0.0, 3.0, 0.0], [0.1, 0.0, 1.0]])
    whole = Cells(count=3, anchors=Array.of(np.eye(3)))
    assert deal(X, whole).tolist() == [0, 1, 2]
    some = replace(whole, kept=Array.of(np.array([2, 0], np.int32)))
    assert deal(X, some).tolist() == [1, -1, 0]  # numbered anew in the order of those that are kept
    none = replace(whole, kept=Array.of(np.array([], np.int32)))
    assert deal(X, none).tolist() == [-1, -1, -1]


def test_first_cells_follow_from_the_mean_and_the_seed() -> None:
    X = np.random.default_rng(0).normal(size=(50, 4))
    first = Cells(count=6, mean=Array.of(np.zeros(4)), seed=bytes(32))
    found = deal(X, first)
    assert set(found.tolist()) <= set(range(6))
    np.testing.assert_array_equal(found, deal(X, first))
    assert not np.array_equal(found, deal(X, replace(first, seed=bytes([1]) * 32)))
    for wrong in (replace(first, seed=b""), replace(first, mean=Array.of(np.zeros(3)))):
        with pytest.raises(ProtocolError, match="neither anchors nor a mean"):
            deal(X, wrong)


def test_a_rows_own_label_counts_for_itself() -> None:
    """The scores of a labelled row are those of its anchors plus one for its own class."""
    method = XCLP(graph="anchors", anchors=8, rounds=3, min_cell=2, variant="paper")
    held = hold(method, SITES)
    for site in SITES:
        own = np.where(site.y[:, None] >= 0, np.eye(3)[site.y], 0.0)
        scores = held.site(site.name).labels.memory.scores.numpy()
        np.testing.assert_allclose(scores, own + held.model.scores(site.X), atol=1e-12)
