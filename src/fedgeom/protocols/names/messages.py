"""What travels while sites agree on label names, and what both halves derive from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

import msgspec

from fedgeom.crypto.keys import fingerprint
from fedgeom.federation.messages import Key, Message, Name, Names, Question
from fedgeom.protocols.secure_sum.messages import SumQuestion, SumResult

PAGE = 1024
"""Sealed lists are padded to whole pages, so that their length says little."""
SLOTS = 256
"""Names are counted under numbers up to a multiple of this."""

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
    """All names that occur at any site, or at enough of them, sorted."""

    kind: ClassVar[str] = "names.vocabulary"
    reveals: ClassVar[str] = "the union of all sites' label names"
    harmless: ClassVar[bool] = True
    names: Names


class OpenNames(Question, frozen=True, kw_only=True):
    """Bring a site everybody's sealed names and ask for the union."""

    kind: ClassVar[str] = "names.open"
    answer: ClassVar[type[Message]] = Vocabulary
    sealed: dict[Name, Sealed]


class NamesHeld(Message, frozen=True, kw_only=True):
    """A site has everybody's names, and keeps them to itself."""

    kind: ClassVar[str] = "names.held"
    reveals: ClassVar[str] = f"how many label names there are in all, rounded up to a multiple of {SLOTS}"
    harmless: ClassVar[bool] = True
    slots: Annotated[int, msgspec.Meta(ge=SLOTS, le=2**24)]


class HoldNames(Question, frozen=True, kw_only=True):
    """Bring a site everybody's sealed names, which are then counted."""

    kind: ClassVar[str] = "names.hold"
    answer: ClassVar[type[Message]] = NamesHeld
    sealed: dict[Name, Sealed]


class CountNames(SumQuestion, frozen=True, kw_only=True):
    """Ask which names a site has and how many rows of each, masked, and under numbers that only sites understand."""

    kind: ClassVar[str] = "names.count"
    answer_reveals: ClassVar[str] = (
        "masked; with all others: at how many sites and in how many rows each label occurs, without the labels"
    )
    checked: ClassVar[bool] = True
    lists: Key
    """A hash of the lists that were opened: sites that saw others have masks that do not cancel."""
    slots: Annotated[int, msgspec.Meta(ge=SLOTS, le=2**24)]


class KeepNames(Question, frozen=True, kw_only=True):
    """Show a site the counts and ask for the names that enough sites and rows have."""

    kind: ClassVar[str] = "names.keep"
    answer: ClassVar[type[Message]] = Vocabulary
    answer_reveals: ClassVar[str] = "the label names that enough sites and rows have"
    result: SumResult


def hash_lists(sealed: Mapping[str, bytes]) -> bytes:
    """Hash sealed lists, with whose they are."""
    return fingerprint(*(part for name in sorted(sealed) for part in (name.encode(), sealed[name])))


def hash_names(names: Sequence[str]) -> bytes:
    """Hash names that stand in the terms of a run."""
    return fingerprint(b"names", *(name.encode() for name in names))


def slots_for(names: Sequence[str]) -> int:
    """Return under how many numbers so many names are counted."""
    return SLOTS * max(1, -(-len(names) // SLOTS))
