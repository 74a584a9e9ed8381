"""Rows that a site keeps aside to test on: a part of the terms, so that every site and every steward knows of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np

from fedgeom.data.sites import SiteData
from fedgeom.data.split import holdout, holdout_by_content
from fedgeom.errors import InputError
from fedgeom.federation.policy import Policy
from fedgeom.federation.privacy import privacy_of
from fedgeom.federation.settings import Between, Choice
from fedgeom.memo import memoize_per_object

FEW = 3
"""Of a class that has rows enough, so many are tested on even where the share is smaller."""
LEAST = 2
"""Every class keeps so many rows to learn from, whatever method and policy say."""

Parts = tuple[SiteData, SiteData]
"""The rows that a site learns from, and those that it tests on."""


@dataclass(frozen=True)
class Holdout(Choice):
    """How many rows each site keeps aside: given as a number, an object, or a table with share, grouped and rivals."""

    kind: ClassVar[str] = "holdout"
    wanted: ClassVar[str] = "a share up to 0.5, Holdout(…)"

    share: Annotated[float, Between(0, 0.5, open_low=True)] = 0.25
    """The share of each class's rows."""
    grouped: bool = False
    """Whether every site must say which rows belong together (`SiteData.groups`). One that does is heeded anyway."""
    keep: Annotated[int, Between(0)] = 0
    """How many rows of each class are left to learn from at least; the method and the policy may want more. Methods
    that are compared have the most that any of them wants, so that all are tested on the same rows."""
    rivals: bool = True
    """Whether models trained at each site alone, and in a simulation on all rows in one place, are tested beside."""

    @classmethod
    def read(cls, value: Any, setting: str) -> Self:
        """Return the settings from an object, a share, or a table."""
        if isinstance(value, cls):
            return value
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = {"share": value}
        if not isinstance(value, Mapping) or not set(value) <= {"share", "grouped", "keep", "rivals"}:
            raise InputError(
                f"{setting}={value!r} given; wanted a share, such as 0.25, or a table with share, grouped and rivals"
            )
        return cls(**value)

    def plain(self) -> str | dict[str, Any]:
        """Return the settings as they travel."""
        more = ({"keep": self.keep} if self.keep else {}) | ({} if self.rivals else {"rivals": False})
        return {"share": self.share, "grouped": self.grouped} | more


def by_group(settings: Any) -> bool:
    """Say whether a method's settings keep rows aside by group."""
    wanted: Holdout | None = getattr(settings, "holdout", None)
    return wanted is not None and wanted.grouped


@memoize_per_object(key=lambda whole: None)
def no_rows(whole: SiteData) -> SiteData:
    """Return a table without any of its rows: for every question of a run without a test it is the same."""
    return whole.take(np.zeros(len(whole), bool))


def part_rows(whole: SiteData, settings: Any, seed: int, policy: Policy) -> Parts:
    """Return the rows that a site learns from and those that it tests on: they follow from terms, seed and its name.

    ``settings`` are the method's. Every class keeps as many rows as the method and the site's policy ask for. Without
    a holdout in the terms all rows are learnt from. Raise `InputError` where the terms want to know which rows belong
    together, and the site does not.
    """
    wanted: Holdout | None = getattr(settings, "holdout", None)
    if wanted is None:
        return whole, no_rows(whole)
    if wanted.grouped and whole.groups is None:
        raise InputError(
            f"site {whole.name!r}: the terms keep rows aside by group, so that no patient is both learnt from and "
            'tested on, but the site has no group column: name it, group = "patient" in site.toml, or holdout_by in '
            "the federation file"
        )
    keep = max(LEAST, wanted.keep, int(getattr(settings, "min_rows", 0)), policy.min_rows_per_class)
    return _parted(whole, settings, seed, keep)


def _parted_by(whole: SiteData, settings: Any, seed: int, keep: int) -> tuple[Any, ...]:
    return settings.holdout, seed, keep, settings.name, privacy_of(settings) is None


@memoize_per_object(key=_parted_by)  # a site is built anew for each question, its parts are not
def _parted(whole: SiteData, settings: Any, seed: int, keep: int) -> Parts:
    wanted: Holdout = settings.holdout
    marked = settings.normalise_labels(whole)
    if privacy_of(settings) is not None:
        salt = repr((seed % 2**63, whole.name)).encode()
        return holdout_by_content(marked, wanted.share, salt)
    rng = np.random.default_rng([seed % 2**63, 5, *whole.name.encode()])
    numbered = SiteData(whole.name, np.arange(float(len(whole)))[:, None], marked.y, groups=whole.groups)
    parts = holdout(numbered, wanted.share, rng, keep=keep, few=FEW)
    train, aside = (part.X[:, 0].astype(int) for part in parts)
    return whole.take(train), whole.take(aside)
