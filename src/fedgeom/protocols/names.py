"""How sites agree on label names: messages, the site's half and the coordinator's."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np

from fedgeom.arrays import Ints
from fedgeom.crypto.keys import SEAL_BYTES, fingerprint, seal, unseal
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.coordinator import Answers
from fedgeom.federation.messages import Key, Message, Name, Names, Question
from fedgeom.federation.plan import Ask, Plan, Shape, Steps, Sum, bytes_size, map_size, text_size
from fedgeom.federation.privacy import privacy_of
from fedgeom.federation.site import answers
from fedgeom.memo import memoize_last
from fedgeom.protocols.cohort import Cohort
from fedgeom.protocols.secure_sum.messages import SumQuestion, SumResult
from fedgeom.protocols.site import Contribution, SummingPart

PAGE = 1024
"""Sealed lists are padded to whole pages, so that their length says little."""
SLOTS = 256
"""Names are counted under numbers up to a multiple of this."""

Sealed = Annotated[bytes, msgspec.Meta(max_length=2**20)]


class SealedNames(Message, kind="names.sealed", harmless=True):
    """A site's label names, sealed for the other sites."""

    reveals: ClassVar[str] = "nothing to the coordinator; the site's label names to the other sites"
    names: Sealed


class SealNames(Question, kind="names.seal", answer=SealedNames):
    """Bring a site its mail and ask for its sealed names."""

    participants: Names
    letters: dict[Name, bytes]


class Vocabulary(Message, kind="names.vocabulary", harmless=True):
    """All names that occur at any site, or at enough of them, sorted."""

    reveals: ClassVar[str] = "the union of all sites' label names"
    names: Names


class OpenNames(Question, kind="names.open", answer=Vocabulary):
    """Bring a site everybody's sealed names and ask for the union."""

    sealed: dict[Name, Sealed]


class NamesHeld(Message, kind="names.held", harmless=True):
    """A site has everybody's names, and keeps them to itself."""

    reveals: ClassVar[str] = f"how many label names there are in all, rounded up to a multiple of {SLOTS}"
    slots: Annotated[int, msgspec.Meta(ge=SLOTS, le=2**24)]


class HoldNames(Question, kind="names.hold", answer=NamesHeld):
    """Bring a site everybody's sealed names, which are then counted."""

    sealed: dict[Name, Sealed]


class CountNames(SumQuestion, kind="names.count", checked=True, decides_floors=True):
    """Ask which names a site has and how many rows of each, masked, and under numbers that only sites understand."""

    answer_reveals: ClassVar[str] = (
        "masked; with all others: at how many sites and in how many rows each label occurs, without the labels"
    )
    lists: Key
    """A hash of the lists that were opened: sites that saw others have masks that do not cancel."""
    slots: Annotated[int, msgspec.Meta(ge=SLOTS, le=2**24)]


class KeepNames(Question, kind="names.keep", answer=Vocabulary):
    """Show a site the counts and ask for the names that enough sites and rows have."""

    answer_reveals: ClassVar[str] = "the label names that enough sites and rows have"
    result: SumResult


@memoize_last  # the same at all sites of a process
def hash_lists(sealed: Mapping[str, bytes]) -> bytes:
    """Hash sealed lists, with whose they are."""
    return fingerprint(*(part for name in sorted(sealed) for part in (name.encode(), sealed[name])))


def hash_names(names: Sequence[str]) -> bytes:
    """Hash names that stand in the terms of a run."""
    return fingerprint(b"names", *(name.encode() for name in names))


def slots_for(names: Sequence[str]) -> int:
    """Return under how many numbers so many names are counted."""
    return SLOTS * max(1, -(-len(names) // SLOTS))


log = logging.getLogger(__name__)


class NamesMemory(msgspec.Struct, kw_only=True):
    """What a site remembers of the names: what it sealed, which lists it opened, and what was agreed on."""

    sealed: bytes = b""
    opened: bytes = b""
    """A hash of the lists: one run has one vocabulary."""
    union: tuple[str, ...] = ()
    """All sites' names, sorted."""
    agreed: tuple[str, ...] = ()
    """The names that are used: all, or those that are not rare."""
    rare: tuple[str, ...] = ()
    """The site's own names that are left out."""


@memoize_last  # the same lists, and the same key, at all sites of a process
def _union_of(key: bytes, run: bytes, lists: Mapping[str, bytes]) -> tuple[str, ...]:
    """Open all lists of names and merge them."""
    union: set[str] = set()
    for name, sealed in sorted(lists.items()):
        text = unseal(key, sealed, fingerprint(run, name.encode()), sender=name)
        try:
            union |= set(msgspec.json.decode(text, type=list[Name]))
        except ValueError as error:
            raise ProtocolError(f"the label names of {name!r} cannot be read: {error}") from error
    return tuple(sorted(union))


class LabelNames(SummingPart[NamesMemory]):
    """Agrees on label names; a site that reads labels otherwise says which are its own (``label_counts``)."""

    name: ClassVar[str] = "names"

    def _check_wanted(self) -> None:
        """Refuse to tell names where the terms say that each site has its own (``agrees_on_names`` of the settings)."""
        if not getattr(self.settings, "agrees_on_names", True):
            raise ProtocolError("these terms leave every site its own names; none are told")
        if privacy_of(self.settings):
            raise ProtocolError("with privacy the label names stand in the terms; which a site has is not told")

    def own_counts(self) -> dict[str, int]:
        """Return how many rows the site has of each of its own label names."""
        read = getattr(self.site, "label_counts", None)
        data = self.site.data
        if read is None and data.y.dtype.kind == "U" and data.has_label.all():
            return data.class_counts()  # counted once for all who ask
        return dict(read()) if read else dict(Counter(data.y.astype(str).tolist()))

    @property
    def agreed(self) -> tuple[str, ...]:
        """The classes of the run, once they are agreed on."""
        counted = self.joining.class_floors != (1, 1)
        found = self.memory.agreed or (None if counted else self.joining.memory.terms.get("classes"))
        if not found:
            raise ProtocolError("the site was asked about classes before they were agreed on")
        return tuple(found)  # type: ignore[arg-type]

    def check_agreed(self, classes: Sequence[str]) -> None:
        """Refuse a question about other classes than those that the sites agreed on."""
        if tuple(classes) != self.agreed:
            raise ProtocolError("the question is about other classes than the sites agreed on")

    def left_out(self) -> dict[str, list[str]]:
        """Return, for the site's own result, which of its labels were too rare to take part."""
        return {"left out": list(self.memory.rare)} if self.memory.rare else {}

    @answers(SealNames)
    def seal_names(self, ask: SealNames) -> SealedNames:
        """Seal the site's names for the other sites."""
        memory = self.memory
        site = self.site
        self._check_wanted()
        self.joining.open_letters(ask.participants, ask.letters)
        if not memory.sealed:
            text = msgspec.json.encode(sorted(self.own_counts()))
            padded = text + b" " * (-len(text) % PAGE)
            key = self.joining.shared_secret(b"names")
            memory.sealed = seal(key, padded, fingerprint(site.run, site.name.encode()))
        return SealedNames(names=memory.sealed)

    @answers(OpenNames)
    def open_names(self, ask: OpenNames) -> Vocabulary:
        """Open all lists, once, and tell the union."""
        if self.joining.class_floors != (1, 1):
            raise ProtocolError("a policy asks for the names to be counted before they are told")
        self.memory.agreed = self._open(ask.sealed)
        return Vocabulary(names=self.memory.agreed)

    @answers(HoldNames)
    def hold_names(self, ask: HoldNames) -> NamesHeld:
        """Open all lists, once, and keep the union here."""
        return NamesHeld(slots=slots_for(self._open(ask.sealed)))

    def _open(self, lists: Mapping[str, bytes]) -> tuple[str, ...]:
        """Open all lists and merge them, once: the unions of a few would tell whose names are whose."""
        self._check_wanted()
        memory = self.memory
        site = self.site
        key = self.joining.shared_secret(b"names")
        if site.name not in lists or not set(lists) <= set(self.joining.memory.order):
            raise ProtocolError("the lists of names are not those of members with this site among them")
        self.joining.check_many_enough(lists)
        stamp = hash_lists(lists)
        if memory.opened and memory.opened != stamp:
            raise ProtocolError("other lists of names were opened before; one run has one vocabulary")
        memory.union = _union_of(key, site.run, lists)
        memory.opened = stamp
        return memory.union

    @answers(CountNames)
    def count_names(self, ask: CountNames) -> Contribution:
        """Add to the secure sum which names there are here, and how many rows of each."""
        names, places = self._places(ask.lists, ask.slots)
        counts = self.own_counts()
        vector = np.zeros(2 * ask.slots, np.int64)
        vector[places] = [name in counts for name in names]
        vector[ask.slots + places] = [counts.get(name, 0) for name in names]
        return self.contribute(ask, vector)

    def _places(self, lists: bytes, slots: int) -> tuple[tuple[str, ...], Ints]:
        """Return the names to count, and the number of each: in an order that only sites know."""
        if self.joining.class_floors == (1, 1):
            raise ProtocolError("no policy asks for names to be counted")
        given = self.joining.memory.terms.get("classes")
        names = tuple(map(str, given)) if isinstance(given, tuple) else self.memory.union
        if lists != (hash_names(names) if given else self.memory.opened) or slots != slots_for(names):
            raise ProtocolError("the names to be counted are not those that this site knows")
        key = self.joining.shared_secret(b"slots")
        order = sorted(range(slots), key=lambda slot: fingerprint(key, str(slot).encode()))
        return names, np.array(order[: len(names)], np.int64)

    @answers(KeepNames)
    def keep_names(self, ask: KeepNames) -> Vocabulary:
        """Check the counts and keep the names that enough sites and rows have; the others stay out of every sum."""
        self._check_wanted()
        self.site.sums.check_result(ask.result, CountNames)
        memory = self.memory
        counts = ask.result.counts()
        slots = len(counts) // 2
        given = self.joining.memory.terms.get("classes")
        lists = hash_names(tuple(map(str, given))) if isinstance(given, tuple) else memory.opened
        names, places = self._places(lists, slots)
        if len(counts) != 2 * slots:
            raise ProtocolError(f"{len(counts)} counts of names came where {2 * slots} are planned")
        floors = self.joining.class_floors
        enough = (counts[places] >= floors[0]) & (counts[slots + places] >= floors[1])
        memory.agreed = tuple(name for name, kept in zip(names, enough.tolist(), strict=True) if kept)
        own = self.own_counts()
        memory.rare = tuple(sorted(set(own) - set(memory.agreed)))
        if memory.rare:
            log.warning(
                "site %r: too few sites or rows have the labels %s (policies ask for %d sites and %d rows in all); "
                "their rows stay out of every sum",
                self.site.name, ", ".join(memory.rare), *floors,
            )  # fmt: skip
        return Vocabulary(names=memory.agreed)


@dataclass(frozen=True)
class AgreeOnNames(Steps):
    """The plan of `agree_on_names`; the plan receives the classes."""

    settles_names: ClassVar[bool] = True
    given: Sequence[str] | None = None
    """The classes, where they are in the terms."""

    def conduct(self, cohort: Cohort) -> tuple[str, ...]:
        """Agree on them."""
        return agree_on_names(cohort, self.given)

    def steps(self, shape: Shape, private: bool) -> Plan:
        """Yield how sites seal, open and count their label names."""
        if private or (shape.known and shape.policy.class_floors == (1, 1)):
            if not self.given:
                sealed = yield from self._sealed(shape)
                yield Ask(OpenNames(sealed={}), Vocabulary(names=shape.classes), down=sealed)
            if not private:
                yield Sum(CountNames(lists=bytes(32), slots=SLOTS), 2 * SLOTS, times=0, spare=1)
            return shape.classes
        slots = slots_for(self.given or shape.classes)
        if not self.given:
            sealed = yield from self._sealed(shape)
            yield Ask(HoldNames(sealed={}), NamesHeld(slots=slots), down=sealed)
        result = yield Sum(CountNames(lists=bytes(32), slots=slots), 2 * slots)
        yield Ask(KeepNames(result=result), Vocabulary(names=shape.classes))
        return shape.classes

    def _sealed(self, shape: Shape) -> Generator[Ask, Any, float]:
        """Yield that names are sealed, and return the bytes of all lists in one question."""
        own = shape.own_names or (shape.classes,) * shape.n_sites
        pages = [-(-len(msgspec.json.encode(sorted(one))) // PAGE) for one in own]
        size = sum(bytes_size(SEAL_BYTES + PAGE * count) for count in pages)
        mean = size / shape.n_sites - bytes_size(0)
        yield Ask(SealNames(participants=shape.sites, letters={}), SealedNames(names=b""), up=mean)
        return map_size(shape.n_sites, sum(map(text_size, shape.sites)) + size)


def agree_on_names(cohort: Cohort, given: Sequence[str] | None = None) -> tuple[str, ...]:
    """Return the classes of a run: those given in its terms or else the union of the sites' names.

    Where a policy asks for it they are counted, and the rare ones left out. Sites that fail to answer are left out of
    the cohort.
    """
    if cohort.classes is None:  # where rows are prepared, names came before
        cohort.classes = _agreed_names(cohort, given)
    return cohort.classes


def _agreed_names(cohort: Cohort, given: Sequence[str] | None) -> tuple[str, ...]:
    if cohort.class_floors == (1, 1):
        return tuple(given) if given else _union(cohort)
    if given:
        lists = hash_names(given)
        slots = slots_for(given)
    else:
        sealed = _seal(cohort)
        held = cohort.sites.ask(HoldNames(sealed=sealed), of=sealed, expect=NamesHeld)
        held.need(cohort.min_sites, "that they have the label names")
        cohort.lost_since(held)
        lists = hash_lists(sealed)
        slots = max(answer.slots for answer in held.values())
    result = cohort.sum_checked(CountNames(lists=lists, slots=slots), length=2 * slots)
    kept = cohort.sites.ask(KeepNames(result=result), of=cohort.left, expect=Vocabulary)
    names = _same(cohort, kept)
    if len(names) < 2:
        sites, rows = cohort.class_floors
        raise InputError(
            f"{len(names)} labels are left: policies ask for at least {sites} sites and {rows} rows in all for each; "
            + (
                "a classifier needs two. M"
                if getattr(cohort.settings, "predicts", True)
                else "describe all rows together, or m"
            )
            + "erge labels, admit more sites, or let stewards loosen min_sites, min_rows or single_site_classes"
        )
    return names


def _union(cohort: Cohort) -> tuple[str, ...]:
    sealed = _seal(cohort)
    return _same(cohort, cohort.sites.ask(OpenNames(sealed=sealed), of=sealed, expect=Vocabulary))


def _seal(cohort: Cohort) -> dict[str, bytes]:
    questions = {
        name: SealNames(participants=cohort.names, letters=dict(cohort.mail[name])) for name in cohort.left
    }
    given = cohort.sites.ask(questions, expect=SealedNames)
    cohort.joined.delivered(given)
    given.need(cohort.min_sites, "with their label names")
    return {name: answer.names for name, answer in given.items()}


def _same(cohort: Cohort, opened: Answers[Vocabulary]) -> tuple[str, ...]:
    """Return what all sites report, and leave out those that report nothing."""
    opened.need(cohort.min_sites, "with the joint vocabulary")
    counted = Counter(answer.names for answer in opened.values())
    if len(counted) > 1:
        raise ProtocolError("the sites do not report the same vocabulary: one of them is at fault; run again")
    cohort.lost_since(opened)
    return next(iter(counted))
