"""The cohort numbers its sums as they were planned, and knows who is left."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from fedgeom.data.sites import SiteData
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.errors import ProtocolError, TooFewSitesError
from fedgeom.federation.coordinator import Answers, Coordinator
from fedgeom.federation.method import Method
from fedgeom.federation.plan import Plan, Shape, Sum
from fedgeom.federation.site import Site, answers
from fedgeom.protocols.cohort import Cohort, join
from fedgeom.protocols.secure_sum.messages import SumQuestion
from fedgeom.protocols.site import Contribution, SecureMemory, SummingSite
from tests.protocols.summing import Interfere, killer
from tests.unlisted import unlisted


class SumReals(SumQuestion, frozen=True, kw_only=True):
    kind: ClassVar[str] = "test.reals"
    fraction_bits: ClassVar[int] = 10


class SumCounts(SumQuestion, frozen=True, kw_only=True):
    kind: ClassVar[str] = "test.counts"


class SumPart(SumQuestion, frozen=True, kw_only=True):
    kind: ClassVar[str] = "test.part"
    checked: ClassVar[bool] = True
    part: int


class NumbersSite(SummingSite[SecureMemory]):
    @answers(SumReals)
    def reals(self, ask: SumReals) -> Contribution:
        return self.contribute(ask, self.data.X[:, 0])

    @answers(SumPart)
    def part(self, ask: SumPart) -> Contribution:
        return self.contribute(ask, self.data.X[:, 0] + ask.part)

    @answers(SumCounts)
    def counts(self, ask: SumCounts) -> Contribution:
        return self.contribute(ask, np.rint(self.data.X[:, 0]).astype(int))


@unlisted
@dataclass(frozen=True, kw_only=True)
class Numbers(Method):
    name: ClassVar[str] = "numbers"
    site: ClassVar[type[Site[Any]]] = NumbersSite
    min_sites: int = 2

    def plan(self, shape: Shape) -> Plan:
        for question in (SumReals(), SumCounts(), SumReals(), *(SumPart(part=at) for at in range(3))):
            yield Sum(question, 2)


ROWS = {"a": [0.5, -3.0], "b": [0.25, 1.0], "c": [0.126, 2.0], "d": [8.0, -8.0]}


def start(interfere: Interfere | None = None, rows: dict[str, list[float]] = ROWS, **settings: Any) -> Cohort:
    method = Numbers(**settings)
    data = [SiteData(name, np.array(values)[:, None], np.zeros(len(values))) for name, values in rows.items()]
    engine = EmbeddedEngine(method, data, interfere=interfere)
    return join(Coordinator(engine, run=os.urandom(32), method=method.name, roster=engine.roster), method)


def test_real_numbers_are_summed_to_their_binary_digits() -> None:
    cohort = start()
    rounded = round(0.126 * 1024) / 1024
    assert cohort.sum_reals(SumReals(), length=2).tolist() == [8.75 + rounded, -8.0]
    assert cohort.columns == 1
    assert cohort.left == cohort.names == ("a", "b", "c", "d")


def test_whole_numbers_are_summed_exactly_below_zero_too() -> None:
    cohort = start()
    assert cohort.sum_counts(SumCounts(), length=2).tolist() == [8, -8]


def test_elements_are_summed_in_their_ring() -> None:
    rows = {name: [5.0, 6.0] for name in "abcd"}
    assert start(rows=rows).sum_elements(SumCounts(), modulus=7, length=2).tolist() == [20 % 7, 24 % 7]


def test_every_later_sum_leaves_out_those_that_were_lost() -> None:
    cohort = start(killer({"d": ("test.reals", 1)}))
    assert cohort.sum_reals(SumReals(), length=2).tolist()[1] == 0.0
    assert cohort.left == ("a", "b", "c")
    assert cohort.sum_counts(SumCounts(), length=2).tolist() == [0, 0]
    assert cohort.names == ("a", "b", "c", "d")


@pytest.mark.parametrize("lost_at", [1, 2, 3])
def test_parts_of_one_sum_are_over_the_same_sites_whenever_one_is_lost(lost_at: int) -> None:
    cohort = start(killer({"d": ("test.part", lost_at)}))
    results = cohort.sum_parts([SumPart(part=at) for at in range(3)])
    assert {one.sites for one in results} == {("a", "b", "c")}
    assert [one.round for one in results] == [3, 4, 5]
    assert [one.reals(SumPart)[1] for one in results] == [0.0, 3.0, 6.0]
    assert cohort.left == ("a", "b", "c")


def test_parts_have_a_site_that_is_lost_after_all_were_collected() -> None:
    cohort = start(killer({"d": ("sum.confirm", 1)}))
    results = cohort.sum_parts([SumPart(part=at) for at in range(2)])
    assert {one.sites for one in results} == {("a", "b", "c", "d")}
    assert [one.reals(SumPart)[1] for one in results] == [-8.0, -4.0]


def test_a_sum_over_some_says_over_whom_it_was_and_leaves_the_cohort_alone() -> None:
    cohort = start(killer({"d": ("test.reals", 1)}))
    found = cohort.sum_group(SumReals(), length=2, participants=["b", "a", "c"])
    assert found.sites == ("a", "b", "c")
    assert found.values.tolist()[1] == 0.0
    assert cohort.left == ("a", "b", "c", "d")


def test_rounds_are_numbered_as_they_were_planned_and_those_skipped_are_gone() -> None:
    cohort = start()
    assert cohort.next_round("test.counts") == 1
    assert cohort.next_round("test.reals") == 2
    with pytest.raises(ProtocolError, match=r"no further sum of kind 'test.reals' is planned"):
        cohort.next_round("test.reals")
    with pytest.raises(ProtocolError, match=r"no further sum of kind 'test.counts'"):
        cohort.sum_counts(SumCounts(), length=2)


def test_the_method_says_how_many_sites_make_a_result() -> None:
    with pytest.raises(TooFewSitesError, match="4 sites answered the invitation, 5 are needed"):
        start(min_sites=5)
    cohort = start(killer({"a": ("test.reals", 1)}), min_sites=4)
    with pytest.raises(TooFewSitesError, match="3 sites answered with their masked vectors, 4 are needed"):
        cohort.sum_reals(SumReals(), length=2)


def test_those_who_do_not_answer_a_question_to_all_leave() -> None:
    cohort = start()
    cohort.lost_since(Answers({"c": None, "a": None}))  # type: ignore[dict-item]
    assert cohort.left == ("a", "c")


def test_every_site_has_its_own_mail() -> None:
    cohort = start()
    assert {name: set(letters) for name, letters in cohort.mail.items()} == {
        name: set(ROWS) - {name} for name in ROWS
    }


def test_numbers_too_large_for_the_sum_stay_at_the_site(caplog: pytest.LogCaptureFixture) -> None:
    rows = ROWS | {"e": [1e300, 0.0]}
    cohort = start(rows=rows)
    cohort.sum_reals(SumReals(), length=2)
    assert cohort.left == ("a", "b", "c", "d")
    assert "1e+300" not in cohort.sites.lost["e"]
    assert "1e+300" in caplog.text
