"""Whether a raw table can be prepared: looked at by each site before it joins."""

from __future__ import annotations

from collections.abc import Sequence

from fedgeom.data.checks import check_finite
from fedgeom.data.findings import Collector, FaultsError, Finding, fault
from fedgeom.data.sites import SiteData
from fedgeom.data.tables import listed
from fedgeom.federation.step_order import numbers_only, unfit
from fedgeom.federation.steps import Step


def raw_faults(site: SiteData, steps: Sequence[Step]) -> list[Finding]:
    """Return what makes a raw table unfit for these steps."""
    found: list[Finding] = []
    if not len(site):
        return [fault("has no rows", "leave it out of the federation", site=site.name, topic="rows")]
    if site.categories and not any(step.takes_text for step in steps):
        found.append(
            fault(
                f"these columns hold text: {listed(sorted(site.categories))}",
                'put the step "one-hot" first, take the preset prepare = "table", or name the columns to use',
                site=site.name,
                topic="text",
            )
        )
    given = {name for step in steps for name in getattr(step, "categories", None) or ()}
    strange = sorted(set(site.categories) - given)
    if given and strange:
        found.append(
            fault(
                f"these columns hold text, and the terms do not say which words: {listed(strange)}",
                "name the columns to use, columns = […], or ask for terms that list the words (categories)",
                site=site.name,
                topic="text",
            )
        )
    numbers = numbers_only(site)
    if not any(step.fills_gaps for step in steps):
        collector = Collector(site.name)
        with collector.take():
            check_finite(numbers)
        found += collector.found
    return found + unfit(numbers, steps)


def check_no_text(site: SiteData) -> None:
    """Refuse columns of text where nothing prepares them."""
    if site.categories:
        what = f"these columns hold text: {listed(sorted(site.categories))}"
        remedy = 'let the run prepare them, prepare = "table", or name the columns of numbers, columns = […]'
        raise FaultsError([fault(what, remedy, site=site.name, topic="text")])
