"""Cross-client label propagation where the data are: hash, compare in secret, spread labels, read own rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.crypto.keys import fingerprint
from fedgeom.crypto.masks import KeyStream
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.messages import Array
from fedgeom.federation.site import Memory, answers
from fedgeom.methods.xclp.messages import (
    Begin,
    Collect,
    CountClasses,
    CountLabels,
    CountRows,
    FirstLetters,
    Hashing,
    Kept,
    PairLetters,
    PassOn,
    Reading,
    Rows,
    Spread,
    Weigh,
)
from fedgeom.methods.xclp.model import XclpModel
from fedgeom.methods.xclp.scores import (
    GRID,
    code_confidence,
    confidence_level,
    is_labelled,
    label_text,
    labels_and_confidence,
    one_hot,
)
from fedgeom.protocols.cohort import SecureMemory
from fedgeom.protocols.fixed_point import from_fixed, to_fixed
from fedgeom.protocols.hamming import PackedBits, Variant, plain_distances, variant
from fedgeom.protocols.maximum import write_levels
from fedgeom.protocols.pairs import PairSite, asks_first
from fedgeom.protocols.row_sums import RowSite
from fedgeom.protocols.secure_sum import MaskedVector
from fedgeom.protocols.vocabulary import NamingSite

ATTEMPTS = 3
"""How often the row sums may start anew because a site was lost."""
FRACTION_BITS = 32
PURPOSE = b"hamming"


class Said(msgspec.Struct, frozen=True):
    """What was answered to a partner's letter: asked again, the site says the very same.

    The other partner may have got the first answer, and a second one, made with new randomness, would not fit it.
    """

    heard: bytes
    """A hash of the letter that was answered: a state serves one letter only."""
    letter: bytes | None
    share: Array | None


class Pair(msgspec.Struct, frozen=True):
    """How far the comparison with a partner has come."""

    theirs: int
    """How many rows the partner has."""
    state: bytes | None
    """The secret state for the next turn; None when there is none."""
    said: dict[int, Said]
    """What this site said, by the number of the letter it answered; 0 is the beginning."""


class XclpMemory(SecureMemory, kw_only=True):
    """What a site remembers beside its keys: its pairs, its contribution, its result."""

    pairs: dict[str, Pair] = {}
    classes: tuple[str, ...] = ()
    contribution: Array | None = None
    """The site's own rows of what it spread."""
    own: tuple[int, int] = (0, 0)
    height: int = 0
    labels: Array | None = None
    confidences: Array | None = None
    """With ``confidence="code"`` none until the joint numbers came: they are in no unit of the others' before."""
    scores: Array | None = None
    model: bytes = b""
    reading: Reading | None = None
    """How the labels were read."""


class PairsSite(NamingSite[XclpMemory], PairSite[XclpMemory], RowSite[XclpMemory]):
    """Answers the questions of `XCLP` with ``graph="pairs"``."""

    memory_type: ClassVar[type[Memory]] = XclpMemory

    def check(self, terms: Mapping[str, Any]) -> None:
        """Refuse data that the method cannot use, naming the site."""
        X, me = self.data.X, self.badge.name
        if len(X) == 0:
            raise InputError(f"site {me!r} has no rows; leave it out of the federation")
        bad = np.argwhere(~np.isfinite(X))
        if bad.size:
            raise InputError(f"site {me!r}: row {bad[0][0]}, column {bad[0][1]} is not finite: impute, or drop it")
        wanted = terms["classes"]
        unknown = sorted(set(self.label_names()) - set(wanted.split("\n"))) if wanted else []
        if unknown:
            raise InputError(f"site {me!r}: labels outside the agreed classes: {', '.join(unknown[:8])}")

    @classmethod
    def sums(cls, terms: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the sums in order: the class counts, then the row sums and spare rounds for them."""
        return (CountClasses.kind, *[Spread.kind] * ATTEMPTS, *cls.last_sum(terms))

    @staticmethod
    def last_sum(terms: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the sum that scaling confidences as the reference code does needs after all others."""
        return (CountLabels.kind,) if terms["confidence"] == "code" else ()

    @property
    def rows(self) -> npt.NDArray[np.float64]:
        """The rows that are compared; a method that learns features first and then spreads labels overrides this."""
        return self.data.X

    @property
    def labelled(self) -> npt.NDArray[np.bool_]:
        """Which rows have a label."""
        return is_labelled(self.data.y)

    def label_names(self) -> list[str]:
        """Return the site's own label names, unlabelled rows aside."""
        return sorted({label_text(label) for label in self.data.y[self.labelled].tolist()})

    def codes(self, classes: tuple[str, ...]) -> npt.NDArray[np.int64]:
        """Return each row's class number, -1 where it has no label."""
        place = {name: at for at, name in enumerate(classes)}
        each = zip(self.data.y.tolist(), self.labelled.tolist(), strict=True)
        try:
            return np.array([place[label_text(label)] if known else -1 for label, known in each], np.int64)
        except KeyError as error:
            raise InputError(f"the label {error} is not among the agreed classes") from error

    @answers(CountRows)
    def count_rows(self, ask: CountRows) -> Rows:
        """Open the mail and say how many rows there are."""
        self.keep_to_terms(hide_labelled=ask.hide)
        self.open_letters(ask.members, ask.letters)
        wanted = np.ones(len(self.data), bool) if ask.hide else self.labelled
        return Rows(labelled=Array.of(wanted.astype(np.uint8)))

    def bits(self, hashing: Hashing) -> PackedBits:
        """Hash the rows with the projection that the sites share."""
        from fedgeom.geometry.graphs.lsh import flip_bits, hash_bits

        self.keep_to_terms(
            bits=hashing.bits,
            flip=hashing.flip,
            hamming=hashing.comparison,
            hidden_projection=not hashing.seed,  # with a projection of its own a coordinator could look for rows
        )
        seed = hashing.seed or fingerprint(b"projection", self.memory.secret)
        packed = hash_bits(self.rows, seed, hashing.bits)
        if hashing.flip:  # the same flips every time: a second draw would average the noise away
            packed = flip_bits(packed, hashing.flip, _Noise(fingerprint(b"flips", self.memory.private)))
        return PackedBits(packed, hashing.bits)

    @answers(Begin)
    def begin(self, ask: Begin) -> FirstLetters:
        """Hash the rows, compare them among themselves, and write the first letters."""
        memory, me = self.memory, self.badge.name
        if not memory.secret:
            raise ProtocolError("the sites have no common secret yet")
        if me in ask.partners or not set(ask.partners) <= set(memory.order):
            raise ProtocolError("the announced partners are not other members of the cohort")
        self._check_many_enough({*ask.partners, me})
        self._check_hashing(ask.hashing)
        among = fingerprint(msgspec.msgpack.encode(sorted(ask.partners.items())))
        if memory.asked.setdefault("partners", among) != among:
            raise ProtocolError("distances among others were asked for before")
        mine, how, letters = self.bits(ask.hashing), variant(ask.hashing.comparison), {}
        if not memory.pairs:
            memory.pairs = {partner: self._first(partner, n, mine, how) for partner, n in ask.partners.items()}
        for partner in memory.pairs:
            letter = self._recall(partner, 0, b"").letter
            if letter is not None:
                letters[partner] = letter
        own = plain_distances(mine, mine)[np.triu_indices(len(mine), 1)]
        return FirstLetters(letters=letters, own=Array.of(own.astype(np.uint16)))

    def _check_hashing(self, hashing: Hashing) -> None:
        """Refuse to hash in another way than the site joined on, or than before: it could disclose more."""
        self.keep_to_terms(
            bits=hashing.bits,
            flip=hashing.flip,
            hamming=hashing.comparison,
            hidden_projection=not hashing.seed,
        )
        asked = fingerprint(msgspec.msgpack.encode(hashing))
        if self.memory.asked.setdefault("hashing", asked) != asked:
            raise ProtocolError("distances of another kind were asked for before")

    def _first(self, partner: str, theirs: int, mine: PackedBits, how: Variant) -> Pair:
        """Begin with a partner, or wait for its letter."""
        if not asks_first(self.badge.name, partner):
            return Pair(theirs, None, {0: Said(b"", None, None)})
        step = how.begin(mine, theirs)
        letter = self.seal_for(partner, PURPOSE, 1, step.letter or b"")
        return Pair(theirs, step.state, {0: Said(b"", letter, None)})

    @answers(PassOn)
    def pass_on(self, ask: PassOn) -> PairLetters:
        """Answer the partners' letters; shares of finished pairs go to the coordinator."""
        memory = self.memory
        if memory.asked.get("hashing") is None:
            raise ProtocolError("letters came before the site began")
        self._check_hashing(ask.hashing)
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
        text = self.open_from(partner, PURPOSE, ask.number, sealed)
        if asks_first(self.badge.name, partner):
            if pair.state is None:
                raise ProtocolError(f"no letter from {partner!r} is expected any more")
            step = how.step_a(mine, pair.theirs, pair.state, text)
        else:
            step = how.step_b(mine, pair.theirs, pair.state, text)
        letter = None if step.letter is None else self.seal_for(partner, PURPOSE, ask.number + 1, step.letter)
        said = Said(fingerprint(sealed), letter, None if step.share is None else Array.of(step.share))
        memory.pairs[partner] = Pair(pair.theirs, step.state, {**pair.said, ask.number: said})

    @answers(CountClasses)
    def count_classes(self, ask: CountClasses) -> MaskedVector:
        """Add this site's number of labelled rows per class to the secure sum."""
        self.admit(ask.ticket)
        counts = one_hot(self.codes(ask.classes), len(ask.classes)).sum(axis=0)
        return self.mask(ask.ticket, counts.astype(np.uint64))

    @answers(Spread)
    def spread(self, ask: Spread) -> MaskedVector:
        """Spread this site's labels over all rows, and hide what comes of it."""
        self.admit(ask.ticket)
        memory, me = self.memory, self.badge.name
        columns = ask.columns.numpy()
        height = max(end for _, end in ask.layout.values())
        begin, end = ask.layout.get(me, (0, 0))
        has = np.flatnonzero(self.labelled) if columns.shape[1:] == (int(self.labelled.sum()),) else None
        chosen = np.arange(len(self.data)) if has is None else has
        if end - begin != len(self.data) or columns.shape != (height, len(chosen)):
            raise ProtocolError("the influence columns do not fit this site's rows")
        if not np.isfinite(columns).all():
            raise ProtocolError("the influence columns are not all finite")
        Y = one_hot(self.codes(ask.classes), len(ask.classes))[chosen]
        scale = max(len(ask.ticket.participants), 1)
        Z = to_fixed(columns.astype(np.float64) @ Y, fraction_bits=FRACTION_BITS, sites=scale)
        matrix = Z.reshape(height, len(ask.classes))
        memory.classes, memory.own, memory.height = ask.classes, (begin, end), height
        memory.pairs = {name: Pair(pair.theirs, None, {}) for name, pair in memory.pairs.items()}  # megabytes
        memory.contribution = Array.of(matrix[begin:end])
        return self.mask_rows(ask.ticket, matrix, (begin, end))

    @answers(Collect)
    def collect(self, ask: Collect) -> Kept:
        """Read this site's own rows of the sum."""
        memory = self.memory
        if memory.contribution is None or memory.asked.get(f"mask {ask.of.round}") != fingerprint(ask.of.about):
            raise ProtocolError("a result came of a sum that this site did not contribute to")
        part = memory.contribution.numpy()
        block = self.unmask_rows(ask.of, ask.block.numpy(), part, memory.own, memory.height)
        scores = from_fixed(block, fraction_bits=FRACTION_BITS).reshape(-1, len(memory.classes))
        self.read_labels(np.maximum(scores, 0.0), memory.classes, ask.reading)
        memory.model = XclpModel(memory.classes, variant=ask.reading.variant).to_bytes()
        return Kept()

    def read_labels(self, Z: npt.NDArray[np.float64], classes: tuple[str, ...], reading: Reading) -> None:
        """Turn this site's rows of Z into its labels and confidences; nothing of it leaves."""
        from fedgeom.methods.xclp.plain import at_site, setting_for

        self.keep_to_terms(variant=reading.variant, prior=reading.prior)
        counts = reading.counts.numpy()
        if counts.shape != (len(classes),) or not (np.isfinite(counts).all() and (counts >= 0).all()):
            raise ProtocolError("the class counts do not fit the classes")
        setting = setting_for(reading.variant, None, None)
        found = at_site(Z, self.codes(classes), setting, counts, reading.prior)
        memory, later = self.memory, self.memory.terms.get("confidence") == "code"
        codes = Array.of(found.codes)
        again = memory.reading == reading and memory.labels == codes  # asked twice: what came since stays
        if not (later and again):
            memory.confidences = None if later else Array.of(found.confidence)
        memory.labels = codes
        memory.scores, memory.reading = Array.of(found.scores), reading

    @answers(CountLabels)
    def count_labels(self, ask: CountLabels) -> MaskedVector:
        """Add how many rows got each label to the secure sum, and the level of the surest of them."""
        self.keep_to_terms(confidence="code")
        self.admit(ask.ticket)
        memory = self.memory
        told = b"" if memory.reading is None else memory.reading.stamp(memory.model)
        if told != ask.stamp or ask.classes != memory.classes:
            raise ProtocolError("labels were to be counted that this site did not read, or read otherwise")
        level, sizes = self._own_labels()
        key = fingerprint(b"levels", memory.private, str(ask.ticket.round).encode())
        return self.mask(ask.ticket, np.concatenate([write_levels([(level, GRID)], key), sizes.astype(np.uint64)]))

    @answers(Weigh)
    def weigh(self, ask: Weigh) -> Kept:
        """Scale this site's confidences as the reference code does."""
        self.keep_to_terms(confidence="code")
        memory = self.memory
        if memory.scores is None or f"mask {len(memory.sums) - 1}" not in memory.asked:
            raise ProtocolError("joint numbers came of labels that this site did not count")
        (level, own), sizes = self._own_labels(), ask.sizes.numpy()
        fits = sizes.shape == own.shape and np.isfinite(sizes).all() and (sizes >= own).all()
        if not fits or ask.level < level:
            raise ProtocolError("the joint numbers of labels are smaller than this site's own, or do not fit")
        memory.confidences = Array.of(code_confidence(memory.scores.numpy(), ask.level, sizes))
        return Kept()

    def _own_labels(self) -> tuple[int, npt.NDArray[np.float64]]:
        """Return the level of this site's largest confidence, and how many of its rows got each label."""
        assert self.memory.scores is not None
        labels, confidence = labels_and_confidence(self.memory.scores.numpy())
        return confidence_level(confidence), one_hot(labels, len(self.memory.classes)).sum(axis=0)

    def result(self) -> dict[str, Any]:
        """Return the site's labels and confidences, in the agreed names; "" where no label reached a row."""
        memory = self.memory
        if memory.labels is None or memory.scores is None:
            return {}
        names = [*memory.classes, ""]
        sure = memory.confidences
        return {  # plain lists: a site keeps its result as JSON
            "labels": [names[code] for code in memory.labels.numpy().tolist()],
            **({} if sure is None else {"confidences": sure.numpy().tolist()}),
            "scores": memory.scores.numpy().tolist(),
        }


class _Noise:
    """Random bytes from a key, for flips that must come out the same each time."""

    def __init__(self, key: bytes):
        self._stream = KeyStream(key)

    def bytes(self, length: int, /) -> bytes:
        """Return the next bytes."""
        return self._stream.words(-(-length // 8)).tobytes()[:length]
