"""A coordinator that lies while sites join: every site notices and refuses in words."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import numpy as np
import pytest

from fedgeom.crypto import shamir
from fedgeom.crypto.keys import (
    Identity,
    agreement,
    decapsulate,
    encapsulate,
    exchange_public,
    hybrid,
    new_exchange_secret,
)
from fedgeom.crypto.masks import key_at, open_keys
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.errors import ProtocolError
from fedgeom.federation.policy import Policy
from fedgeom.protocols.join.messages import (
    Ciphertexts,
    Letters,
    Meet,
    PublicKeys,
    SealedShares,
    Share,
    holder_numbers,
    lock_seal,
)
from fedgeom.protocols.secure_sum.messages import MaskedVector
from tests.protocols.lying import ME, Lying, own_mask, replace
from tests.protocols.summing import ColumnSum, make_sites

# --- joining ---------------------------------------------------------------------------------------------------


def test_the_cohort_is_a_part_of_those_who_may_take_part() -> None:
    lie = Lying(5)
    few = lie.names[:4]
    lie.keys = {name: lie.get(name, lie.invitation(participants=few), PublicKeys) for name in few}
    lie.keys[lie.names[4]] = lie.keys[few[1]]
    lie.refused(ME, Meet(cohort=lie.keys), f"not among those who may take part: {lie.names[4]}")
    del lie.keys[lie.names[4]], lie.keys[few[3]]
    assert isinstance(lie.ask(ME, Meet(cohort=lie.keys)), Ciphertexts)  # not all have to come


@pytest.mark.parametrize(
    ("participants", "reason"),
    [
        ((), "'s0000' is not among those who may take part"),
        (("s0001", "s0002", "s0003"), "'s0000' is not among those who may take part"),
        (("s0001", "s0000"), "once each, in alphabetical order"),
        (("s0000", "s0000", "s0001"), "once each, in alphabetical order"),
    ],
)
def test_a_site_joins_only_where_it_is_named_itself(participants: tuple[str, ...], reason: str) -> None:
    Lying().refused(ME, Lying().invitation(participants=participants), reason)


def test_other_participants_are_other_terms() -> None:
    lie = Lying().hello()
    lie.refused(ME, lie.invitation(participants=lie.names[:3]), "the run was announced on other terms before")


def test_a_cohort_with_a_stranger_is_refused() -> None:
    lie = Lying()
    everyone = tuple(sorted([*lie.names, "mallory"]))
    lie.keys = {name: lie.get(name, lie.invitation(participants=everyone), PublicKeys) for name in lie.names}
    lie.refused(
        ME, Meet(cohort=lie.keys | {"mallory": lie.keys["s0001"]}), "not in the roster of 's0000': mallory"
    )


def test_a_cohort_with_keys_of_the_coordinators_own_is_refused() -> None:
    lie = Lying().hello()
    forged = replace(lie.keys["s0001"], letters=exchange_public(new_exchange_secret()))
    lie.refused(ME, Meet(cohort=lie.keys | {"s0001": forged}), "signature of 's0001' for 'keys' is not valid")
    signed = replace(forged, signature=Identity.generate().sign("keys", *forged.statement(lie.run, "s0001", b"")))
    lie.refused(ME, Meet(cohort=lie.keys | {"s0001": signed}), "signature of 's0001' for 'keys' is not valid")


@pytest.mark.parametrize("field", ["kem", "masks", "seals", "columns"])
def test_every_part_of_the_keys_is_signed(field: str) -> None:
    lie = Lying().hello()
    old = getattr(lie.keys["s0001"], field)
    changed = replace(lie.keys["s0001"], **{field: old + 1 if field == "columns" else old[::-1]})
    lie.refused(ME, Meet(cohort=lie.keys | {"s0001": changed}), "signature of 's0001'")


def test_a_cohort_whose_columns_have_other_names_is_refused() -> None:
    lie = Lying()
    columns = {"s0000": ("age",), "s0001": ("weight",), "s0002": ("age",)}
    data = [dataclasses.replace(site, columns=columns.get(site.name, ())) for site in make_sites(4)]
    lie.engine = EmbeddedEngine(lie.method, data)
    lie.hello()
    lie.refused(ME, Meet(cohort=lie.keys), "columns of 's0001' and 's0000' have other names, or stand in another")
    hashes = [lie.keys[name].columns_hash for name in lie.names]
    assert hashes[0] == hashes[2] != hashes[1]
    assert hashes[3] == b""
    again = Lying()
    again.engine = lie.engine
    assert again.hello().keys[ME].columns_hash != hashes[0]  # in another run another


def test_keys_signed_for_another_run_are_refused() -> None:
    lie = Lying().hello()
    elsewhere = Lying()
    elsewhere.engine = lie.engine  # the same sites and identities, another run
    elsewhere.hello()
    lie.refused(ME, Meet(cohort=lie.keys | {"s0001": elsewhere.keys["s0001"]}), "signature of 's0001'")


def test_the_keys_of_one_site_do_not_pass_for_anothers() -> None:
    lie = Lying().hello()
    lie.refused(ME, Meet(cohort=lie.keys | {"s0001": lie.keys["s0002"]}), "signature of 's0001'")


@pytest.mark.parametrize("n", [4, 50])
def test_the_signatures_of_all_sites_are_checked_not_only_of_neighbours(n: int) -> None:
    lie = Lying(n, method=ColumnSum(rounds=1)).hello()
    for name in lie.names[1:]:
        forged = replace(lie.keys[name], signature=bytes(64))
        lie.refused(ME, Meet(cohort=lie.keys | {name: forged}), f"signature of {name!r}")


def test_a_cohort_without_me_or_with_other_keys_of_mine_is_refused() -> None:
    lie = Lying().hello()
    without = {name: keys for name, keys in lie.keys.items() if name != ME}
    lie.refused(ME, Meet(cohort=without), "does not contain 's0000' with its own keys")
    for field in ("letters", "kem", "masks", "seals"):
        other = replace(lie.keys[ME], **{field: getattr(lie.keys["s0001"], field)})
        lie.refused(ME, Meet(cohort=lie.keys | {ME: other}), "does not contain 's0000' with its own keys")


def test_a_cohort_below_the_policy_is_refused() -> None:
    lie = Lying(policy=Policy(min_cohort=4)).hello()
    three = {name: lie.keys[name] for name in lie.names[:3]}
    lie.refused(ME, Meet(cohort=three), "the cohort has 3 sites; the policy of 's0000' asks for at least 4")


def test_a_second_cohort_is_refused_and_the_first_may_be_repeated() -> None:
    lie = Lying().hello().share()
    lie.refused(ME, Meet(cohort={name: lie.keys[name] for name in lie.names[:3]}), "one run has one cohort")
    again = lie.get(ME, Meet(cohort=lie.keys), Ciphertexts)
    assert all(again.ciphertexts[to] == lie.ciphertexts[to][ME] for to in lie.names[1:])


def test_a_cohort_before_the_invitation_is_refused() -> None:
    lie, other = Lying(), Lying().hello()
    lie.refused(ME, Meet(cohort=other.keys), "before the site was invited")


def test_keys_for_another_number_of_sums_are_refused() -> None:
    lie = Lying().hello()
    few = lie.keys["s0001"]
    for changed in (replace(few, masks=few.masks[:1]), replace(few, seals=few.seals[:1]), replace(few, seals=())):
        signed = lie.signed_by("s0001", changed)
        lie.refused(ME, Meet(cohort=lie.keys | {"s0001": signed}), "another number of sums")


def test_an_invitation_cannot_be_changed_afterwards() -> None:
    lie = Lying().hello()
    lie.refused(ME, lie.invitation(rounds=3), "these terms need 2 sums, not 3")
    lie.refused(ME, Lying(method=ColumnSum(rounds=3)).invitation(), "on other terms")
    lie.refused(ME, Lying(method=ColumnSum(rounds=2, epsilon=0.5)).invitation(), "on other terms")
    lie.refused(ME, lie.invitation(seed=1), "on other terms")
    assert lie.ask(ME, lie.invitation()) == lie.keys[ME]


@pytest.mark.parametrize(
    ("terms", "reason"),
    [
        ({"epsilon": "fine"}, "epsilon='fine' given; wanted a number"),
        ({"rounds": -1}, "wanted a whole number from 0 to 100"),
        ({"rounds": 2.0}, "wanted a whole number"),
        ({"rounds": True}, "wanted a whole number"),
        ({"rounds": ("2",)}, "wanted a whole number"),
        ({"rounds": {"name": 2}}, "wanted a whole number"),
        ({"sigma": 1.0}, "there is no setting 'sigma'"),
    ],
)
def test_terms_that_are_not_the_methods_are_refused_in_words_and_the_site_stays(
    terms: dict[str, Any], reason: str
) -> None:
    lie = Lying()
    strange = lie.invitation(terms=lie.method.terms() | terms)
    lie.refused(ME, strange, "the terms are not those of this method")
    answer = lie.ask(ME, strange)
    assert reason in answer.reason
    assert isinstance(lie.ask(ME, lie.invitation()), PublicKeys)


@pytest.mark.parametrize("release", ["", "0", "99.0.1", "0.0", "x.y"])
def test_a_coordinator_of_another_release_is_named_and_refused(release: str) -> None:
    lie = Lying()
    lie.refused(ME, lie.invitation(release=release), f"the coordinator runs fedgeom {release or 'of no release'}")


def test_another_patch_of_the_same_release_may_invite() -> None:
    lie = Lying()
    series = lie.invitation().release.split(".")[:2]
    assert isinstance(lie.ask(ME, lie.invitation(release=".".join([*series, "77"]))), PublicKeys)


@pytest.mark.parametrize("change", [{"epsilon": 0.5}, {"seed": 1}])
def test_sites_invited_on_different_terms_do_not_join(change: dict[str, Any]) -> None:
    lie = Lying()
    for name in lie.names:
        hello = lie.invitation()
        if name == ME:
            seed = change.get("seed", 0)
            hello = replace(hello, seed=seed, terms=hello.terms | {k: v for k, v in change.items() if k != "seed"})
        lie.keys[name] = lie.get(name, hello, PublicKeys)
    for name in lie.names:
        lie.refused(name, Meet(cohort=lie.keys), "signature of")


def test_what_the_terms_settle_is_kept_to_and_what_they_leave_open_is_not() -> None:
    lie = Lying().hello()
    joining = lie.as_site(ME).joining
    joining.keep_to_terms(epsilon=0.01, sigma=3.0)
    with pytest.raises(ProtocolError, match=r"epsilon=0.001 is asked for; the site joined on epsilon=0.01"):
        joining.keep_to_terms(epsilon=0.001)
    assert joining.settings == lie.method


def test_settings_are_not_there_before_the_site_joined() -> None:
    lie = Lying()
    lie.memories[ME] = b""
    with pytest.raises(ProtocolError, match="asked before it joined"):
        _ = lie.as_site(ME).settings
    with pytest.raises(ProtocolError, match="no common secret yet"):
        lie.as_site(ME).joining.shared_secret(b"anything")


def test_secrets_for_two_purposes_differ_and_all_sites_have_the_same() -> None:
    lie = Lying().hello().share()
    lie.sum()
    found = {lie.as_site(name).joining.shared_secret(b"one") for name in lie.names}
    assert len(found) == 1
    assert found != {lie.as_site(ME).joining.shared_secret(b"two")}


def test_keys_with_a_weak_point_are_refused() -> None:
    lie = Lying().hello()
    lie.keys["s0001"] = lie.signed_by("s0001", replace(lie.keys["s0001"], letters=bytes(32)))
    sent = {name: lie.get(name, lie.cohort(), Ciphertexts) for name in (ME, "s0002", "s0003")}
    came = {name: answer.ciphertexts[ME] for name, answer in sent.items() if name != ME}
    weak = Share(ciphertexts=came | {"s0001": came["s0002"]})
    lie.refused(ME, weak, "public key of 's0001' is not a valid X25519 key")


def test_an_encapsulation_key_that_is_none_is_refused_by_name() -> None:
    lie = Lying().hello()
    numbers = lie.signed_by("s0001", replace(lie.keys["s0001"], kem=b"\xff" * 1184))  # none is below the modulus
    lie.refused(
        ME, Meet(cohort=lie.keys | {"s0001": numbers}), "public key of 's0001' is not a valid ML-KEM-768 key"
    )
    text = msgspec.msgpack.encode(replace(lie.keys["s0001"], kem=b""))
    with pytest.raises(msgspec.ValidationError, match="kem"):  # such a message does not get as far as a site
        msgspec.msgpack.decode(text, type=PublicKeys)


def test_ciphertexts_that_were_swapped_or_made_by_the_coordinator_open_no_letter() -> None:
    for forged in (encapsulate, lambda public: None):
        lie = Lying().hello().meet()
        made = forged(lie.keys[ME].kem)
        mine = lie.ciphertexts[ME]
        mine["s0001"] = made.ciphertext if made else mine["s0002"]
        for name in lie.names:
            sent = lie.get(name, Share(ciphertexts=lie.ciphertexts[name]), Letters)
            for to, letter in sent.letters.items():
                lie.mail[to][name] = letter
        lie.refused(ME, lie.column(ME), "letter from 's0001' cannot be opened")
        lie.refused("s0001", lie.column("s0001"), "letter from 's0000' cannot be opened")
        lie.get("s0002", lie.column("s0002"), MaskedVector)


def test_a_site_is_in_no_sum_with_one_whose_ciphertext_was_kept_back() -> None:
    lie = Lying().hello().meet()
    del lie.ciphertexts[ME]["s0001"]
    for name in lie.names:
        sent = lie.get(name, Share(ciphertexts=lie.ciphertexts[name]), Letters)
        assert ("s0001" in sent.letters) == (name not in (ME, "s0001"))
        for to, letter in sent.letters.items():
            lie.mail[to][name] = letter
    lie.refused(ME, lie.column(ME), "no ciphertext came from s0001 when the letters were written")
    few = tuple(name for name in lie.names if name != "s0001")
    letters = {name: lie.mail[ME][name] for name in few[1:]}
    lie.get(ME, lie.column(ME, members=few, participants=few, letters=letters), MaskedVector)


def test_who_was_lost_while_the_cohort_met_may_come_late_until_the_letters_are_read() -> None:
    lie = Lying().hello().meet()
    late = lie.ciphertexts[ME].pop("s0001")
    first = lie.get(ME, Share(ciphertexts=lie.ciphertexts[ME]), Letters)
    lie.ciphertexts[ME]["s0001"] = late
    lie.share()
    again = lie.get(ME, Share(ciphertexts=lie.ciphertexts[ME]), Letters)
    assert set(again.letters) - set(first.letters) == {"s0001"}
    assert first.letters.items() <= again.letters.items()
    place = lie.memory(ME).joining.peers.index("s0001")
    for old, new in zip(first.locked, again.locked, strict=True):
        changed = [at for at in range(3) if key_at(old, at) != key_at(new, at)]
        assert changed == [place]
    lie.mail["s0001"][ME] = again.letters["s0001"]
    total = sum(answer.vector.numpy() for answer in lie.sum().values())
    own = sum(own_mask(lie, name, lie.column(name)) for name in lie.names)
    assert (total - own == sum(site.X[:, 0].astype(np.uint64) for site in make_sites(4))).all()
    memory = lie.memory(ME).joining
    assert not memory.encapsulated
    assert not memory.unsent


def test_nobody_comes_late_when_the_letters_are_read() -> None:
    lie = Lying().hello().meet()
    late = lie.ciphertexts[ME].pop("s0001")
    first = lie.get(ME, Share(ciphertexts=lie.ciphertexts[ME]), Letters)
    few = tuple(name for name in lie.names if name != "s0001")
    for name in few[1:]:
        sent = lie.get(name, Share(ciphertexts=lie.ciphertexts[name]), Letters)
        lie.mail[ME][name] = sent.letters[ME]
    lie.get(ME, lie.column(ME, members=few, participants=few), MaskedVector)
    assert lie.get(ME, Share(ciphertexts={"s0001": late}), Letters) == first


def test_ciphertexts_come_after_the_cohort_from_its_sites_and_have_their_length() -> None:
    lie = Lying().hello()
    lie.refused(ME, Share(ciphertexts={}), "before the cohort was announced")
    lie.meet()
    lie.refused(ME, Share(ciphertexts={"mallory": bytes(1088)}), "ciphertexts came from mallory, with whom")
    lie.refused(ME, Share(ciphertexts={"s0001": bytes(1087)}), "not a valid 'join.share' message")
    lie.refused(ME, lie.column(ME), "asked before it joined")


def test_the_keys_of_a_pair_need_both_halves() -> None:
    """Whoever knows the Diffie–Hellman key of a pair, or one of its encapsulated secrets, has not its keys."""
    lie = Lying().hello().meet()
    memory = lie.memory(ME).joining
    known = agreement(memory.letter_secret, lie.keys["s0001"].letters)
    sent = msgspec.msgpack.decode(memory.encapsulated, type=dict[str, bytes])["s0001"]
    came = decapsulate(memory.kem_secret, lie.keys[ME].kem, lie.ciphertexts[ME]["s0001"])
    lie.get(ME, Share(ciphertexts=lie.ciphertexts[ME]), Letters)
    agreed = lie.memory(ME).joining.agreed["s0001"]
    ends = [
        (name.encode(), lie.keys[name].letters, lie.keys[name].kem, lie.ciphertexts[other][name])
        for name, other in ((ME, "s0001"), ("s0001", ME))
    ]
    shown = (lie.run, *ends[0], *ends[1])
    assert agreed == hybrid(known, sent, came, *shown)
    others = [
        hybrid(*secrets, *shown)
        for secrets in ((bytes(32), sent, came), (known, bytes(32), came), (known, sent, bytes(32)))
    ]
    others += [hybrid(known, sent, came, *shown[:at], b"other", *shown[at + 1 :]) for at in range(len(shown))]
    assert len({agreed, *others}) == 1 + len(others)


def test_keys_of_pairs_and_their_locks_follow_from_one_agreement() -> None:
    lie = Lying().hello().share()
    memories = {name: lie.memory(name).joining for name in lie.names}
    for name, memory in memories.items():
        assert [lock_seal(secret) for secret in memory.mask_secrets] == list(lie.keys[name].masks)
        for number, secret in enumerate(memory.mask_secrets):
            keys = open_keys(lie.locked[name][number], secret, len(memory.peers))
            assert keys == memory.pair_keys[number]
            for place, peer in enumerate(memory.peers):
                back = memories[peer].peers.index(name)
                assert key_at(keys, place) == key_at(memories[peer].pair_keys[number], back)
    known = {key_at(m.pair_keys[at], place) for m in memories.values() for at in range(2) for place in range(3)}
    assert len(known) == 2 * 6  # each sum has other keys, and each pair


def test_a_site_leaves_the_very_same_locked_keys_when_it_is_asked_again() -> None:
    lie = Lying().hello().share()
    assert lie.get(ME, Share(ciphertexts=lie.ciphertexts[ME]), Letters).locked == lie.locked[ME]
    assert lie.get(ME, Share(ciphertexts={}), Letters).locked == lie.locked[ME]


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
        for to, ciphertext in lie.get(name, Meet(cohort=cohort), Ciphertexts).ciphertexts.items():
            lie.ciphertexts[to][name] = ciphertext
    for name in lie.names[:4]:
        for to, letter in lie.get(name, Share(ciphertexts=lie.ciphertexts[name]), Letters).letters.items():
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
            content if isinstance(value, SealedShares) else real(value, **options)
        )
        sealed = traitor.joining._seal(traitor.joining.agreed_with(ME), ME, SealedShares())
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


def test_a_seed_contributor_with_a_short_secret_is_refused() -> None:
    lie = Lying().hello().share()
    first = next(iter(holder_numbers(lie.keys, lie.seed)))
    victim = next(name for name in lie.names if name != first)
    traitor = lie.as_site(first)
    short = SealedShares((GOOD_SHARE,) * 2, (GOOD_SHARE,) * 2, b"short")
    sealed = traitor.joining._seal(traitor.joining.agreed_with(victim), victim, short)
    lie.refused(
        victim,
        lie.column(victim, letters=lie.mail[victim] | {first: sealed}),
        "no seed contributor's secret arrived",
    )


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
    assert len(lie.memory(ME).joining.order) == 4
    lie.refused(ME, lie.column(ME, round=1), "one run has one hidden order")


def test_sites_told_of_different_members_have_masks_that_do_not_cancel() -> None:
    lie = Lying(5).hello().share()
    few = lie.names[:4]
    total = np.zeros(7, np.uint64)
    for name in few:  # the victim believes in five members, and so in another hidden order
        question = lie.column(name, members=lie.names if name == ME else few, participants=few)
        total += lie.get(name, question, MaskedVector).vector.numpy() - own_mask(lie, name, question)
    assert (total != sum(site.X[:, 0].astype(np.uint64) for site in make_sites(5)[:4])).all()


def test_the_order_is_not_told_before_it_is_settled() -> None:
    lie = Lying().hello().share()
    with pytest.raises(ProtocolError, match="not settled yet"):
        _ = lie.as_site(ME).joining.block
