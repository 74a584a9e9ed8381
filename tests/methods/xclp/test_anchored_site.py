"""Anchors, at the site: rows are dealt to cells, no more of them than agreed, and small ones are not summed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from fedgeom import XCLP
from fedgeom.federation.messages import Array
from fedgeom.federation.model import from_bytes
from fedgeom.methods.xclp.anchors import CountCells, ReadModel, SumAnchorCells, SumCodes
from fedgeom.methods.xclp.model import XclpModel
from tests.methods.coordinators import hold, refusals, stamped
from tests.methods.xclp.making import cones

replace = msgspec.structs.replace
METHOD = XCLP(graph="anchors", n_anchors=8, n_rounds=3, min_cell=2)
SITES = cones(3, rows=14, labelled=0.5)
WIDE = XclpModel(("0", "1", "2"), np.eye(7), np.zeros((7, 3)), np.ones(3)).to_bytes()
OVER_PAIRS = XclpModel(("0", "1", "2")).to_bytes()


def moved(ask: Any) -> Any:
    """Lay the first anchor elsewhere, say beside a row that the coordinator looks for."""
    _, arrays, facts = from_bytes(ask.model)
    model = XclpModel.from_tensors(arrays, facts)
    anchors = np.asarray(model.anchors).copy()
    anchors[0] = np.roll(anchors[0], 1)
    return replace(ask, model=dataclasses.replace(model, anchors=anchors).to_bytes())


def other_total(ask: Any) -> Any:
    """Lie about the sum before this one by a little."""
    total = ask.last.total.numpy()
    total[0] += np.uint64(1 << 28)
    return stamped(ask, last=replace(ask.last, total=Array.of(total)))


def with_last(**changes: Any) -> Callable[[Any], Any]:
    """Return a lie about the sum before this one, with a ticket that fits it."""
    return lambda ask: stamped(ask, last=replace(ask.last, **changes))


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        (CountCells, other_total, "its tag does not fit"),
        (SumAnchorCells, other_total, "its tag does not fit"),
        (SumCodes, other_total, "its tag does not fit"),
        (SumAnchorCells, with_last(tag=Array.of(np.zeros(3, np.uint64))), "its tag does not fit"),
        (SumAnchorCells, with_last(sites=("site-1", "site-2", "site-9")), "not one of the sites that were asked"),
        (SumAnchorCells, with_last(sites=("site-1", "site-2")), "2 sites are left"),
        (SumAnchorCells, with_last(round=1), "not the one that was taken last"),
        (SumAnchorCells, with_last(round=9999), "not the one that was taken last"),
        (SumCodes, lambda ask: stamped(ask, nearest=1), "n_nearest=1"),
        (SumCodes, lambda ask: stamped(ask, classes=("0", "1")), "other classes"),
        (SumCodes, lambda ask: replace(ask, nearest=1), "another question"),
        (ReadModel, lambda ask: replace(ask, model=b"no model"), "the model that came cannot be used"),
        (ReadModel, lambda ask: replace(ask, model=WIDE), "does not fit this site's columns"),
        (ReadModel, lambda ask: replace(ask, model=OVER_PAIRS), "are not those that the sites found"),
        (ReadModel, moved, "are not those that the sites found"),
    ],
)
def test_questions_that_depart_from_the_terms_are_refused(
    kind: type[Any], change: Callable[[Any], Any], words: str
) -> None:
    assert all(words in reason for reason in refusals(METHOD, SITES, kind, change, to="site-2"))


def test_a_rows_own_label_counts_for_itself() -> None:
    """The scores of a labelled row are those of its anchors plus one for its own class."""
    method = XCLP(graph="anchors", n_anchors=8, n_rounds=3, min_cell=2, variant="paper")
    held = hold(method, SITES)
    for site in SITES:
        own = np.where(site.y[:, None] >= 0, np.eye(3)[site.y], 0.0)
        scores = held.site(site.name).labels.memory.scores.numpy()
        np.testing.assert_allclose(scores, own + held.model.scores(site.X), atol=1e-12)
