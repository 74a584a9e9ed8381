"""What all training begins with: sites join, agree on the classes, and bring their columns to one scale.

`TabularMethod` has the settings, `TabularSite` the site's half, `TabularConversation` the coordinator's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

import numpy as np
import numpy.typing as npt

from fedgeom.data.checks import check_table
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError, ProtocolError
from fedgeom.federation.conversation import Sites
from fedgeom.federation.messages import Array
from fedgeom.federation.method import Method
from fedgeom.federation.site import Memory, Site, answers
from fedgeom.methods.iterative import scaling
from fedgeom.methods.iterative.messages import Begin, GiveColumnSums, Ready
from fedgeom.methods.iterative.vectors import Vector
from fedgeom.protocols.cohort import Cohort, SecureMemory, check_columns, join
from fedgeom.protocols.fixed_point import from_fixed, to_fixed
from fedgeom.protocols.secure_sum import Ask, MaskedVector, Total, secure_sum
from fedgeom.protocols.vocabulary import NamingSite, agree_on_names

Floats = npt.NDArray[np.float64]

MOST_ROUNDS = 500
MOST_LETTERS = 1000
"""The terms of a run travel in its first question, whose texts are bounded."""

FARTHEST = 1e6
"""No row is that many deviations away from the mean; farther ones would overflow in training."""

DEFINED: dict[str, type[TabularMethod]] = {}
"""All methods of this kind that were defined in this process, by name."""


def check_whole(name: str, value: object, least: int, most: int) -> None:
    """Raise `InputError` unless a setting is a whole number within bounds."""
    if not isinstance(value, int) or not least <= value <= most:
        raise InputError(f"{name}={value} given; wanted a whole number from {least} to {most}")


def check_choice(name: str, value: object, known: Sequence[str]) -> None:
    """Raise `InputError` unless a setting is one of those there are."""
    if value not in known:
        raise InputError(f"{name}={value!r} is unknown; there are: {', '.join(known)}")


def within(values: npt.NDArray[Any], limit: float) -> bool:
    """Say whether all values are numbers smaller than a limit."""
    return values.dtype == np.float64 and bool((np.abs(values) < limit).all())


class TabularMemory(SecureMemory, kw_only=True):
    """What a site remembers of the agreement, and the model it ends with."""

    classes: tuple[str, ...] = ()
    centre: Array | None = None
    spread: Array | None = None
    model: Array | None = None
    """The site's own model after the last round."""


M = TypeVar("M", bound=TabularMemory)


class TabularSite(NamingSite[M], Generic[M]):
    """Gives its column sums, takes classes and scale, and keeps a model of its own."""

    memory_type: ClassVar[type[Memory]] = TabularMemory
    row: ClassVar[type[TabularMethod]]

    def check(self, terms: Mapping[str, Any]) -> None:
        """Refuse data that the method cannot use, naming the site."""
        row = self.row.from_terms(terms)
        names = check_table(self.data, least_points=row.least_points)
        unknown = sorted(set(names) - set(row.classes)) if row.classes else []
        if unknown:
            raise InputError(
                f"site {self.badge.name!r}: labels outside the agreed classes: {', '.join(unknown[:8])}"
            )

    @classmethod
    def sums(cls, terms: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the secure sums of the run: the columns' if they are scaled jointly, then the method's."""
        row = cls.row.from_terms(terms)
        return (*((GiveColumnSums.kind,) if row.scale == "joint" else ()), *row.planned_sums())

    @cached_property
    def method(self) -> Any:
        """The method with the settings on which the site joined."""
        return self.row.from_terms(self.memory.terms)

    @property
    def seed(self) -> int:
        """The run's seed, from the terms on which the site joined."""
        return int(self.memory.terms.get("seed") or 0)

    @answers(GiveColumnSums)
    def give_column_sums(self, ask: GiveColumnSums) -> MaskedVector:
        """Add this site's column sums to the secure sum."""
        self.admit(ask.ticket)
        sums, sites = scaling.column_sums(self.data.X), len(ask.ticket.participants)
        return self.mask(ask.ticket, to_fixed(sums, fraction_bits=scaling.FRACTION_BITS, sites=sites))

    @answers(Begin)
    def begin(self, ask: Begin) -> Ready:
        """Take the classes and the scale."""
        unknown = sorted(set(self.label_names()) - set(ask.classes))
        if unknown:
            raise InputError(f"the agreed classes lack {', '.join(unknown[:8])}")
        self.keep_to_terms(classes="\n".join(ask.classes))
        columns = self.data.X.shape[1]
        centre, spread = ask.centre.numpy(), ask.spread.numpy()
        if self.method.scale != "joint":
            centre, spread = self._own_scale()
        fit = centre.shape == spread.shape == (columns,) and within(centre, np.inf) and within(spread, np.inf)
        if not fit or not (spread > 0).all():
            raise ProtocolError(f"the scale does not fit a table of {columns} columns")
        with np.errstate(over="ignore"):  # a scale of its own is the site's own business
            if self.method.scale == "joint" and not within((self.data.X - centre) / spread, FARTHEST):
                raise ProtocolError(f"the scale makes rows of this site larger than {FARTHEST:g}")
        told, memory = (tuple(ask.classes), Array.of(centre), Array.of(spread)), self.memory
        if memory.classes and told != (memory.classes, memory.centre, memory.spread):
            raise ProtocolError("the site was told other classes or another scale already")
        memory.classes, memory.centre, memory.spread = told
        return Ready()

    def _own_scale(self) -> tuple[Vector, Vector]:
        columns = self.data.X.shape[1]
        if self.method.scale == "none":
            return np.zeros(columns), np.ones(columns)
        return scaling.scale_from(scaling.column_sums(self.data.X))

    def scaled(self) -> Floats:
        """Return the site's rows on the agreed scale."""
        memory = self.memory
        if memory.centre is None or memory.spread is None:
            raise ProtocolError("the site was asked to train before it was told the classes")
        return np.asarray((self.data.X - memory.centre.numpy()) / memory.spread.numpy())

    def places(self) -> npt.NDArray[np.int64]:
        """Return the place of each row's label among the agreed classes."""
        labels = self.data.y.astype(str)
        found = np.zeros(len(labels), np.int64)
        for place, name in enumerate(self.memory.classes):
            found[labels == name] = place
        return found

    def result(self) -> dict[str, Any]:
        """Return the site's own model and the scale of its columns."""
        memory = self.memory
        if memory.model is None or memory.centre is None or memory.spread is None:
            return {}
        return {
            "model": memory.model.numpy(),
            "centre": memory.centre.numpy(),
            "spread": memory.spread.numpy(),
            "classes": list(memory.classes),
        }


R = TypeVar("R", bound="TabularMethod")


class TabularConversation(Generic[R]):
    """One run, until all sites are ready to train."""

    def __init__(self, row: R, sites: Sites):
        self.row, self.sites = row, sites
        self.members: tuple[str, ...] = ()
        self.cohort: Cohort
        self._sums = 0

    def agree(self) -> None:
        """Join, agree on the class names and the scale of the columns, and tell all sites."""
        row, sites = self.row, self.sites
        terms = row.parameters() | {"seed": sites.seed}
        self.cohort = join(sites, rounds=len(row.site.sums(terms)), terms=terms, smallest=row.smallest)  # type: ignore[attr-defined]
        self.members, classes = self.cohort.names, row.classes
        if classes is None:
            classes, self.members = agree_on_names(self.cohort, smallest=row.smallest)
        self.classes, self.columns = tuple(classes), self.cohort.keys[self.members[0]].columns
        self.centre = self.spread = np.empty(0)
        if row.scale == "joint":
            total = self.sum(lambda ticket: GiveColumnSums(ticket=ticket), 1 + 2 * self.columns, self.members)
            sums = from_fixed(total.vector, fraction_bits=scaling.FRACTION_BITS)
            (self.centre, self.spread), self.members = scaling.scale_from(sums), total.sites
        begin = Begin(classes=self.classes, centre=Array.of(self.centre), spread=Array.of(self.spread))
        ready = sites.ask(begin, of=self.members, expect=Ready)
        ready.need(row.smallest, "that they are ready to train")
        self.members = tuple(ready)

    def sum(self, ask: Ask, length: int, among: Sequence[str]) -> Total:
        """Take the next secure sum: each has keys of its own."""
        self._sums += 1
        return secure_sum(
            self.cohort,
            self._sums - 1,
            ask,
            modulus=2**64,
            length=length,
            among=among,
            smallest=self.row.smallest,
        )

    def scale(self) -> tuple[Vector | None, Vector | None]:
        """Return what a joint model takes off columns and divides them by; None: what each site does itself."""
        if self.row.scale == "none":
            return np.zeros(self.columns), np.ones(self.columns)
        return (self.centre, self.spread) if self.row.scale == "joint" else (None, None)


@dataclass(frozen=True, kw_only=True)
class TabularMethod(Method):
    """The base of all methods that train on tables with agreed classes and scale."""

    site: ClassVar[type[Site[Any]]] = TabularSite
    common_site: ClassVar[type[Site[Any]]] = TabularSite
    """What the sites of all methods of a kind answer alike; what a site answers beyond it is the method's own."""

    scale: Literal["joint", "site", "none"] = "joint"
    """How columns are scaled: by all sites' rows (one secure sum), by each site's own, or not."""
    classes: tuple[str, ...] | None = None
    """The agreed label names. None: the union of the sites' names, which the sites then work out themselves."""
    least_points: int = 1
    """Sites refuse to take part with a class of fewer rows."""
    smallest: int = 2
    """The fewest sites that make a round."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" in cls.__dict__:
            DEFINED[cls.name] = cls
        # Each method has a site class of its own: a site knows it by what it has installed, never from the wire.
        cls.site = type(
            f"{cls.__name__}Site", (cls.site,), {"row": cls, "__doc__": f"Answers for `{cls.__name__}`."}
        )

    def __post_init__(self) -> None:
        check_whole("smallest", self.smallest, 1, 10**6)
        check_whole("least_points", self.least_points, 0, 10**9)
        check_choice("scale", self.scale, ("joint", "site", "none"))
        if self.classes is not None and (len(set(self.classes)) < 2 or any("\n" in n for n in self.classes)):
            raise InputError(f"classes={self.classes} given; wanted at least two different one-line names")
        if len("\n".join(self.classes or ())) > MOST_LETTERS:
            raise InputError(
                f"{len(self.classes or ())} classes given, with names of more than {MOST_LETTERS} letters in all; "
                "leave classes away (the sites then work out the union), or shorten the names"
            )

    def planned_sums(self) -> tuple[str, ...]:
        """Return the kinds of the questions that make secure sums, in their order, after that of the columns."""
        return ()

    def parameters(self) -> dict[str, Any]:
        """Return the parameters as plain values; class names are joined by line ends."""
        values = super().parameters()
        return values | {"classes": None if self.classes is None else "\n".join(self.classes)}

    @classmethod
    def from_terms(cls, terms: Mapping[str, Any]) -> Self:
        """Build the method from the terms of a run, at a site."""
        known = {field.name for field in dataclasses.fields(cls)}
        values = {name: value for name, value in terms.items() if name in known}
        if values.get("classes") is not None:
            values["classes"] = tuple(str(values["classes"]).split("\n"))
        return cls(**values)

    @classmethod
    def leaves(cls) -> tuple[str, ...]:
        """Return what leaves a site, as the ledger says it, with the settings where nothing is said."""
        shared = cls.common_site.understands()
        own = [question for kind, question in cls.site.understands().items() if kind not in shared]
        lines = [question.answer_reveals or question.answer.reveals for question in own]
        return (*lines, *((GiveColumnSums.answer_reveals,) if cls().scale == "joint" else ()))

    def check_together(self, sites: Sequence[SiteData]) -> None:
        """Refuse sites whose tables do not fit together, before anything is sent."""
        check_columns({site.name: site.X.shape[1] for site in sites})
        present = {str(name) for site in sites for name in site.classes.tolist()}
        if len(present | set(self.classes or ())) < 2:
            raise InputError(f"all sites together have one class, {', '.join(present)}; a classifier needs two")
