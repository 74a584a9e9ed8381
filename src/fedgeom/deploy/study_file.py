"""Which methods a federation file wants compared or swept, and with which settings.

`fedgeom compare` names its methods, each a row with one setting; `fedgeom sweep` reads the rows of ``[sweep]``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from fedgeom.data.sites import SiteData
from fedgeom.deploy.federation_file import (
    OWN_KEYS,
    FederationFile,
    build_method,
    build_policy,
    convert_part,
    only_known,
    prepare_of,
)
from fedgeom.deploy.method_selection import choose, with_preparation
from fedgeom.engines.benchmark import check_effort, combinations, drawn, with_rivals
from fedgeom.engines.check import fit_to_rows
from fedgeom.errors import FedgeomError, InputError
from fedgeom.evaluation.benchmark import AS_RUN, JUDGED
from fedgeom.federation.holdout import Holdout
from fedgeom.federation.method import METHODS, Method
from fedgeom.federation.preparation import fit_plain
from fedgeom.methods.catalogue import method_class
from fedgeom.registry import did_you_mean

DEFAULT_SHARE = 0.25
"""The share of rows kept aside where the file does not say."""
Values = Annotated[list[Any], msgspec.Meta(min_length=1)]


class RowBlock(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One ``[sweep.rows.NAME]`` block."""

    method: str = ""
    """If left out, the row's name."""
    parameters: dict[str, Any] = {}
    """What all of the row's settings have in common."""
    grid: dict[str, Values] = {}
    """Added to the grid of all rows; where both name a setting, the row's values are taken."""
    settings: list[dict[str, Any]] = []
    """Instead of the list of all rows."""


class SweepBlock(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The ``[sweep]`` block."""

    seeds: Annotated[int, msgspec.Meta(ge=1)] | Annotated[list[int], msgspec.Meta(min_length=1)] = 3
    """How many, from the file's seed on, or which."""
    methods: list[str] = []
    """Rows that are methods with nothing of their own."""
    rows: dict[str, RowBlock] = {}
    grid: dict[str, Values] = {}
    """For each setting its values; every combination is tried."""
    settings: list[dict[str, Any]] = []
    """Settings written out, each tried with every combination of the grid."""
    tries: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """How many of its settings each row tries, drawn at random where there are more; None: all."""
    by: Literal["accuracy", "balanced_accuracy", "macro_f1", "auc"] = JUDGED  # type: ignore[assignment]
    """The figure that settings are chosen by."""
    effort: Literal["equal", "any"] = "equal"
    """"any": rows may try different numbers of settings, and train for different times."""


@dataclass(frozen=True)
class Study:
    """What is to be compared or swept."""

    rows: dict[str, list[Method]]
    settings: dict[str, list[dict[str, Any]]]
    """For each row the settings in which its methods differ."""
    seeds: list[int]
    by: str = JUDGED
    failed: dict[str, str] = field(default_factory=dict)
    """Rows of a comparison that cannot be run, and why."""

    @property
    def runs(self) -> int:
        """How many runs it takes."""
        return len(self.seeds) * sum(len(one) + 1 if len(one) > 1 else 1 for one in self.rows.values())


def holdout_of(federation: FederationFile) -> Holdout:
    """Return which rows are kept aside."""
    return Holdout(federation.holdout or DEFAULT_SHARE, grouped=bool(federation.holdout_by))


def read_comparison(
    path: str | Path, federation: FederationFile, sites: Sequence[SiteData], wanted: str, seeds: int = 1
) -> Study:
    """Return the methods that ``wanted`` names, divided by commas, or all; each has what ``[compare.NAME]`` says.

    What `fedgeom run` would take comes first, with its settings, unless one of the others is the same. A method that
    cannot be run, for want of an extra or for its settings, fails and stops no other.
    """
    names = list(METHODS) if wanted == "all" else [name.strip() for name in wanted.split(",") if name.strip()]
    for name in [*names, *federation.compare]:
        if name not in METHODS:
            hint = did_you_mean(name, METHODS)
            raise InputError(f"there is no method {name!r}; there are: {METHODS}{'.' if hint else ''}{hint}")
    if not names:
        raise InputError('no methods are named; wanted --methods all, or names such as "moments,hulls,fedavg"')
    rows = {name: RowBlock(parameters=federation.compare.get(name, {})) for name in names}
    found = _study(path, federation, sites, SweepBlock(rows=rows, seeds=seeds, effort="any"), "[compare.{}]")
    return _with_choice(path, federation, sites, found)


def _with_choice(path: str | Path, federation: FederationFile, sites: Sequence[SiteData], found: Study) -> Study:
    """Return a comparison with what `fedgeom run` would take."""
    try:
        policy = build_policy(path, federation, "strict")
        settled = choose(path, federation, sites, policy).federation
        tested = build_method(path, settled)
        taken = dataclasses.replace(tested, holdout=None)
    except (FedgeomError, ImportError) as error:
        return dataclasses.replace(found, failed={AS_RUN: str(error)} | found.failed)
    for row in found.rows.values():
        for one in row:
            fitted, _ = fit_to_rows(
                dataclasses.replace(one, holdout=tested.holdout), sites, policy, federation.seed
            )
            if tested.name == fitted.name and tested.terms() == fitted.terms():
                return found
    name = f"{AS_RUN}: {taken.name}"
    nothing: dict[str, list[dict[str, Any]]] = {name: [{}]}
    return dataclasses.replace(found, rows={name: [taken]} | found.rows, settings=nothing | found.settings)


def read_sweep(path: str | Path, federation: FederationFile, sites: Sequence[SiteData]) -> Study:
    """Return the methods that a file's ``[sweep]`` wants tried, row by row; refuse rows of unequal effort."""
    if not federation.sweep:
        raise InputError(
            f'{path}: there is no [sweep]; wanted one with methods = ["fedavg", …] and a grid, as in '
            "docs/evaluation.md"
        )
    block = _read_block(path, federation)
    rows = {name: RowBlock() for name in block.methods} | block.rows
    if not rows and federation.method:
        rows = {federation.method: RowBlock()}
    if not rows:
        raise InputError(f'{path}: [sweep] names no rows; say methods = ["fedavg", …] or add [sweep.rows.NAME]')
    for name, row in rows.items():
        chosen = row.method or name
        if chosen not in METHODS:
            hint = did_you_mean(chosen, METHODS)
            raise InputError(
                f"{path}: row {name!r} of [sweep] is of the method {chosen!r}, which there is none of; say method = … "
                f"in [sweep.rows.{name}]; there are: {METHODS}.{hint}"
            )
    found = _study(
        path, federation, sites, msgspec.structs.replace(block, rows=rows), "[sweep.rows.{}] parameters"
    )
    for name, why in found.failed.items():
        raise InputError(f"{path}: row {name!r} of [sweep]: {why}")
    return found


def _read_block(path: str | Path, federation: FederationFile) -> SweepBlock:
    """Read the block, with errors that name the nearest key."""
    content = federation.sweep
    only_known(path, "[sweep]", content, SweepBlock.__struct_fields__)
    for name, row in content.get("rows", {}).items():
        if isinstance(row, dict):
            only_known(path, f"[sweep.rows.{name}]", row, RowBlock.__struct_fields__)
    return convert_part(path, "[sweep]", content, SweepBlock)


def _study(
    path: str | Path, federation: FederationFile, sites: Sequence[SiteData], block: SweepBlock, where: str
) -> Study:
    """Return the methods of all rows; ``where`` is what a row's settings are called in errors.

    Each has what its tables ask for (`Method.suggested`), what of ``[parameters]`` it knows and allows, what all of its
    row have in common, and what its setting says; the later comes first.
    """
    federation, _ = with_preparation(federation, sites)
    prepared = prepare_of(path, federation)
    seen = as_seen(prepared, sites)
    rows: dict[str, list[Method]] = {}
    settings: dict[str, list[dict[str, Any]]] = {}
    failed: dict[str, str] = {}
    known: set[str] = set()
    for name, row in block.rows.items():
        try:
            cls = method_class(row.method or name)
        except (FedgeomError, ImportError) as error:  # an extra that is not installed
            failed[name] = str(error)
            continue
        own = [one.name for one in dataclasses.fields(cls) if one.name not in OWN_KEYS]
        known |= set(own)
        only_known(path, where.format(name), row.parameters, own)
        written = row.settings or block.settings or [{}]
        tried = drawn(f"{path}: [sweep]", name, combinations(block.grid | row.grid, written), block.tries)
        for one in tried:
            only_known(path, f"what row {name!r} of [sweep] tries", one, own)
        try:
            terms = [fitting_settings(cls, federation, seen, row.parameters | one) | prepared for one in tried]
            rows[name] = [cls.from_terms(one) for one in terms]
            settings[name] = tried
        except InputError as error:
            failed[name] = str(error)
    only_known(path, "[parameters]", federation.parameters, sorted(known))
    if block.effort == "equal" and not failed:
        check_effort(f"{path}: [sweep]", rows)
    rows, settings = with_rivals(rows, settings)
    first = federation.seed
    seeds = list(range(first, first + block.seeds)) if isinstance(block.seeds, int) else list(block.seeds)
    return Study(rows, settings, seeds, block.by, failed)


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
