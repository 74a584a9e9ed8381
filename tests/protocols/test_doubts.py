"""Doubts: sites say in one masked sum at how many of them the joint model is much worse than their rows allow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import fedgeom
from fedgeom.errors import FedgeomError
from fedgeom.methods.iterative import GroupMedian
from fedgeom.protocols.doubts import SumDoubts, doubtful, estimated, slots
from fedgeom.protocols.site import SummingSite

LIAR = "s00"
LIES = ("far rows", "many rows", "swapped labels", "a thousandfold", "sign flips")
WAYS: dict[str, Any] = {
    "moments": lambda **more: fedgeom.Moments(space="euclidean", **more),
    "centroids": lambda **more: fedgeom.Moments(space="euclidean", rule="centroid", **more),
    "ridge": lambda **more: fedgeom.Ridge(features="linear", **more),
    "ridge, prepared": lambda **more: fedgeom.Ridge(
        features="linear", prepare=["scale", {"name": "pca", "n_components": 3}], **more
    ),
    "ellipses": lambda **more: fedgeom.Ellipses(names="shared", **more),
    "shrunk": lambda **more: fedgeom.Shrunk(n_rounds=3, **more),
}


def honest_sites(count: int = 12, rows: int = 40) -> list[fedgeom.SiteData]:
    """Return sites that are alike, of two classes that a joint model tells apart in 19 of 20 rows."""
    rng = np.random.default_rng(7)
    y = np.array(["no", "yes"] * (rows // 2))
    found = []
    for at in range(count):
        X = rng.normal(size=(rows, 4)) + np.where(y == "yes", 0.85, -0.85)[:, None]
        found.append(fedgeom.SiteData(f"s{at:02d}", X, y))
    return found


def with_liar(sites: list[fedgeom.SiteData], lie: str) -> list[fedgeom.SiteData]:
    """Return the sites with the rows of the first one bent."""
    first, *others = sites
    swapped = np.where(first.y == "no", "yes", "no")
    if lie == "far rows":
        return [fedgeom.SiteData(LIAR, 200 * first.X, swapped), *others]
    if lie == "many rows":
        return [fedgeom.SiteData(LIAR, np.tile(first.X, (100, 1)), np.tile(swapped, 100)), *others]
    if lie in ("swapped labels", "a thousandfold"):
        return [fedgeom.SiteData(LIAR, first.X, swapped), *others]
    return sites


@contextmanager
def lying(lie: str) -> Iterator[None]:
    """Let the first site multiply what it adds to sums of rows; names, counts of floors and doubts are as they are."""
    factor = {"a thousandfold": 1000, "sign flips": -6}.get(lie, 1)
    honest = SummingSite.contribute

    def contribute(self: Any, ask: Any, values: Any, **options: Any) -> Any:
        array = np.asarray(values)
        if self.name == LIAR and not ask.decides_floors and not isinstance(ask, SumDoubts):
            words = array.dtype == np.uint64
            array = (factor * array.view(np.int64)).view(np.uint64) if words else factor * array
        return honest(self, ask, array, **options)

    with patch.object(SummingSite, "contribute", contribute):
        yield


def played(method: Any, lie: str) -> tuple[float, bool]:
    """Return how many rows of honest sites the model of a run with a liar gets right, and whether the run says so."""
    sites = honest_sites()
    X = np.vstack([site.X for site in sites[1:]])
    y = np.concatenate([site.y for site in sites[1:]])
    try:
        with lying(lie):
            run = fedgeom.run(method, with_liar(sites, lie), seed=3)
    except FedgeomError:
        return 0.0, True  # the run ends in words
    doubted = any("the joint model is doubtful" in str(one) for one in run.warnings)
    return float(np.mean(run.model.predict(X) == y)), doubted


@pytest.mark.parametrize("way", WAYS)
def test_an_honest_run_has_no_doubts(way: str) -> None:
    run = fedgeom.run(WAYS[way](), honest_sites(), seed=3)
    assert not run.warnings
    assert not any("doubts" in local for local in run.local.values())


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("way", WAYS)
def test_one_liar_of_twelve_costs_little_or_the_run_says_so(way: str, lie: str) -> None:
    right, said = played(WAYS[way](), lie)
    assert said or right > 0.9


@pytest.mark.parametrize("way", WAYS)
def test_without_doubts_it_would_not_be_noticed(way: str) -> None:
    """The same lie, and a run without the sum of doubts: nobody hears of it."""
    method = WAYS[way]()
    with patch.object(type(method), "doubts", False):
        right, said = played(method, "many rows")
    assert right < 0.4
    assert not said


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("way", WAYS)
def test_with_groups_the_model_stays_close(way: str, lie: str) -> None:
    right, said = played(WAYS[way](aggregation=GroupMedian(n_groups=4)), lie)
    assert right > 0.88
    assert not said


@pytest.mark.parametrize("count", [-11, 1000])
def test_a_liar_cannot_cancel_the_doubts_of_others(count: int) -> None:
    """It adds to every slot, so that ones would come to nothing, or be lost among others."""
    honest = SummingSite.contribute

    def contribute(self: Any, ask: Any, values: Any, **options: Any) -> Any:
        if self.name == LIAR and isinstance(ask, SumDoubts):
            wanted = np.zeros(len(values), np.int64)
            wanted[: len(values) // 2] = count
            values = wanted.view(np.uint64)
        return honest(self, ask, values, **options)

    with patch.object(SummingSite, "contribute", contribute):
        assert played(WAYS["moments"](), "many rows")[1]


def test_a_slot_tells_neither_who_doubts_nor_what_was_put_there() -> None:
    """Of two runs of the same, sites fill other slots with other numbers."""
    seen: list[Any] = []
    honest = SummingSite.contribute

    def contribute(self: Any, ask: Any, values: Any, **options: Any) -> Any:
        if isinstance(ask, SumDoubts):
            seen.append(np.array(values))
        return honest(self, ask, values, **options)

    with patch.object(SummingSite, "contribute", contribute):
        for _ in range(2):
            fedgeom.run(WAYS["moments"](), honest_sites(), seed=3)
    first, second = seen[:12], seen[12:]
    assert all(np.count_nonzero(one) == 1 for one in seen)
    assert all(len(one) == 2 * slots(12) and not one[: slots(12)].any() for one in seen)
    assert sum(int(a.argmax() != b.argmax()) for a, b in zip(first, second, strict=True)) > 6
    assert len({int(one.max()) for one in seen}) == 24


def test_the_number_of_sites_follows_from_the_slots_that_are_filled() -> None:
    rng = np.random.default_rng(0)
    for sites in (3, 12, 200, 1000):
        count = slots(sites)
        filled = [len(set(rng.integers(count, size=sites).tolist())) for _ in range(50)]
        found = np.mean([estimated(one, count) for one in filled])
        assert found == pytest.approx(sites, rel=0.03)
    assert estimated(0, 48) == 0


class _Guess:
    classes_ = np.array(["no", "yes"])

    def predict_proba(self, X: Any) -> Any:
        return np.tile([0.5, 0.5], (len(X), 1))


def test_few_rows_or_one_class_say_nothing() -> None:
    site = honest_sites(1)[0]
    model: Any = _Guess()
    assert doubtful(model, site) is True
    assert doubtful(model, site.take(np.arange(18))) is None
    assert doubtful(model, site.take(site.y == "no")) is None
    few = site.take(np.concatenate([np.flatnonzero(site.y == "no"), np.flatnonzero(site.y == "yes")[:4]]))
    assert doubtful(model, few) is None


def test_rows_that_nobody_can_tell_apart_raise_no_doubts() -> None:
    site = honest_sites(1, 400)[0]
    mixed = fedgeom.SiteData("s", site.X, np.random.default_rng(0).permutation(site.y))
    assert doubtful(_Guess(), mixed) is False  # type: ignore[arg-type]


def test_shares_of_classes_play_no_part() -> None:
    """A model that never says "yes" is right on nineteen of twenty rows, and in doubt all the same."""
    site = honest_sites(1, 400)[0]
    rare = site.take(np.concatenate([np.flatnonzero(site.y == "no"), np.flatnonzero(site.y == "yes")[:10]]))
    assert doubtful(_Guess(), rare) is True  # type: ignore[arg-type]
