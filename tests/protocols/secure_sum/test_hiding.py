"""Over whom is summed: participants only become fewer, and no difference of two sums is a sum over few."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import replace as changed
from typing import Any, ClassVar

import numpy as np
import pytest

from fedgeom.errors import TooFewSitesError
from fedgeom.federation.messages import Name
from fedgeom.federation.policy import Policy
from fedgeom.federation.site import Site, answers
from fedgeom.protocols.secure_sum.messages import (
    Confirm,
    Confirmation,
    MaskedVector,
    SumQuestion,
    Unmask,
    UnmaskShares,
    Witness,
    hash_content,
)
from fedgeom.protocols.site import Contribution
from tests.protocols.lying import ME, Lying, replace, stamped
from tests.protocols.summing import ColumnSite, ColumnSum, SumColumn, column_sum, joined, killer, make_sites, start
from tests.unlisted import unlisted

CAREFUL = Policy(sums_after_losses=False)


class FreeSite(ColumnSite):
    """Sums over whomever the coordinator names."""

    def expected_participants(self, question: SumQuestion) -> tuple[str, ...]:
        return question.ticket.members


@unlisted
@dataclass(frozen=True, kw_only=True)
class FreeSum(ColumnSum):
    name: ClassVar[str] = "free-sum"
    site: ClassVar[type[Site[Any]]] = FreeSite


def after_one_sum(n: int, lost: int = 0, **options: Any) -> Lying:
    """Return a run in which ME has signed a list on which the last sites are lost."""
    lie = Lying(n, **options).hello().share()
    lie.get(ME, lie.column(ME), MaskedVector)
    lie.get(ME, Confirm(round=0, alive=lie.names[: n - lost], dropped=lie.names[n - lost :]), Confirmation)
    return lie


def witness_of(lie: Lying, name: str, question: SumQuestion, alive: tuple[str, ...], **changes: Any) -> Witness:
    participants = question.ticket.participants
    told: dict[str, Any] = {"round": question.ticket.round, "question_hash": question.ticket.question_hash}
    told |= {"content": hash_content(question), "members": lie.names, "participants": participants, "alive": alive}
    told |= {"dropped": tuple(sorted(set(participants) - set(alive))), "letters": lie.mail[name]}
    return Witness(**(told | changes))


# --- participants ----------------------------------------------------------------------------------------------


def test_who_was_lost_in_a_sum_over_all_is_in_no_later_one() -> None:
    lie = after_one_sum(7, lost=2)
    reason = "s0005, s0006 cannot be in this sum"
    lie.refused(ME, lie.column(ME, round=1, times=2), reason)
    lie.refused(ME, lie.column(ME, round=1, times=2, participants=lie.names[:6]), "s0005 cannot be in this sum")
    lie.get(ME, lie.column(ME, round=1, times=2, participants=lie.names[:4]), MaskedVector)


def test_participants_are_named_once_each_and_in_order() -> None:
    lie = Lying(5).hello().share()
    for names in (lie.names[::-1], (*lie.names, lie.names[-1])):
        lie.refused(ME, lie.column(ME, participants=names), "named once each, in alphabetical order")


def test_a_question_asked_again_late_is_answered_as_it_was() -> None:
    lie = Lying(7).hello().share()
    first = lie.get(ME, lie.column(ME), MaskedVector)
    lie.get(ME, Confirm(round=0, alive=lie.names[:5], dropped=lie.names[5:]), Confirmation)
    assert lie.ask(ME, lie.column(ME)) == first


def test_a_method_may_say_who_is_in_a_sum() -> None:
    lie = after_one_sum(7, lost=2, method=FreeSum(rounds=2))
    lie.get(ME, lie.column(ME, round=1, times=2), MaskedVector)


# --- the same over other living ----------------------------------------------------------------------------------


def test_the_same_is_not_signed_with_other_living_in_another_round() -> None:
    """The same question over the same sites may be asked twice; calling a site lost in one of them is refused."""
    lie = after_one_sum(6)
    lie.get(ME, lie.column(ME, round=1), MaskedVector)
    lie.refused(ME, Confirm(round=1, alive=lie.names[:5], dropped=lie.names[5:]), "signed with other living sites")
    lie.get(ME, Confirm(round=1, alive=lie.names, dropped=()), Confirmation)


def test_nor_by_witnesses_alone() -> None:
    lie = Lying(15, method=FreeSum(rounds=2)).hello().share()
    five, name = lie.names[:5], lie.names[9]
    first = lie.column(ME, participants=five)
    lie.get(name, witness_of(lie, name, first, five), Confirmation)
    again = lie.column(ME, participants=five, round=1)
    lie.refused(name, witness_of(lie, name, again, five[:4]), "signed with other living sites")
    other = lie.column(ME, participants=five, round=1, times=2)
    lie.get(name, witness_of(lie, name, other, five[:4]), Confirmation)


def test_a_witness_told_of_another_content_finds_no_signatures_for_it() -> None:
    """So that it would help with the same over other living, it would be told that it is something else."""
    lie = Lying(15, method=FreeSum(rounds=2)).hello().share()
    five, witnesses = lie.names[:5], lie.names[5:]
    masked = {}
    for name in five:
        question = lie.column(name, participants=five)
        masked[name] = lie.get(name, question, MaskedVector).signature
    signatures = {}
    for name in witnesses:
        lies = witness_of(lie, name, question, five, content=bytes(32))
        signatures[name] = lie.get(name, lies, Confirmation).signature
    unmask = Unmask(round=0, alive=five, dropped=(), signatures=signatures, masked=masked)
    for name in witnesses:
        lie.refused(name, unmask, "signature of 's0000' for 'masked' is not valid")
        lie.refused(name, replace(unmask, masked={}), "no signature shows that s0000, s0001")


# --- weights, told to witnesses ----------------------------------------------------------------------------------


class SumWeighed(SumQuestion, frozen=True, kw_only=True):
    kind: ClassVar[str] = "test.weighed"
    factors: dict[Name, float]

    @property
    def weights(self) -> dict[str, float]:
        return self.factors


class WeighedSite(FreeSite):
    @classmethod
    def all_sums(cls, settings: Any) -> tuple[type[SumQuestion], ...]:
        return (SumWeighed,)

    @answers(SumWeighed)
    def weighed(self, ask: SumWeighed) -> Contribution:
        return self.contribute(ask, self.data.X[:, 0] * ask.factors[self.name])


@unlisted
@dataclass(frozen=True, kw_only=True)
class WeighedSum(ColumnSum):
    name: ClassVar[str] = "weighed-sum"
    site: ClassVar[type[Site[Any]]] = WeighedSite


def test_witnesses_alone_cannot_be_told_of_other_weights() -> None:
    """Three of five count, two do not. Ten witnesses, enough by themselves, are told of no weights and of two losses.

    The sum of the three living would be the victim's vector.
    """
    lie = Lying(15, method=WeighedSum(rounds=1)).hello().share()
    five, witnesses = lie.names[:5], lie.names[5:]
    factors = dict(zip(five, (1.0, 1.0, 1.0, 0.0, 0.0), strict=True))
    masked = {}
    for name in five:
        question = stamped(SumWeighed(ticket=lie.ticket(name, participants=five), factors=factors))
        masked[name] = lie.get(name, question, MaskedVector).signature
    alive = (ME, *five[3:])
    lie.refused(
        witnesses[0], witness_of(lie, witnesses[0], question, alive, factors=factors), "a sum of 1.0 sites"
    )
    signatures = {}
    for name in witnesses:
        signatures[name] = lie.get(name, witness_of(lie, name, question, alive), Confirmation).signature
    unmask = Unmask(round=0, alive=alive, dropped=five[1:3], signatures=signatures, masked=masked)
    for name in witnesses:
        lie.refused(name, unmask, "signature of 's0000' for 'masked' is not valid")


# --- what others' policies ask for -------------------------------------------------------------------------------


def strict(lie: Lying, name: str, **policy: Any) -> None:
    """Give one site a policy of its own."""
    runner = lie.engine.runners[name]
    runner.identity = changed(runner.identity, policy=Policy(**policy))


def test_the_others_keep_to_a_sites_policy_when_it_is_not_asked() -> None:
    """The victim asks for five in a sum. The others, enough to unmask, are told that it lives and three are lost."""
    lie = Lying(7)
    victim = lie.names[-1]
    strict(lie, victim, min_cohort=5)
    lie.hello().share().sum()
    four = (*lie.names[:3], victim)
    lie.refused(ME, Confirm(round=0, alive=four, dropped=lie.names[3:6]), "policy of 's0006' asks for at least 5")
    lie.get(ME, Confirm(round=0, alive=lie.names[:4], dropped=lie.names[4:]), Confirmation)


def test_the_coordinator_counts_a_site_as_lost_whose_policy_asks_for_more_than_are_left() -> None:
    data = make_sites(7)
    lost = {data[0].name: ("test.column", 1), data[1].name: ("test.column", 1)}
    sites, engine = start(data, interfere=killer(lost))
    runner = engine.runners[data[6].name]
    runner.identity = changed(runner.identity, policy=Policy(min_cohort=6))
    cohort = joined(sites)
    with pytest.raises(TooFewSitesError, match="Nothing was revealed"):  # five of seven must help; four are left
        cohort.sum_elements(SumColumn(), modulus=2**64, length=7)
    assert sites.lost[data[6].name] == "5 sites are left; its policy asks for at least 6"


# --- differences -------------------------------------------------------------------------------------------------


def test_a_strict_site_goes_on_with_no_sum_that_differs_by_few() -> None:
    lie = after_one_sum(8, policy=CAREFUL)
    for few in (7, 6):  # one or two sites fewer
        lie.refused(
            ME, lie.column(ME, round=1, times=2, participants=lie.names[:few]), "sums_after_losses = false"
        )
    lie.get(ME, lie.column(ME, round=1, times=2, participants=lie.names[:5]), MaskedVector)  # three fewer hide


def test_nor_does_it_sign_a_list_that_does() -> None:
    lie = after_one_sum(8, policy=CAREFUL)
    lie.get(ME, lie.column(ME, round=1, times=2), MaskedVector)
    lie.refused(
        ME, Confirm(round=1, alive=lie.names[:7], dropped=lie.names[7:]), "differs from one before by 1 sites"
    )
    lie.get(ME, Confirm(round=1, alive=lie.names[:5], dropped=lie.names[5:]), Confirmation)


def test_nor_as_a_witness() -> None:
    lie = Lying(15, method=FreeSum(rounds=2), policy=CAREFUL).hello().share()
    six, name = lie.names[:6], lie.names[9]
    lie.get(name, witness_of(lie, name, lie.column(ME, participants=six), six), Confirmation)
    second = lie.column(ME, participants=six, round=1, times=2)
    lie.refused(name, witness_of(lie, name, second, six[:5]), "sums_after_losses = false")
    lie.get(name, witness_of(lie, name, second, six[:3]), Confirmation)


def test_of_two_sums_one_holds_the_other_or_they_are_apart() -> None:
    """Or a few that differ by enough sites each would give one site away: see tests/attacks/differences.py."""
    lie = Lying(15, method=FreeSum(rounds=4), policy=CAREFUL).hello().share()
    name = lie.names[14]
    first, crossing, apart = lie.names[:9], (*lie.names[:5], *lie.names[9:13]), lie.names[9:13]

    def ask(round: int, among: tuple[str, ...]) -> Any:
        return witness_of(lie, name, lie.column(among[0], participants=among, round=round, times=round + 1), among)

    lie.get(name, ask(0, first), Confirmation)
    lie.refused(name, ask(1, crossing), "neither holds the other")
    lie.get(name, ask(2, apart), Confirmation)
    lie.get(name, ask(3, first[:5]), Confirmation)


def test_a_permissive_site_keeps_to_the_policy_of_the_few() -> None:
    lie = Lying(8)
    victim = lie.names[-1]
    strict(lie, victim, sums_after_losses=False)
    lie.hello().share()
    lie.get(ME, lie.column(ME), MaskedVector)
    lie.get(ME, Confirm(round=0, alive=lie.names, dropped=()), Confirmation)
    lie.refused(ME, lie.column(ME, round=1, times=2, participants=lie.names[:7]), "sums_after_losses = false")
    others = tuple(name for name in lie.names if name != "s0003")
    lie.get(ME, lie.column(ME, round=1, times=2, participants=others), MaskedVector)  # s0003 does not mind


@pytest.mark.parametrize("strictly", [True, False])
def test_after_a_loss_strict_sites_end_the_run_in_words_and_others_go_on(strictly: bool) -> None:
    data = make_sites(6)
    sites, _ = start(
        data,
        policy=CAREFUL if strictly else None,
        interfere=killer({data[5].name: ("test.column", 2)}),
    )
    if strictly:
        with pytest.raises(
            TooFewSitesError, match=r"sums_after_losses = false\)\. Resume the run when lost sites are back"
        ):
            column_sum(sites, modulus=2**64, rounds=2)
    else:
        assert [len(total.sites) for total in column_sum(sites, modulus=2**64, rounds=2)] == [6, 5]


def test_strict_sites_do_many_sums_of_a_kind_while_nobody_is_lost_or_at_the_first() -> None:
    data = make_sites(6)
    sites, _ = start(data, policy=CAREFUL, interfere=killer({data[5].name: ("test.column", 1)}))
    assert [len(total.sites) for total in column_sum(sites, modulus=2**64, rounds=3)] == [5, 5, 5]


def test_sets_of_sites_are_bits_and_back() -> None:
    hiding = after_one_sum(19).as_site(ME).sums.hiding
    names = np.array(sorted(hiding.joining.memory.order))
    rng = np.random.default_rng(0)
    for _ in range(20):
        some = names[rng.random(19) < 0.5].tolist()
        assert hiding.names(hiding.bits(some)) == some
        assert len(hiding.bits(some)) == 3


def test_shares_are_given_where_all_living_signed_for_the_sum() -> None:
    """By the list itself, or, those who were lost since, by what came with their masked vectors."""
    lie = Lying(5).hello().share()
    lie.sum()
    signatures = lie.confirm()
    lie.get(ME, lie.unmask(signatures, masked={}), UnmaskShares)
    four = {name: signatures[name] for name in lie.names[:4]}
    lie.refused(ME, lie.unmask(four, masked={}), "no signature shows that s0004 masked for this sum")
    other = {"s0004": lie.masked["s0002"]}
    lie.refused(ME, lie.unmask(four, masked=other), "signature of 's0004' for 'masked' is not valid")
    lie.get(ME, lie.unmask(four, masked={"s0004": lie.masked["s0004"]}), UnmaskShares)
