"""The union of the sites' label names, without telling the coordinator who has which.

Each site seals its names, padded, under the secret that the sites share (`SecureSite.open_letters`). The
coordinator relays the sealed lists; every site opens them all and reports the same union. Sites learn
each other's names; the coordinator learns the union.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, ClassVar, TypeVar

import msgspec

from fedgeom.crypto.keys import fingerprint
from fedgeom.crypto.letters import seal, unseal
from fedgeom.errors import ProtocolError
from fedgeom.federation.messages import Message, Name, Names, Question
from fedgeom.federation.site import answers
from fedgeom.protocols.cohort import Cohort, SecureMemory
from fedgeom.protocols.summing_site import SummingSite

PAGE = 1024
"""Sealed lists are padded to whole pages, so that their length says little."""

Sealed = Annotated[bytes, msgspec.Meta(max_length=2**20)]


class SealedNames(Message, frozen=True, kw_only=True):
    """A site's label names, sealed for the other sites."""

    kind: ClassVar[str] = "names.sealed"
    reveals: ClassVar[str] = "nothing to the coordinator; the site's label names to the other sites"
    names: Sealed


class SealNames(Question, frozen=True, kw_only=True):
    """Bring a site its mail and ask for its sealed names."""

    kind: ClassVar[str] = "names.seal"
    answer: ClassVar[type[Message]] = SealedNames
    participants: Names
    letters: dict[Name, bytes]


class Vocabulary(Message, frozen=True, kw_only=True):
    """All names that occur at any site, sorted."""

    kind: ClassVar[str] = "names.vocabulary"
    reveals: ClassVar[str] = "the union of all sites' label names"
    names: Names


class OpenNames(Question, frozen=True, kw_only=True):
    """Bring a site everybody's sealed names and ask for the union."""

    kind: ClassVar[str] = "names.open"
    answer: ClassVar[type[Message]] = Vocabulary
    sealed: dict[Name, Sealed]


def agree_on_names(cohort: Cohort, *, smallest: int = 2) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the union of the sites' label names, and the sites that took part."""
    questions = {name: SealNames(participants=cohort.names, letters=cohort.mail[name]) for name in cohort.names}
    given = cohort.sites.ask(questions, expect=SealedNames)
    given.need(smallest, "with their label names")
    sealed = {name: answer.names for name, answer in given.items()}
    opened = cohort.sites.ask(OpenNames(sealed=sealed), of=given, expect=Vocabulary)
    opened.need(smallest, "with the joint vocabulary")
    counted = Counter(answer.names for answer in opened.values())
    if len(counted) > 1:
        raise ProtocolError("the sites do not report the same vocabulary: one of them is at fault; run again")
    return next(iter(counted)), tuple(opened)


Mem = TypeVar("Mem", bound=SecureMemory)


class NamingSite(SummingSite[Mem]):
    """A site that can agree on label names."""

    def label_names(self) -> list[str]:
        """Return the site's own label names."""
        return sorted(set(self.data.y.astype(str).tolist()))

    @answers(SealNames)
    def seal_names(self, ask: SealNames) -> SealedNames:
        """Seal the site's names for the other sites."""
        self.open_letters(ask.participants, ask.letters)
        if ask.kind in self.memory.sealed:
            return SealedNames(names=self.memory.sealed[ask.kind])
        text = msgspec.json.encode(self.label_names())
        padded = text + b" " * (-len(text) % PAGE)
        me = self.badge.name
        sealed = seal(self._names_key(), padded, fingerprint(self.run, me.encode()))
        self.memory.sealed[ask.kind] = sealed
        return SealedNames(names=sealed)

    @answers(OpenNames)
    def open_names(self, ask: OpenNames) -> Vocabulary:
        """Open all lists and merge them, once: the unions of a few would tell whose names are whose."""
        memory, key = self.memory, self._names_key()
        if self.badge.name not in ask.sealed or not set(ask.sealed) <= set(memory.order):
            raise ProtocolError("the lists of names are not those of members with this site among them")
        self._check_many_enough(ask.sealed)
        stamp = fingerprint(*(part for name in sorted(ask.sealed) for part in (name.encode(), ask.sealed[name])))
        if memory.asked.setdefault("names", stamp) != stamp:
            raise ProtocolError("other lists of names were opened before; one run has one vocabulary")
        union: set[str] = set()
        for name, sealed in sorted(ask.sealed.items()):
            text = unseal(key, sealed, fingerprint(self.run, name.encode()), sender=name)
            try:
                union |= set(msgspec.json.decode(text, type=list[Name]))
            except ValueError as error:
                raise ProtocolError(f"the label names of {name!r} cannot be read: {error}") from error
        return Vocabulary(names=tuple(sorted(union)))

    def _names_key(self) -> bytes:
        if not self.memory.secret:
            raise ProtocolError("the sites have no common secret yet")
        return fingerprint(b"names", self.memory.secret)
