"""What a job costs before it is run: with the tables of a federation file, or with so many sites like them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fedgeom.data.sites import SiteData
from fedgeom.data.validation import label_names
from fedgeom.errors import InputError
from fedgeom.federation.messages import LARGEST_MESSAGE
from fedgeom.federation.method import Method
from fedgeom.federation.policy import Policy
from fedgeom.protocols.costs import Costs, Sheet, joined_only, site_names

MOST_SITES = 100_000
"""More names no message holds."""


def costs_of(method: Method, sites: Sequence[SiteData], policy: Policy | None = None, seed: int = 0) -> Costs:
    """Return what a run over these tables costs; of rows no more is looked at than by `fedgeom.check`."""
    names = tuple(sorted(site.name for site in sites))
    return _written(
        Sheet(
            method,
            names,
            sites[0].shape[1],
            tuple(method_classes(method, sites)),
            rows=max(len(site) for site in sites),
            own_names=tuple(
                tuple(sorted(label_names([site]))) for site in sorted(sites, key=lambda one: one.name)
            ),
            named_columns=any(site.columns for site in sites),
            policy=policy or Policy(),
            seed=seed,
            tables=sites,
        )
    )


def costs_at(
    method: Method,
    count: int,
    *,
    rows: int,
    columns: int,
    classes: Sequence[str],
    policy: Policy | None = None,
) -> Costs:
    """Return what a run over ``count`` sites of such tables costs, without any table."""
    return _written(
        Sheet(method, site_names(count), columns, tuple(classes), rows=rows, policy=policy or Policy())
    )


def method_classes(method: Method, sites: Sequence[SiteData]) -> list[str]:
    """Return the classes of a run: those of its terms, or the union of the sites' names."""
    given = getattr(method, "classes", None)
    return list(given) if given else sorted(label_names(sites))


def _written(sheet: Sheet) -> Costs:
    if sheet.method.preparing:  # how many columns there will be, the sites find out together
        return joined_only(sheet)
    if not sheet.method.write_costs(sheet):
        return joined_only(replace(sheet, costs=Costs()))
    return sheet.costs


def stops_at(
    method: Method,
    *,
    rows: int,
    columns: int,
    classes: Sequence[str],
    policy: Policy | None = None,
) -> tuple[int, str]:
    """Return the largest number of sites of such tables that a run can have, and what stops it there."""
    limit = min((policy or Policy()).max_message_bytes, LARGEST_MESSAGE)

    def stopped(count: int) -> str:
        try:
            costs = costs_at(method, count, rows=rows, columns=columns, classes=classes, policy=policy)
        except InputError as error:
            return str(error)
        large = max(costs.exchanges, key=lambda one: max(one.up, one.down))
        return f"{large.kind!r} has {costs.largest:,} bytes" if costs.largest > limit else ""

    low, high, why = 3, MOST_SITES, stopped(MOST_SITES)
    if not why:
        return MOST_SITES, f"no message holds more than {MOST_SITES:,} names"
    while high - low > max(1, low // 50):  # a round figure is enough
        middle = (low * high) ** 0.5 if high > 4 * low else (low + high) / 2
        said = stopped(int(middle))
        low, high, why = (low, int(middle), said) if said else (int(middle), high, why)
    return low, why
