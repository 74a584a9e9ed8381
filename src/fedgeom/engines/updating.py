"""Updating a finished run: rows added, rows taken out, and the model of all rows as they are now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.federation.method import Method
from fedgeom.federation.model import Model
from fedgeom.federation.results import Run
from fedgeom.methods.ridge.gram import starts
from fedgeom.methods.ridge.method import Ridge
from fedgeom.methods.ridge.settings import RidgeSettings
from fedgeom.methods.ridge.statistics import Statistics
from fedgeom.methods.ridge.sums import gram_parts, rows_of
from fedgeom.methods.ridge_update.method import RidgeUpdate
from fedgeom.methods.ridge_update.settings import CHANGE


def change_of(added: Sequence[SiteData], removed: Sequence[SiteData]) -> list[SiteData]:
    """Return each site's changed rows, with 1 for those that are added and -1 for those that are taken out."""
    parts: dict[str, list[tuple[SiteData, int]]] = {}
    for sites, sign in ((added, 1), (removed, -1)):
        for site in sites:
            parts.setdefault(site.name, []).append((site, sign))
    found = []
    for name, several in parts.items():
        tables = [rows_of(site) for site, _ in several]
        if len({table.shape[1] for table in tables}) > 1 or len({site.columns for site, _ in several}) > 1:
            raise InputError(f"site {name!r}: rows to add and to take out have different columns; wanted the same")
        signs = np.concatenate([np.full(len(site), sign) for site, sign in several])
        labels = np.concatenate([site.y.astype(str) for site, _ in several])
        columns = several[0][0].columns
        found.append(SiteData(name, np.vstack(tables), labels, {CHANGE: signs}, columns))
    return found


def update_method(method: Method, run: Run) -> RidgeUpdate:
    """Return the method that updates a run; refuse runs that cannot be updated."""
    if not isinstance(method, Ridge | RidgeUpdate):
        raise InputError(f"a run of {method.name!r} cannot be updated; wanted Ridge(updatable=True), or run anew")
    model, shared = run.model, {one.name: getattr(method, one.name) for one in fields(RidgeSettings)}
    shared |= {"classes": tuple(model.names), "personal": False, "prepare": None}
    features, classes = len(model.weights) - 1, len(model.names)
    at = starts(features, classes)
    lengths = [int(at[last] - at[first]) for first, last in gram_parts(method, features, classes)]
    before = Statistics.of(run.artifacts, lengths)
    return RidgeUpdate(**shared, since=before.stands_for).on(before)


def update(
    method: Method,
    run: Run,
    again: Any,
    added: Sequence[SiteData] = (),
    removed: Sequence[SiteData] = (),
    **options: Any,
) -> Run:
    """Run an update over the sites that have changes; ``again`` is `fedgeom.run`."""
    if not added and not removed:
        raise InputError(
            "no rows were given; wanted some to add or to take out: run.update(added=[…], removed=[…])"
        )
    updating, changed = update_method(method, run), [prepared(run.model, some) for some in (added, removed)]
    sites = change_of(*changed)
    if len(sites) < updating.min_sites:
        raise InputError(
            f"{len(sites)} site given with changes, {sites[0].name!r}: its sums would be everybody's to see. Wanted "
            f"{updating.min_sites} or more at once, and as many as the sites' policies ask for; keep the change until "
            "others have some"
        )
    found: Run = again(updating, sites, **options)
    return found


def prepared(model: Model, sites: Sequence[SiteData]) -> Sequence[SiteData]:
    """Return changed rows as the first run would have seen them: each site has what prepares them in its model."""
    made = model.preparation
    return sites if made is None else [made.transform(site) for site in sites]
