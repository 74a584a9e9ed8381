"""The federation file: a method, its parameters, and the sites' files. See docs/federation-file.md."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from fedgeom.data.cells import ReadOptions, reading_of
from fedgeom.data.readers import read_site, read_sites_from
from fedgeom.data.sites import SiteData
from fedgeom.deploy.config import convert
from fedgeom.errors import InputError
from fedgeom.federation.method import METHODS, Method, methods_that_match, no_bound
from fedgeom.federation.policy import MOST_PURPOSE, JobTerms, Policy, StrictPolicy, job_terms
from fedgeom.federation.settings import is_called_now, read_value
from fedgeom.federation.steps import Step, check_order, read_steps
from fedgeom.methods.catalogue import method_class
from fedgeom.registry import did_you_mean

T = TypeVar("T")
OWN_KEYS = ("holdout", "prepare")
"""Settings of every method that stand at the top of the file, not among the parameters."""
Share = Annotated[float, msgspec.Meta(ge=0, le=0.5)]

MOST_APPROVAL_WAIT = 7 * 24 * 3600.0
"""The longest time, in seconds, that a job waits for the sites' stewards."""


class SiteEntry(ReadOptions, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One ``[[sites]]`` block; what it says of how its file is read comes before what the top says."""

    file: str = ""
    name: str = ""
    label: str = ""
    columns: str | list[str] | None = None
    drop_unlabelled: bool = False
    group: str = ""
    index: str = ""


READING = "reading.json"
"""In a run's folder: how the study's file had tables read, for rows that are predicted later."""
DESCRIBE = "describe"
"""The method that describes tables (`fedgeom.Describe`); it takes text as it is."""
CURVES = "kaplan-meier"
"""Methods that prepare raw tables by themselves."""


class FederationFile(ReadOptions, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The whole file; ``label``, ``columns`` and how files are read hold for every site that does not say otherwise."""

    sites: list[SiteEntry] = []
    method: str = ""
    """If left out, `fedgeom run` chooses one that fits (`deploy.method_selection`); submitted jobs must name it."""
    names: Literal["shared", "own"] | None = None
    """Whether one label name means one thing everywhere; None: the method's default, or what `fedgeom run` sees."""
    seed: int = 0
    purpose: Annotated[str, msgspec.Meta(max_length=MOST_PURPOSE)] = ""
    """What the job is for, in words that stewards read before they approve it; a part of the terms."""
    holdout: Share = 0.0
    """The share of its rows that each site keeps aside; the model is tested there (`Holdout`)."""
    holdout_by: str = ""
    """The column whose rows stay together, such as "patient", for every site that names no ``group``; in a submitted
    job sites name theirs themselves."""
    label: str = ""
    index: str = ""
    """The column with the names of the rows, such as "patient_id"; it is no feature."""
    columns: str | list[str] | None = None
    file: str = ""
    """One file with all sites; ``sites_from`` names the column that says to which a row belongs."""
    sites_from: str = ""
    drop_unlabelled: bool = False
    prepare: str | list[str | dict[str, Any]] = ""
    """How raw rows become features: "counts", "table", or a list of steps, by name or as tables with a name and
    settings (`fedgeom.preparation`); with it columns of text are read as categories."""
    treatment: str = ""
    """The column whose effect is told: the setting ``treatment`` of a regression and of proportional hazards."""
    shared_columns: bool = False
    """Keep the columns that all sites have, instead of refusing sites whose columns differ."""
    parameters: dict[str, Any] = {}
    policy: dict[str, Any] = {}
    compare: dict[str, dict[str, Any]] = {}
    """`fedgeom compare` only: settings of single methods, by their names."""
    sweep: dict[str, Any] = {}
    """`fedgeom sweep` only: rows, and the settings to try for each (`fedgeom.deploy.study_file`)."""
    writers: list[str] = []
    """What else writes the coordinator's figures down, in the run's folder: "tensorboard", "mlflow". No part of the
    terms: it is about what the coordinator knows anyway."""
    table: Annotated[str, msgspec.Meta(max_length=100)] = ""
    """Submitted jobs only: which of a site's tables is meant, by the name in its site.toml; "": the usual one."""
    min_sites: Annotated[int, msgspec.Meta(ge=2)] = 2
    """Submitted jobs only: the fewest sites that make a run."""
    wait: Annotated[float, msgspec.Meta(ge=0)] = 60.0
    """Submitted jobs only: how many seconds sites may come late."""
    deadline: Annotated[float, msgspec.Meta(gt=0)] = 600.0
    """Submitted jobs only: how many seconds a site may take for an answer."""
    approval_wait: Annotated[float, msgspec.Meta(ge=0, le=MOST_APPROVAL_WAIT)] = MOST_APPROVAL_WAIT
    """Submitted jobs only: how many seconds the stewards may take to approve the job; sites forget a run later."""

    @property
    def keeps_text(self) -> bool:
        """Whether columns of text are read as categories: also where preparation is still to be chosen."""
        return bool(self.prepare) or not self.method or self.method in (DESCRIBE, CURVES)


def read_federation(path: str | Path, *, coerce: bool = False) -> FederationFile:
    """Read and check a federation file, without touching the sites' data; ``coerce`` adds what that key says."""
    file = Path(path)
    if not file.is_file():
        raise InputError(f"{file} does not exist; wanted a federation file (docs/federation-file.md)")
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{file} is not valid TOML: {error}") from error
    only_known(file, "the file", content, _keys(FederationFile))
    blocks = content.get("sites", [])
    for at, block in enumerate(blocks if isinstance(blocks, list) else []):
        if isinstance(block, dict):
            only_known(file, f"[[sites]] number {at + 1}", block, _keys(SiteEntry))
    return convert_part(file, "the file", content | ({"coerce": True} if coerce else {}), FederationFile)


def _keys(part: type[ReadOptions]) -> list[str]:
    """Return the keys of a part of the file: its own, then those that say how files are read."""
    shared = ReadOptions.__struct_fields__
    return [*(key for key in part.__struct_fields__ if key not in shared), *shared]


def build_method(path: str | Path, federation: FederationFile) -> Method:
    """Return the method with the file's parameters."""
    if not federation.method:
        raise InputError(
            f"{path}: no method is named, and none is chosen without a look at the data; say method = …, for example "
            f'"moments" where one label name means one thing everywhere, or, where sites have names of their own, one '
            f"that matches names: {', '.join(methods_that_match())}"
        )
    if federation.method not in METHODS:
        hint = did_you_mean(federation.method, METHODS)
        raise InputError(
            f"{path}: there is no method {federation.method!r}; there are: {METHODS}{'.' if hint else ''}{hint}"
        )
    cls = method_class(federation.method)
    parameters = _with_names(path, federation, cls)
    settings = [field.name for field in dataclasses.fields(cls) if field.name not in OWN_KEYS]
    if federation.treatment:
        goes = next((name for name in ("treatment", "by") if name in settings), None)
        if goes is None or goes in parameters:
            raise InputError(
                f'{path}: treatment = "{federation.treatment}" is given, but {federation.method} '
                + ("has it in [parameters], too; say one" if goes else "has no use for it; leave it out")
            )
        parameters = parameters | {goes: federation.treatment}
    if "privacy" in parameters and "privacy" not in settings:
        raise InputError(f"{path}: [parameters] {no_bound(cls)}")
    only_known(path, "[parameters]", parameters, settings)
    if federation.holdout_by and not federation.holdout:
        raise InputError(
            f"{path}: holdout_by is given, but no rows are kept aside; add holdout = 0.25, or another share"
        )
    grouped = bool(federation.holdout_by)
    tested = {"holdout": {"share": federation.holdout, "grouped": grouped}} if federation.holdout else {}
    prepared = prepare_of(path, federation)
    try:
        return cls.from_terms(parameters | tested | prepared)
    except InputError as error:
        raise InputError(f"{path}: [parameters] {error}") from error


def prepare_of(path: str | Path, federation: FederationFile) -> dict[str, Any]:
    """Return the setting that prepares raw rows, where the file has one; refuse what is no step."""
    if not federation.prepare:
        return {}
    try:
        steps = read_value("prepare", read_steps(federation.prepare), tuple[Step, ...])
        check_order(steps)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    return {"prepare": steps}


def _with_names(path: str | Path, federation: FederationFile, cls: type[Method]) -> dict[str, Any]:
    """Return the parameters with what the file says of names, if the method can do that."""
    names = federation.names
    parameters = dict(federation.parameters)
    if names is not None and cls.matches_names:
        if parameters.get("names", names) != names:
            raise InputError(
                f'{path}: names = "{names}" at the top, but names = "{parameters["names"]}" in [parameters]; say one'
            )
        return parameters | {"names": names}
    if not cls.matches_names and parameters.get("names") in ("shared", "own"):  # as if it stood at the top
        names = parameters.pop("names")
    if names == "own" and not cls.matches_names:
        raise InputError(
            f'{path}: names = "own", but {federation.method} goes by shared names; the methods that match names are: '
            f'{", ".join(methods_that_match())}. Rename the labels alike and say names = "shared", or take one of these'
        )
    return parameters


def terms_of(path: str | Path, federation: FederationFile, roster: Iterable[str]) -> JobTerms:
    """Return the terms of a federation file: what a steward approves, and what `fedgeom submit` will ask for.

    Where the file names no sites, all in the roster may take part.
    """
    method = build_method(path, federation)
    names = site_names(federation) or list(roster)
    return job_terms(
        method.name, method.terms(), federation.seed, names, purpose=federation.purpose, table=federation.table
    )


def site_names(federation: FederationFile) -> list[str]:
    """Return the names of the sites that a file names, in its order."""
    return [site.name or Path(site.file).stem for site in federation.sites]


POLICIES: dict[str, type[Policy]] = {"strict": StrictPolicy, "relaxed": Policy}
"""What holds where [policy] says nothing: what `fedgeom site init` writes, or what simulations need."""


def build_policy(path: str | Path, federation: FederationFile, base: str = "strict") -> Policy:
    """Return the policy that holds for every site: ``base``, and what the file says otherwise."""
    only_known(path, "[policy]", federation.policy, Policy.__struct_fields__)
    if base not in POLICIES:
        raise InputError(f"policy {base!r} given; wanted one of: {', '.join(POLICIES)}")
    return convert_part(path, "[policy]", federation.policy, POLICIES[base])


def policy_line(federation: FederationFile, base: str) -> str:
    """Say under which policy the sites of a federation file are simulated."""
    changed = f", and [policy] of the file ({', '.join(federation.policy)})" if federation.policy else ""
    if base == "strict":
        return (
            f"Policy: as fedgeom site init writes it{changed}; --policy relaxed lifts its limits in simulations."
        )
    return f"Policy: relaxed, for simulations{changed}; real sites refuse more (--policy strict)."


def kept_reading(federation: FederationFile) -> dict[str, Any]:
    """Return what a file says of how tables are read, of all sites and of each that says something of its own."""
    names = site_names(federation)
    own = {name: _said(reading_of(federation, entry)) for name, entry in zip(names, federation.sites, strict=True)}
    whole = _said(reading_of(federation))
    return {"all": whole, "sites": {name: one for name, one in own.items() if one != whole}}


def _said(reading: ReadOptions) -> dict[str, Any]:
    usual = ReadOptions()
    return {
        name: getattr(reading, name)
        for name in ReadOptions.__struct_fields__
        if getattr(reading, name) != getattr(usual, name)
    }


def read_sites(path: str | Path, federation: FederationFile) -> list[SiteData]:
    """Read the sites' files, or the one that has them all; paths are relative to the federation file."""
    check_sources(path, federation)
    if not federation.sites_from:
        return [read_entry(path, federation, entry) for entry in federation.sites]
    return read_sites_from(
        Path(path).parent / federation.file,
        by=federation.sites_from,
        label=_label(path, federation, federation.label, federation.file),
        columns=federation.columns,
        drop_unlabelled=federation.drop_unlabelled,
        group=federation.holdout_by or None,
        index=federation.index or None,
        text=federation.keeps_text,
        reading=reading_of(federation),
    )


def read_entry(path: str | Path, federation: FederationFile, entry: SiteEntry) -> SiteData:
    """Read the file of one ``[[sites]]`` block."""
    if not entry.file:
        raise InputError(f"{path}: site {entry.name!r} has no file; to run in this process, each needs one")
    return read_site(
        Path(path).parent / entry.file,
        label=_label(path, federation, entry.label or federation.label, entry.file, entry),
        name=entry.name or None,
        columns=entry.columns if entry.columns is not None else federation.columns,
        drop_unlabelled=entry.drop_unlabelled or federation.drop_unlabelled,
        group=entry.group or federation.holdout_by or None,
        index=entry.index or federation.index or None,
        text=federation.keeps_text,
        reading=reading_of(federation, entry),
    )


def _label(
    path: str | Path, federation: FederationFile, label: str, file: str, entry: SiteEntry | None = None
) -> str:
    if not label and not (federation.outcome or federation.time or (entry and (entry.outcome or entry.time))):
        where = (
            "at the top of the file" if federation.sites_from else "to its [[sites]] block, or at the top for all"
        )
        raise InputError(f'{path}: no label column is named for {file!r}; add label = "…" {where}')
    return label


def check_sources(path: str | Path, federation: FederationFile) -> None:
    """Refuse a file that says nothing, or two things, about where the sites are."""
    one = federation.sites_from
    many = federation.sites
    if one and many:
        raise InputError(
            f'{path}: sites_from = {one!r} and [[sites]] are both there; wanted one file for all sites, file = "…" '
            "with sites_from, or one [[sites]] block per site"
        )
    if one and not federation.file:
        raise InputError(f'{path}: sites_from = {one!r} needs the file with all sites, file = "…" at the top')
    if federation.file and not one:
        raise InputError(
            f'{path}: file = {federation.file!r} needs sites_from = "…", the column that says to which site a row '
            "belongs; sites with files of their own are named in [[sites]] blocks"
        )
    if not one and not many:
        raise InputError(
            f"{path}: no [[sites]] are named; to run in this process, every site needs a file (or all of them one, "
            "with file and sites_from)"
        )


def only_known(file: str | Path, where: str, given: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raise `InputError` for a key that a part of a file cannot have, with the nearest that it can."""
    names = list(known)
    for key in given:
        if key not in names:
            now = is_called_now(key, names)
            why = now or f"known are {', '.join(names)}.{did_you_mean(key, names)}"
            raise InputError(f"{file}: {where} has the unknown key {key!r}; {why}")


def convert_part(file: str | Path, where: str, content: Any, kind: type[T]) -> T:
    """Return a part of a file as a struct, with errors that name the file and the part."""
    try:
        return convert(content, kind)
    except InputError as error:
        raise InputError(f"{file}: {where} does not fit: {error}") from error
