"""The union of the sites' label names, without telling the coordinator who has which.

Each site seals its names, padded, under the secret that the sites share (`Joining.open_letters`). The
coordinator relays the sealed lists; every site opens them all and reports the same union. Sites learn
each other's names; the coordinator learns the union.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, ClassVar

import msgspec

from fedgeom.crypto.keys import fingerprint
from fedgeom.crypto.letters import seal, unseal
from fedgeom.errors import ProtocolError
from fedgeom.federation.messages import Message, Name, Names, Question
from fedgeom.federation.site import Part, answers
from fedgeom.protocols.cohort import Cohort
from fedgeom.protocols.joining.site import Joining

PAGE = 1024
"""Sealed lists are padded to whole pages, so that their length says little."""

Sealed = Annotated[bytes, msgspec.Meta(max_length=2**20)]


class SealedNames(Message, frozen=True, kw_only=True):
    """A site's label names, sealed for the other sites."""

    kind: ClassVar[str] = "names.sealed"
    reveals: ClassVar[str] = "nothing to the coordinator; the site's label names to the other sites"
    harmless: ClassVar[bool] = True
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
    harmless: ClassVar[bool] = True
    names: Names


class OpenNames(Question, frozen=True, kw_only=True):
    """Bring a site everybody's sealed names and ask for the union."""

    kind: ClassVar[str] = "names.open"
    answer: ClassVar[type[Message]] = Vocabulary
    sealed: dict[Name, Sealed]


def agree_on_names(cohort: Cohort) -> tuple[str, ...]:
    """Return the union of the sites' label names; sites that fail to report it are left out of the cohort."""
    questions = {
        name: SealNames(participants=cohort.names, letters=dict(cohort.mail[name])) for name in cohort.left
    }
    given = cohort.sites.ask(questions, expect=SealedNames)
    given.need(cohort.min_sites, "with their label names")
    sealed = {name: answer.names for name, answer in given.items()}
    opened = cohort.sites.ask(OpenNames(sealed=sealed), of=given, expect=Vocabulary)
    opened.need(cohort.min_sites, "with the joint vocabulary")
    counted = Counter(answer.names for answer in opened.values())
    if len(counted) > 1:
        raise ProtocolError("the sites do not report the same vocabulary: one of them is at fault; run again")
    cohort.lost_since(opened)
    return next(iter(counted))


class NamesMemory(msgspec.Struct, kw_only=True):
    """What a site remembers of the names: what it sealed, and which lists it opened."""

    sealed: bytes = b""
    opened: bytes = b""
    """A hash of the lists: one run has one vocabulary."""


class LabelNames(Part[NamesMemory]):
    """Agrees on label names; the site says which are its own (``label_names``)."""

    name: ClassVar[str] = "names"

    @property
    def joining(self) -> Joining:
        """The part that joined: it has the common secret."""
        found: Joining = self.site.joining  # type: ignore[attr-defined]
        return found

    def own(self) -> list[str]:
        """Return the site's own label names; a site that reads labels otherwise has a ``label_names`` of its own."""
        read = getattr(self.site, "label_names", None)
        return list(read()) if read else sorted(set(self.site.data.y.astype(str).tolist()))

    @answers(SealNames)
    def seal_names(self, ask: SealNames) -> SealedNames:
        """Seal the site's names for the other sites."""
        memory, site = self.memory, self.site
        self.joining.open_letters(ask.participants, ask.letters)
        if not memory.sealed:
            text = msgspec.json.encode(self.own())
            padded = text + b" " * (-len(text) % PAGE)
            key = self.joining.shared_secret(b"names")
            memory.sealed = seal(key, padded, fingerprint(site.run, site.name.encode()))
        return SealedNames(names=memory.sealed)

    @answers(OpenNames)
    def open_names(self, ask: OpenNames) -> Vocabulary:
        """Open all lists and merge them, once: the unions of a few would tell whose names are whose."""
        memory, site, key = self.memory, self.site, self.joining.shared_secret(b"names")
        if site.name not in ask.sealed or not set(ask.sealed) <= set(self.joining.memory.order):
            raise ProtocolError("the lists of names are not those of members with this site among them")
        self.joining.check_many_enough(ask.sealed)
        stamp = fingerprint(*(part for name in sorted(ask.sealed) for part in (name.encode(), ask.sealed[name])))
        if memory.opened and memory.opened != stamp:
            raise ProtocolError("other lists of names were opened before; one run has one vocabulary")
        memory.opened = stamp
        union: set[str] = set()
        for name, sealed in sorted(ask.sealed.items()):
            text = unseal(key, sealed, fingerprint(site.run, name.encode()), sender=name)
            try:
                union |= set(msgspec.json.decode(text, type=list[Name]))
            except ValueError as error:
                raise ProtocolError(f"the label names of {name!r} cannot be read: {error}") from error
        return Vocabulary(names=tuple(sorted(union)))
