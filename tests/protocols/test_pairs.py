"""Letters between two sites: only the partner opens them, at their turn, in their run."""

from __future__ import annotations

import pytest

from fedgeom.errors import ProtocolError
from fedgeom.protocols.pairwise import asks_first, deliver, open_from, seal_for
from tests.protocols.lying import Lying

PURPOSE = b"test"


def test_of_two_sites_exactly_one_begins_and_each_with_about_half_of_its_partners() -> None:
    names = [f"site {i}" for i in range(200)]
    begins = {name: sum(asks_first(name, other) for other in names if other != name) for name in names}
    for one in names[:20]:
        for other in names[20:40]:
            assert asks_first(one, other) != asks_first(other, one)
    assert 60 < min(begins.values()) <= max(begins.values()) < 140


def test_letters_are_sorted_by_recipient_and_those_of_lost_sites_left_out() -> None:
    sent = {"a": {"b": b"ab", "c": b"ac"}, "b": {"a": b"ba"}, "c": {"b": b"cb"}}
    assert deliver(sent, "abc") == {"b": {"a": b"ab", "c": b"cb"}, "c": {"a": b"ac"}, "a": {"b": b"ba"}}
    assert deliver(sent, "ab") == {"b": {"a": b"ab"}, "a": {"b": b"ba"}}
    assert deliver(sent, "a") == {}


def joined() -> Lying:
    return Lying(3).hello().share()


def test_a_partner_opens_what_was_sealed_for_it() -> None:
    lie = joined()
    a, b, c = (lie.as_site(name).joining for name in lie.names)
    letter = seal_for(a, "s0001", PURPOSE, 1, b"hello")
    assert b"hello" not in letter
    assert open_from(b, "s0000", PURPOSE, 1, letter) == b"hello"
    for site, sender, purpose, number in (
        (c, "s0000", PURPOSE, 1),  # another recipient
        (b, "s0002", PURPOSE, 1),  # under another name
        (b, "s0000", b"other", 1),
        (b, "s0000", PURPOSE, 2),  # out of turn
    ):
        with pytest.raises(ProtocolError, match="cannot be opened"):
            open_from(site, sender, purpose, number, letter)


def test_a_letter_does_not_come_back_as_the_partners_own() -> None:
    lie = joined()
    a = lie.as_site("s0000").joining
    with pytest.raises(ProtocolError, match="cannot be opened"):
        open_from(a, "s0001", PURPOSE, 1, seal_for(a, "s0001", PURPOSE, 1, b"hello"))


def test_a_letter_of_another_run_is_not_opened() -> None:
    lie, other = joined(), Lying(3)
    other.engine = lie.engine
    other.hello().share()
    letter = seal_for(other.as_site("s0000").joining, "s0001", PURPOSE, 1, b"hello")
    with pytest.raises(ProtocolError, match="cannot be opened"):
        open_from(lie.as_site("s0001").joining, "s0000", PURPOSE, 1, letter)


@pytest.mark.parametrize("name", ["mallory", "s0000", ""])
def test_only_other_members_are_partners(name: str) -> None:
    joining = joined().as_site("s0000").joining
    with pytest.raises(ProtocolError, match="is not a partner of this site"):
        seal_for(joining, name, PURPOSE, 1, b"")
    with pytest.raises(ProtocolError, match="is not a partner of this site"):
        open_from(joining, name, PURPOSE, 1, b"")
