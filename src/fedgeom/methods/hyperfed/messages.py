"""What travels beside the models: letters between every two sites, and shares of the cosines of their updates."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from fedgeom.federation.messages import Key, Message, Name, Names, Question
from fedgeom.methods.iterative.messages import Leaves, RoundNumber
from fedgeom.protocols.inner_products import MODULUS

Share = Annotated[int, msgspec.Meta(ge=0, lt=MODULUS)]
Letters = dict[Name, bytes]


class FirstLetters(Message, frozen=True, kw_only=True):
    """A site's sealed letters to the partners with whom it begins."""

    kind: ClassVar[str] = "hyperfed.letters"
    reveals: ClassVar[str] = (
        "letters to other sites that the coordinator cannot read; with raw deviations, how long the site's update is"
    )
    letters: Letters
    length: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """‖Δ_k‖, where the terms weigh raw deviations; else 0."""


class CompareUpdates(Question, frozen=True, kw_only=True):
    """Ask a site to train, to keep what came of it, and to begin to compare it with that of others."""

    kind: ClassVar[str] = "hyperfed.compare"
    answer: ClassVar[type[Message]] = FirstLetters
    round: RoundNumber
    given: Leaves
    agreed: Key
    """A hash of the classes and the scale that all sites were told (`Agreed.hash`)."""
    partners: Names
    """The other sites that train in this round."""


class PairShares(Message, frozen=True, kw_only=True):
    """Sealed letters back, and a share of the cosine with each partner that this site is done with."""

    kind: ClassVar[str] = "hyperfed.shares"
    reveals: ClassVar[str] = (
        "one of two shares, random by itself, for each partner; with the partner's: the cosine between the two sites' "
        "updates"
    )
    letters: Letters
    shares: dict[Name, Share]


class PassOn(Question, frozen=True, kw_only=True):
    """Bring a site its partners' letters."""

    kind: ClassVar[str] = "hyperfed.pass"
    answer: ClassVar[type[Message]] = PairShares
    round: RoundNumber
    number: Annotated[int, msgspec.Meta(ge=1, le=2)]
    """1: letters of those who begin; 2: the answers to those."""
    letters: Letters
