"""Which method is right for a federation file whose sites run in one process, where it leaves that open, and why.

What decides is whether one label name means one thing everywhere. The file says so (``names``), or it is seen: here all
sites' rows are at hand. For sites of their own nothing is chosen (`fedgeom.deploy.federation_file.build_method`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fedgeom.data.sites import SiteData
from fedgeom.deploy.federation_file import FederationFile
from fedgeom.engines.check import REHEARSED_CELLS
from fedgeom.errors import InputError
from fedgeom.federation.method import METHODS, Method
from fedgeom.federation.policy import Policy
from fedgeom.federation.preparation import fit_plain
from fedgeom.methods.label_names import look_at_names
from fedgeom.methods.ridge.features import Fourier
from fedgeom.methods.ridge.settings import FOLDS, RidgeSettings
from fedgeom.preparation.pca import PCA

WIDEST = RidgeSettings.max_features - Fourier.n_components
"""The most columns that Ridge takes as they are, beside Fourier features."""

USUAL: dict[str, Any] = {"rule": "discriminant", "balanced": True, "alpha": "folds"}
"""Discriminants, since with many classes the largest score loses those between others; and folds, since generalised
cross-validation takes rows for equals, which balanced ones are not: it chose too small a λ."""


@dataclass(frozen=True)
class SuitableMethod:
    """A method that suits sites, with the settings that their tables ask for, and why it does."""

    method: str
    settings: dict[str, Any] = field(default_factory=dict)
    reason: str = ""


def for_shared_names(
    sites: Sequence[SiteData], said: Mapping[str, Any], *, in_disc: bool, prepared: bool = False
) -> SuitableMethod:
    """Return the method for sites that share their label names; ``said`` are the settings that a file has.

    Settings that only one of the methods knows mean that one. How many columns are left of rows that are ``prepared``
    first is not known here.
    """
    known = {name: set(METHODS.find(name).__dataclass_fields__) for name in ("moments", "ridge")}
    meant = [
        name for name, own in known.items() if any(key in own and key not in _other(known, name) for key in said)
    ]
    method = meant[0] if len(meant) == 1 else "moments" if in_disc else "ridge"
    if method == "moments":
        return SuitableMethod(method, {} if in_disc else {"space": "euclidean"})
    columns = sites[0].shape[1]
    if columns > WIDEST and not prepared:
        why = f"{columns:,} columns are too many for sums of their products, so that features are made of them"
        return SuitableMethod(method, USUAL | {"features": "fourier"}, "" if meant else why)
    return SuitableMethod(method, USUAL | {"features": ["linear", "fourier"]})


def with_few_features(found: SuitableMethod, policy: Policy, rows: int, columns: int) -> SuitableMethod:
    """Return the choice with fewer Fourier features, or none, where a policy wants more rows for each feature.

    Rows that are too few for the columns alone, when they are dealt to folds, are not dealt.
    """
    least = policy.min_rows_per_feature
    folds = FOLDS if found.settings.get("alpha") == "folds" else 1  # each is a sum of its own
    dealt = rows / folds
    if "features" not in found.settings or dealt >= least * (columns + Fourier.n_components):
        return found
    room = int(dealt / least) - columns
    settings = found.settings | {"features": "linear"}
    if room >= FEWEST_FOURIER:
        settings["features"] = ["linear", {"name": "fourier", "n_components": room // 10 * 10}]
    elif room < 0:
        settings.pop("alpha", None)
    why = f"{rows:,} rows allow few features (min_rows_per_feature = {least:g} in the policy)"
    return SuitableMethod(found.method, settings, "; ".join(filter(None, (found.reason, why))))


def _learnt_rows(federation: FederationFile, sites: Sequence[SiteData]) -> int:
    """Return of how many rows the sites learn at least: each class of each site keeps its share aside, rounded up."""
    aside = sum(math.ceil(federation.holdout * rows) for site in sites for rows in site.class_counts().values())
    return sum(map(len, sites)) - aside


def _width(federation: FederationFile, sites: Sequence[SiteData]) -> int:
    """Return how many columns the method sees; of prepared rows that is rehearsed."""
    if not federation.prepare:
        return sites[0].shape[1]
    prepared: Method = METHODS.find("ridge")(prepare=federation.prepare)
    components = [step.n_components for step in prepared.preparing if isinstance(step, PCA)]
    if components:
        return int(components[-1])
    if sum(len(site) * site.shape[1] for site in sites) > REHEARSED_CELLS:
        return sites[0].shape[1]
    return fit_plain(prepared.preparing, sites, federation.seed).columns.width


def _other(known: Mapping[str, set[str]], name: str) -> set[str]:
    """Return the settings of the other methods."""
    return set().union(*(own for other, own in known.items() if other != name))


FEWEST_FOURIER = 100
"""Fewer Fourier features than this are not worth their sums."""

FOR_OWN = "ellipses"
"""The method that is chosen where sites have names of their own; for shared ones see `for_shared_names`."""


@dataclass(frozen=True)
class CompleteFile:
    """A federation file in which nothing is left open, and how that came about."""

    federation: FederationFile
    reason: str = ""
    """One sentence; empty where the file said everything itself."""


def choose(
    path: str | Path, federation: FederationFile, sites: Sequence[SiteData], policy: Policy | None = None
) -> CompleteFile:
    """Settle the method and whether names are shared, from what the file says and the sites' rows show.

    Settings that are chosen keep to the ``policy``.
    """
    if federation.method and not _matches(federation.method):
        return CompleteFile(
            federation
        )  # names make no difference to it; that it cannot match them is said where it is built
    names, why = _names(path, federation, sites)
    method = federation.method
    added = dict[str, Any]()
    suits = ""
    prepared = bool(federation.prepare)
    in_disc = not prepared and all(
        site.shape[1] == 2 and bool((np.linalg.norm(site.X, axis=1) < 1).all()) for site in sites
    )
    if not method and names == "shared":
        found = for_shared_names(sites, federation.parameters, in_disc=in_disc, prepared=prepared)
        if found.method == "ridge":
            found = with_few_features(
                found, policy or Policy(), _learnt_rows(federation, sites), _width(federation, sites)
            )
        method = found.method
        added = dict(found.settings)
        suits = found.reason
    elif not method:
        method = _for_own(federation.parameters)
        if method == FOR_OWN and in_disc:
            added["space"] = "ball"
        if method == "hulls" and not in_disc:
            added["embedding"] = "discriminant"
    maps = federation.parameters.get("embedding", added.get("embedding", "none")) != "none"
    if method == "hulls" and names == "own" and maps and len({len(site.classes) for site in sites}) > 1:
        added["scale"] = "joint"  # a site that lacks classes must not put those it has in their place
    said = {key: value for key, value in added.items() if key not in federation.parameters}
    settled = msgspec.structs.replace(
        federation, method=method, names=names, parameters={**said, **federation.parameters}
    )
    return CompleteFile(settled, _reason(federation, settled, said, why, suits))


def _for_own(parameters: Mapping[str, Any]) -> str:
    """Return the method for own names; a file with settings that only hulls have means these."""
    settings = METHODS.find(FOR_OWN).__dataclass_fields__
    meant = [
        key for key in parameters if key not in settings and key in METHODS.find("hulls").__dataclass_fields__
    ]
    return "hulls" if meant else FOR_OWN


def _matches(method: str) -> bool:
    return method in METHODS and bool(getattr(METHODS.find(method), "matches_names", False))


def _names(path: str | Path, federation: FederationFile, sites: Sequence[SiteData]) -> tuple[Any, str]:
    """Return whether names are shared or own, and where that is seen from, if the file does not say it."""
    parameters = federation.parameters
    said = federation.names or parameters.get("names")
    if said:
        return said, ""
    if "n_classes" in parameters:
        return "own", ""  # whoever says how many classes there are has them matched
    seen = look_at_names(sites)
    if seen.kind == "mixed":
        raise InputError(
            f'{path}: {seen}. Write names = "shared" at the top where one word means one thing everywhere, or names = '
            '"own" where each site has words of its own: it cannot be told from the words'
        )
    taken = "shared" if seen.kind == "shared" else "the sites' own"
    return seen.kind, f"{seen}, so names are taken to be {taken}"


def _reason(
    before: FederationFile, after: FederationFile, added: dict[str, Any], why: str, suits: str = ""
) -> str:
    """Say in one sentence what was chosen and why."""
    if before.method and not why and not added:
        return ""
    settings = ", ".join(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in added.items())
    chosen = f"method {after.method}" + (f" with {settings}" if settings else "")
    if not before.method:
        why = why or f'the file says names = "{after.names}"'
    lacking = "sites have different numbers of classes" if added.get("scale") == "joint" else ""
    causes = "; ".join(one for one in (why, suits, lacking) if one)
    keys = " and ".join(key for key, there in (("method", before.method), ("names", before.names)) if not there)
    return f"{chosen}: {causes}" + (f" ({keys} in the file would say otherwise)" if keys else "")
