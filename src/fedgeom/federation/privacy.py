"""The setting ``privacy``: what a run promises about single rows, or whole sites; a part of the terms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from fedgeom.errors import InputError
from fedgeom.federation.settings import POSITIVE, Between, Choice
from fedgeom.federation.steps import Step
from fedgeom.privacy.accounting import check_installed, rho_for
from fedgeom.privacy.mechanism import honest_sites

LARGEST_DELTA = 0.01
OFF = 1e-21
"""How far noise on ten million numbers may be off, times 10⁶: the share of δ that the accountant leaves for it."""
SHORTEST = 1e-100
LONGEST = 1e100
"""What ``clip`` may be."""


@dataclass(frozen=True, kw_only=True)
class DP(Choice):
    """(ε, δ)-differential privacy of all that leaves a site's rows in one run, by noise inside the secure sums.

    Whoever sees everything but the honest sites' rows and noise cannot tell, but for ε and δ, whether one row more or
    less was there (``unit="row"``), or what rows one site had (``unit="site"``).
    """

    kind: ClassVar[str] = "privacy"
    plural: ClassVar[str] = "privacies"
    wanted: ClassVar[str] = "DP(epsilon=…, delta=…, clip=…)"

    epsilon: Annotated[float, POSITIVE]
    """ε of the whole run, its test included: 1 is strong, 8 weak."""
    delta: Annotated[float, Between(0, LARGEST_DELTA, open_low=True)] = 1e-5
    """δ: well below one in the number of rows."""
    clip: Annotated[float, POSITIVE]
    """The longest that a row (once it is prepared), a row's gradient or a site's update may be (L2); longer ones are
    shortened to it. Choose it by what is known without looking at the rows."""
    unit: Literal["row", "site"] = "row"
    """Who is protected: one row of any site (added or taken out), or all rows of one site (exchanged for others)."""
    colluders: Annotated[int, Between(0, 10**6)] = 1
    """How many sites may tell what they added, or add no noise. A site that is curious is one: it knows its own."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not SHORTEST <= self.clip <= LONGEST:  # its square is needed
            raise InputError(f"clip={self.clip!r} given; wanted a length from {SHORTEST:g} to {LONGEST:g}")
        least = OFF * (1 + math.exp(min(self.epsilon, 700.0)))
        if self.delta < least:
            raise InputError(
                f"epsilon={self.epsilon!r} and delta={self.delta!r} given; the noise is exact enough for delta = "
                f"{least:.1g} or more with this epsilon: wanted more of delta"
                + (", or an epsilon that promises something, such as 1" if self.epsilon > 20 else "")
            )
        check_installed()

    @classmethod
    def read(cls, value: Any, setting: str) -> Self:
        """Return the settings from an object or a table."""
        if isinstance(value, cls):
            return value
        known = [field.name for field in fields(cls)]
        needed = {"epsilon", "clip"}
        if not isinstance(value, Mapping) or not needed <= set(value) <= set(known):
            raise InputError(
                f"{setting}={value!r} given; wanted {cls.wanted}, or a table with epsilon, delta and clip, and perhaps "
                "unit and colluders"
            )
        try:
            return cls(**value)
        except InputError as error:  # other settings are called epsilon, too
            raise InputError(f"{setting}: {error}") from error

    def plain(self) -> str | dict[str, Any]:
        """Return the settings as they travel."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


if TYPE_CHECKING:
    PrivacyOrTable = DP | Mapping[str, Any] | None
else:
    PrivacyOrTable = DP | None


def privacy_of(settings: Any) -> DP | None:
    """Return what a method's settings promise; None: no noise is added."""
    found: DP | None = getattr(settings, "privacy", None)
    return found


def class_floors(settings: Any, min_rows: int, min_rows_per_class: int) -> dict[str, int]:
    """Return how many rows a class must have at a site, by the method and by the site's policy, for `check_table`.

    With privacy none: noise hides the few, and a site that refused over one row more or less would tell of it.
    """
    if privacy_of(settings) is not None:
        return {"min_rows": 0, "min_rows_per_class": 0}
    return {"min_rows": min_rows, "min_rows_per_class": min_rows_per_class}


@dataclass(frozen=True)
class Spent:
    """What a run costs of a site's budget."""

    epsilon: float
    delta: float
    unit: str
    rho: float
    part: str = ""
    """What alone of the run has noise; "": all that leaves."""

    @classmethod
    def by(cls, privacy: DP) -> Spent:
        """Return what a run costs that promises so much."""
        return cls(privacy.epsilon, privacy.delta, privacy.unit, rho_for(privacy.epsilon, privacy.delta))


def spent_by(settings: Any) -> Spent | None:
    """Return what a run with these settings costs; None: nothing in it has noise, and it cannot be counted."""
    privacy = privacy_of(settings)
    if privacy is not None:
        return Spent.by(privacy)
    part: Spent | None = getattr(settings, "spends", None)
    return part


def smallest_sum(settings: Any, wanted: int = 0) -> int:
    """Return over how many sites sums are at least, in a run with privacy; ``wanted`` is the most that a policy asks.

    Sites sign no list of fewer living ones (`JoinPart.check_many_enough`), so that their noise can be relied on.
    """
    return max(int(getattr(settings, "min_sites", 2)), wanted, 2)


def parts_of(settings: Any) -> int:
    """Return into how many equal parts ρ of a run is divided: one for each step that learns from rows, and one more."""
    steps: tuple[Step, ...] = getattr(settings, "preparing", ())
    return 1 + sum(1 for step in steps if step.bounded() is not None)


def check_private(settings: Any) -> None:
    """Refuse settings under which something would leave a site that noise does not cover; say what is wanted."""
    privacy = privacy_of(settings)
    if privacy is None:
        return
    kind = type(settings).__name__
    units = settings.private_units
    if not units:
        raise InputError(
            f"privacy given, but {kind} has no bound on what one row adds to what leaves: leave it out"
        )
    if privacy.unit not in units:
        raise InputError(
            f'privacy with unit="{privacy.unit}" given; {kind} bounds what one {" or one ".join(units)} adds: wanted '
            + " or ".join(f'unit="{unit}"' for unit in units)
        )
    if not settings.classes and getattr(settings, "agrees_on_names", True):
        raise InputError(
            f"{kind} with privacy needs the label names in its terms, classes=[…]: a list that sites made of theirs "
            "would tell of a single row with a label of its own"
        )
    steps: tuple[Step, ...] = getattr(settings, "preparing", ())
    if steps and privacy.unit == "site":
        raise InputError(
            f"{kind} with privacy per site takes rows that need no preparation: what all rows of one site add to the "
            "steps' sums has no bound. Wanted prepare=None, and columns that each site brings to an agreed unit"
        )
    for step in steps:
        step.bounded()  # raises where there is no bound
    chosen = getattr(getattr(settings, "aggregation", None), "name", "mean")
    if chosen != "mean" or getattr(settings, "max_abs_value", None) is not None:
        raise InputError(
            f"privacy with aggregation={chosen!r} and max_abs_value={getattr(settings, 'max_abs_value', None)} given; "
            'noise is reckoned for one sum, whose bound is clip: wanted aggregation="mean" and max_abs_value=None'
        )
    holdout = getattr(settings, "holdout", None)
    if holdout is not None and holdout.grouped:
        raise InputError(
            "a grouped holdout with privacy given; its sums over groups have no bound for a row: wanted grouped=False "
            "(a site with a group column still keeps a group's rows together)"
        )
    if holdout is not None and privacy.unit == "site":
        raise InputError(
            "a holdout with privacy per site given; a test's counts have no bound for all rows of one site: wanted "
            'holdout=None, or unit="row"'
        )
    honest_sites(smallest_sum(settings), privacy.colluders)
