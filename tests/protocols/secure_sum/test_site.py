"""A coordinator that lies about sums: every site notices and refuses in words."""

from __future__ import annotations

import copy
import os
from typing import Any

import msgspec
import numpy as np
import pytest

from fedgeom.crypto.keys import Identity
from fedgeom.errors import DecodeError, ProtocolError
from fedgeom.federation.messages import Question, Refusal, pack, pack_body, unpack
from fedgeom.federation.policy import Policy
from fedgeom.protocols.join.messages import Meet, Share
from fedgeom.protocols.secure_sum.messages import (
    Confirm,
    Confirmation,
    MaskedVector,
    Unmask,
    UnmaskShares,
    Witness,
)
from tests.protocols.lying import ME, Lying, own_mask, replace, summed
from tests.protocols.summing import make_sites

# --- tickets ---------------------------------------------------------------------------------------------------


def test_whatever_comes_before_joining_is_refused() -> None:
    lie = Lying()
    lie.refused(ME, lie.column(ME), "asked before it joined")
    lie.hello()
    for early in (lie.column(ME), Confirm(round=0, alive=lie.names, dropped=()), lie.unmask({})):
        lie.refused(ME, early, "asked before it joined")


@pytest.mark.parametrize("round", [2, 63, 2**40])
def test_a_round_that_was_not_announced_is_refused(round: int) -> None:
    lie = Lying().hello().share()
    lie.refused(ME, lie.column(ME, round=round), "was not announced")


def test_a_second_different_ticket_in_a_round_is_refused() -> None:
    lie = Lying(5).hello().share()
    first = lie.get(ME, lie.column(ME), MaskedVector)
    for changes in (
        {"participants": lie.names[:4]},
        {"modulus": str(2**63)},
        {"times": 2},
        {"participants": lie.names[::-1]},
    ):
        lie.refused(ME, lie.column(ME, **changes), "the masks of round 0 were used for another question already")
    assert lie.ask(ME, lie.column(ME)) == first


def test_asking_the_same_twice_gives_the_same_masked_vector() -> None:
    lie = Lying().hello().share()
    first = lie.sum()
    assert lie.sum() == first


def test_a_site_set_back_in_time_does_not_reuse_masks_for_another_question() -> None:
    lie = Lying(5).hello().share()
    backup = lie.memories[ME]
    first = lie.get(ME, lie.column(ME), MaskedVector).vector.numpy()
    for changes in (
        {"participants": lie.names[:4]},
        {"times": 2},
        {"members": lie.names[:4], "participants": lie.names[:4]},
    ):
        lie.memories[ME] = backup
        second = lie.get(ME, lie.column(ME, **changes), MaskedVector).vector.numpy()
        expected = np.uint64(changes.get("times", 1) - 1) * make_sites(5)[0].X[:, 0].astype(np.uint64)
        assert (second - first != expected).all()


@pytest.mark.parametrize(
    "changes",
    [
        {"participants": ("s0001", "s0002", "s0003")},
        {"participants": ("s0000", "s0001", "mallory")},
        {"members": ("s0000", "s0001", "s0002")},
        {"participants": ()},
    ],
)
def test_participants_must_be_members_with_me_among_them(changes: dict[str, Any]) -> None:
    lie = Lying().hello().share()
    lie.refused(ME, lie.column(ME, **changes), "part of")


@pytest.mark.parametrize(
    "members",
    [
        ("s0001", "s0002", "s0003"),
        ("mallory", "s0000", "s0001", "s0002", "s0003"),
        (),
    ],
)
def test_members_must_be_of_the_cohort_with_me_among_them(members: tuple[str, ...]) -> None:
    lie = Lying().hello().share()
    lie.refused(ME, lie.column(ME, members=members), "not a part of the cohort")


def test_too_few_participants_are_refused() -> None:
    lie = Lying().hello().share()
    lie.refused(ME, lie.column(ME, participants=("s0000", "s0001")), "2 sites are left")
    lie.refused(ME, lie.column(ME, participants=("s0000", "s0001", "s0001")), "2 sites are left")


def test_a_ticket_made_out_for_another_question_is_refused() -> None:
    lie = Lying().hello().share()
    good = lie.column(ME)
    for bad in (replace(good, times=2), replace(good, ticket=replace(good.ticket, question_hash=bytes(32)))):
        lie.refused(ME, bad, "made out for another question")


@pytest.mark.parametrize("modulus", ["1", str(2**64 - 1), "99999999999999999999"])
def test_a_modulus_that_is_none_is_refused(modulus: str) -> None:
    lie = Lying().hello().share()
    assert isinstance(lie.ask(ME, lie.column(ME, modulus=modulus)), Refusal)


def test_a_ring_too_small_for_the_data_reveals_no_entry_and_is_tried_once() -> None:
    lie = Lying().hello().share()
    answer = lie.ask(ME, lie.column(ME, modulus="2"))
    assert isinstance(answer, Refusal)
    assert not any(str(int(value)) in answer.reason for value in make_sites(4)[0].X[:, 0])
    for modulus in ("2", "100", str(2**64)):
        again = lie.ask(ME, lie.column(ME, modulus=modulus))
        assert "has left this run" in again.reason


def test_sites_asked_different_things_have_masks_that_do_not_cancel() -> None:
    lie = Lying().hello().share()
    total = np.zeros(7, np.uint64)
    for name in lie.names:  # all but the victim are asked alike; the own masks are taken away as if all were known
        question = lie.column(name, times=2 if name == ME else 1)
        total += lie.get(name, question, MaskedVector).vector.numpy()
        total -= own_mask(lie, name, question)
    columns = [site.X[:, 0].astype(np.uint64) for site in make_sites(4)]
    assert (total != sum(columns) + columns[0]).all()
    assert (total > 10**9).any()

    honest = Lying().hello().share()
    total = np.zeros(7, np.uint64)
    for name in honest.names:  # the same sum of equal questions comes out
        question = honest.column(name)
        total += honest.get(name, question, MaskedVector).vector.numpy() - own_mask(honest, name, question)
    assert (total == sum(columns)).all()


# --- confirming and unmasking ----------------------------------------------------------------------------------


def test_a_second_list_of_the_living_is_refused() -> None:
    lie = summed()
    lie.confirm()
    lie.refused(ME, Confirm(round=0, alive=lie.names[:4], dropped=lie.names[4:]), "another list of living sites")
    assert isinstance(lie.ask(ME, Confirm(round=0, alive=lie.names, dropped=())), Confirmation)


@pytest.mark.parametrize("kind", [Confirm, Unmask])
def test_lists_that_contradict_themselves_are_refused(kind: type[Question]) -> None:
    lie = summed()
    signatures = {"signatures": lie.confirm(), "masked": lie.masked} if kind is Unmask else {}
    a, b, c, d, e = lie.names
    cases = {
        "both alive and dropped: s0004": ((a, b, c, d, e), (e,)),
        "do not make up the sites": ((a, b, c, d), ()),
        "do not make up": ((a, b, c, d, e), ("mallory",)),
        "announced as dropped": ((b, c, d, e), (a,)),
        "2 sites are left": ((a, b), (c, d, e)),
    }
    for reason, (alive, dropped) in cases.items():
        lie.refused(a, kind(round=0, alive=alive, dropped=dropped, **signatures), reason)
    lie.refused(a, kind(round=0, alive=(a, a, a), dropped=(b, c, d, e), **signatures), "1 sites are left")


@pytest.mark.parametrize("round", [-1, 1, 7, 2**62])
@pytest.mark.parametrize("kind", [Confirm, Unmask])
def test_rounds_in_which_nothing_was_masked_are_refused(kind: type[Question], round: int) -> None:
    lie = summed()
    extra = {"signatures": lie.confirm(), "masked": lie.masked} if kind is Unmask else {}
    lie.refused(ME, kind(round=round, alive=lie.names, dropped=(), **extra), "do not make up the sites")


def test_unmasking_before_confirming_is_refused() -> None:
    lie = summed()
    lie.refused(ME, lie.unmask({}), "not the list of living sites that was confirmed")


def test_unmasking_with_another_list_than_confirmed_is_refused() -> None:
    lie = summed()
    signatures = lie.confirm()
    other = lie.unmask(signatures, alive=lie.names[:4], dropped=lie.names[4:])
    lie.refused(ME, other, "not the list of living sites that was confirmed")


def test_unmasking_needs_enough_true_signatures() -> None:
    lie = summed()
    signatures = lie.confirm()
    three = {name: signatures[name] for name in lie.names[:3]}
    lie.refused(ME, lie.unmask({}), "0 peers confirmed who is alive; 's0000' needs 4")
    lie.refused(ME, lie.unmask(three), "3 peers confirmed who is alive; 's0000' needs 4")
    lie.refused(ME, lie.unmask(three | {"mallory": bytes(64)}), "3 peers confirmed")
    for forged in (bytes(64), signatures["s0002"], Identity.generate().sign("alive", b"")):
        lie.refused(
            ME, lie.unmask(signatures | {"s0001": forged}), "signature of 's0001' for 'alive' is not valid"
        )
    assert isinstance(lie.ask(ME, lie.unmask(signatures)), UnmaskShares)


def test_signatures_of_another_round_do_not_count() -> None:
    lie = summed()
    old = lie.confirm()
    for name in lie.names:
        lie.get(name, lie.column(name, round=1), MaskedVector)
    lie.confirm(round=1)
    lie.refused(ME, lie.unmask(old, round=1), "signature of 's0000' for 'alive' is not valid")


def test_two_different_lists_cannot_both_be_unmasked() -> None:
    lie = summed(5)
    a, b, c, d, e = lie.names
    everyone = Confirm(round=0, alive=lie.names, dropped=())
    without_e = Confirm(round=0, alive=(a, b, c, d), dropped=(e,))
    first = {name: lie.get(name, everyone, Confirmation).signature for name in (c, d, e)}
    second = {name: lie.get(name, without_e, Confirmation).signature for name in (a, b)}
    lie.refused(c, lie.unmask(first), "3 peers confirmed")
    lie.refused(a, lie.unmask(second, alive=(a, b, c, d), dropped=(e,)), "2 peers confirmed")
    lie.refused(c, lie.unmask(first | second), "signature of 's0000' for 'alive' is not valid")


def test_shares_go_out_of_one_kind_for_each_site() -> None:
    lie = Lying(5).hello().share()
    for name in lie.names[:4]:
        lie.masked[name] = lie.get(name, lie.column(name), MaskedVector).signature
    lists = {"alive": lie.names[:4], "dropped": lie.names[4:]}
    signatures = lie.confirm(**lists)
    for name in lie.names[:4]:
        shares = lie.get(name, lie.unmask(signatures, **lists), UnmaskShares)
        assert set(shares.self_shares) == set(lie.names[:4])
        assert set(shares.mask_shares) == {"s0004"}


def test_the_same_is_not_summed_over_one_site_fewer_in_another_round() -> None:
    """The difference of the two sums would be the missing site's vector."""
    lie = summed(5)
    without = tuple(name for name in lie.names if name != lie.names[-1])
    lie.refused(ME, lie.column(ME, round=1, participants=without), "the same was summed over other sites")
    lie.get(ME, lie.column(ME, round=1), MaskedVector)  # over the same sites it shows nothing new


def test_something_else_may_be_summed_over_those_who_are_left() -> None:
    lie = summed(5)
    without = tuple(name for name in lie.names if name != lie.names[-1])
    lie.get(ME, lie.column(ME, round=1, participants=without, times=2), MaskedVector)


# --- weights ---


def test_weights_under_which_a_sum_is_nearly_one_sites_own_are_refused() -> None:
    """(Σf)²/Σf² sites are mixed: 1 + 1 + 1 are three, 1 + 0.2 + 0.2 are 1.96/1.08."""
    sums = summed(4).as_site(ME).sums.hiding
    sums.check_mixture({"a": 1.0, "b": 1.0, "c": 1.0})
    sums.check_mixture({"a": 0.01, "b": 0.01, "c": 0.01})  # only the proportions matter
    sums.check_mixture({"a": 1.0, "b": 0.5, "c": 0.5})  # 2.67 of 3, more than 0.8 of what is asked for
    with pytest.raises(ProtocolError, match=r"a sum of 1.8 sites; the policy asks for 3"):
        sums.check_mixture({"a": 1.0, "b": 0.2, "c": 0.2})
    for few in ({"a": 1.0, "b": 1.0, "c": 0.0}, {"a": 1.0, "b": 1.0}, {}, {"a": 0.0}):
        with pytest.raises(ProtocolError, match="the policy asks for 3"):
            sums.check_mixture(few)


def test_a_list_that_leaves_only_light_sites_beside_a_heavy_one_is_not_signed() -> None:
    """The weights mixed enough sites while all were there."""
    lie = summed(6)
    site = lie.as_site(ME)
    heavy, light = lie.names[:3], lie.names[3:]
    factors = dict.fromkeys(heavy, 1.0) | dict.fromkeys(light, 0.05)
    site.sums.weigh(site.sums.round(0), factors, lie.names)
    lie.memories[ME] = msgspec.msgpack.encode(site.memory)
    one_heavy = (ME, *light)
    dropped = tuple(name for name in lie.names if name not in one_heavy)
    lie.refused(ME, Confirm(round=0, alive=one_heavy, dropped=dropped), "the weights make this a sum of 1.3 sites")
    assert isinstance(lie.ask(ME, Confirm(round=0, alive=lie.names, dropped=())), Confirmation)


def test_witnesses_see_the_weights_and_sign_them() -> None:
    """Of five summed sites two count nothing; when two heavy ones are called dropped, the third is left alone."""
    lie = Lying(15).hello().share()
    heavy, light = lie.names[:3], lie.names[3:5]
    summed_sites, witness = lie.names[:5], lie.names[9]
    factors = dict.fromkeys(heavy, 1.0) | dict.fromkeys(light, 0.0)
    lists = {"alive": (ME, *light), "dropped": heavy[1:]}
    told = {"round": 0, "question_hash": bytes(32), "content": bytes(32)}
    told |= {"members": lie.names, "participants": summed_sites}
    ask = Witness(**told, **lists, factors=factors, letters=lie.mail[witness])
    lie.refused(witness, ask, "the weights make this a sum of 1.0 sites")
    strange = {"s0009": 1.0, "s0010": 1.0, "s0011": 1.0}
    lie.refused(witness, replace(ask, factors=strange), "the weights are not those of the sites that are summed")
    everyone = {"alive": summed_sites, "dropped": ()}
    with_weights = lie.get(witness, replace(ask, **everyone), Confirmation)
    other = lie.names[10]
    hidden = replace(ask, **everyone, factors={}, letters=lie.mail[other])
    lie.get(other, hidden, Confirmation)
    statements = {lie.memory(name).sums.rounds[0].confirmed for name in (witness, other)}
    assert len(statements) == 2  # who hides the weights from a witness gets a signature under something else
    assert with_weights.signature


def test_nobody_signs_for_living_who_share_masks_with_too_few() -> None:
    """With more than 48 sites a victim is summed with two neighbours, who are then called dropped, and far sites."""
    lie = Lying(60).hello().share()
    near = lie.memory(ME).joining.peers
    far = tuple(name for name in lie.names if name != ME and name not in near)[:3]
    participants = tuple(sorted((ME, *near[:2], *far)))
    lists = {"alive": tuple(sorted((ME, *far))), "dropped": tuple(sorted(near[:2]))}
    lie.get(ME, lie.column(ME, participants=participants), MaskedVector)
    lie.refused(ME, Confirm(round=0, **lists), "share masks with each other only; the policy asks for 3")
    witness = next(name for name in lie.names if name not in participants)
    ask = Witness(
        round=0,
        question_hash=bytes(32),
        content=bytes(32),
        members=lie.names,
        participants=participants,
        letters=lie.mail[witness],
        **lists,
    )
    lie.refused(witness, ask, "share masks with each other only")


def test_equal_weights_need_no_remembering() -> None:
    site = summed(4).as_site(ME)
    site.sums.weigh(site.sums.round(0), dict.fromkeys(("a", "b", "c"), 1.0), ("a", "b", "c"))
    assert site.memory.sums.rounds[0].factors == {}


# --- the runner --------------------------------------------------------------------------------------------------


def test_the_memory_of_one_run_serves_no_other() -> None:
    lie = Lying().hello().share()
    lie.sum()
    for question in (lie.invitation(), lie.column(ME), Confirm(round=0, alive=lie.names, dropped=())):
        lie.refused(ME, question, "belongs to another run", run=os.urandom(32))


def test_requests_that_are_no_questions_are_refused() -> None:
    lie = Lying().hello()
    runner, memory = lie.engine.runners[ME], lie.memories[ME]
    good: dict[str, Any] = {"rounds": 2, "terms": lie.method.terms(), "participants": lie.names}
    hello = msgspec.msgpack.encode(good)
    assert (
        unpack(runner.answer(pack_body(lie.run, "column-sum", "join.hello", hello), memory)[0]).kind == "join.keys"
    )
    for method, kind, body in [
        ("column-sum", "join.unknown", b"\x80"),
        ("column-sum", "join.hello", msgspec.msgpack.encode(good | {"more": 1})),
        ("column-sum", "join.hello", msgspec.msgpack.encode(good | {"rounds": -1})),
        ("column-sum", "join.hello", msgspec.msgpack.encode(good | {"rounds": 65})),
        ("column-sum", "join.hello", msgspec.msgpack.encode(good | {"rounds": 2049})),
        ("column-sum", "join.hello", msgspec.msgpack.encode(good | {"seed": 0.5})),
        ("column-sum", "join.hello", msgspec.msgpack.encode(good | {"terms": good["terms"] | {"epsilon": [1]}})),
        ("column-sum", "join.hello", msgspec.msgpack.encode(good | {"terms": {"a": {"b": {"c": 1}}}})),
        (
            "column-sum",
            "join.hello",
            msgspec.msgpack.encode(good | {"terms": dict.fromkeys(map(str, range(101)))}),
        ),
        ("hulls", "join.hello", hello),
    ]:
        reply, kept = runner.answer(pack_body(lie.run, method, kind, body), memory)
        assert unpack(reply).kind == "refusal"
        assert kept == memory


def test_an_oversized_or_foreign_frame_is_not_read() -> None:
    lie = Lying(policy=Policy(max_message_bytes=1000))
    with pytest.raises(DecodeError, match="the limit is 1,000"):
        lie.engine.runners[ME].answer(pack(lie.run, "column-sum", lie.invitation(terms={"a": "x" * 1000})), None)
    frame = unpack(pack(lie.run, "column-sum", lie.invitation()))
    with pytest.raises(DecodeError, match="version 99"):
        lie.engine.runners[ME].answer(msgspec.msgpack.encode(replace(frame, version=99)), None)


def test_every_question_at_every_moment_is_answered_or_refused() -> None:
    """All questions, in all states, to one site: never an exception, and never a second masked vector."""
    donor = summed(4)
    signatures = donor.confirm()
    lie = Lying(4)
    states = [copy.deepcopy(lie)]
    for step in (lie.hello, lie.share, lie.sum, lie.confirm):
        step()
        states.append(copy.deepcopy(lie))
    vectors = set()
    for state in states:
        for keys in (donor.keys, lie.keys):
            for question in (
                state.invitation(),
                state.invitation(rounds=0),
                Meet(cohort=keys),
                Meet(cohort={}),
                Share(ciphertexts={}),
                Share(ciphertexts=donor.ciphertexts[ME]),
                state.column(ME),
                state.column(ME, letters={ME: b"x"} | donor.mail[ME]),
                Confirm(round=0, alive=(), dropped=()),
                Confirm(round=0, alive=state.names, dropped=state.names),
                state.unmask(signatures),
                state.unmask({}, round=1),
            ):
                answer = copy.deepcopy(state).ask(ME, question)
                if isinstance(answer, MaskedVector):
                    vectors.add(answer.vector.data)
    assert len(vectors) == 1
