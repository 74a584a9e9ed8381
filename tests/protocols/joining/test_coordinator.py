"""Inviting: who is left out while joining, and why."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from fedgeom.crypto.keys import Identity
from fedgeom.data.sites import SiteData
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.errors import InputError, TooFewSitesError
from fedgeom.federation.coordinator import Coordinator, Lost
from fedgeom.federation.messages import decode, unpack
from fedgeom.protocols.join.coordinator import Joined, invite
from fedgeom.protocols.join.messages import Hello, Letters
from tests.protocols.summing import ColumnSum, killer, make_sites, start


def invited(sites: Coordinator, min_sites: int = 2) -> Joined:
    return invite(sites, rounds=1, terms=ColumnSum().terms(), min_sites=min_sites)


def test_everybody_who_answers_joins_and_every_letter_waits_for_its_recipient() -> None:
    sites, _ = start(make_sites(5))
    joined = invited(sites)
    assert joined.names == sites.names
    assert set(joined.mail) == set(sites.names)
    for name in joined.names:
        assert set(joined.mail[name]) == set(sites.names) - {name}
        assert joined.needed[name] == 4  # two thirds of five
        assert len(joined.keys[name].masks) == len(joined.keys[name].seals) == 1
    assert sorted(joined.numbers().values()) == [1, 2, 3, 4, 5]


def test_the_invitation_says_the_terms_and_the_seed() -> None:
    sites, engine = start(make_sites(3))
    seen: list[Hello] = []
    deliver = engine.deliver

    def listen(requests: Mapping[str, bytes]) -> Iterator[tuple[str, bytes | Lost]]:
        frames = [unpack(request) for request in requests.values()]
        seen.extend(decode(frame.body, Hello) for frame in frames if frame.kind == Hello.kind)
        return deliver(requests)

    engine.deliver = listen  # type: ignore[method-assign]
    sites.seed = 17
    invited(sites)
    assert [(hello.seed, hello.rounds, hello.terms) for hello in seen] == [(17, 1, ColumnSum().terms())] * 3


@pytest.mark.parametrize("kind", ["join.hello", "join.meet", "join.share"])
def test_those_who_are_lost_stay_outside(kind: str) -> None:
    data = make_sites(5)
    sites, _ = start(data, interfere=killer({data[2].name: (kind, 1)}))
    joined = invited(sites)
    assert joined.names == tuple(site.name for site in data if site is not data[2])
    assert data[2].name not in joined.mail
    assert sites.lost == {data[2].name: f"killed at {kind}"}
    assert not sites.left_out


@pytest.mark.parametrize(
    ("kind", "what"),
    [("join.hello", "the invitation"), ("join.meet", "with secrets"), ("join.share", "with letters")],
)
def test_fewer_than_the_method_needs_are_named(kind: str, what: str) -> None:
    data = make_sites(5)
    sites, _ = start(data, interfere=killer({data[0].name: (kind, 1)}))
    with pytest.raises(TooFewSitesError, match=f"4 sites answered {what}") as caught:
        invited(sites, min_sites=5)
    assert f"{data[0].name}: killed at {kind}" in str(caught.value)


def test_sites_with_other_columns_are_named() -> None:
    data = [*make_sites(3), SiteData("wide", np.zeros((7, 2)), np.zeros(7))]
    sites, _ = start(data)
    with pytest.raises(InputError, match="most have 1, but site 'wide' has 2"):
        invited(sites)


def named(data: list[SiteData], **columns: str) -> list[SiteData]:
    return [replace(site, columns=(columns[site.name],) if site.name in columns else ()) for site in data]


def test_sites_whose_columns_have_other_names_are_named_and_the_names_are_not_shown() -> None:
    data = make_sites(4)
    assert len(invited(start(named(data, s0000="age", s0002="age"))[0]).names) == 4  # two sites know no names
    with pytest.raises(InputError, match=r"the same names and in the same order; those of site 's0001'") as caught:
        invited(start(named(data, s0000="age", s0001="weight", s0002="age", s0003="age"))[0])
    assert "weight" not in str(caught.value)
    assert "compare the headers" in str(caught.value)


@pytest.mark.parametrize("known", [True, False])
def test_a_site_whose_key_the_others_would_refuse_is_left_out_by_name(known: bool) -> None:
    """One wrong key must not stop everybody."""
    data = make_sites(4)
    engine = EmbeddedEngine(ColumnSum(), data)
    roster = dict(engine.roster) | {"s0001": Identity.generate().public}
    if not known:
        del roster["s0001"]
    sites = Coordinator(engine, run=os.urandom(32), method=ColumnSum.name, roster=roster)
    events: list[tuple[str, str]] = []
    sites.listeners.append(lambda event: events.append((event.site, event.state)))
    joined = invited(sites)
    assert joined.names == ("s0000", "s0002", "s0003")
    assert "was it admitted with another key?" in sites.lost["s0001"]
    assert sites.left_out == {"s0001"}
    assert ("s0001", "lost") in events


def test_sites_whose_masks_could_never_be_removed_are_left_out() -> None:
    """Noticed later, it would be too late: a site that asks for more holders than there are."""
    sites, engine = start(make_sites(4))
    deliver = engine.deliver

    def demanding(requests: Mapping[str, bytes]) -> Iterator[tuple[str, bytes | Lost]]:
        for name, reply in deliver(requests):
            frame: Any = unpack(reply) if isinstance(reply, bytes) else None
            if name == "s0002" and frame.kind == Letters.kind:
                letters = msgspec.structs.replace(decode(frame.body, Letters), needed=5)
                reply = msgspec.msgpack.encode(
                    msgspec.structs.replace(frame, body=msgspec.msgpack.encode(letters))
                )
            yield name, reply

    engine.deliver = demanding  # type: ignore[method-assign]
    joined = invited(sites)
    assert joined.names == ("s0000", "s0001", "s0003")
    assert sites.lost["s0002"] == "4 of the 5 holders that its shares need are left. Nothing was revealed"
    assert sites.left_out == {"s0002"}
