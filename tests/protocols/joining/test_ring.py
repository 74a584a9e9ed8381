"""The draw of the ring: nobody can choose neighbours, neither by keys shown last nor by sites lost on purpose."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import msgspec
import pytest

from fedgeom.crypto.keys import fingerprint
from fedgeom.crypto.neighbours import COMPLETE_UP_TO, ring_order
from fedgeom.errors import TooFewSitesError
from fedgeom.federation.coordinator import Lost
from fedgeom.federation.messages import unpack
from fedgeom.federation.policy import Policy
from fedgeom.protocols.join.messages import (
    DRAWS,
    Ciphertexts,
    DrawRing,
    Meet,
    RingNumber,
    cohort_seed,
    follow_chain,
)
from tests.protocols.lying import ME, Lying, replace
from tests.protocols.summing import column_sum, joined, killer, make_sites, plain_sum, remembered, start

N = COMPLETE_UP_TO + 12


@cache
def _invited() -> Lying:
    return Lying(N).hello()


@cache
def _drawn() -> Lying:
    lie = copy.deepcopy(_invited())
    lie.numbers = lie.draw()
    return lie


def invited() -> Lying:
    """Return a run of many sites that have shown their keys."""
    return copy.deepcopy(_invited())


def drawn() -> Lying:
    """Return a run of many sites that have shown their numbers."""
    return copy.deepcopy(_drawn())


def without(lie: Lying, lost: int) -> dict[str, Any]:
    """Return the cohort without its last sites."""
    return {name: lie.keys[name] for name in lie.names[: N - lost]}


def test_a_chain_of_hashes_leads_from_each_number_to_the_commitment() -> None:
    seed = bytes(32)
    assert follow_chain(seed, 0) == seed
    assert follow_chain(follow_chain(seed, 3), 5) == follow_chain(seed, DRAWS)
    assert len({follow_chain(seed, links) for links in range(DRAWS + 1)}) == DRAWS + 1
    lie = drawn()
    assert all(follow_chain(lie.numbers[name], 1) == lie.keys[name].ring_commit for name in lie.names)


def test_the_ring_does_not_follow_from_what_is_known_before_the_numbers_are_shown() -> None:
    """Colluders who show their keys last, and try keys until a ring suits them, have nothing to try them on.

    The same keys, with one honest site's number another one, make another ring.
    """
    lie = drawn()
    known_before = cohort_seed(lie.run, lie.keys)
    real = ring_order(lie.names, lie.seed)
    assert real != ring_order(lie.names, known_before)
    for name in lie.names[:5]:
        other = cohort_seed(lie.run, lie.keys, lie.numbers | {name: bytes(32)})
        assert ring_order(lie.names, other) != real
    # Nor can a colluder change its mind: its number is settled by its keys, and its keys by what the others drew for.
    grinder = lie.names[-1]
    new = lie.signed_by(grinder, replace(lie.keys[grinder], letters=fingerprint(b"another try")))
    lie.refused(ME, DrawRing(cohort=lie.keys | {grinder: new}, draw=0), "was shown for another cohort")
    lie.refused(ME, DrawRing(cohort=lie.keys | {grinder: new}, draw=1), "when a site was lost")
    lie.refused(ME, Meet(cohort=lie.keys, numbers=lie.numbers | {grinder: bytes(32)}), "not those committed to")


def test_a_draw_is_for_one_cohort_and_the_next_for_a_smaller_one() -> None:
    lie = drawn()
    again = lie.get(ME, DrawRing(cohort=lie.keys, draw=0), RingNumber)
    assert again.number == lie.numbers[ME]
    lie.refused(ME, DrawRing(cohort=without(lie, 1), draw=0), "was shown for another cohort")
    lie.refused(ME, DrawRing(cohort=lie.keys, draw=1), "when a site was lost")
    lie.get(ME, DrawRing(cohort=without(lie, 2), draw=3), RingNumber)
    lie.refused(ME, DrawRing(cohort=without(lie, 3), draw=2), "when a site was lost")  # numbers do not go back
    lie.refused(ME, DrawRing(cohort=without(lie, 1), draw=4), "when a site was lost")  # nor do sites come back
    lie.refused(ME, Meet(cohort=lie.keys, numbers=lie.numbers), "for which this site showed its last number")


def test_a_ninth_draw_is_refused() -> None:
    lie = invited()
    shown = [lie.get(ME, DrawRing(cohort=without(lie, d), draw=d), RingNumber).number for d in range(DRAWS)]
    assert len(set(shown)) == DRAWS
    for draw, number in enumerate(shown):
        assert follow_chain(number, draw + 1) == lie.keys[ME].ring_commit
    lie.refused(ME, DrawRing(cohort=without(lie, DRAWS), draw=DRAWS), f"draw {DRAWS + 1} of the ring is asked for")


def test_a_cohort_is_checked_before_a_number_is_shown() -> None:
    lie = invited()
    lie.refused(ME, DrawRing(cohort=lie.keys | {"mallory": lie.keys["s0001"]}, draw=0), "may take part")
    lie.refused(ME, DrawRing(cohort=lie.keys | {"s0001": lie.keys["s0002"]}, draw=0), "signature of 's0001'")
    less = {name: keys for name, keys in lie.keys.items() if name != ME}
    lie.refused(ME, DrawRing(cohort=less, draw=0), "does not contain 's0000'")
    changed = lie.keys | {"s0001": replace(lie.keys["s0001"], ring_commit=bytes(32))}
    lie.refused(ME, DrawRing(cohort=changed, draw=0), "signature of 's0001'")


def test_many_sites_share_nothing_without_the_numbers_of_all() -> None:
    lie = invited()
    lie.refused(ME, Meet(cohort=lie.keys), "for which this site showed its last number")
    lie = drawn()
    short = {name: number for name, number in lie.numbers.items() if name != "s0001"}
    for numbers in ({}, short, short | {"mallory": bytes(32)}):
        lie.refused(ME, Meet(cohort=lie.keys, numbers=numbers), "one from each")
    lie.refused(
        ME, Meet(cohort=lie.keys, numbers=lie.numbers, draw=1), "for which this site showed its last number"
    )
    lie.get(ME, Meet(cohort=lie.keys, numbers=lie.numbers), Ciphertexts)
    lie.refused(ME, Meet(cohort=lie.keys, numbers=lie.numbers, draw=1), "one run has one cohort")
    lie.refused(ME, DrawRing(cohort=without(lie, 1), draw=1), "the ring was drawn")


def test_few_sites_need_no_ring() -> None:
    lie = Lying(4).hello()
    lie.refused(ME, DrawRing(cohort=lie.keys, draw=0), "4 sites need no ring")
    for extra in ({"numbers": {ME: bytes(32)}}, {"draw": 1}):
        lie.refused(ME, Meet(cohort=lie.keys, **extra), "4 sites need no ring")
    sites, engine = start(make_sites(5))
    joined(sites)
    assert "join.number" not in {entry.kind for entry in sites.ledger}
    assert remembered(engine, "s0000").ring.draws == {}


# --- the coordinator -------------------------------------------------------------------------------------------


def draws(sites: Any) -> int:
    """Return how often the ring was drawn."""
    return len({entry.step for entry in sites.ledger if entry.kind == "join.number"})


def test_sixty_sites_draw_and_sum() -> None:
    data = make_sites(60)
    sites, engine = start(data)
    (total,) = column_sum(sites, modulus=2**64)
    assert draws(sites) == 1
    assert (total.vector == plain_sum(data, total.sites, 2**64)).all()
    seeds = {remembered(engine, site.name).joining.cohort_seed for site in data}
    assert len(seeds) == 1


def test_sites_lost_in_a_draw_mean_another_one() -> None:
    data = make_sites(60)
    plan = {data[3].name: ("join.draw", 1), data[4].name: ("join.draw", 1), data[5].name: ("join.draw", 2)}
    sites, _ = start(data, interfere=killer(plan))
    (total,) = column_sum(sites, modulus=2**64)
    assert draws(sites) == 3
    assert set(total.sites) == {site.name for site in data} - set(plan)
    assert (total.vector == plain_sum(data, total.sites, 2**64)).all()


def test_so_many_may_be_lost_that_no_ring_is_needed() -> None:
    data = make_sites(COMPLETE_UP_TO + 1)
    sites, engine = start(data, interfere=killer({data[7].name: ("join.draw", 1)}))
    (total,) = column_sum(sites, modulus=2**64)
    assert len(total.sites) == COMPLETE_UP_TO
    assert len(remembered(engine, data[0].name).joining.peers) == COMPLETE_UP_TO - 1


def test_when_sites_are_lost_in_every_draw_the_run_ends_in_words() -> None:
    data = make_sites(60)
    plan = {data[at].name: ("join.draw", at + 1) for at in range(DRAWS)}
    sites, _ = start(data, interfere=killer(plan))
    with pytest.raises(TooFewSitesError, match=f"sites were lost in each of {DRAWS} draws.*Nothing was revealed"):
        joined(sites)


def test_a_site_that_shows_another_number_is_left_out() -> None:
    sites, engine = start(make_sites(55))
    deliver = engine.deliver

    def cheating(requests: Mapping[str, bytes]) -> Iterator[tuple[str, bytes | Lost]]:
        for name, reply in deliver(requests):
            frame: Any = unpack(reply) if isinstance(reply, bytes) else None
            if name == "s0002" and frame.kind == RingNumber.kind:
                body = msgspec.msgpack.encode(RingNumber(number=bytes(32)))
                reply = msgspec.msgpack.encode(replace(frame, body=body))
            yield name, reply

    engine.deliver = cheating  # type: ignore[method-assign]
    cohort = joined(sites)
    assert "s0002" not in cohort.names
    assert sites.lost["s0002"] == "showed another number for the ring than it had committed to"
    assert sites.left_out == {"s0002"}


def test_on_a_ring_two_thirds_of_the_holders_are_asked_whatever_the_policy_says() -> None:
    """With fewer than 5/8, two neighbourhoods could sign two lists, and a site between them be caught."""
    sites, _ = start(make_sites(60), policy=Policy(threshold=0.51))
    cohort = joined(sites).joined
    holders = 1 + len(cohort.peers["s0000"])
    assert set(cohort.needed.values()) == {-(-2 * holders // 3)}
    few, _ = start(make_sites(9), policy=Policy(threshold=0.51))
    assert set(joined(few).joined.needed.values()) == {5}
