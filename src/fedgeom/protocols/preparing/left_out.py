"""What a run goes on without: columns that sites do not share, and rare categories; said to the site that has them."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from fedgeom.data.sites import SiteData
from fedgeom.federation.steps import Columns

log = logging.getLogger(__name__)

MOST_SHOWN = 8
"""How many left out columns or words are named in the log; the others are counted."""
COLUMNS = (
    "columns left out: a site lacks them or has another kind of values there, none has any, or they are free text"
)
WORDS = "categories that too few sites or rows have, taken together"


def left_out(site: SiteData, raw: Columns) -> dict[str, list[str]]:
    """Return which of a site's own columns and categories are not among the joint ones, by why."""
    known, found = set(raw.names), dict[str, list[str]]()
    columns = [name for name in site.columns if name not in known] if known else []
    if columns:
        found[COLUMNS] = columns
    words = []
    for at, kept in raw.categories.items():
        name = raw.names[at]
        words += [f"{name} = {word}" for word in site.categories.get(name, ()) if word not in kept]
    if words:
        found[WORDS] = words
    return found


def warn_of(site: str, found: Mapping[str, list[str]]) -> None:
    """Write what was left out into the site's own log."""
    for what, names in found.items():
        more = f" and {len(names) - MOST_SHOWN:,} more" if len(names) > MOST_SHOWN else ""
        log.warning("site %r: %s: %s%s", site, what, ", ".join(names[:MOST_SHOWN]), more)
