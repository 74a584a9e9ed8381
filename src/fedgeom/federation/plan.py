"""A run's plan: the steps of its conversation, described once.

A method's `plan` yields its steps in the order in which the run takes them. From them follow the sums that a site
admits, the length of every sum, what a run costs, what would leave a site, and the diagrams of the docs; the run itself
takes its sums from the same plan (`fedgeom.protocols.cohort`).

A plan is a generator: ``result = yield Sum(…)`` receives the sum in the form in which it travels, so that a later
question can carry it. Steps that several methods share (agreeing on names, handing out the model) are `Steps`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, ClassVar, TypeAlias

import msgspec

from fedgeom.data.sites import SiteData
from fedgeom.federation.messages import Array, Message, Question
from fedgeom.federation.policy import Policy

WORD_MODULUS = 2**64
"""Sums are taken in Z_2^64 where nothing else is said."""


@dataclass(frozen=True)
class Shape:
    """What is known of a problem before the run: it decides which messages there are, and how long they are."""

    sites: tuple[str, ...]
    """The names of the sites, in alphabetical order."""
    columns: int
    """How many columns the method sees: after preparation, where rows are prepared."""
    classes: tuple[str, ...]
    """The label names of all sites, as they will agree on them."""
    rows: int = 0
    """Of the largest site."""
    own_names: tuple[tuple[str, ...], ...] = ()
    """Each site's own label names, where they differ from all of them."""
    named_columns: bool = True
    policy: Policy = field(default_factory=Policy)
    seed: int = 0
    tables: Sequence[SiteData] = ()
    """The sites' tables as the method sees them, where one process has them: some lengths follow from rows."""
    raw_columns: int | None = None
    """How many columns the sites' tables have before they are prepared; None: as many as after."""
    preparation: Any = None
    """How rows will be prepared, where one process has all tables (`fedgeom.protocols.preparation.Rehearsed`)."""
    known: bool = True
    """Whether the numbers are those of a problem. In the plan that follows from the terms alone they stand for any
    problem: steps and their number count, lengths do not."""

    site: str = ""
    """The site that asks what it would send and get; "": all sites are asked about."""

    @property
    def n_sites(self) -> int:
        """How many sites there are."""
        return len(self.sites)

    @property
    def n_classes(self) -> int:
        """How many classes there are."""
        return len(self.classes)

    def some(self, count: int) -> tuple[str, ...]:
        """Return so many sites, where nobody knows yet which: the site that asks, and those with the longest names."""
        order = sorted(self.sites, key=lambda name: (name != self.site, -len(name.encode()), name))
        return tuple(sorted(order[:count]))


ANY_SHAPE = Shape(sites=("s00", "s01", "s02"), columns=1, classes=("a", "b"), known=False)
"""Stands for any problem: what follows from the terms alone is asked of it."""


Bytes: TypeAlias = float | Mapping[str, float]
"""Bytes that a specimen lacks: on average over the sites that are asked, or of each of them by its name."""


@dataclass(frozen=True)
class Ask:
    """A question that every site answers for itself.

    ``question`` and ``answer`` are specimens: of the classes that travel, with fields as long as they will be. Where
    the step is repeated, ``question`` may be a function of the repetition's number.
    """

    question: Question | Callable[[int], Question]
    answer: Message
    times: int = 1
    work: float = 0.0
    """Seconds that a site computes, beside reading and writing."""
    down: Bytes = 0.0
    """Bytes of the question that the specimen lacks."""
    up: Bytes = 0.0
    """Bytes of the answer that the specimen lacks."""
    bound: str = ""
    """What decides how often, or how large; "" where both are known. The sizes are then upper bounds."""
    to: tuple[str, ...] | None = None
    """The sites that are asked; None: all."""
    remedy: str = ""
    """What makes its messages smaller, where a policy allows none so large."""

    def specimen(self, number: int = 0) -> Question:
        """Return the question, or that of one repetition."""
        return self.question if isinstance(self.question, Question) else self.question(number)


@dataclass(frozen=True)
class Sum:
    """A secure sum over the sites; the plan receives the `SumResult`, as it travels.

    ``question`` is a specimen as in `Ask`.
    """

    question: Any
    length: int
    """How many numbers are summed."""
    modulus: int = WORD_MODULUS
    times: int = 1
    spare: int = 0
    """How many more sums of this kind the terms allow for: they follow from settings alone, needs from the data."""
    work: float = 0.0
    bound: str = ""
    """What decides whether it is taken, how often, or how long it is; "" where that is known."""
    to: tuple[str, ...] | None = None
    """The sites whose numbers are summed; None: all. The others may be asked to witness the sum."""
    down: Bytes = 0.0
    """Bytes of the question that the specimen lacks."""
    up: Bytes = 0.0
    """Bytes that a site's answer has more than a vector of ``length`` numbers; of a row sum less, its own rows."""
    remedy: str = ""
    """What makes its messages smaller."""

    def specimen(self, number: int = 0) -> Any:
        """Return the question, or that of one repetition."""
        return self.question if isinstance(self.question, Question) else self.question(number)


class Steps:
    """Several steps that methods share; ``steps`` is a plan of its own, whose value the plan receives."""

    settles_names: ClassVar[bool] = False
    """Whether sites agree on the classes here. Where rows are prepared, that comes before: rows of classes that are too
    rare to be summed are then in no sum at all."""

    def conduct(self, cohort: Any) -> Any:
        """Take the steps with the sites of a `Cohort`; only of those that settle names this is asked."""
        raise NotImplementedError

    def steps(self, shape: Shape, private: bool) -> Plan:
        """Yield the steps; ``private``: in a run with differential privacy."""
        raise NotImplementedError


Step: TypeAlias = Ask | Sum | Steps
Plan: TypeAlias = Generator[Step, Any, Any]


def only_steps(plan: Plan, shape: Shape, private: bool, answer: Callable[[Ask | Sum], Any]) -> Plan:
    """Yield a plan's questions and sums, those of shared steps among them; ``answer`` says what the plan receives."""
    value: Any = None
    try:
        while True:
            step = plan.send(value)
            if isinstance(step, Steps):
                value = yield from only_steps(step.steps(shape, private), shape, private, answer)
            else:
                yield step
                value = answer(step)
    except StopIteration as end:
        return end.value


def find_names_step(plan: Plan, shape: Shape, private: bool, answer: Callable[[Ask | Sum], Any]) -> Steps | None:
    """Return the step in which a plan's sites agree on the classes; None where they do not."""
    for step in _with_names_step(plan, shape, private, answer):
        if isinstance(step, Steps):
            return step
    return None


def _with_names_step(plan: Plan, shape: Shape, private: bool, answer: Callable[[Ask | Sum], Any]) -> Plan:
    """Yield questions and sums as `only_steps`, and the step that settles names, up to there."""
    value: Any = None
    try:
        while True:
            step = plan.send(value)
            if isinstance(step, Steps):
                if step.settles_names:
                    yield step
                value = yield from _with_names_step(step.steps(shape, private), shape, private, answer)
            else:
                yield step
                value = answer(step)
    except StopIteration as end:
        return end.value


def after_names(plan: Plan, shape: Shape, private: bool, classes: Any) -> Plan:
    """Yield a plan's steps without that in which sites agree on the classes: they have agreed on these before."""
    value: Any = None
    try:
        while True:
            step = plan.send(value)
            if not isinstance(step, Steps):
                value = yield step
            elif step.settles_names:
                value = classes
            else:
                value = yield from after_names(step.steps(shape, private), shape, private, classes)
    except StopIteration as end:
        return end.value


class BlankArray(Array, frozen=True):
    """An array of a specimen: its shape is there and its numbers are not, so that large ones cost nothing."""

    def __post_init__(self) -> None:
        """Let the numbers be missing."""


def words(count: int) -> Array:
    """Return so many words of a sum, as they travel; the words themselves are not there."""
    return BlankArray("u8", (count,), memoryview(b""))


def blank_bytes(value: Any) -> int:
    """Return the bytes that a specimen's blank arrays have when they travel."""
    if isinstance(value, BlankArray):
        return bytes_size(8 * prod(value.shape)) - bytes_size(0)
    if isinstance(value, msgspec.Struct):
        return sum(blank_bytes(getattr(value, name)) for name in value.__struct_fields__)
    if isinstance(value, tuple | list):
        return 0 if value and isinstance(value[0], str | bytes) else sum(map(blank_bytes, value))
    return 0


def map_header(entries: int) -> int:
    """Return how many bytes say that so many entries of a map follow."""
    return 1 if entries < 16 else 3 if entries < 1 << 16 else 5


def text_size(text: str) -> int:
    """Return the bytes of a text in a message."""
    size = len(text.encode())
    return size + (1 if size < 32 else 2 if size < 256 else 3)


def bytes_size(size: int) -> int:
    """Return the bytes of a byte string in a message."""
    return size + (2 if size < 256 else 3 if size < 1 << 16 else 5)


def number_size(number: int) -> int:
    """Return the bytes of a number, 0 or more, in a message."""
    if number < 256:
        return 1 if number < 128 else 2
    return 3 if number < 1 << 16 else 5 if number < 1 << 32 else 9


_BARE_ARRAY = len(msgspec.msgpack.encode(Array("u8", (0,), memoryview(b"")))) - (
    map_header(1) + number_size(0) + bytes_size(0)
)
"""The bytes of an array in a message without its shape and its numbers."""


def array_size(dtype: str, *shape: int) -> int:
    """Return the bytes of an array (`Array`) in a message, of which nothing need be there; ``dtype``: such as "u8"."""
    extents = map_header(len(shape)) + sum(map(number_size, shape))
    return _BARE_ARRAY + extents + bytes_size(int(dtype[1:]) * prod(shape))


def map_size(entries: int, size: float) -> float:
    """Return the bytes that a map of so many entries has more than an empty one; ``size`` is that of the entries."""
    return map_header(entries) - map_header(0) + size
