"""Groups, weights and raised rates stay as they are until the terms have sites grouped anew."""

from __future__ import annotations

from typing import Any

import pytest

from fedgeom import FedAvg, PTopoFL
from fedgeom.errors import ProtocolError
from fedgeom.methods.iterative.messages import TrainMasked
from fedgeom.methods.iterative.setup import SiteGroup
from fedgeom.protocols.secure_sum.messages import Ticket

SITES = tuple("abcdefgh")
FOUR = SITES[:4]
CLUSTERS = PTopoFL(n_clusters=2, n_rounds=10)
TRACKED = PTopoFL(n_clusters=2, n_rounds=10, track_every=4)


def asked(
    round: int = 0, group: tuple[str, ...] = FOUR, over: tuple[str, ...] = (), **changes: Any
) -> TrainMasked:
    over = over or group or SITES
    fields: dict[str, Any] = {"factors": dict.fromkeys(over, 1.0)} | changes
    ticket = Ticket(members=SITES, participants=over)
    return TrainMasked(round=round, given={}, agreed=bytes(32), group=group, ticket=ticket, **fields)


def refused(grouping: SiteGroup, rule: Any, question: TrainMasked, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        grouping.settle(rule, question, "a", 3)


def test_where_the_terms_have_one_group_it_is_not_named() -> None:
    one = SiteGroup()
    assert one.settle(FedAvg(), asked(group=()), "a", 3) == ()
    refused(one, FedAvg(), asked(group=FOUR), "one group, of all sites")
    refused(one, PTopoFL(n_clusters=1), asked(group=FOUR), "one group, of all sites")


def test_a_group_has_this_site_and_enough_others_in_it() -> None:
    one = SiteGroup()
    refused(one, CLUSTERS, asked(group=SITES[1:5]), "not a part of the members with this site in it")
    refused(one, CLUSTERS, asked(group=(*FOUR, "mallory")), "not a part of the members")
    refused(one, CLUSTERS, asked(group=(), over=SITES), "not a part of the members")
    refused(one, CLUSTERS, asked(group=("a", "b")), "the group has 2 sites; the policy of 'a' asks for at least 3")
    refused(one, CLUSTERS, asked(group=("a", "b", "b")), "the group has 2 sites")
    assert one.settle(CLUSTERS, asked(), "a", 3) == FOUR


def test_a_group_stays_and_some_of_it_may_train() -> None:
    one = SiteGroup()
    one.settle(CLUSTERS, asked(), "a", 3)
    assert one.settle(CLUSTERS, asked(round=1, over=FOUR[:3]), "a", 3) == FOUR
    for round in (1, 2, 9):
        refused(one, CLUSTERS, asked(round=round, group=SITES[:5]), "another group before")
        refused(one, CLUSTERS, asked(round=round, group=FOUR[:3]), "another group before")


def test_the_terms_may_group_anew_once_the_shapes_were_looked_at_again() -> None:
    one = SiteGroup()
    one.settle(TRACKED, asked(), "a", 3)
    refused(one, TRACKED, asked(round=3, group=SITES[:5]), "another group before")
    assert one.settle(TRACKED, asked(round=5, group=SITES[:5]), "a", 3) == SITES[:5]  # it was away in round 4
    refused(one, TRACKED, asked(round=7), "another group before")
    assert one.settle(TRACKED, asked(round=8), "a", 3) == FOUR


def test_weights_stay_as_well() -> None:
    """With the optimum in every round, two rounds with other weights of one site would differ by its model."""
    weights = dict(zip(FOUR, (1.0, 0.9, 0.8, 1.0), strict=True))
    one = SiteGroup()
    one.settle(CLUSTERS, asked(over=FOUR[:3], factors={n: weights[n] for n in FOUR[:3]}), "a", 3)
    one.settle(CLUSTERS, asked(round=1, factors=weights), "a", 3)  # the fourth had not been weighed yet
    for name in FOUR:
        refused(one, CLUSTERS, asked(round=2, factors=weights | {name: 0.7}), "other weights or learning rates")
    again = SiteGroup()
    again.settle(TRACKED, asked(factors=weights), "a", 3)
    again.settle(TRACKED, asked(round=4, factors=weights | {"b": 0.7}), "a", 3)


def test_rates_are_raised_where_the_shapes_were_looked_at_again() -> None:
    one = SiteGroup()
    one.settle(TRACKED, asked(), "a", 3)
    refused(one, TRACKED, asked(round=1, faster=("b",)), "other weights or learning rates")
    one.settle(TRACKED, asked(round=4, faster=("b",)), "a", 3)
    one.settle(TRACKED, asked(round=5, faster=("b",)), "a", 3)
    refused(one, TRACKED, asked(round=6), "other weights or learning rates")


def test_weights_must_be_in_the_terms() -> None:
    uneven = dict.fromkeys(SITES, 1.0) | {"a": 0.5}
    refused(SiteGroup(), FedAvg(), asked(group=(), factors=uneven), "count by their rows alone")
    plain = PTopoFL(n_clusters=1, closeness=False, trust="none")
    refused(SiteGroup(), plain, asked(group=(), factors=uneven), "count by their rows alone")
    SiteGroup().settle(PTopoFL(n_clusters=1), asked(group=(), factors=uneven), "a", 3)
