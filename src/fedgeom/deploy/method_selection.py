"""Which method is right for a federation file whose sites run in one process, where it leaves that open, and why.

What decides is whether one label name means one thing everywhere. The file says so (``names``), or it is seen: here all
sites' rows are at hand. For sites of their own nothing is chosen (`fedgeom.deploy.federation_file.build_method`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fedgeom.data.sites import SiteData
from fedgeom.data.tables import is_sparse, listed
from fedgeom.data.validation import MANY_COLUMNS, TableFacts, kind_of
from fedgeom.deploy.federation_file import FederationFile, build_method
from fedgeom.engines.check import fit_to_rows
from fedgeom.errors import InputError
from fedgeom.federation.method import METHODS
from fedgeom.federation.policy import Policy
from fedgeom.federation.steps import PRESETS
from fedgeom.methods.label_names import look_at_names
from fedgeom.methods.ridge.features import FeatureMap
from fedgeom.methods.ridge.method import Ridge
from fedgeom.methods.ridge.settings import USUAL


@dataclass(frozen=True)
class SuitableMethod:
    """A method that suits sites, with the settings that their tables ask for, and why it does."""

    method: str
    settings: dict[str, Any] = field(default_factory=dict)
    reason: str = ""


IN_FILE = ". A submitted job is as its file says, since nobody sees all rows: write these settings there"


def for_shared_names(said: Mapping[str, Any], *, in_disc: bool) -> SuitableMethod:
    """Return the method for sites that share their label names; ``said`` are the settings that a file has.

    Settings that only one of the methods knows mean that one.
    """
    known = {name: set(METHODS.find(name).__dataclass_fields__) for name in ("moments", "ridge")}
    meant = [
        name for name, own in known.items() if any(key in own and key not in _other(known, name) for key in said)
    ]
    method = meant[0] if len(meant) == 1 else "moments" if in_disc else "ridge"
    return SuitableMethod(method, {"space": "euclidean"} if method == "moments" and not in_disc else {})


def _ridge_settings(
    path: str | Path, federation: FederationFile, sites: Sequence[SiteData], policy: Policy | None
) -> SuitableMethod:
    """Return how a ridge decides what the file leaves open, as these rows and the policy allow."""
    fitted, why = fit_to_rows(build_method(path, federation), sites, policy, federation.seed)
    assert isinstance(fitted, Ridge)
    features = [_short(one) for one in fitted.maps]
    found = fitted.terms() | {"features": features if len(features) > 1 else features[0]}
    return SuitableMethod("ridge", {name: found[name] for name in USUAL if name not in federation.parameters}, why)


def _short(one: FeatureMap) -> str | dict[str, Any]:
    """Write a feature map as a file has it: its name, and what is not as usual."""
    usual = type(one)()
    own = {
        key.name: getattr(one, key.name)
        for key in fields(one)
        if getattr(one, key.name) != getattr(usual, key.name)
    }
    return {"name": one.name, **own} if own else one.name


def _other(known: Mapping[str, set[str]], name: str) -> set[str]:
    """Return the settings of the other methods."""
    return set().union(*(own for other, own in known.items() if other != name))


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

    Settings that are chosen keep to the ``policy``. Raw tables are prepared where the file names no method.
    """
    given = federation
    federation, raw = with_preparation(federation, sites)
    if federation.method == "ridge" and "features" not in federation.parameters:
        found = _ridge_settings(path, federation, sites, policy)
        if not found.reason:
            return CompleteFile(federation)
        fitted = msgspec.structs.replace(federation, parameters={**federation.parameters, **found.settings})
        return CompleteFile(fitted, f"method ridge with {_listed(found.settings)}: {found.reason}{IN_FILE}")
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
        found = for_shared_names(federation.parameters, in_disc=in_disc)
        if found.method == "ridge":
            named = msgspec.structs.replace(federation, method="ridge", names=names)
            found = _ridge_settings(path, named, sites, policy)
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
    return CompleteFile(settled, _reason(given, settled, said, why, suits, raw))


def with_preparation(federation: FederationFile, sites: Sequence[SiteData]) -> tuple[FederationFile, str]:
    """Return the file with preparation of raw tables, if it names neither that nor a method, and why it is wanted."""
    if federation.method or federation.prepare != "":
        return federation, ""
    words = sorted({name for site in sites for name in site.categories or ()})
    gaps = any(not is_sparse(site.table) and bool(np.isnan(site.table).any()) for site in sites)
    causes = [f"columns hold words ({listed(words)})"] if words else []
    if gaps:
        causes.append("rows have gaps")
    prepare: str | list[str | dict[str, Any]] = "table"
    wide = not causes and all(site.shape[1] >= MANY_COLUMNS for site in sites)
    kinds = {kind_of(TableFacts.of(site)) for site in sites if len(site)} if wide else set()
    if kinds == {"counts"}:
        prepare, causes = "counts", ["tables look like raw counts"]
    elif kinds == {"logarithms"}:
        prepare, causes = list(PRESETS["counts"][1:]), ["tables look like logarithms of counts"]
    if not causes:
        return federation, ""
    return msgspec.structs.replace(federation, prepare=prepare), " and ".join(causes)


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
    before: FederationFile,
    after: FederationFile,
    added: dict[str, Any],
    why: str,
    suits: str = "",
    raw: str = "",
) -> str:
    """Say in one sentence what was chosen and why."""
    if before.method and not why and not added:
        return ""
    shown = ({"prepare": after.prepare} if raw else {}) | added
    chosen = f"method {after.method}" + (f" with {_listed(shown)}" if shown else "")
    if not before.method:
        why = why or f'the file says names = "{after.names}"'
    lacking = "sites have different numbers of classes" if added.get("scale") == "joint" else ""
    causes = "; ".join(one for one in (raw, why, suits, lacking) if one)
    open_keys = [key for key, there in (("method", before.method), ("names", before.names)) if not there]
    keys = " and ".join([*open_keys, *(["prepare"] if raw else [])])
    return f"{chosen}: {causes}" + (f" ({keys} in the file would say otherwise)" if keys else "")


def _listed(settings: Mapping[str, Any]) -> str:
    """Write settings as a file has them."""
    return ", ".join(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in settings.items())
