"""A site looks at its own data before it joins: what is wrong stays in its log, and nobody else hears what it is."""

from __future__ import annotations

from typing import Any

from fedgeom.data.findings import Collector, FaultsError
from fedgeom.data.inspection import inspect_table
from fedgeom.federation.settings import Settings


def look_at_own_data(site: Any, settings: Settings, seed: int) -> None:
    """Leave where the table does not fit; the site's own log then has all that is wrong, and all that looks odd."""
    faults = Collector(site.name)
    with faults.take():
        site.examine(settings, seed)
    if faults.found:
        raise FaultsError([*faults.found, *inspect_table(site.whole)])
