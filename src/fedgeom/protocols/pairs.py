"""Conversations between pairs of sites, all at once, over letters that the coordinator cannot read.

Every two partners hold a protocol of a few letters. One question brings each site all letters that wait for it,
and takes all its replies; after as many questions as the longest protocol has letters, every pair is done. A site
that is lost takes only its own pairs with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fedgeom.crypto.keys import fingerprint, shared_key
from fedgeom.crypto.letters import seal, unseal
from fedgeom.errors import ProtocolError
from fedgeom.protocols.joining.site import Joining


def asks_first(one: str, other: str) -> bool:
    """Say whether ``one`` begins with ``other``: each site begins with about half of its partners."""
    first, second = sorted((one, other))
    swap = fingerprint(b"first", first.encode(), second.encode())[0] & 1
    return (one == first) != bool(swap)


def deliver(sent: Mapping[str, Mapping[str, bytes]], alive: Iterable[str]) -> dict[str, dict[str, bytes]]:
    """Sort letters by recipient; letters to and from sites that were lost are left out."""
    living = set(alive)
    post: dict[str, dict[str, bytes]] = {}
    for sender, letters in sent.items():
        for recipient, letter in letters.items():
            if sender in living and recipient in living:
                post.setdefault(recipient, {})[sender] = letter
    return post


def seal_for(
    joining: Joining, partner: str, purpose: bytes, number: int, text: bytes, *, repeatable: bool = False
) -> bytes:
    """Seal the ``number``-th letter of this site to a partner; a ``repeatable`` one is the same each time."""
    key, envelope = _key(joining, joining.site.name, partner, purpose, number)
    return seal(key, text, envelope, repeatable=repeatable)


def open_from(joining: Joining, partner: str, purpose: bytes, number: int, letter: bytes) -> bytes:
    """Open the ``number``-th letter from a partner; a letter out of order does not open."""
    key, envelope = _key(joining, partner, joining.site.name, purpose, number)
    return unseal(key, letter, envelope, sender=partner)


def _key(joining: Joining, sender: str, recipient: str, purpose: bytes, number: int) -> tuple[bytes, bytes]:
    """Return the key of a letter, and what the letter is bound to."""
    memory, site = joining.memory, joining.site
    partner = recipient if sender == site.name else sender
    if partner not in memory.cohort or partner == site.name:
        raise ProtocolError(f"{partner!r} is not a partner of this site")
    envelope = (b"pair", purpose, site.run, str(number).encode(), sender.encode(), recipient.encode())
    return shared_key(memory.letter_secret, memory.cohort[partner].letters, *envelope), fingerprint(*envelope)
