"""How large messages become, before any is sent."""

from __future__ import annotations

import numpy as np
import pytest

import fedgeom
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation.policy import Policy
from fedgeom.methods.xclp.distances import WAVE_BYTES, check_message_sizes, largest_message, plan_waves


def some(n: int, rows: int) -> list[SiteData]:
    rng = np.random.default_rng(0)
    return [
        SiteData(f"s{i}", rng.normal(size=(rows, 4)), np.where(np.arange(rows) % 2, "a", "b")) for i in range(n)
    ]


def test_rows_that_are_too_many_are_refused_before_anything_is_sent_with_what_to_do() -> None:
    asked: list[str] = []

    def interfere(name: str, request: bytes) -> None:
        asked.append(name)

    with pytest.raises(InputError, match="of 5 sites would be lost") as caught:
        fedgeom.run(fedgeom.XCLP(), some(5, 900), interfere=interfere)
    for words in ('graph="anchors"', "fewer bits than 4,096", "max_message_bytes = "):
        assert words in str(caught.value)
    assert not asked
    check_message_sizes(fedgeom.XCLP(graph="anchors"), some(5, 900), 64 * 2**20)
    enough = int(str(caught.value).rpartition("= ")[2].replace(",", ""))
    check_message_sizes(fedgeom.XCLP(), some(5, 900), enough)


def test_digits_at_five_sites_lose_none_to_the_default_limit() -> None:
    rows = {f"s{i}": 360 for i in range(5)}
    check_message_sizes(fedgeom.XCLP(), some(5, 360), Policy().max_message_bytes)
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


@pytest.mark.parametrize("hamming", ["bfv", "ot"])
def test_the_size_is_that_of_the_largest_message(hamming: str) -> None:
    sites, rows = some(3, 30), {f"s{i}": 30 for i in range(3)}
    run = fedgeom.run(fedgeom.XCLP(bits=256, hamming=hamming), sites)
    assert not run.lost
    for name in rows:
        seen = max(max(entry.bytes, entry.received) for entry in run.ledger.entries if entry.site == name)
        told = largest_message(hamming, 256, name, rows)
        assert 0.5 * told < seen < 1.1 * told


def test_influence_columns_count_too() -> None:
    labelled, settings = some(3, 1000), fedgeom.XCLP(bits=8, hamming="paillier")
    without = [SiteData(site.name, site.X, np.full(1000, "")) for site in labelled]
    limit = 4 * 3000 * 1000
    check_message_sizes(settings, without, limit)
    with pytest.raises(InputError, match="3 of 3 sites would be lost"):
        check_message_sizes(settings, labelled, limit)
