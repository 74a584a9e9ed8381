"""Sums over a part of the sites: the others witness them, and can help with no second sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
import numpy as np
import pytest

from fedgeom.errors import TooFewSitesError
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.messages import decode, encode, pack, unpack
from fedgeom.federation.policy import Policy
from fedgeom.federation.site import Site
from fedgeom.protocols.cohort import join
from fedgeom.protocols.join.coordinator import Joined
from fedgeom.protocols.secure_sum.coordinator import Total
from fedgeom.protocols.secure_sum.messages import Confirmation, SumQuestion, Unmask, UnmaskShares, Witness
from tests.protocols.summing import ColumnSite, ColumnSum, SumColumn, joined, make_sites, secure_sum, start
from tests.unlisted import unlisted


class PartSite(ColumnSite):
    """Sums over whomever the coordinator names, as a method with groups does."""

    def expected_participants(self, question: SumQuestion) -> tuple[str, ...]:
        return question.ticket.members


@unlisted
@dataclass(frozen=True, kw_only=True)
class PartSum(ColumnSum):
    name: ClassVar[str] = "part-sum"
    site: ClassVar[type[Site[Any]]] = PartSite


def partial(cohort: Joined, participants: tuple[str, ...], round: int = 0) -> Total:
    return secure_sum(cohort, round, SumColumn(turn=round), modulus=2**64, length=7, participants=participants)


@pytest.mark.parametrize("size", [3, 4, 5, 8])
def test_a_sum_over_some_sites_is_exact(size: int) -> None:
    data = make_sites(8)
    sites, _ = start(data)
    cohort = joined(sites).joined
    participants = cohort.names[:size]
    wanted = sum(site.X[:, 0].astype(np.uint64) for site in data if site.name in participants)
    assert np.array_equal(partial(cohort, participants).vector, wanted)


def test_sums_over_different_parts_follow_each_other() -> None:
    data = make_sites(8)
    sites, _ = start(data, method=PartSum(rounds=3))
    cohort = join(sites, PartSum(rounds=3)).joined
    columns = {site.name: site.X[:, 0].astype(np.uint64) for site in data}
    for round, participants in enumerate([cohort.names[:4], cohort.names[4:], cohort.names[2:6]]):
        assert np.array_equal(
            partial(cohort, participants, round).vector, sum(columns[name] for name in participants)
        )


def test_a_summed_site_and_a_witness_may_be_lost() -> None:
    data = make_sites(9)
    gone: set[str] = set()
    sites, _ = start(data, interfere=lambda name, request: "gone" if name in gone else None)
    cohort = joined(sites).joined
    participants = cohort.names[:5]
    gone |= {participants[0], cohort.names[-1]}
    total = partial(cohort, participants)
    assert total.sites == participants[1:]
    wanted = sum(site.X[:, 0].astype(np.uint64) for site in data if site.name in total.sites)
    assert np.array_equal(total.vector, wanted)


def test_too_few_witnesses_reveal_nothing() -> None:
    data = make_sites(9)
    gone: set[str] = set()
    sites, _ = start(data, interfere=lambda name, request: "gone" if name in gone else None)
    cohort = joined(sites).joined
    gone |= set(cohort.names[4:])
    with pytest.raises(TooFewSitesError, match="Nothing was revealed"):
        partial(cohort, cohort.names[:4])


def test_two_sites_are_too_few_to_hide_in() -> None:
    sites, _ = start(make_sites(8))
    cohort = joined(sites).joined
    with pytest.raises(TooFewSitesError, match="asks for at least 3"):
        partial(cohort, cohort.names[:2])


class Meddler:
    """Lets a test change what a lying coordinator asks of one site."""

    def __init__(self, sites: Coordinator):
        self.sites = sites

    def ask(self, name: str, question: object, expect: type) -> str:
        answers = self.sites.ask({name: question}, expect=expect)  # type: ignore[dict-item]
        return answers.missing.get(name, "")


def seen_witness(sites: Coordinator, engine: object) -> Witness:
    """Hold one honest partial sum and return the question that the witness s0007 got."""
    seen: list[Witness] = []
    deliver = engine.deliver  # type: ignore[attr-defined]

    def listen(requests: dict[str, bytes]) -> object:
        for name, request in requests.items():
            frame = unpack(request)
            if frame.kind == Witness.kind and name == "s0007":
                seen.append(decode(frame.body, Witness))
        return deliver(requests)

    engine.deliver = listen  # type: ignore[attr-defined]
    cohort = joined(sites, rounds=2).joined
    partial(cohort, cohort.names[:4])
    return seen[0]


def test_a_witness_signs_one_list_a_round_and_stays_a_witness() -> None:
    sites, engine = start(make_sites(8))
    honest = seen_witness(sites, engine)
    coordinator = Meddler(sites)
    assert coordinator.ask("s0007", honest, Confirmation) == ""  # the same again is no news
    fewer = honest.alive[:-1]
    lie = msgspec.structs.replace(honest, alive=fewer, dropped=honest.alive[-1:])
    assert "another list" in coordinator.ask("s0007", lie, Confirmation)
    lie = msgspec.structs.replace(honest, question_hash=bytes(32))
    assert "another sum" in coordinator.ask("s0007", lie, Confirmation)
    lie = msgspec.structs.replace(honest, participants=honest.participants[:3], alive=honest.alive[:3])
    assert "another sum" in coordinator.ask("s0007", lie, Confirmation)
    lie = msgspec.structs.replace(honest, round=1, participants=honest.members, alive=honest.members)
    assert "without itself" in coordinator.ask("s0007", lie, Confirmation)
    lie = msgspec.structs.replace(honest, round=2)
    assert "not announced" in coordinator.ask("s0007", lie, Confirmation)
    unmask = Unmask(round=0, alive=fewer, dropped=honest.alive[-1:], signatures={}, masked={})
    assert "not the list" in coordinator.ask("s0007", unmask, UnmaskShares)


def test_a_site_with_few__the_summed_refuses() -> None:
    sites, _ = start(make_sites(200), policy=Policy(min_cohort=10))
    cohort = joined(sites).joined
    name = cohort.names[0]
    strangers = [other for other in cohort.names if other not in cohort.peers[name]][1:40]
    assert len(strangers) > 20
    total = partial(cohort, tuple(sorted([name, *strangers])))
    assert name not in total.sites
    assert "hide it too little" in sites.lost[name]


def test_a_spoilt_witness_question_is_refused() -> None:
    sites, engine = start(make_sites(8))
    honest = seen_witness(sites, engine)
    runner = engine.runners["s0007"]
    for change in ({"alive": ()}, {"alive": ("s0007",)}, {"dropped": honest.alive}):
        spoilt = msgspec.structs.replace(honest, **change)
        answer, _ = runner.answer(pack(sites.run, ColumnSum.name, spoilt), engine.memories["s0007"])
        assert unpack(answer).kind == "refusal"
    assert len(encode(honest)) < 100_000
