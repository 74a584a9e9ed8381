"""What travels beside models and propagation: the model whose features are compared."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from fedgeom.crypto.keys import fingerprint
from fedgeom.federation.messages import Key, Message, Question
from fedgeom.methods.iterative.messages import Leaves, RoundNumber


class Embedded(Message, frozen=True, kw_only=True):
    """A site has the model and knows its rows' features."""

    kind: ClassVar[str] = "semi.embedded"
    reveals: ClassVar[str] = "nothing: a receipt"
    harmless: ClassVar[bool] = True


class Embed(Question, frozen=True, kw_only=True):
    """Give a site the model of a round, whose features of its rows are compared (line 6 of Algorithm 2)."""

    kind: ClassVar[str] = "semi.embed"
    answer: ClassVar[type[Message]] = Embedded
    round: RoundNumber
    given: Leaves
    agreed: Key
    """A hash of the classes and the scale that all sites were told (`Agreed.hash`)."""

    def stamp(self) -> bytes:
        """Hash all that features follow from: sites that were told otherwise are in no sum with the others."""
        return fingerprint(b"features", str(self.round).encode(), hash_given(self.given), self.agreed)


def hash_given(given: Leaves) -> bytes:
    """Hash a model as it travels."""
    return fingerprint(b"given", msgspec.msgpack.encode(given, order="sorted"))
