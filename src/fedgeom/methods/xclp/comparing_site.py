"""The site's side of comparing rows in secret: hash them, and hold the secure Hamming protocol with every partner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.crypto.keys import fingerprint
from fedgeom.crypto.masks import KeyStream
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.messages import Array
from fedgeom.federation.site import answers
from fedgeom.methods.xclp.core import shared_seed
from fedgeom.methods.xclp.message_sizes import largest_message
from fedgeom.methods.xclp.messages import Begin, CountRows, FirstLetters, Hashing, PairLetters, PassOn, Rows
from fedgeom.methods.xclp.part import XclpPart
from fedgeom.methods.xclp.scores import is_labelled
from fedgeom.protocols.hamming import PackedBits, Variant, plain_distances, variant
from fedgeom.protocols.pairs import asks_first, open_from, seal_for
from fedgeom.protocols.secure_sum.groups import drawn_groups, own_group

PURPOSE = b"hamming"


class Said(msgspec.Struct, frozen=True):
    """What was answered to a partner's letter: asked again, the site says the very same.

    The other partner may have got the first answer, and a second one, made with new randomness, would not fit it.
    """

    heard: bytes
    """A hash of the letter that was answered: a state serves one letter only."""
    letter: bytes | None
    share: Array | None
    """(rows, partner's rows), u2"""


class Pair(msgspec.Struct, frozen=True):
    """How far the comparison with a partner has come."""

    theirs: int
    """How many rows the partner has."""
    state: bytes | None
    """The secret state for the next turn; None when there is none."""
    said: dict[int, Said]
    """What this site said, by the number of the letter it answered; 0 is the beginning."""


class ComparingMemory(msgspec.Struct, kw_only=True):
    """What a site remembers of the comparisons with its partners."""

    pairs: dict[str, Pair] = {}
    hashing: bytes = b""
    """A hash of how rows are hashed: it is said once."""
    wave: int = -1
    """The wave that was begun last."""


class Comparing(XclpPart[ComparingMemory]):
    """Compares the site's rows with those of every other site."""

    name: ClassVar[str] = "comparing"

    @answers(CountRows)
    def count_rows(self, ask: CountRows) -> Rows:
        """Open the mail and say how many rows there are."""
        self.keep_to(hide_labelled=ask.hide)
        self.check_round(ask.round)
        self.joining.check_many_enough(ask.members)
        self.joining.open_letters(ask.members, ask.letters)
        wanted = np.ones(len(self.site.data), bool) if ask.hide else is_labelled(self.site.table.y)
        return Rows(labelled=Array.of(wanted.astype(np.uint8)))

    @property
    def _purpose(self) -> bytes:
        """What letters are sealed for: a partner that was told to make other features cannot open them."""
        return PURPOSE + self.features_hash

    def bits(self, hashing: Hashing) -> PackedBits:
        """Hash the rows with the projection that the sites share."""
        from fedgeom.geometry.graphs.lsh import flip_bits, hash_bits  # scipy.sparse: slow to import

        self.keep_to(
            bits=hashing.bits,
            flip=hashing.flip,
            hamming=hashing.comparison,
            hidden_projection=not hashing.seed,  # with a projection of its own a coordinator could look for rows
        )
        seed = hashing.seed or fingerprint(b"projection", self.joining.memory.secret)
        packed = hash_bits(self.rows, seed, hashing.bits)
        if hashing.flip:  # the same flips every time: a second draw would average the noise away
            packed = flip_bits(packed, hashing.flip, _Noise(fingerprint(b"flips", self.joining.memory.private)))
        return PackedBits(packed, hashing.bits)

    @answers(Begin)
    def begin(self, ask: Begin) -> FirstLetters:
        """Hash the rows, compare them among themselves, and write the first letters."""
        memory, me = self.memory, self.site.name
        self.check_round(ask.round)
        if not self.joining.memory.secret:
            raise ProtocolError("the sites have no common secret yet")
        if me in ask.partners or not set(ask.partners) <= set(self.joining.memory.order):
            raise ProtocolError("the announced partners are not other members of the cohort")
        groups = drawn_groups(self.site)
        if groups and not set(ask.partners) <= set(groups[own_group(self.site)]):
            raise ProtocolError("the announced partners are not of the group that this site is drawn into")
        self.joining.check_many_enough({*ask.partners, me})
        self._check_hashing(ask.hashing)
        now = tuple(ask.partners) if ask.now is None else ask.now
        if not set(now) <= set(ask.partners):
            raise ProtocolError("the partners of this wave are not among those that were announced")
        self._check_wave(ask.wave, now)
        how, letters = variant(ask.hashing.comparison), {}
        most = self.site.policy.max_message_bytes
        if self._largest(ask, now) > most:  # how large would tell how many rows there are
            raise ProtocolError(
                f"the answers would be larger than the policy of {me!r} allows, max_message_bytes = "
                f'{most:,}; graph="anchors" or fewer bits make messages smaller'
            )
        mine = self.bits(ask.hashing)
        if not set(now) & set(memory.pairs):
            self.forget()  # the waves before are over
            memory.pairs |= {partner: self._first(partner, ask.partners[partner], mine, how) for partner in now}
        memory.wave = ask.wave
        for partner in now:
            letter = self._recall(partner, 0, b"").letter
            if letter is not None:
                letters[partner] = letter
        return FirstLetters(letters=letters, own=Array.of(self._own(mine, ask.wave)))

    def _check_wave(self, wave: int, now: Sequence[str]) -> None:
        """Refuse waves out of their order, and partners whose wave was another."""
        memory = self.memory
        if wave == memory.wave:
            return
        if wave < memory.wave or (
            wave and memory.wave < 0
        ):  # all sites have a first one; not each is in every other
            raise ProtocolError(f"wave {wave} of comparisons was to begin after wave {memory.wave}")
        if wave and (not now or set(now) & set(memory.pairs)):
            raise ProtocolError(f"wave {wave} of comparisons has no partners, or some of an earlier wave")

    def _own(self, mine: PackedBits, wave: int) -> npt.NDArray[np.uint16]:
        """Return the distances between the site's own rows, which are told in the first wave."""
        if wave:
            return np.zeros(0, np.uint16)
        return plain_distances(mine, mine)[np.triu_indices(len(mine), 1)].astype(np.uint16)

    def _largest(self, ask: Begin, now: Sequence[str]) -> int:
        """Return the size of the largest message of this wave's turns, and in the first one of any pair's to come.

        A site that leaves in the middle has cost the others their work.
        """
        how, me, rows = ask.hashing, self.site.name, {self.site.name: len(self.site.data), **ask.partners}
        waves = [tuple(now)] if ask.wave else [tuple(now), *((partner,) for partner in ask.partners)]
        known = ({one: rows[one] for one in (me, *some)} for some in waves)
        return max(largest_message(how.comparison, how.bits, me, some, own=not ask.wave) for some in known)

    def _check_hashing(self, hashing: Hashing) -> None:
        """Refuse to hash in another way than the site joined on, or than before: it could disclose more."""
        self.keep_to(
            bits=hashing.bits,
            flip=hashing.flip,
            hamming=hashing.comparison,
            hidden_projection=not hashing.seed,
        )
        if hashing.seed and hashing.seed != shared_seed(self.site.seed):
            raise ProtocolError("the projection does not follow from the run's seed")
        asked = fingerprint(msgspec.msgpack.encode(hashing))
        if self.memory.hashing and self.memory.hashing != asked:
            raise ProtocolError("distances of another kind were asked for before")
        self.memory.hashing = asked

    def _first(self, partner: str, theirs: int, mine: PackedBits, how: Variant) -> Pair:
        """Begin with a partner, or wait for its letter."""
        if not asks_first(self.site.name, partner):
            return Pair(theirs, None, {0: Said(b"", None, None)})
        step = how.begin(mine, theirs)
        letter = seal_for(self.joining, partner, self._purpose, 1, step.letter or b"")
        return Pair(theirs, step.state, {0: Said(b"", letter, None)})

    @answers(PassOn)
    def pass_on(self, ask: PassOn) -> PairLetters:
        """Answer the partners' letters; shares of finished pairs go to the coordinator."""
        memory = self.memory
        self.check_round(ask.round)
        if not memory.hashing:
            raise ProtocolError("letters came before the site began")
        if ask.wave != memory.wave:
            raise ProtocolError(f"letters of wave {ask.wave} came in wave {memory.wave}")
        self._check_hashing(ask.hashing)
        self._check_letters(ask)
        mine: PackedBits | None = None
        letters, shares = {}, {}
        for partner, sealed in ask.letters.items():
            if partner not in memory.pairs:
                raise ProtocolError(f"{partner!r} is not a partner of this site")
            heard = fingerprint(sealed)
            if ask.number not in memory.pairs[partner].said:
                if mine is None:
                    mine = self.bits(ask.hashing)
                self._turn(partner, ask, sealed, mine)
            said = self._recall(partner, ask.number, heard)
            if said.letter is not None:
                letters[partner] = said.letter
            if said.share is not None:
                shares[partner] = said.share
        return PairLetters(letters=letters, shares=shares)

    def _check_letters(self, ask: PassOn) -> None:
        """Refuse letters whose answers would be larger than the policy allows, before any is computed."""
        how, rows, total = variant(ask.hashing.comparison), len(self.site.data), 0
        for partner in ask.letters:
            if partner in self.memory.pairs:
                theirs = self.memory.pairs[partner].theirs
                asker, helper = (rows, theirs) if asks_first(self.site.name, partner) else (theirs, rows)
                written = how.sizes(asker, helper, ask.hashing.bits)
                total += written[ask.number] if ask.number < len(written) else 2 * rows * theirs
        self.site.check_size(total, 1)

    def _recall(self, partner: str, number: int, heard: bytes) -> Said:
        """Return what was said at a turn; another letter at the same turn is refused."""
        said = self.memory.pairs[partner].said.get(number)
        if said is None:
            raise ProtocolError(f"the comparison with {partner!r} is over")
        if said.heard != heard:
            raise ProtocolError(f"another letter from {partner!r} was answered at this turn before")
        return said

    def _turn(self, partner: str, ask: PassOn, sealed: bytes, mine: PackedBits) -> None:
        """Answer a partner's letter, once."""
        memory, how = self.memory, variant(ask.hashing.comparison)
        pair = memory.pairs[partner]
        if not pair.said or ask.number < max(pair.said):
            raise ProtocolError(f"no letter from {partner!r} is expected any more")
        text = open_from(self.joining, partner, self._purpose, ask.number, sealed)
        first = asks_first(self.site.name, partner)
        if first and pair.state is None:
            raise ProtocolError(f"no letter from {partner!r} is expected any more")
        try:
            take = how.step_a if first else how.step_b
            step = take(mine, pair.theirs, pair.state, text)  # type: ignore[arg-type]
        except ProtocolError as error:  # how large a letter must be depends on how many rows there are here
            raise InputError(f"the letter from {partner!r} cannot be used: {error}") from error
        letter = (
            None
            if step.letter is None
            else seal_for(self.joining, partner, self._purpose, ask.number + 1, step.letter)
        )
        said = Said(fingerprint(sealed), letter, None if step.share is None else Array.of(step.share))
        memory.pairs[partner] = Pair(pair.theirs, step.state, {**pair.said, ask.number: said})

    def forget(self) -> None:
        """Forget what was said to partners, which is megabytes, once all comparisons are over."""
        memory = self.memory
        memory.pairs = {name: Pair(pair.theirs, None, {}) for name, pair in memory.pairs.items()}


class _Noise:
    """Random bytes from a key, for flips that must come out the same each time."""

    def __init__(self, key: bytes):
        self._stream = KeyStream(key)

    def bytes(self, length: int, /) -> bytes:
        """Return the next bytes."""
        return self._stream.words(-(-length // 8)).tobytes()[:length]
