"""What a site remembers of joining, between two questions."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fedgeom.protocols.joining.cohorts import cohort_of
from fedgeom.protocols.joining.messages import Letter, PublicKeys, Term
from fedgeom.protocols.joining.name_lists import NO_NAMES, read_names
from fedgeom.protocols.joining.parts import SumParts


class Held(msgspec.Struct, frozen=True, array_like=True):
    """The shares that a site holds for one sum, by the site that they are of."""

    masks: dict[str, bytes]
    selves: dict[str, bytes]


class JoiningMemory(msgspec.Struct, kw_only=True):
    """What a site remembers of its keys, its peers and the terms."""

    letter_secret: bytes = b""
    mask_secrets: tuple[bytes, ...] = ()
    """For each sum the secret by which the site locks its pairs' keys, and which it shares."""
    pair_keys: tuple[bytes, ...] = ()
    """For each sum the keys of the site's pairs, in the order of its peers (`fedgeom.crypto.pair_keys`)."""
    self_seeds: tuple[bytes, ...] = ()
    herald_secret: bytes = b""
    private: bytes = b""
    """The seed of randomness that is never shared, not even in shares."""
    own_keys: bytes = b""
    """A hash of the public keys that the site showed."""
    terms_hash: bytes = b""
    """A hash of the terms on which the site joined."""
    terms: dict[str, Term] = {}
    """The terms themselves: later questions must keep to them."""
    seed: int = 0
    """The run's seed, which is part of the terms."""
    participants_bytes: memoryview = NO_NAMES
    """Everyone who may take part, which is part of the terms, encoded."""
    sums: tuple[str, ...] = ()
    """The kinds of the questions whose answers are summed, by round: no other sum is answered."""
    cohort_bytes: memoryview = memoryview(b"")
    """Everybody's keys, encoded: a thousand sites' are read when they are needed, not copied with every question."""
    peers: tuple[str, ...] = ()
    cohort_seed: bytes = b""
    """A hash of the cohort, from which the neighbourhoods follow."""
    own_letter: Letter | None = None
    letters: bytes = b""
    """What was sent to the others: asked again, the site sends the very same."""
    shares: tuple[bytes, ...] = ()
    """For each sum the shares that came in letters (`Held`), encoded: they are read when they are asked for."""
    secret: bytes = b""
    order_bytes: memoryview = NO_NAMES
    """All sites that shared their keys, in the hidden order, encoded."""

    @property
    def participants(self) -> tuple[str, ...]:
        """Everyone who may take part."""
        return read_names(self.participants_bytes)

    @property
    def order(self) -> tuple[str, ...]:
        """All sites that shared their keys, in the hidden order; none before it is settled."""
        return read_names(self.order_bytes)

    def keep_shares(self, letters: Mapping[str, Letter], parts: SumParts) -> None:
        """Keep the shares of letters, by the site that they came from, each sum's together."""
        held = [Held({}, {}) for _ in self.mask_secrets]
        for name, letter in letters.items():
            for at, mask, own in zip(parts.of(name), letter.mask_shares, letter.self_shares, strict=True):
                held[at].masks[name], held[at].selves[name] = mask, own
        self.shares = tuple(map(msgspec.msgpack.encode, held))

    def held(self, round: int) -> Held:
        """Return the shares that the site holds for one sum."""
        return msgspec.msgpack.decode(self.shares[round], type=Held)

    @property
    def cohort(self) -> Mapping[str, PublicKeys]:
        """Everybody's keys, by name; nobody's before the site joined."""
        return cohort_of(self.cohort_seed, self.cohort_bytes) if self.cohort_bytes else {}
