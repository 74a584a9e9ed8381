"""Spreading labels, at the site: columns that fit its rows, counts of its labels, and a block that only it can read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from fedgeom import XCLP
from fedgeom.federation.messages import Array
from fedgeom.federation.runner import LEAVES
from fedgeom.methods.xclp.messages import Collect, CountClasses, Spread
from tests.methods.coordinators import RUN, overhear, refusals, stamped
from tests.methods.xclp.making import cones

pytestmark = pytest.mark.full

replace = msgspec.structs.replace
METHOD = XCLP(hash_bits=64, hamming="ot", hidden_projection=False)
SITES = cones(3, rows=8, labelled=0.5)


def columns(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Spread], Spread]:
    """Return a lie about a site's influence columns; they are its own, so the ticket still fits."""
    return lambda ask: replace(ask, columns=Array.of(change(ask.columns.numpy().copy())))


def moved(ask: Spread, by: int) -> dict[str, tuple[int, int]]:
    """Lay all rows out elsewhere, as they would lie if sites were to send their own rows too."""
    return {name: (begin + by, end + by) for name, (begin, end) in ask.layout.items()}


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        (Spread, columns(lambda c: np.zeros((3, 3), np.float32)), LEAVES),
        (Spread, columns(lambda c: c[:-1]), LEAVES),
        (Spread, columns(lambda c: c[:, :-1]), LEAVES),
        (Spread, columns(lambda c: c.ravel()), LEAVES),
        (Spread, columns(lambda c: c * np.nan), "not all finite"),
        (Spread, lambda ask: stamped(ask, layout=ask.layout | {"site-2": (8, 15)}), "one below the other"),
        (Spread, lambda ask: stamped(ask, layout={"site-1": (0, 24)}), "not that of the sites that are summed"),
        (Spread, lambda ask: stamped(ask, layout=moved(ask, -8)), "one below the other"),
        (
            Spread,
            lambda ask: stamped(ask, layout=ask.layout | {"site-2": ask.layout["site-1"]}),
            "below the other",
        ),
        (Spread, lambda ask: replace(ask, classes=ask.classes[::-1]), "made out for another question"),
        (Collect, lambda ask: replace(ask, block=Array.of(np.zeros(5, np.uint64))), "wrong size"),
        (Collect, lambda ask: replace(ask, of=replace(ask.of, question_hash=bytes(32))), "did not contribute to"),
    ],
)
def test_questions_that_do_not_fit_are_refused(kind: type[Any], change: Callable[[Any], Any], words: str) -> None:
    assert all(words in reason for reason in refusals(METHOD, SITES, kind, change, to="site-2"))


def test_other_classes_than_those_agreed_on_are_refused() -> None:
    """The refusal depends on the agreed classes, not on the site's labels."""
    (reason,) = refusals(METHOD, SITES, CountClasses, lambda ask: stamped(ask, classes=("7", "8")), to="site-2")
    assert reason == "the question is about other classes than the sites agreed on"


def test_hidden_labels_cannot_be_counted_by_trying_columns() -> None:
    """As many columns as the site has labels are refused like any other number that is not all rows."""
    site = SITES[1]
    method = XCLP(hash_bits=64, hamming="ot", hide_labelled=True)
    for tried in (int((site.y >= 0).sum()), 1):
        change = columns(lambda c, tried=tried: c[:, :tried])
        (reason,) = refusals(method, SITES, Spread, change, to=site.name)
        assert LEAVES in reason


@pytest.mark.parametrize("hide", [False, True])
def test_columns_come_for_labelled_rows_or_for_all(hide: bool) -> None:
    heard, engine = overhear(XCLP(hash_bits=64, hamming="ot", hidden_projection=False, hide_labelled=hide), SITES)
    spread = {one.name: one for one in heard if isinstance(one.question, Spread)}
    for site in SITES:
        one = spread[site.name]
        rows = len(site) if hide else int((site.y >= 0).sum())
        assert one.question.columns.numpy().shape == (24, rows)
        begin, end = one.question.layout[site.name]
        memory = engine.runners[site.name].restore(RUN, one.memory).memory.row_sums
        assert (memory.own_rows, memory.height) == ((begin, end), 24)
        assert memory.own is not None
        labelled = site.y[site.y >= 0]
        Y = np.eye(3)[labelled] if not hide else np.where(site.y[:, None] >= 0, np.eye(3)[site.y], 0.0)
        wanted = (one.question.columns.numpy().astype(float) @ Y)[begin:end]
        np.testing.assert_allclose(memory.own.numpy().view(np.int64) / 2.0**32, wanted, atol=2**-32)


def test_a_sites_counts_add_up_to_the_labels_of_each_class() -> None:
    heard, _ = overhear(METHOD, SITES)
    counts = next(one.question.reading.counts.numpy() for one in heard if isinstance(one.question, Collect))
    every = np.concatenate([site.y for site in SITES])
    assert counts.tolist() == np.bincount(every[every >= 0], minlength=3).tolist()
