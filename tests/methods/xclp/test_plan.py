"""The plan says what is exchanged, to the byte where tables are known, and how large messages become."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation.policy import Policy
from fedgeom.methods.xclp import distances
from fedgeom.methods.xclp.distances import WAVE_BYTES, largest_message, plan_waves
from fedgeom.protocols.plan import Costs, costs_of, leaves, shape_like, shape_of
from tests.methods.xclp.making import cones
from tests.protocols.planning import held

FAST: dict[str, Any] = {"hash_bits": 64, "hamming": "lattice"}
WORDS = ("0", "1", "2")


def some(n: int, rows: int) -> list[SiteData]:
    rng = np.random.default_rng(0)
    return [
        SiteData(f"s{i}", rng.normal(size=(rows, 4)), np.where(np.arange(rows) % 2, "a", "b")) for i in range(n)
    ]


def uneven() -> list[SiteData]:
    """Return sites with names and numbers of rows that are all different."""
    names = {"north": 12, "the hospital in the south": 15, "x": 14, "Bücherei": 13}
    given = cones(4, rows=15, labelled=0.6)
    return [
        SiteData(name, site.X[:rows], site.y[:rows])
        for (name, rows), site in zip(names.items(), given, strict=True)
    ]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"classes": WORDS, "hidden_projection": False},
        {"confidence": "code", "hide_labelled": True},
        {"prepare": "table", "holdout": 0.25},
    ],
    ids=str,
)
def test_over_pairs_a_run_is_what_its_plan_says(settings: dict[str, Any]) -> None:
    found = held(fedgeom.XCLP(**FAST, **settings), (), sites=uneven())
    found.check()
    decided = {one.kind for one in found.told.exchanges if one.bound}
    assert decided <= {"xclp.weigh"}


@pytest.mark.parametrize(("hamming", "library"), [("bfv", "seal"), ("ot", "numpy"), ("paillier", "gmpy2")])
def test_with_every_way_of_comparing(hamming: str, library: str) -> None:
    pytest.importorskip(library)
    held(fedgeom.XCLP(hash_bits=16, hamming=hamming), (), sites=cones(3, rows=4, labelled=0.9)).check()


def test_wave_after_wave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distances, "WAVE_BYTES", 200_000)
    found = held(fedgeom.XCLP(**FAST), (), sites=uneven())
    found.check()
    assert len([one for one in found.told.exchanges if one.kind == "xclp.begin"]) > 1


@pytest.mark.parametrize("settings", [{}, {"classes": WORDS, "confidence": "code"}], ids=str)
def test_in_groups_that_the_seed_draws(settings: dict[str, Any]) -> None:
    sites = cones(6, rows=9, labelled=0.6)
    found = held(fedgeom.XCLP(n_groups=2, **FAST, **settings), (), sites=sites, seed=4)
    found.check()
    assert {one.kind for one in found.told.exchanges if one.bound} <= {"xclp.weigh"}
    assert any(one.kind == "sum.witness" for one in found.told.exchanges)


def test_in_groups_that_the_sites_draw_bounds_hold() -> None:
    sites = [site.take(np.arange(9 - at % 3)) for at, site in enumerate(cones(6, rows=9, labelled=0.9))]
    found = held(fedgeom.XCLP(n_groups=2, drawn_by="sites", **FAST), (), sites=sites)
    found.check()
    assert "the sites draw the groups" in next(
        one.bound for one in found.told.exchanges if one.kind == "xclp.begin"
    )


def test_no_draw_of_groups_has_more_letters_than_the_plan_of_all_draws() -> None:
    """Of three sites, two are passed letters, or all three where each begins with another."""
    sites = cones(6, rows=9, labelled=0.9)

    def passed(method: fedgeom.XCLP, seed: int) -> tuple[float, float, float]:
        steps = [
            one
            for one in costs_of(method, shape_of(method, sites, None, seed)).exchanges
            if one.kind == "xclp.relay"
        ]
        each = [(one.times * one.sites, one) for one in steps]
        return (
            sum(count for count, _ in each),
            sum(count * one.up for count, one in each),
            sum(count * one.down for count, one in each),
        )

    bound = passed(fedgeom.XCLP(n_groups=2, drawn_by="sites", **FAST), 0)
    draws = [passed(fedgeom.XCLP(n_groups=2, **FAST), seed) for seed in range(40)]
    assert {count for count, _, _ in draws} == {8, 10}
    assert all(more >= less for draw in draws for more, less in zip(bound, draw, strict=True))


@pytest.mark.parametrize("settings", [{}, {"confidence": "code", "holdout": 0.25}, {"prepare": "table"}], ids=str)
def test_through_anchors_bounds_hold_and_what_no_row_decides_is_exact(settings: dict[str, Any]) -> None:
    method = fedgeom.XCLP(graph="anchors", n_anchors=8, n_rounds=3, min_cell=3, **settings)
    found = held(method, (), sites=uneven())
    found.check()
    cells = [one for one in found.told.exchanges if one.kind == "xclp.cell-counts"]
    assert [bool(one.bound) for one in cells] == [False, True, True]


def directions(costs: Costs) -> tuple[int, int, int]:
    return costs.total_up, costs.total_down, costs.largest


def test_without_tables_all_sites_are_as_large_as_the_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    method = fedgeom.XCLP(**FAST)
    known = shape_of(method, uneven())
    exact = directions(costs_of(method, known))
    unseen = costs_of(method, replace(known, tables=()))
    assert all(more > less for more, less in zip(directions(unseen), exact, strict=True))
    assert any("how many rows the sites have" in line for line in unseen.bounds)
    monkeypatch.setattr(distances, "PAIRED", 2)
    reckoned = directions(costs_of(method, replace(known, tables=())))
    assert all(more > less for more, less in zip(reckoned, exact, strict=True))


def test_thousands_of_sites_are_reckoned_at_once() -> None:
    costs = costs_of(fedgeom.XCLP(), shape_like(2000, rows=100, columns=4, classes=("a", "b")))
    assert costs.total_up > 2000**2 * 1e6
    assert costs.site_seconds > 500


def test_what_leaves_follows_from_the_settings() -> None:
    pairs = " ".join(leaves(fedgeom.XCLP()))
    anchors = " ".join(leaves(fedgeom.XCLP(graph="anchors", n_anchors=100_000)))
    assert "angles between rows" in pairs
    assert "angles between rows" not in anchors
    assert "the centres of clusters" in anchors
    assert "centres" not in pairs


def test_rows_that_are_too_many_are_refused_before_anything_is_sent_with_what_to_do() -> None:
    asked: list[str] = []

    def interfere(name: str, request: bytes) -> None:
        asked.append(name)

    with pytest.raises(InputError, match=r"'xclp\.(begin|relay)', has about") as caught:
        fedgeom.run(fedgeom.XCLP(), some(5, 1800), interfere=interfere)
    for words in ('graph="anchors"', "fewer hash_bits than 4,096", "max_message_bytes = "):
        assert words in str(caught.value)
    assert not asked
    enough = int(str(caught.value).rpartition("= ")[2].replace(",", ""))
    assert costs_of(fedgeom.XCLP(), shape_of(fedgeom.XCLP(), some(5, 1800))).largest <= enough


def test_more_anchors_than_a_message_holds_are_refused() -> None:
    method = fedgeom.XCLP(graph="anchors", n_anchors=20_000)
    with pytest.raises(InputError, match=r"'xclp\.codes' sums .* fewer anchors"):
        costs_of(method, shape_like(3, rows=100_000, columns=4))


def test_digits_at_five_sites_lose_none_to_the_default_limit() -> None:
    rows = {f"s{i}": 360 for i in range(5)}
    assert costs_of(fedgeom.XCLP(), shape_of(fedgeom.XCLP(), some(5, 360))).largest <= Policy().max_message_bytes
    waves = plan_waves("bfv", 4096, rows)
    assert len(waves) == 4
    for number, wave in enumerate(waves):
        for name, partners in wave.items():
            part = {one: rows[one] for one in (name, *partners)}
            assert largest_message("bfv", 4096, name, part, own=number == 0) <= Policy().max_message_bytes


@pytest.mark.parametrize(("sites", "rows"), [(2, 20), (5, 360), (6, 500), (7, 200), (30, 50)])
def test_waves_hold_every_pair_once_and_messages_that_fit(sites: int, rows: int) -> None:
    each = {f"s{i:02}": rows + i for i in range(sites)}
    found = set()
    for number, wave in enumerate(plan_waves("bfv", 4096, each)):
        for name, partners in wave.items():
            assert all(name in wave[partner] for partner in partners)
            pairs = {frozenset((name, partner)) for partner in partners if name < partner}
            assert not pairs & found
            found |= pairs
            part = {one: each[one] for one in (name, *partners)}
            assert (
                len(partners) < 2 or largest_message("bfv", 4096, name, part, own=number == 0) < 1.1 * WAVE_BYTES
            )
    assert len(found) == sites * (sites - 1) // 2


def test_few_rows_are_compared_at_once() -> None:
    assert len(plan_waves("bfv", 4096, {f"s{i}": 40 for i in range(6)})) == 1


def test_what_a_site_refuses_is_what_the_plan_says() -> None:
    """A site reckons with a little room for frames, before it begins."""
    rows = {"north": 12, "the hospital in the south": 15, "x": 14, "Bücherei": 13}
    method = fedgeom.XCLP(**FAST)
    exchanges = costs_of(method, shape_of(method, uneven())).exchanges
    planned = max(one.largest for one in exchanges if one.kind in ("xclp.begin", "xclp.relay"))
    reckoned = max(largest_message("lattice", 64, name, rows) for name in rows)
    assert planned <= reckoned < planned + 10_000


def test_influence_columns_count_too() -> None:
    labelled, method = some(3, 1000), fedgeom.XCLP(hash_bits=8, hamming="paillier")
    without = [SiteData(site.name, site.X, np.full(1000, "")) for site in labelled[1:]]
    limit = 4 * 3000 * 1000
    few = SiteData("s0", labelled[0].X, np.where(np.arange(1000) < 4, ["a", "b"] * 500, ""))
    assert costs_of(method, shape_of(method, [few, *without])).largest < limit
    assert costs_of(method, shape_of(method, labelled)).largest > limit
