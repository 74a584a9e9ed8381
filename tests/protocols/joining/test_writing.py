"""What a site writes when it has seen the cohort."""

from __future__ import annotations

import secrets

import pytest

from fedgeom.crypto import shamir
from fedgeom.crypto.masks import key_at, open_keys
from fedgeom.protocols.join.site import JoinMemory, make_pair_keys, write_letters

NAMES = ("anna", "bert", "carl", "dora")
NUMBERS = {name: at + 1 for at, name in enumerate(NAMES)}
SUMS = 3


def memory(me: str) -> JoinMemory:
    return JoinMemory(
        peers=tuple(name for name in NAMES if name != me),
        mask_secrets=tuple(secrets.token_bytes(32) for _ in range(SUMS)),
        self_seeds=tuple(secrets.token_bytes(32) for _ in range(SUMS)),
        seed_secret=b"h" * 32,
        cohort_seed=b"cohort",
    )


@pytest.mark.parametrize("sums", [(0, 1, 2), (1,), ()])
def test_letters_give_back_the_secrets_of_the_sums_a_site_may_be_in_and_of_no_other(sums):
    mine = memory("anna")
    letters = write_letters(mine, "anna", NUMBERS, 3, sums, contributes=False)
    assert set(letters) == set(NAMES)
    for place, at in enumerate(sums):
        for kind, given in (("mask_shares", mine.mask_secrets), ("self_shares", mine.self_seeds)):
            shares = {NUMBERS[name]: getattr(letters[name], kind)[place] for name in NAMES[1:]}
            assert shamir.recover(shares, 3) == given[at]
    for letter in letters.values():
        assert len(letter.mask_shares) == len(letter.self_shares) == len(sums)
        assert letter.secret == b""


def test_a_seed_contributor_writes_its_secret_to_all_and_shares_to_its_holders():
    mine = memory("anna")
    mine.peers = ("bert", "carl")
    letters = write_letters(mine, "anna", NUMBERS, 2, (0,), contributes=True)
    assert {name: letter.secret for name, letter in letters.items()} == dict.fromkeys(NAMES, b"h" * 32)
    assert letters["dora"].mask_shares == ()


def test_both_ends_of_a_pair_have_its_keys_and_a_sums_secret_opens_those_of_that_sum():
    one, other = memory("anna"), memory("bert")
    agreed = {frozenset(pair): secrets.token_bytes(32) for pair in (("anna", p) for p in NAMES[1:])}
    agreed |= {frozenset(("bert", p)): secrets.token_bytes(32) for p in NAMES[2:]}
    made = {}
    for me, mine in (("anna", one), ("bert", other)):
        made[me] = make_pair_keys(
            mine, me, b"run", {peer: agreed[frozenset((me, peer))] for peer in mine.peers}, (0, 2)
        )
    for at in (0, 2):
        key = key_at(one.pair_keys[at], one.peers.index("bert"))
        assert key == key_at(other.pair_keys[at], other.peers.index("anna"))
        assert open_keys(made["anna"][at], one.mask_secrets[at], 3) == one.pair_keys[at]
        assert open_keys(made["anna"][at], one.mask_secrets[1], 3) != one.pair_keys[at]
    assert one.pair_keys[0] != one.pair_keys[2]
    assert made["anna"][1] == one.pair_keys[1] == b""
