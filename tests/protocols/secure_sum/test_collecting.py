"""Masked vectors are added up as they come, mail travels once, and who no longer counts is in no total."""

from __future__ import annotations

from dataclasses import replace as changed

import numpy as np

from fedgeom.federation.messages import decode, unpack
from fedgeom.federation.policy import Policy
from fedgeom.protocols.secure_sum.coordinator import collect, request_sum, unmask
from fedgeom.protocols.secure_sum.messages import MaskedVector
from tests.protocols.summing import SumColumn, column_sum, joined, killer, make_sites, plain_sum, secure_sum, start


def test_mail_travels_once_and_the_question_then_is_the_same_for_all() -> None:
    data, asked = make_sites(4), []

    def note(name: str, request: bytes) -> None:
        if unpack(request).kind == SumColumn.kind:
            asked.append((decode(unpack(request).body, SumColumn).ticket, request))

    sites, _ = start(data, interfere=note)
    column_sum(sites, modulus=2**64, rounds=3)
    tickets = {round: [ticket for ticket, _ in asked if ticket.round == round] for round in range(3)}
    assert all(len(ticket.letters) == 3 for ticket in tickets[0])
    assert not any(ticket.letters for round in (1, 2) for ticket in tickets[round])
    assert len({request for ticket, request in asked if ticket.round == 2}) == 1


def test_a_site_that_missed_the_first_sum_as_a_witness_still_gets_its_mail() -> None:
    data = make_sites(6)
    sites, _ = start(data)
    cohort = joined(sites, rounds=2)
    some = cohort.names[:3]
    for turn in range(2):
        question = SumColumn(turn=turn, times=1)
        total = secure_sum(cohort.joined, turn, question, modulus=2**64, length=7, participants=some)
        assert (total.vector == plain_sum(data, some, 2**64)).all()
        assert not any(cohort.mail[name] for name in some)


def test_those_that_are_left_send_the_same_again_when_a_policy_leaves_one_out() -> None:
    data = make_sites(9)
    sites, engine = start(data, interfere=killer({data[0].name: ("test.column", 1)}))
    runner = engine.runners[data[8].name]
    runner.identity = changed(runner.identity, policy=Policy(min_cohort=9))
    cohort = joined(sites)
    total = cohort.sum_elements(SumColumn(), modulus=2**64, length=7)
    assert cohort.left == tuple(site.name for site in data[1:8])
    assert (total == plain_sum(data, cohort.left, 2**64)).all()


def test_the_coordinator_keeps_no_masked_vector() -> None:
    sites, _ = start(make_sites(4))
    kept = []
    ask = sites.ask

    def noting(*args, **options):  # type: ignore[no-untyped-def]
        answers = ask(*args, **options)
        kept.extend(a.vector.shape for a in answers.values() if isinstance(a, MaskedVector))
        return answers

    sites.ask = noting  # type: ignore[method-assign]
    column_sum(sites, modulus=2**64)
    assert kept == [(0,)] * 4


def test_a_site_that_no_longer_counts_is_taken_out_before_anything_is_unmasked() -> None:
    data = make_sites(7)
    sites, _ = start(data)
    cohort = joined(sites)
    request = request_sum(cohort.joined, 0, SumColumn(), modulus=2**64, length=7, participants=cohort.left)
    found = collect(cohort.joined, request)
    assert tuple(sorted(found.masked)) == cohort.names
    fewer = collect(cohort.joined, found.again(cohort.names[1:]))
    assert (found.total != fewer.total).any()
    total = unmask(cohort.joined, fewer)
    assert total.sites == cohort.names[1:]
    assert (np.asarray(total.vector) == plain_sum(data, total.sites, 2**64)).all()
