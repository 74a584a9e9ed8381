"""Drawn groups: who is in which follows from the terms, and a coordinator that lies about it gets nothing."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

import fedgeom
from fedgeom.errors import FedgeomError, InputError, TooFewSitesError
from fedgeom.federation.messages import Array, Refusal
from fedgeom.federation.policy import Policy
from fedgeom.methods.iterative import GroupMedian
from fedgeom.methods.moments.site import SumGroupMoments, TakeGroups
from fedgeom.protocols.join.messages import Meet
from fedgeom.protocols.secure_sum.messages import Confirm, Witness
from fedgeom.protocols.secure_sum.rules import GroupDraw, drawn_groups
from fedgeom.testing import example_sites
from tests.attacks.playing import Liar, stamped

NAMES = [f"s{at:02d}" for at in range(20)]


def moments(**options: Any) -> fedgeom.Moments:
    return fedgeom.Moments(aggregation=GroupMedian(n_groups=3, **options))


def test_everybody_is_in_one_group_and_groups_are_alike_in_size() -> None:
    draw = GroupDraw(6, "sites")
    groups = draw.groups(NAMES, 0, b"x" * 32)
    assert sorted(name for group in groups for name in group) == NAMES
    assert sorted(map(len, groups)) == [3, 3, 3, 3, 4, 4]
    assert groups == draw.groups(
        NAMES[::-1], 5, b"x" * 32
    )  # neither the order of the names nor the seed plays a part
    assert groups != draw.groups(NAMES, 0, b"y" * 32)
    by_seed = GroupDraw(6, "seed")
    assert by_seed.groups(NAMES, 0, b"x") == by_seed.groups(NAMES, 0, b"y") != by_seed.groups(NAMES, 1, b"x")


def test_too_few_sites_are_told_how_many_are_needed() -> None:
    with pytest.raises(
        InputError, match=r"20 sites in 7 groups.*for 3 in each.*Wanted 21 sites or more, or n_groups=6"
    ):
        GroupDraw(7, "sites").check_sizes(20, 3)
    with pytest.raises(InputError, match=r"Wanted 12 sites or more$"):
        GroupDraw(3, "sites").check_sizes(8, 4)  # two groups would be none
    with pytest.raises(InputError, match=r'49 sites given.*wanted drawn_by="sites"'):
        GroupDraw(3, "seed").check_sizes(49, 3)
    with pytest.raises(InputError, match="3 groups of 2 sites"):
        GroupDraw(3, "seed").groups(["a", "b"], 0, b"")
    GroupDraw(6, "sites").check_sizes(20, 3)
    with pytest.raises(InputError, match="Wanted 9 sites or more"):
        fedgeom.run(moments(), example_sites(8))


def test_sites_draw_by_numbers_that_nobody_alone_chose() -> None:
    def groups_of(**options: Any) -> Any:
        liar = Liar(moments(**options), example_sites(9), Policy())
        liar.method.conduct(liar.talk)
        drawn = [drawn_groups(liar.as_site(name)) for name in liar.names]
        assert len(set(drawn)) == 1  # all sites draw the same
        return drawn[0]

    assert groups_of(drawn_by="seed") == groups_of(drawn_by="seed")
    assert len({groups_of() for _ in range(3)}) > 1


def test_numbers_of_the_draw_cannot_be_left_out_or_made_up() -> None:
    for numbers in ({}, dict.fromkeys([f"site-{at + 1}" for at in range(9)], bytes(32))):

        def change(name: str, question: Any, numbers: Any = numbers) -> Any:
            return msgspec.structs.replace(question, numbers=numbers) if isinstance(question, Meet) else None

        liar = Liar(moments(), example_sites(9), Policy(), change=change)
        with pytest.raises(FedgeomError, match="numbers"):
            liar.method.conduct(liar.talk)


def _answers(liar: Liar, kind: type[Any]) -> list[Any]:
    return [answer for _, question, answer in liar.heard if isinstance(question, kind)]


def test_a_sum_over_sites_of_two_groups_is_refused() -> None:
    def change(name: str, question: Any) -> Any:
        if not isinstance(question, SumGroupMoments):
            return None
        groups = drawn_groups(liar.as_site(name))
        mixed = tuple(sorted({*groups[0], *groups[1][:2], name}))
        return stamped(question, ticket=msgspec.structs.replace(question.ticket, participants=mixed))

    liar = Liar(moments(), example_sites(9), Policy(), change=change)
    with pytest.raises(TooFewSitesError):
        liar.method.conduct(liar.talk)
    assert all(isinstance(one, Refusal) for one in _answers(liar, SumGroupMoments))


def test_a_group_sum_under_another_groups_number_is_refused() -> None:
    def change(name: str, question: Any) -> Any:
        if isinstance(question, SumGroupMoments):
            return stamped(question, group=(question.group + 1) % 3)
        return None

    liar = Liar(moments(), example_sites(9), Policy(), change=change)
    with pytest.raises(TooFewSitesError):
        liar.method.conduct(liar.talk)
    refusals = {one.reason for one in _answers(liar, SumGroupMoments)}
    assert len(refusals) == 1
    assert "another group" in refusals.pop()


@pytest.mark.parametrize("lie", ["numbers", "twice", "few", "order", "sites", "round", "huge"])
def test_sites_check_the_sums_of_all_groups(lie: str) -> None:
    def bend(sums: Any) -> Any:
        replace, first = msgspec.structs.replace, sums[0]
        if lie == "numbers":
            words = first.result.total.numpy().copy()
            words[0] += np.uint64(1 << 24)
            return (replace(first, result=replace(first.result, total=Array.of(words))), *sums[1:])
        if lie == "huge":
            words = np.full(first.result.total.shape, 1 << 63, np.uint64)
            return (replace(first, result=replace(first.result, total=Array.of(words))), *sums[1:])
        if lie == "sites":
            return (replace(first, asked=sums[1].asked), *sums[1:])
        if lie == "round":
            return (replace(first, result=replace(first.result, round=0)), *sums[1:])
        return {"twice": (first, first, *sums[1:]), "few": sums[:2], "order": sums[::-1]}[lie]

    def change(name: str, question: Any) -> Any:
        return TakeGroups(sums=bend(question.sums)) if isinstance(question, TakeGroups) else None

    liar = Liar(moments(), example_sites(9), Policy(), change=change)
    with pytest.raises(TooFewSitesError):
        liar.method.conduct(liar.talk)
    told = _answers(liar, TakeGroups)
    assert len(told) == 9
    assert all(isinstance(one, Refusal) for one in told)


def test_strict_sites_sum_no_group_without_one_that_was_in_a_sum_over_all() -> None:
    """The sum over all, less those of all groups, would be that of the one who is missing."""
    policy = Policy(sums_after_losses=False, single_site_classes=False, min_rows=2, min_sites=2)
    victim = "site-1"

    def change(name: str, question: Any) -> Any:
        liar.grouped = liar.grouped or isinstance(question, SumGroupMoments)
        if not liar.grouped or name == victim or not isinstance(question, Confirm | Witness):
            return None
        if victim not in question.alive:
            return None
        left = tuple(one for one in question.alive if one != victim)
        return msgspec.structs.replace(question, alive=left, dropped=(victim,))

    method = fedgeom.Moments(aggregation=GroupMedian(n_groups=4, drawn_by="seed"))
    liar: Any = Liar(method, example_sites(16), policy, change=change)
    liar.grouped = False
    liar.method.conduct(liar.talk)  # the other groups are summed, this one is not
    group = next(one for one in drawn_groups(liar.as_site(victim)) if victim in one)
    assert list(liar.talk.metrics["groups dropped"]) == [drawn_groups(liar.as_site(victim)).index(group)]
    lied = [a for _, q, a in liar.heard if isinstance(q, Confirm | Witness) and victim in q.dropped]
    assert lied
    assert all(isinstance(one, Refusal) and "differs from one before" in one.reason for one in lied)


def test_witnesses_help_with_no_sum_across_groups() -> None:
    def change(name: str, question: Any) -> Any:
        if not isinstance(question, Witness):
            return None
        other = next(one for one in question.members if one not in (*question.participants, name))
        return msgspec.structs.replace(question, participants=(*question.participants[:-1], other))

    liar = Liar(moments(), example_sites(9), Policy(), change=change)
    with pytest.raises(TooFewSitesError):
        liar.method.conduct(liar.talk)
    assert all(isinstance(one, Refusal) for one in _answers(liar, Witness))


def test_groups_are_arcs_of_the_ring_where_sites_are_many() -> None:
    rng, y = np.random.default_rng(0), np.repeat(["no", "yes"], 3)
    sites = [fedgeom.SiteData(f"s{at:02d}", 0.3 * rng.uniform(size=(6, 2)), y) for at in range(50)]
    found = fedgeom.run(fedgeom.Moments(aggregation=GroupMedian(n_groups=5)), sites)
    assert not found.lost
    assert not found.warnings
