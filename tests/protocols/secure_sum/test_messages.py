"""What both halves of a secure sum derive from its messages: hashes of questions, mask keys."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
import pytest

from fedgeom.crypto.masks import mask_key
from fedgeom.errors import InputError
from fedgeom.federation.messages import Array, decode, encode
from fedgeom.protocols.secure_sum.messages import SumQuestion, Ticket, hash_question, own_key, tag_key

replace = msgspec.structs.replace


class Ask(SumQuestion, frozen=True, kw_only=True):
    kind: ClassVar[str] = "test.ask"
    per_site_fields: ClassVar[dict[str, Any]] = {"own": Array.of([0.0])}
    rate: float = 1.0
    own: Array = Array.of([0.0])


class AskOtherwise(SumQuestion, frozen=True, kw_only=True):
    kind: ClassVar[str] = "test.otherwise"
    rate: float = 1.0
    own: Array = Array.of([0.0])


TICKET = Ticket(round=3, modulus="1009", members=("a", "b", "c"), participants=("a", "b"))


def test_the_hash_leaves_out_the_mail_and_what_is_each_sites_own() -> None:
    first = Ask(ticket=TICKET)
    for same in (
        Ask(ticket=replace(TICKET, letters={"a": b"letter"})),
        Ask(ticket=replace(TICKET, question_hash=b"\x01" * 32)),
        Ask(ticket=TICKET, own=Array.of([5.0, 6.0])),
    ):
        assert hash_question(same) == hash_question(first)


def test_the_hash_covers_all_the_rest() -> None:
    others = [
        Ask(ticket=TICKET),
        Ask(ticket=TICKET, rate=2.0),
        Ask(ticket=replace(TICKET, round=2)),
        Ask(ticket=replace(TICKET, modulus="1013")),
        Ask(ticket=replace(TICKET, members=("a", "b"))),
        Ask(ticket=replace(TICKET, participants=("a", "c"))),
        AskOtherwise(ticket=TICKET),
    ]
    assert len({hash_question(other) for other in others}) == len(others)


def test_a_question_is_hashed_as_it_is_read() -> None:
    written = Ask(ticket=TICKET, rate=2)  # a whole number, which the reader takes for 2.0
    assert hash_question(decode(encode(written), Ask)) == hash_question(written)


def test_a_blank_ticket_names_no_sum() -> None:
    blank = SumQuestion()
    assert blank.ticket == Ticket()
    assert blank.ticket.question_hash != hash_question(blank)
    assert not blank.ticket.participants


def test_a_ticket_says_the_ring() -> None:
    assert TICKET.ring.modulus == 1009
    with pytest.raises(InputError):
        _ = replace(TICKET, modulus="1").ring


def test_mask_keys_belong_to_one_question() -> None:
    a, b, asked, other = (bytes([at]) * 32 for at in range(4))
    keys = {made(one, ask) for made in (own_key, mask_key) for one in (a, b) for ask in (asked, other)}
    assert len(keys) == 8
    assert not keys & {a, b}


def test_tag_keys_belong_to_one_run_round_and_question() -> None:
    secret, other, asked, otherwise = (bytes([at]) * 32 for at in range(4))
    keys = {tag_key(one, at, ask) for one in (secret, other) for at in (0, 1) for ask in (asked, otherwise)}
    assert len(keys) == 8
