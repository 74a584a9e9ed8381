"""The site's side of HyperFed: train, and compare the update with every partner's in secret."""

from __future__ import annotations

from dataclasses import astuple
from importlib.util import find_spec
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np

from fedgeom.crypto.keys import fingerprint
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.messages import Array, Key, Message, Name, Names, Question, encode
from fedgeom.federation.site import Memory, answers
from fedgeom.methods.hyperfed.model import HyperFedModel
from fedgeom.methods.hyperfed.settings import HyperFedSettings
from fedgeom.methods.iterative.messages import Leaves, RoundNumber
from fedgeom.methods.iterative.model import TrainedModel
from fedgeom.methods.iterative.settings import TrainingRule
from fedgeom.methods.iterative.site import TrainingMemory, TrainingSite
from fedgeom.methods.iterative.training import Figures
from fedgeom.methods.iterative.tree import State, from_wire, to_wire
from fedgeom.protocols import pairwise
from fedgeom.protocols.pairwise import MODULUS, asks_first, open_from, seal_for

Share = Annotated[int, msgspec.Meta(ge=0, lt=MODULUS)]
Letters = dict[Name, bytes]


class FirstUpdateMessages(Message, kind="hyperfed.letters"):
    """A site's sealed letters to the partners with whom it begins."""

    reveals: ClassVar[str] = (
        "letters to other sites that the coordinator cannot read; with raw deviations, how long the site's update is"
    )
    letters: Letters
    length: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """‖Δ_k‖, where the terms weigh raw deviations; else 0."""


class CompareUpdates(Question, kind="hyperfed.compare", answer=FirstUpdateMessages):
    """Ask a site to train, to keep what came of it, and to begin to compare it with that of others."""

    round: RoundNumber
    given: Leaves
    agreed: Key
    """A hash of the classes and the scale that all sites were told (`Agreed.hash`)."""
    partners: Names
    """The other sites that train in this round."""


class PairShares(Message, kind="hyperfed.shares"):
    """Sealed letters back, and a share of the cosine with each partner that this site is done with."""

    reveals: ClassVar[str] = (
        "one of two shares, random by itself, for each partner; with the partner's: the cosine between the two sites' "
        "updates"
    )
    letters: Letters
    shares: dict[Name, Share]


class RelayUpdateMessages(Question, kind="hyperfed.relay", answer=PairShares, between_sites=True):
    """Bring a site its partners' letters."""

    round: RoundNumber
    number: Annotated[int, msgspec.Meta(ge=1, le=2)]
    """1: letters of those who begin; 2: the answers to those."""
    letters: Letters


PURPOSE = b"update"


class PairAnswer(msgspec.Struct, frozen=True):
    """What was answered to a partner that began."""

    letter: bytes
    share: int


class TrainedUpdate(msgspec.Struct, kw_only=True):
    """What came of the round that is under way; kept until the sum, so that a site trains once."""

    round: int = -1
    given: bytes = b""
    """A hash of the model that the site began with: the sum must be about the same."""
    partners: tuple[str, ...] = ()
    sent: dict[str, Array | float | int] = {}
    figures: tuple[float, ...] = ()
    """Those on rows set aside (`Figures`)."""
    secret: bytes = b""
    """The key of this round's ciphertexts."""
    letter: bytes = b""
    """What all partners are sent with whom this site begins."""
    answered: dict[str, PairAnswer] = {}
    """Asked again, the site says the very same: a second mask would not fit what the partner has."""


class HyperFedMemory(TrainingMemory, kw_only=True):
    """What a site remembers of the round that is under way."""

    under_way: TrainedUpdate = msgspec.field(default_factory=TrainedUpdate)


class HyperFedSite(TrainingSite):
    """Answers the questions of `HyperFed`."""

    memory_type: ClassVar[type[Memory]] = HyperFedMemory
    memory: HyperFedMemory

    @property
    def hyper(self) -> HyperFedSettings:
        """The settings on which the site joined."""
        settings: HyperFedSettings = self.settings
        return settings

    @property
    def _products(self) -> Any:
        """How updates are compared: in secret, but in a plain run."""
        return pairwise if self.masked else pairwise.OpenProducts

    def check(self, settings: TrainingRule) -> None:
        """Refuse data that the method cannot use; what updates are compared with must be there before a promise is."""
        super().check(settings)
        assert isinstance(settings, HyperFedSettings)
        if settings.compares and self.masked and find_spec("seal") is None:
            raise InputError(
                "comparing updates in secret needs seal-python, which is not installed: pip install 'fedgeom[xclp]' "
                '(or train with aggregation="mean", which compares nothing)'
            )

    @answers(CompareUpdates)
    def compare(self, ask: CompareUpdates) -> FirstUpdateMessages:
        """Train, keep the update, and write to the partners with whom this site begins."""
        rule = self.hyper
        memory = self.memory
        if not rule.compares:
            raise ProtocolError("the terms of this run have no updates compared")
        self.agreement.check_agreed(ask.agreed)
        self._check_partners(ask)
        begins = [partner for partner in ask.partners if asks_first(self.name, partner)]
        numbers = sum(int(np.prod(leaf.shape)) for leaf in ask.given.values() if isinstance(leaf, Array))
        self.check_size(pairwise.letter_bytes(numbers, rule.n_rounds)[0] * len(begins), 1)
        asked = fingerprint(b"compare", encode(ask))
        if memory.trained.get(ask.round) != asked or memory.under_way.round != ask.round:
            rate = rule.rate_in(min(ask.round, rule.n_rounds - 1))
            sent, _, figures = super().train(asked, ask.round, ask.given, rate)
            begun = self._products.begin(pairwise.quantise(sent.flat()), rule.n_rounds)
            memory.under_way = TrainedUpdate(
                round=ask.round,
                given=_hash(ask.given),
                partners=ask.partners,
                sent=to_wire(sent),
                figures=astuple(figures),
                secret=begun.secret,
                letter=begun.letter,
            )
        first = 2 * ask.round + 1
        kept = memory.under_way
        letters = {partner: self._sealed(partner, first, kept.letter) for partner in begins}
        raw = rule.consistent is not None and rule.consistent.deviations == "raw"
        length = float(np.linalg.norm(from_wire(kept.sent).flat())) if raw else 0.0
        return FirstUpdateMessages(letters=letters, length=length)

    def _check_partners(self, ask: CompareUpdates) -> None:
        """Refuse partners that do not train in this round, or too few of them: a cosine with a stranger is none."""
        drawn = set(self.rule.drawn(tuple(self.joining.memory.cohort), self.seed, ask.round))
        partners = set(ask.partners)
        if len(partners) < len(ask.partners) or self.name in partners or not {*partners, self.name} <= drawn:
            raise ProtocolError("the partners are not other sites that train in this round")
        self.joining.check_many_enough({*partners, self.name})

    @answers(RelayUpdateMessages)
    def pass_on(self, ask: RelayUpdateMessages) -> PairShares:
        """Answer those who began, or finish with those who answered."""
        kept = self.memory.under_way
        if kept.round != ask.round:
            raise ProtocolError(f"letters of round {ask.round + 1} came, which is not under way")
        mine = pairwise.quantise(from_wire(kept.sent).flat())
        letters: dict[str, bytes] = {}
        shares: dict[str, int] = {}
        for partner, sealed in ask.letters.items():
            begins = asks_first(self.name, partner)
            if partner not in kept.partners or begins != (ask.number == 2):
                raise ProtocolError(f"no letter from {partner!r} is expected at this turn")
            text = open_from(self.joining, partner, PURPOSE, 2 * ask.round + ask.number, sealed)
            if begins:
                shares[partner] = self._products.finish(len(mine), self.rule.n_rounds, kept.secret, text)
                continue
            if partner not in kept.answered:
                helped = self._products.respond(mine, self.rule.n_rounds, text)
                kept.answered[partner] = PairAnswer(helped.letter, helped.share)
            said = kept.answered[partner]
            letters[partner] = self._sealed(partner, 2 * ask.round + 2, said.letter)
            shares[partner] = said.share
        return PairShares(letters=letters, shares=shares)

    def _sealed(self, partner: str, number: int, text: bytes) -> bytes:
        """Seal a letter; asked again, the site sends the very same bytes."""
        return seal_for(self.joining, partner, PURPOSE, number, text, repeatable=True)

    def train(self, asked: bytes, round: int, given: Leaves, rate: float) -> tuple[State, float, Figures]:
        """Return what is sent: where updates are compared, what was trained before they were."""
        if not self.hyper.compares:
            return super().train(asked, round, given, rate)
        kept = self.memory.under_way
        if kept.round != round or kept.given != _hash(given):
            raise ProtocolError("a sum was asked for before the updates were compared, or about another model")
        return from_wire(kept.sent), 1.0, Figures(*kept.figures)

    def joint_model(self) -> TrainedModel:
        """Return a model of the run's kind, untrained."""
        return HyperFedModel(**vars(super().joint_model()))


def _hash(given: Leaves) -> bytes:
    return fingerprint(b"given", msgspec.msgpack.encode(given, order="sorted"))
