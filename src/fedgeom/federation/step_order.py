"""In which order steps of preparation may stand, and what the first of them says of raw rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from fedgeom.data.findings import Finding
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation.steps import Step


def check_order(steps: Sequence[Step]) -> None:
    """Refuse steps in an order in which one would get what it cannot take."""
    for at, step in enumerate(steps):
        before = steps[:at]
        deaf = next((one for one in before if not one.keeps_gaps and not one.fills_gaps), None)
        if step.fills_gaps and deaf is not None:
            raise InputError(
                f"prepare has {step.name!r} after {deaf.name!r}, which takes no gaps: put {step.name!r} before it"
            )
        if step.takes_text and before:
            raise InputError(
                f"prepare has {step.name!r} after {before[0].name!r}, which takes no text: put {step.name!r} first"
            )
        real = next((one for one in before if one.makes_reals), None)
        if step.wants_counts and real is not None:
            raise InputError(
                f"prepare has {step.name!r}, which wants counts, after {real.name!r}, which makes other numbers of "
                f"them: put {step.name!r} before it"
            )


def numbers_only(site: SiteData, known: Collection[str] = ()) -> SiteData:
    """Return a raw table without its columns of text; where some names are ``known``, without all others."""
    places = [
        at for at, name in enumerate(site.columns) if name not in site.categories and (not known or name in known)
    ]
    if len(places) == len(site.columns):
        return site
    return replace(
        site, table=site.table[:, places], columns=tuple(site.columns[at] for at in places), categories={}
    )


def unfit(numbers: SiteData, steps: Sequence[Step]) -> list[Finding]:
    """Return what makes raw numbers unfit for the first step that changes them; those before fill in and encode."""
    for step in steps:
        if not step.fills_gaps and not step.takes_text:
            return step.check(numbers)
    return []
