"""A coordinator that lies, alone or with a site on its side: every site notices and refuses in words."""

from __future__ import annotations

import copy
import os
from typing import Any, TypeVar

import msgspec
import numpy as np
import pytest

from fedgeom.crypto import shamir
from fedgeom.crypto.keys import Identity, exchange_public, new_exchange_secret
from fedgeom.data.sites import SiteData
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.errors import DecodeError
from fedgeom.federation.messages import Message, Question, Refusal, decode, encode, pack, pack_body, unpack
from fedgeom.federation.method import Method
from fedgeom.federation.policy import Policy
from fedgeom.protocols.cohort import (
    Hello,
    Letter,
    Letters,
    PublicKeys,
    SecureMemory,
    Share,
    cohort_seed,
    holder_numbers,
)
from fedgeom.protocols.secure_sum import (
    Confirm,
    Confirmation,
    MaskedVector,
    Ticket,
    Unmask,
    UnmaskShares,
    about,
)
from fedgeom.protocols.vocabulary import NamingSite, OpenNames, SealedNames, SealNames, Vocabulary
from tests.protocols.summing import ColumnSum, GiveColumn, make_sites

M = TypeVar("M", bound=Message)
replace = msgspec.structs.replace


class Lying:
    """A coordinator that asks what it likes, in the order it likes."""

    def __init__(self, n: int = 4, *, policy: Policy | None = None, method: Method | None = None):
        self.method = method or ColumnSum()
        self.engine = EmbeddedEngine(self.method, make_sites(n), policy=policy)
        self.names = self.engine.names
        self.run = os.urandom(32)
        self.memories: dict[str, bytes] = {}
        self.keys: dict[str, PublicKeys] = {}
        self.mail: dict[str, dict[str, bytes]] = {name: {} for name in self.names}

    def ask(self, name: str, question: Question, *, run: bytes | None = None) -> Any:
        """Ask, keep the site's memory as an engine would, and return its answer or refusal."""
        request = pack(run or self.run, self.method.name, question)
        reply, self.memories[name] = self.engine.hosts[name].answer(request, self.memories.get(name))
        frame = unpack(reply)
        return decode(frame.body, Refusal if frame.kind == "refusal" else question.answer)

    def get(self, name: str, question: Question, expect: type[M]) -> M:
        answer = self.ask(name, question)
        assert isinstance(answer, expect), answer
        return answer

    def refused(self, name: str, question: Question, reason: str, *, run: bytes | None = None) -> None:
        """Ask and see it refused for this reason, with the memory left as it was."""
        before = self.memories.get(name) or b""
        answer = self.ask(name, question, run=run)
        assert isinstance(answer, Refusal), answer
        assert reason in answer.reason
        assert self.memories[name] == before

    def hello(self, rounds: int = 2) -> Lying:
        self.keys = {name: self.get(name, Hello(rounds=rounds), PublicKeys) for name in self.names}
        return self

    def share(self) -> Lying:
        for name in self.names:
            for to, letter in self.get(name, Share(cohort=self.keys), Letters).letters.items():
                self.mail[to][name] = letter
        return self

    def column(self, name: str, *, times: int = 1, **changes: Any) -> GiveColumn:
        fields: dict[str, Any] = {
            "round": 0,
            "modulus": str(2**64),
            "members": self.names,
            "participants": self.names,
        }
        fields |= {"letters": self.mail[name]} | changes
        question = GiveColumn(ticket=Ticket(**fields), times=times)
        return replace(question, ticket=replace(question.ticket, about=about(question)))

    def sum(self) -> dict[str, MaskedVector]:
        return {name: self.get(name, self.column(name), MaskedVector) for name in self.names}

    def confirm(self, **lists: Any) -> dict[str, bytes]:
        question = Confirm(**({"round": 0, "alive": self.names, "dropped": ()} | lists))
        return {name: self.get(name, question, Confirmation).signature for name in question.alive}

    def memory(self, name: str) -> SecureMemory:
        return msgspec.msgpack.decode(self.memories[name], type=SecureMemory)

    def as_site(self, name: str) -> Any:
        """Act as a site that has changed sides."""
        return self.engine.hosts[name].wake(self.run, self.memories[name])

    def signed_by(self, name: str, keys: PublicKeys) -> PublicKeys:
        """Let a site that has changed sides sign other keys."""
        statement = keys.statement(self.run, name, self.memory(name).joined_on)
        return replace(keys, signature=self.engine.hosts[name].badge.identity.sign("keys", *statement))


ME = "s0000"


# --- joining ---------------------------------------------------------------------------------------------------


def test_a_cohort_with_a_stranger_is_refused() -> None:
    lie = Lying().hello()
    lie.refused(
        ME, Share(cohort=lie.keys | {"mallory": lie.keys["s0001"]}), "not in the roster of 's0000': mallory"
    )


def test_a_cohort_with_keys_of_the_coordinators_own_is_refused() -> None:
    lie = Lying().hello()
    forged = replace(lie.keys["s0001"], letters=exchange_public(new_exchange_secret()))
    lie.refused(ME, Share(cohort=lie.keys | {"s0001": forged}), "signature of 's0001' for 'keys' is not valid")
    signed = replace(forged, signature=Identity.generate().sign("keys", *forged.statement(lie.run, "s0001", b"")))
    lie.refused(ME, Share(cohort=lie.keys | {"s0001": signed}), "signature of 's0001' for 'keys' is not valid")


@pytest.mark.parametrize("field", ["masks", "seals", "columns"])
def test_every_part_of_the_keys_is_signed(field: str) -> None:
    lie = Lying().hello()
    old = getattr(lie.keys["s0001"], field)
    changed = replace(lie.keys["s0001"], **{field: old + 1 if field == "columns" else old[::-1]})
    lie.refused(ME, Share(cohort=lie.keys | {"s0001": changed}), "signature of 's0001'")


def test_keys_signed_for_another_run_are_refused() -> None:
    lie = Lying().hello()
    elsewhere = Lying()
    elsewhere.engine = lie.engine  # the same sites and identities, another run
    elsewhere.hello()
    lie.refused(ME, Share(cohort=lie.keys | {"s0001": elsewhere.keys["s0001"]}), "signature of 's0001'")


def test_the_keys_of_one_site_do_not_pass_for_anothers() -> None:
    lie = Lying().hello()
    lie.refused(ME, Share(cohort=lie.keys | {"s0001": lie.keys["s0002"]}), "signature of 's0001'")


@pytest.mark.parametrize("n", [4, 50])
def test_the_signatures_of_all_sites_are_checked_not_only_of_neighbours(n: int) -> None:
    lie = Lying(n).hello(rounds=1)
    for name in lie.names[1:]:
        forged = replace(lie.keys[name], signature=bytes(64))
        lie.refused(ME, Share(cohort=lie.keys | {name: forged}), f"signature of {name!r}")


def test_a_cohort_without_me_or_with_other_keys_of_mine_is_refused() -> None:
    lie = Lying().hello()
    without = {name: keys for name, keys in lie.keys.items() if name != ME}
    lie.refused(ME, Share(cohort=without), "does not contain 's0000' with its own keys")
    for field in ("letters", "masks", "seals"):
        other = replace(lie.keys[ME], **{field: getattr(lie.keys["s0001"], field)})
        lie.refused(ME, Share(cohort=lie.keys | {ME: other}), "does not contain 's0000' with its own keys")


def test_a_cohort_below_the_policy_is_refused() -> None:
    lie = Lying(policy=Policy(smallest_cohort=4)).hello()
    three = {name: lie.keys[name] for name in lie.names[:3]}
    lie.refused(ME, Share(cohort=three), "the cohort has 3 sites; the policy of 's0000' asks for at least 4")


def test_a_second_cohort_is_refused_and_the_first_may_be_repeated() -> None:
    lie = Lying().hello().share()
    lie.refused(ME, Share(cohort={name: lie.keys[name] for name in lie.names[:3]}), "one run has one cohort")
    assert isinstance(lie.ask(ME, Share(cohort=lie.keys)), Letters)


def test_a_cohort_before_the_invitation_is_refused() -> None:
    lie, other = Lying(), Lying().hello()
    lie.refused(ME, Share(cohort=other.keys), "before the site was invited")


def test_keys_for_another_number_of_sums_are_refused() -> None:
    lie = Lying().hello(rounds=2)
    few = lie.keys["s0001"]
    for changed in (replace(few, masks=few.masks[:1]), replace(few, seals=few.seals[:1]), replace(few, seals=())):
        signed = lie.signed_by("s0001", changed)
        lie.refused(ME, Share(cohort=lie.keys | {"s0001": signed}), "another number of sums")


def test_an_invitation_cannot_be_changed_afterwards() -> None:
    lie = Lying().hello(rounds=2)
    lie.refused(ME, Hello(rounds=3), "announced with 2 sums, now 3")
    lie.refused(ME, Hello(rounds=2, terms={"epsilon": 0.5}), "on other terms")
    assert lie.ask(ME, Hello(rounds=2)) == lie.keys[ME]


def test_sites_invited_on_different_terms_do_not_join() -> None:
    lie = Lying()
    for name in lie.names:
        terms = {"epsilon": 0.5 if name == ME else 0.01}
        lie.keys[name] = lie.get(name, Hello(rounds=1, terms=terms), PublicKeys)
    for name in lie.names:
        lie.refused(name, Share(cohort=lie.keys), "signature of")


def test_keys_with_a_weak_point_are_refused() -> None:
    lie = Lying().hello()
    weak = lie.signed_by("s0001", replace(lie.keys["s0001"], letters=bytes(32)))
    lie.refused(ME, Share(cohort=lie.keys | {"s0001": weak}), "not a valid X25519 key")


def test_a_weak_mask_key_is_refused_when_it_would_be_used() -> None:
    lie = Lying().hello()
    lie.keys["s0001"] = lie.signed_by("s0001", replace(lie.keys["s0001"], masks=(bytes(32), bytes(32))))
    lie.names = ("s0000", "s0002", "s0003")  # the traitor keeps its letter to itself
    lie.share()
    traitor = lie.as_site("s0001")
    traitor.memory.cohort, traitor.memory.peers = lie.keys, lie.names
    seed = cohort_seed(lie.run, lie.keys)
    share = (bytes(shamir.SHARE_BYTES),) * 2
    lie.mail[ME]["s0001"] = traitor._seal(seed, ME, Letter(share, share, bytes(32)))
    lie.names = lie.engine.names
    lie.refused(ME, lie.column(ME), "not a valid X25519 key")


# --- letters ---------------------------------------------------------------------------------------------------


def mail_of(lie: Lying, **changes: bytes) -> dict[str, bytes]:
    return lie.mail[ME] | changes


def test_a_letter_tampered_with_is_refused() -> None:
    lie = Lying().hello().share()
    letter = lie.mail[ME]["s0001"]
    for bad in (
        letter[:-1],
        letter[:5],
        b"",
        letter[:-1] + bytes([letter[-1] ^ 1]),
        bytes([letter[0] ^ 1]) + letter[1:],
    ):
        lie.refused(ME, lie.column(ME, letters=mail_of(lie, s0001=bad)), "letter from 's0001' cannot be opened")


def test_a_letter_delivered_to_the_wrong_site_or_under_the_wrong_name_is_refused() -> None:
    lie = Lying().hello().share()
    for wrong in (lie.mail["s0002"]["s0001"], lie.mail[ME]["s0002"], lie.mail["s0001"][ME]):
        lie.refused(ME, lie.column(ME, letters=mail_of(lie, s0001=wrong)), "letter from 's0001' cannot be opened")


def test_a_letter_from_another_run_is_refused() -> None:
    lie = Lying().hello().share()
    other = Lying()
    other.engine = lie.engine
    other.hello().share()
    wrong = mail_of(lie, s0001=other.mail[ME]["s0001"])
    lie.refused(ME, lie.column(ME, letters=wrong), "letter from 's0001' cannot be opened")


def test_a_missing_letter_is_named() -> None:
    lie = Lying().hello().share()
    some = {name: letter for name, letter in lie.mail[ME].items() if name != "s0002"}
    lie.refused(ME, lie.column(ME, letters=some), "no letter was delivered from s0002")
    lie.refused(ME, lie.column(ME, letters={}), "no letter was delivered from s0001, s0002, s0003")


def test_letters_open_only_between_sites_that_were_told_the_same_cohort() -> None:
    lie = Lying(5).hello()
    everyone, four = dict(lie.keys), {name: lie.keys[name] for name in lie.names[:4]}
    for name in lie.names[:4]:
        cohort = everyone if name == ME else four
        for to, letter in lie.get(name, Share(cohort=cohort), Letters).letters.items():
            lie.mail[to][name] = letter
    lie.names = lie.names[:4]
    for name in lie.names:
        lie.refused(name, lie.column(name), "cannot be opened")


def traitors_letter(lie: Lying, content: Any) -> dict[str, bytes]:
    """Let s0001 seal any bytes for the victim."""
    traitor = lie.as_site("s0001")
    real = msgspec.msgpack.encode
    try:
        msgspec.msgpack.encode = lambda value, **options: (
            content if isinstance(value, Letter) else real(value, **options)
        )
        sealed = traitor._seal(cohort_seed(lie.run, lie.keys), ME, Letter())
    finally:
        msgspec.msgpack.encode = real
    return mail_of(lie, s0001=sealed)


GOOD_SHARE = bytes(shamir.SHARE_BYTES)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xc1",
        b"\xdd\xff\xff\xff\xff",
        msgspec.msgpack.encode([1, 2]),
        msgspec.msgpack.encode({}),
        msgspec.msgpack.encode({"mask_shares": [GOOD_SHARE], "self_shares": [GOOD_SHARE]}),
        msgspec.msgpack.encode({"mask_shares": [GOOD_SHARE] * 2, "self_shares": [GOOD_SHARE]}),
        msgspec.msgpack.encode({"mask_shares": [GOOD_SHARE] * 3, "self_shares": [GOOD_SHARE] * 3}),
        msgspec.msgpack.encode({"mask_shares": [b"", b""], "self_shares": [b"", b""]}),
        msgspec.msgpack.encode({"mask_shares": [bytes(34)] * 2, "self_shares": [GOOD_SHARE] * 2}),
        msgspec.msgpack.encode({"mask_shares": [GOOD_SHARE] * 2, "self_shares": [GOOD_SHARE] * 2, "more": 1}),
        msgspec.msgpack.encode({"mask_shares": [1, 2], "self_shares": [GOOD_SHARE] * 2}),
        msgspec.msgpack.encode({"secret": "text"}),
    ],
)
def test_a_peers_nonsense_in_a_letter_is_refused_not_stumbled_over(content: bytes) -> None:
    lie = Lying().hello().share()
    lie.refused(ME, lie.column(ME, letters=traitors_letter(lie, content)), "letter from 's0001'")


def test_a_herald_with_a_short_secret_is_refused() -> None:
    lie = Lying().hello().share()
    first = next(iter(holder_numbers(lie.run, lie.keys)))
    victim = next(name for name in lie.names if name != first)
    traitor = lie.as_site(first)
    short = Letter((GOOD_SHARE,) * 2, (GOOD_SHARE,) * 2, b"short")
    sealed = traitor._seal(cohort_seed(lie.run, lie.keys), victim, short)
    lie.refused(
        victim, lie.column(victim, letters=lie.mail[victim] | {first: sealed}), "no herald's secret arrived"
    )


# --- tickets ---------------------------------------------------------------------------------------------------


def test_a_sum_before_joining_is_refused() -> None:
    lie = Lying()
    lie.refused(ME, lie.column(ME), "before the site joined")
    lie.hello()
    lie.refused(ME, lie.column(ME), "before the site joined")


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
    for bad in (replace(good, times=2), replace(good, ticket=replace(good.ticket, about=bytes(32)))):
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
        total -= _own_mask(lie, name, question)
    columns = [site.X[:, 0].astype(np.uint64) for site in make_sites(4)]
    assert (total != sum(columns) + columns[0]).all()
    assert (total > 10**9).any()

    honest = Lying().hello().share()
    total = np.zeros(7, np.uint64)
    for name in honest.names:  # the same sum of equal questions comes out
        question = honest.column(name)
        total += honest.get(name, question, MaskedVector).vector.numpy() - _own_mask(honest, name, question)
    assert (total == sum(columns)).all()


def _own_mask(lie: Lying, name: str, question: GiveColumn) -> np.ndarray:
    from fedgeom.crypto.masks import expand
    from fedgeom.crypto.rings import Ring
    from fedgeom.protocols.secure_sum import own_key

    key = own_key(lie.memory(name).self_seeds[0], question.ticket.about)
    return expand(key, Ring(2**64), 7)


# --- the hidden order ------------------------------------------------------------------------------------------


def test_a_name_said_twice_cannot_open_a_gap_in_the_hidden_order() -> None:
    lie = Lying().hello().share()
    doubled = ("s0000", "s0001", "s0001", "s0002", "s0003")
    for name in lie.names:
        lie.refused(name, lie.column(name, members=doubled), "named once each")


def test_a_site_settles_the_hidden_order_once() -> None:
    lie = Lying(5).hello().share()
    few = lie.names[:4]
    lie.get(ME, lie.column(ME, members=few, participants=few), MaskedVector)
    assert len(lie.memory(ME).order) == 4
    lie.refused(ME, lie.column(ME, round=1), "one run has one hidden order")


def test_sites_told_of_different_members_have_masks_that_do_not_cancel() -> None:
    lie = Lying(5).hello().share()
    few = lie.names[:4]
    total = np.zeros(7, np.uint64)
    for name in few:  # the victim believes in five members, and so in another hidden order
        question = lie.column(name, members=lie.names if name == ME else few, participants=few)
        total += lie.get(name, question, MaskedVector).vector.numpy() - _own_mask(lie, name, question)
    assert (total != sum(site.X[:, 0].astype(np.uint64) for site in make_sites(5)[:4])).all()


def test_the_order_is_not_told_before_it_is_settled() -> None:
    lie = Lying().hello().share()
    with pytest.raises(Exception, match="not settled yet"):
        _ = lie.as_site(ME).block


# --- confirming and unmasking ----------------------------------------------------------------------------------


def unmask(lie: Lying, signatures: dict[str, bytes], **lists: Any) -> Unmask:
    return Unmask(**({"round": 0, "alive": lie.names, "dropped": (), "signatures": signatures} | lists))


def summed(n: int = 5) -> Lying:
    lie = Lying(n).hello().share()
    lie.sum()
    return lie


def test_a_second_list_of_the_living_is_refused() -> None:
    lie = summed()
    lie.confirm()
    lie.refused(ME, Confirm(round=0, alive=lie.names[:4], dropped=lie.names[4:]), "another list of living sites")
    assert isinstance(lie.ask(ME, Confirm(round=0, alive=lie.names, dropped=())), Confirmation)


@pytest.mark.parametrize("kind", [Confirm, Unmask])
def test_lists_that_contradict_themselves_are_refused(kind: type[Question]) -> None:
    lie = summed()
    signatures = {"signatures": lie.confirm()} if kind is Unmask else {}
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
    extra = {"signatures": lie.confirm()} if kind is Unmask else {}
    lie.refused(ME, kind(round=round, alive=lie.names, dropped=(), **extra), "do not make up the sites")


def test_unmasking_before_confirming_is_refused() -> None:
    lie = summed()
    lie.refused(ME, unmask(lie, {}), "not the list of living sites that was confirmed")


def test_unmasking_with_another_list_than_confirmed_is_refused() -> None:
    lie = summed()
    signatures = lie.confirm()
    other = unmask(lie, signatures, alive=lie.names[:4], dropped=lie.names[4:])
    lie.refused(ME, other, "not the list of living sites that was confirmed")


def test_unmasking_needs_enough_true_signatures() -> None:
    lie = summed()
    signatures = lie.confirm()
    three = {name: signatures[name] for name in lie.names[:3]}
    lie.refused(ME, unmask(lie, {}), "0 peers confirmed who is alive; 's0000' needs 4")
    lie.refused(ME, unmask(lie, three), "3 peers confirmed who is alive; 's0000' needs 4")
    lie.refused(ME, unmask(lie, three | {"mallory": bytes(64)}), "3 peers confirmed")
    for forged in (bytes(64), signatures["s0002"], Identity.generate().sign("alive", b"")):
        lie.refused(
            ME, unmask(lie, signatures | {"s0001": forged}), "signature of 's0001' for 'alive' is not valid"
        )
    assert isinstance(lie.ask(ME, unmask(lie, signatures)), UnmaskShares)


def test_signatures_of_another_round_do_not_count() -> None:
    lie = summed()
    old = lie.confirm()
    for name in lie.names:
        lie.get(name, lie.column(name, round=1), MaskedVector)
    lie.confirm(round=1)
    lie.refused(ME, unmask(lie, old, round=1), "signature of 's0000' for 'alive' is not valid")


def test_two_different_lists_cannot_both_be_unmasked() -> None:
    lie = summed(5)
    a, b, c, d, e = lie.names
    everyone = Confirm(round=0, alive=lie.names, dropped=())
    without_e = Confirm(round=0, alive=(a, b, c, d), dropped=(e,))
    first = {name: lie.get(name, everyone, Confirmation).signature for name in (c, d, e)}
    second = {name: lie.get(name, without_e, Confirmation).signature for name in (a, b)}
    lie.refused(c, unmask(lie, first), "3 peers confirmed")
    lie.refused(a, unmask(lie, second, alive=(a, b, c, d), dropped=(e,)), "2 peers confirmed")
    lie.refused(c, unmask(lie, first | second), "signature of 's0000' for 'alive' is not valid")


def test_shares_go_out_of_one_kind_for_each_site() -> None:
    lie = Lying(5).hello().share()
    for name in lie.names[:4]:
        lie.get(name, lie.column(name), MaskedVector)
    lists = {"alive": lie.names[:4], "dropped": lie.names[4:]}
    signatures = lie.confirm(**lists)
    for name in lie.names[:4]:
        shares = lie.get(name, unmask(lie, signatures, **lists), UnmaskShares)
        assert set(shares.self_shares) == set(lie.names[:4])
        assert set(shares.mask_shares) == {"s0004"}


# --- the host --------------------------------------------------------------------------------------------------


def test_the_memory_of_one_run_serves_no_other() -> None:
    lie = Lying().hello().share()
    lie.sum()
    for question in (Hello(rounds=2), lie.column(ME), Confirm(round=0, alive=lie.names, dropped=())):
        lie.refused(ME, question, "belongs to another run", run=os.urandom(32))


def test_requests_that_are_no_questions_are_refused() -> None:
    lie = Lying().hello()
    host, memory = lie.engine.hosts[ME], lie.memories[ME]
    hello = msgspec.msgpack.encode({"rounds": 2, "terms": {}, "more": 1})
    for method, kind, body in [
        ("column-sum", "join.unknown", b"\x80"),
        ("column-sum", "join.hello", hello),
        ("column-sum", "join.hello", msgspec.msgpack.encode({"rounds": -1})),
        ("column-sum", "join.hello", msgspec.msgpack.encode({"rounds": 65})),
        ("column-sum", "join.hello", msgspec.msgpack.encode({"rounds": 1, "terms": {"a": [1]}})),
        ("hulls", "join.hello", encode(Hello(rounds=2))),
    ]:
        reply, kept = host.answer(pack_body(lie.run, method, kind, body), memory)
        assert unpack(reply).kind == "refusal"
        assert kept == memory


def test_an_oversized_or_foreign_frame_is_not_read() -> None:
    lie = Lying(policy=Policy(largest_message=1000))
    with pytest.raises(DecodeError, match="the limit is 1,000"):
        lie.engine.hosts[ME].answer(pack(lie.run, "column-sum", Hello(rounds=1, terms={"a": "x" * 1000})), None)
    frame = unpack(pack(lie.run, "column-sum", Hello(rounds=1)))
    with pytest.raises(DecodeError, match="version 2"):
        lie.engine.hosts[ME].answer(msgspec.msgpack.encode(replace(frame, version=2)), None)


def test_every_question_at_every_moment_is_answered_or_refused() -> None:
    """All questions, in all states, to one site: never an exception, and never a second masked vector."""
    donor = summed(4)
    signatures = donor.confirm()
    lie = Lying(4)
    states = [copy.deepcopy(lie)]
    for step in (lie.hello, lie.share, lie.sum, lie.confirm):
        step()
        states.append(copy.deepcopy(lie))
    for state in states:
        for keys in (donor.keys, lie.keys):
            for question in (
                Hello(rounds=2),
                Hello(rounds=0),
                Share(cohort=keys),
                Share(cohort={}),
                state.column(ME),
                state.column(ME, letters={ME: b"x"} | donor.mail[ME]),
                Confirm(round=0, alive=(), dropped=()),
                Confirm(round=0, alive=state.names, dropped=state.names),
                unmask(state, signatures),
                unmask(state, {}, round=1),
            ):
                copy.deepcopy(state).ask(ME, question)


# --- label names -----------------------------------------------------------------------------------------------


class Naming(Method):
    name = "naming"
    site = NamingSite


def test_the_names_of_few_sites_are_not_opened_apart() -> None:
    lie = Lying(5, method=Naming())
    for name, host in lie.engine.hosts.items():
        own = SiteData(name, np.zeros((2, 1)), np.array(["common", f"only at {name}"]))
        host._data = lambda own=own: own
    lie.hello(rounds=0).share()
    sealed = {}
    for name in lie.names:
        ask = SealNames(participants=lie.names, letters=lie.mail[name])
        sealed[name] = lie.get(name, ask, SealedNames).names
    lie.refused(ME, OpenNames(sealed={"s0001": sealed["s0001"]}), "with this site among them")
    lie.refused(ME, OpenNames(sealed={n: sealed[n] for n in (ME, "s0001")}), "2 sites are left")
    lie.refused(ME, OpenNames(sealed=sealed | {"mallory": b""}), "with this site among them")
    union = lie.get(ME, OpenNames(sealed=sealed), Vocabulary).names
    assert union == ("common", *(f"only at {name}" for name in lie.names))
    four = {name: sealed[name] for name in lie.names[:4]}
    lie.refused(ME, OpenNames(sealed=four), "one run has one vocabulary")
