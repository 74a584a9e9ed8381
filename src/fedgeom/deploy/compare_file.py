"""Which methods a federation file wants compared, and with which settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedgeom.data.sites import SiteData
from fedgeom.deploy.federation_file import OWN_KEYS, FederationFile, only_known, prepare_of
from fedgeom.errors import FedgeomError, InputError
from fedgeom.federation.holdout import Holdout
from fedgeom.federation.method import METHODS, Method
from fedgeom.federation.plain_preparation import fit_plain
from fedgeom.methods.catalogue import method_class
from fedgeom.registry import did_you_mean

DEFAULT_SHARE = 0.25
"""The share of rows kept aside where the file does not say."""


@dataclass(frozen=True)
class Comparing:
    """What is to be compared."""

    methods: dict[str, Method]
    failed: dict[str, str] = field(default_factory=dict)
    """Methods that cannot be run, and why."""


def holdout_of(federation: FederationFile) -> Holdout:
    """Return which rows are kept aside."""
    return Holdout(federation.holdout or DEFAULT_SHARE, grouped=bool(federation.holdout_by))


def methods_to_compare(
    path: str | Path, federation: FederationFile, wanted: str, sites: Sequence[SiteData]
) -> Comparing:
    """Return the methods that ``wanted`` names, divided by commas, or all.

    Each has what its tables ask for (`Method.suggested`), what of ``[parameters]`` it knows and allows, and what its
    own block, ``[compare.NAME]``, says.
    """
    names = list(METHODS) if wanted == "all" else [name.strip() for name in wanted.split(",") if name.strip()]
    for name in [*names, *federation.compare]:
        if name not in METHODS:
            hint = did_you_mean(name, METHODS)
            raise InputError(f"there is no method {name!r}; there are: {METHODS}{'.' if hint else ''}{hint}")
    if not names:
        raise InputError('no methods are named; wanted --methods all, or names such as "moments,hulls,fedavg"')
    prepared = prepare_of(path, federation)
    seen = as_seen(prepared, sites)
    methods: dict[str, Method] = {}
    failed: dict[str, str] = {}
    known: set[str] = set()
    for name in dict.fromkeys(names):
        try:
            cls = method_class(name)
        except (FedgeomError, ImportError) as error:  # an extra that is not installed
            failed[name] = str(error)
            continue
        settings = [one.name for one in dataclasses.fields(cls) if one.name not in OWN_KEYS]
        known |= set(settings)
        only_known(path, f"[compare.{name}]", federation.compare.get(name, {}), settings)
        try:
            own = federation.compare.get(name, {})
            methods[name] = cls.from_terms(fitting_settings(cls, federation, seen, own) | prepared)
        except InputError as error:
            failed[name] = str(error)
    only_known(path, "[parameters]", federation.parameters, sorted(known))
    return Comparing(methods, failed)


def as_seen(prepared: Mapping[str, Any], sites: Sequence[SiteData]) -> Sequence[SiteData]:
    """Return the tables as methods will see them."""
    if not prepared:
        return sites
    found = fit_plain(prepared["prepare"], sites)
    return [found.transform(site) for site in sites]


def fitting_settings(
    cls: type[Method], federation: FederationFile, sites: Sequence[SiteData], own: Mapping[str, Any]
) -> dict[str, Any]:
    """Return one method's settings: its own, what of ``[parameters]`` fits it, and what its tables ask for.

    What it has of its own comes first, then the file's, then the tables'. A setting that the method named in the file
    does not allow is an error there and passed over in the others.
    """
    settings = [one.name for one in dataclasses.fields(cls) if one.name not in OWN_KEYS]
    given = {key: value for key, value in federation.parameters.items() if key in settings}
    fitting = given if cls.name == federation.method else {k: v for k, v in given.items() if _fits(cls, k, v)}
    said = fitting | dict(own)
    return _suggested(cls, federation, sites, said) | said


def _suggested(
    cls: type[Method], federation: FederationFile, sites: Sequence[SiteData], own: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what the tables ask for, and what the file says of names where the method can match them."""
    found = cls.suggested(sites)
    if cls.matches_names and federation.names:
        found["names"] = federation.names
    if "n_classes" in own:  # whoever says how many classes there are has them matched
        found.pop("names", None)
    return found


def _fits(cls: type[Method], name: str, value: Any) -> bool:
    try:
        cls.from_terms({name: value})
    except InputError:
        return False
    return True
