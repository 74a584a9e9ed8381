"""The contract every federated method keeps: settings, a site class, a conversation, a model."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from fedgeom.data.sites import SiteData
from fedgeom.data.validation import Finding
from fedgeom.errors import InputError
from fedgeom.federation.coordinator import Coordinator
from fedgeom.federation.holdout import Holdout
from fedgeom.federation.model import Model
from fedgeom.federation.plain import Keep, Plain, conduct_plain
from fedgeom.federation.plan import Plan, Shape
from fedgeom.federation.policy import Policy
from fedgeom.federation.privacy import check_private, privacy_of
from fedgeom.federation.settings import ELSEWHERE, Settings, documented, is_called_now
from fedgeom.federation.site import Site
from fedgeom.federation.steps import FLOORS, Step, check_order, read_steps
from fedgeom.registry import Registry, did_you_mean


@dataclass(frozen=True)
class ShownRows:
    """How many rows of a class others would learn, rounded or not."""

    label: str
    """The class, in the site's own words."""
    rows: int
    """How many rows the class has."""
    corners: int
    """How many of them others learn."""
    points: npt.NDArray[np.float64] = field(repr=False)
    """(rows, 2): all rows of the class, in the plane."""
    sent: npt.NDArray[np.float64] = field(repr=False)
    """(corners, 2): what the coordinator learns of them."""
    before_rounding: int = 0
    """How many rows are corners before they are rounded, by which some may fall together; 0: as many as ``corners``."""

    @property
    def extreme(self) -> int:
        """How many rows are corners: what a policy's ``max_corner_share`` is about."""
        return max(self.corners, self.before_rounding)

    @property
    def share(self) -> float:
        """The share of the class's rows."""
        return self.corners / self.rows


if TYPE_CHECKING:
    HoldoutOrShare = Holdout | float | Mapping[str, Any] | None
    StepsOrPreset = Sequence[Step | str | Mapping[str, Any]] | str | None
else:
    HoldoutOrShare = Holdout | None
    StepsOrPreset = tuple[Step, ...] | None

METHODS = Registry("method", "fedgeom.methods")
"""All methods by name; importing `fedgeom.methods` fills in those that come with fedgeom."""


@cache  # sites ask for it with each question
def _floors(by_class: bool, gaps: bool, blank: bool, small_cells_as_zero: bool) -> Step:
    """Return the step that leaves out columns that too few rows or sites set apart."""
    settings = {"by_class": by_class, "gaps": gaps, "blank": blank, "small_cells_as_zero": small_cells_as_zero}
    return Step.read({"name": FLOORS, **settings}, "prepare")


@dataclass(frozen=True, kw_only=True)
class Method(Settings):
    """The base of all methods; a subclass is a frozen dataclass whose fields are its settings.

    A subclass with a ``name`` is registered under it: from then on runs, federation files and model files know it.
    """

    name: ClassVar[str]
    site: ClassVar[type[Site[Any]]]
    model_type: ClassVar[type[Model]]
    """The class of the models that runs yield, for `fedgeom.load_model`."""
    matches_names: ClassVar[bool] = False
    """Whether the method can find out which of the sites' own names mean the same; its setting ``names`` says so."""

    predicts: ClassVar[bool] = True
    """Whether what a run yields predicts; a description does not."""
    takes_holdout: ClassVar[bool] = True
    """Whether rows can be kept aside and counted by class; where what is predicted is no class, they cannot."""
    doubts: ClassVar[bool] = False
    """Whether sites say in the end, masked, at how many of them the joint model does much worse than their own rows
    allow: for methods whose model follows from few sums, which one site that lies can bend."""
    column_floors: ClassVar[bool] = False
    """Whether columns that few rows or sites set apart are left out, where policies have floors, although no rows are
    prepared: for methods that sum products of columns. Where rows are prepared they always are."""
    sums_by_class: ClassVar[bool] = False
    """Whether columns are summed for each class, so that they have floors in each."""
    small_cells_as_zero: ClassVar[bool] = False
    """Whether, where policies have floors, numbers other than 0 that few rows or sites of a class have in a column
    count as 0 where they are learnt from: for methods that add up the rows of each class."""
    standardises: ClassVar[bool] = False
    """Whether the method standardises columns itself and tells coefficients per unit: a plain step "scale" at the end
    of the preparation, as in "table", would change the units alone, and is left out."""

    holdout: HoldoutOrShare = None
    """The share of its rows that each site keeps aside, class by class, and on which the sites then test the model:
    0.25, or Holdout(0.25, grouped=True). None: no rows are kept aside."""
    prepare: StepsOrPreset = None
    """How raw rows become features, before the method sees them: "counts", "table", or steps of
    `fedgeom.preparation` (by object, name or table), each fitted over all sites by secure sums."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        documented(cls)
        if "name" in cls.__dict__:
            METHODS.add(cls.name, cls)

    def __new__(cls, *values: Any, **settings: Any) -> Self:
        """Refuse settings that the method does not have, in words."""
        if settings:
            known = inspect.signature(cls.__init__).parameters
            strange = next((name for name in settings if name not in known), None)
            if strange is not None and not any(one.kind is one.VAR_KEYWORD for one in known.values()):
                raise InputError(
                    _no_setting(cls, strange, settings[strange], [name for name in known if name != "self"])
                )
        return super().__new__(cls)

    def __post_init__(self) -> None:
        object.__setattr__(self, "prepare", read_steps(self.prepare or ()) or None)
        super().__post_init__()
        given: Any = self.prepare or ()
        if self.standardises and given and given[-1].name == "scale" and given[-1] == type(given[-1])():
            object.__setattr__(self, "prepare", given[:-1] or None)
        check_order(self.preparing)
        check_private(self)

    @property
    def preparing(self) -> tuple[Step, ...]:
        """The steps of preparation, as objects: those of ``prepare``, and the method's own."""
        given: tuple[Step, ...] = self.prepare or ()  # type: ignore[assignment]
        return (*given, *self.own_steps)

    @property
    def own_steps(self) -> tuple[Step, ...]:
        """The steps that the method itself puts behind those that the user asks for; they follow from its settings."""
        return ()

    @property
    def planned_steps(self) -> tuple[Step, ...]:
        """The steps of preparation, with that which leaves out columns that too few rows or sites set apart.

        It stands before the first step that sums numbers of columns. With privacy there is none: noise hides the few.
        """
        own = self.preparing
        if privacy_of(self) is not None or not (own or self.column_floors):
            return own
        if any(step.name == FLOORS for step in own):
            return own
        first = next((at for at, step in enumerate(own) if step.sums()), len(own))
        gaps = any(bool(getattr(step, "add_indicator", False)) for step in own)
        shape = getattr(self, "shape", None) or getattr(getattr(self, "network", None), "shape", None)
        small = self.small_cells_as_zero and not any(step.mixes_columns for step in own)
        floors = _floors(self.sums_by_class, gaps, bool(shape), small)
        return (*own[:first], floors, *own[first:])

    @property
    def asks_for_doubts(self) -> bool:
        """Whether a run ends with the sum of doubts; not with privacy, where rows are not looked at again."""
        return self.doubts and privacy_of(self) is None

    def smallest_sum(self, sites: int) -> int:
        """Return over how few of so many sites a secure sum of a run may go, if no site is lost: here over all.

        With many sites, each shares masks with some of the others; where sums go over parts, with more of them.
        """
        return sites

    def sums_of_few(self) -> Mapping[str, str]:
        """Return the sums that rest on few rows or sites by the method's nature: their kinds, and what they show.

        `fedgeom.testing.check_method` leaves these out where it looks for sums that rest on few, and says so. What is
        named here belongs on the method's page, and into ``answer_reveals`` of the question.
        """
        return {}

    def sum_sites(self, names: Sequence[str], seed: int) -> Sequence[Collection[str]] | None:
        """Return for each planned sum which sites of a cohort may be in it; None, as here: any may be in any.

        Where a part of the sites is drawn for a sum, only these share its secrets when they join.
        """
        return None

    def plan(self, shape: Shape) -> Plan:
        """Yield the steps of the method's own conversation, after preparation and before the test (`federation.plan`).

        This is the only description of the protocol: how many sums there are follows from the settings alone, how long
        they are from the shape. The plan's value is the number of classes where that is not the shape's.
        """
        raise NotImplementedError(f"{type(self).__name__} has no plan; write one (docs/own-method.md)")

    def conduct(self, sites: Coordinator) -> Any:
        """Hold the conversation with the sites and return the model."""
        raise NotImplementedError(f"{type(self).__name__} does not conduct")

    def plain(self, sites: Sequence[SiteData], seed: int = 0, *, keep: Keep | None = None) -> Plain:
        """Compute what a run yields when no site is lost: the same conversation, with nothing masked.

        ``keep`` is told the name and the file of each model on the way, where a method has such.
        """
        return conduct_plain(self, sites, seed, keep)

    @classmethod
    def suggested(cls, sites: Sequence[SiteData]) -> dict[str, Any]:
        """Return settings that the sites' tables ask for, where one process sees them and nothing else is said."""
        return {}

    def check_limits(self, sites: Sequence[SiteData], policy: Policy) -> None:
        """Raise `InputError` when sites would be lost to limits of their policy, where that is known beforehand."""

    def check(self, sites: Sequence[SiteData], policy: Policy, seed: int = 0) -> list[Finding]:
        """Raise InputError for tables that do not fit together; return what else would go wrong or looks odd.

        Called where one process sees all tables, before a run.
        """
        return []

    def normalise_labels(self, site: SiteData) -> SiteData:
        """Return a site's table as the method reads it, for splitting it: what counts as no label is "" there."""
        return site

    @property
    def shares_names(self) -> bool:
        """Whether one label name means one thing everywhere: it does, unless the setting ``names`` has them matched."""
        return not self.matches_names or getattr(self, "names", "own") == "shared"

    def rows_shown(self, shape: Shape) -> list[ShownRows]:
        """Return which rows of the site that asks, ``shape.site``, a run would show to others; a preview asks this."""
        return []


def _methods_with(attribute: str) -> list[str]:
    """Return the names of the methods of which an attribute is true."""
    found = []
    for name in METHODS:
        try:
            method = METHODS.find(name)
        except InputError:  # it comes from a package that cannot be imported
            continue
        if getattr(method, attribute, False):
            found.append(name)
    return found


def methods_that_match() -> list[str]:
    """Return the names of the methods to which sites may come with label names of their own."""
    return _methods_with("matches_names")


def private_methods() -> list[str]:
    """Return the names of the methods that can add noise for differential privacy."""
    return _methods_with("private_units")


def no_bound(cls: type[Method]) -> str:
    """Say that a method cannot promise privacy, and which can."""
    return (
        f"privacy given, but {cls.__name__} has no bound on what one row adds to what leaves, so no noise is known "
        f"to be enough; the methods that have one are: {', '.join(private_methods())}. Take one of these, or leave "
        "it out"
    )


def _no_setting(cls: type[Method], name: str, value: Any, known: Sequence[str]) -> str:
    """Say that a method has no such setting, and what to do; of names, which methods could match them."""
    if name == "names" and value in ("own", "shared") and not cls.matches_names:
        goes = f'names="{value}" given, but {cls.__name__} goes by shared names'
        if value == "shared":
            return f"{goes} always; leave it out"
        return (
            f"{goes}; the methods that match names are: {', '.join(methods_that_match())}. Take one of these, or bring "
            "the sites' labels to the same names (SiteData.relabel) and leave it out"
        )
    if name == "privacy":
        return no_bound(cls)
    now = is_called_now(name, known)
    if now:
        return f"{cls.__name__} has no setting {name!r}; {now}"
    if name == "seed":
        return f"{cls.__name__} has no setting 'seed'; it is an argument of the run: fedgeom.run(method, sites, seed=0)"
    if ELSEWHERE.get(name) in known:
        return (
            f"{cls.__name__} has no setting {name!r}; here it is called {ELSEWHERE[name]!r}. "
            f"help(fedgeom.{cls.__name__}) lists all"
        )
    hint = did_you_mean(name, known)
    return f"{cls.__name__} has no setting {name!r}; it has {', '.join(known)}{'.' if hint else ''}{hint}"
