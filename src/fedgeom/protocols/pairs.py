"""Conversations between pairs of sites, all at once, over letters that the coordinator cannot read.

Every two partners hold a protocol of a few letters. One question brings each site all letters that wait for it,
and takes all its replies; after as many questions as the longest protocol has letters, every pair is done. A site
that is lost takes only its own pairs with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from fedgeom.crypto.keys import fingerprint, shared_key
from fedgeom.crypto.letters import seal, unseal
from fedgeom.errors import ProtocolError
from fedgeom.protocols.cohort import SecureMemory
from fedgeom.protocols.summing_site import SummingSite

Mem = TypeVar("Mem", bound=SecureMemory)


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


class PairSite(SummingSite[Mem]):
    """A site that can write to each partner alone."""

    def seal_for(self, partner: str, purpose: bytes, number: int, text: bytes) -> bytes:
        """Seal the ``number``-th letter to a partner."""
        envelope = self._pair_envelope(self.badge.name, partner, purpose, number)
        return seal(self._pair_key(partner, envelope), text, fingerprint(*envelope))

    def open_from(self, partner: str, purpose: bytes, number: int, letter: bytes) -> bytes:
        """Open the ``number``-th letter from a partner; a letter out of order does not open."""
        envelope = self._pair_envelope(partner, self.badge.name, purpose, number)
        return unseal(self._pair_key(partner, envelope), letter, fingerprint(*envelope), sender=partner)

    def _pair_key(self, partner: str, envelope: tuple[bytes, ...]) -> bytes:
        if partner not in self.memory.cohort or partner == self.badge.name:
            raise ProtocolError(f"{partner!r} is not a partner of this site")
        return shared_key(self.memory.letter_secret, self.memory.cohort[partner].letters, *envelope)

    def _pair_envelope(self, sender: str, recipient: str, purpose: bytes, number: int) -> tuple[bytes, ...]:
        return (b"pair", purpose, self.run, str(number).encode(), sender.encode(), recipient.encode())
