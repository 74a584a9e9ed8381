"""Everything that is wrong with a federation file and its sites' tables, found without stopping at the first fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from fedgeom.data.alignment import shared_columns, without_columns
from fedgeom.data.sites import SiteData
from fedgeom.data.tables import TextColumnsError
from fedgeom.data.validation import Collector, Finding, Report, fault
from fedgeom.deploy.federation_file import (
    DESCRIBE,
    FederationFile,
    SiteEntry,
    build_method,
    build_policy,
    read_entry,
    read_federation,
    read_sites,
    site_names,
)
from fedgeom.deploy.method_selection import choose
from fedgeom.engines.check import CheckedSites, check_aligned
from fedgeom.errors import InputError
from fedgeom.federation.method import Method
from fedgeom.federation.policy import Policy

T = TypeVar("T")


def attempt(collector: Collector, make: Callable[[], T]) -> T | None:
    """Return what is made, or None after a fault, whatever it is: a damaged file can make a reader stumble anywhere."""
    try:
        with collector.take():
            return make()
    except MemoryError as error:
        collector.found.append(_unread(collector.site, f"the table does not fit into memory ({error})"))
    except Exception as error:
        collector.found.append(_unread(collector.site, f"it cannot be read: {type(error).__name__}: {error}"))
    return None


def _unread(site: str, what: str) -> Finding:
    return fault(what, "look at the file, or make it smaller: fewer columns or rows", site=site, topic="file")


def read_numbers(collector: Collector, read: Callable[[list[str] | None], T]) -> tuple[T | None, tuple[str, ...]]:
    """Read a table, and where columns hold text, which is told, the others; return it and the columns left out.

    ``read`` takes the columns to read; None: those that were asked for.
    """
    texts: list[TextColumnsError] = []

    def first() -> T:
        try:
            return read(None)
        except TextColumnsError as error:
            texts.append(error)
            raise

    found = attempt(collector, first)
    if not texts:
        return found, ()
    others = list(texts[0].numbers)
    return (attempt(collector, lambda: read(others)) if others else None), texts[0].words


S = TypeVar("S", FederationFile, SiteEntry)


@dataclass(frozen=True)
class CheckedFederation:
    """A federation file as far as it could be read, and what was found."""

    report: Report
    plan: FederationFile | None = None
    method: Method | None = None
    policy: Policy | None = None
    looked: CheckedSites | None = None
    """The tables that could be read, labels as the method reads them, and what was found in these; None without any."""
    chosen: str = ""
    """What was chosen that the file leaves open, and why (`choose`)."""

    @property
    def sites(self) -> list[SiteData]:
        """The tables that could be read, columns in one order where they are the same."""
        return [] if self.looked is None else self.looked.sites


def check_federation(
    path: str | Path,
    *,
    seed: int | None = None,
    policy: str = "strict",
    coerce: bool = False,
    describing: Mapping[str, Any] | None = None,
) -> CheckedFederation:
    """Read a federation file and all its sites, and look at everything that a run needs; nothing is raised.

    ``policy`` says what the sites' policy is where the file is silent: "strict", as real sites have it, or "relaxed".
    ``coerce`` is as in the file: cells that are no numbers are gaps. ``describing``: the settings of `Describe`, which
    then takes the place of the file's method.
    """
    collector = Collector()
    given = attempt(collector, lambda: read_federation(path, coerce=coerce))
    if given is None:
        return CheckedFederation(Report.of("", (), collector.found))
    if describing is not None:
        given = as_description(given, describing)
    named = attempt(collector, lambda: build_method(path, given)) if given.method else None
    rules = attempt(collector, lambda: build_policy(path, given, policy))
    tables = read_all(path, given, collector)
    if given.shared_columns:
        tables = attempt(collector, lambda: shared_columns(tables)) or tables
    plan, method, chosen = _settled(path, given, named, tables, collector, rules)
    if method is not None:
        tables = [method.normalise_labels(site) for site in tables]
    findings = list(collector.found)
    if not tables:
        return CheckedFederation(Report.of(plan.method, (), findings), plan, method, rules)
    looked = check_aligned(method, tables, rules, seed=plan.seed if seed is None else seed)
    unread = bool(findings)
    # With a file missing, what follows from the number of sites would be false.
    found = [
        one
        for one in looked.report.findings
        if not (unread and one.topic == "policy" and "given; sums" in one.what)
    ]
    whole = Report.of(plan.method, looked.report.sites, [*findings, *found])
    return CheckedFederation(whole, plan, method, rules, looked, chosen)


def as_description(plan: FederationFile, settings: Mapping[str, Any]) -> FederationFile:
    """Return the file with a description of its tables in place of its method; own label names are not compared."""
    own = {"by_class": False} if plan.names == "own" else {}
    own |= {name: plan.parameters[name] for name in ("classes",) if name in plan.parameters}
    return msgspec.structs.replace(
        plan, method=DESCRIBE, names=None, prepare="", holdout=0.0, holdout_by="", parameters={**own, **settings}
    )


def _settled(
    path: str | Path,
    plan: FederationFile,
    named: Method | None,
    tables: list[SiteData],
    collector: Collector,
    policy: Policy | None,
) -> tuple[FederationFile, Method | None, str]:
    """Return the file with what it leaves open chosen by the tables, its method, and why it is that."""
    if not tables or (plan.method and named is None):  # there is nothing to choose by, or the file is at fault
        return plan, named, ""
    chosen = attempt(collector, lambda: choose(path, plan, tables, policy))
    if chosen is None or not chosen.reason:
        return plan, named, ""
    return chosen.federation, attempt(collector, lambda: build_method(path, chosen.federation)), chosen.reason


def read_all(path: str | Path, plan: FederationFile, collector: Collector) -> list[SiteData]:
    """Read every site's file; what cannot be read is told to the collector, and the rest is read all the same."""
    if plan.sites_from or not plan.sites:  # one file is read or not, for all sites
        whole, _ = read_numbers(
            collector, lambda some: read_sites(path, plan if some is None else _with(plan, some))
        )
        return whole or []
    names = site_names(plan)
    tables = list[SiteData]()
    texts = set[str]()
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        what = f"{path}: site names must differ; given more than once: {', '.join(twice)}"
        collector.found.append(fault(what, 'give each [[sites]] block a name = "…" of its own', topic="file"))
    for name, entry in zip(names, plan.sites, strict=True):
        mine = Collector(name)

        def read(some: list[str] | None, entry: SiteEntry = entry) -> SiteData:
            return read_entry(path, plan, entry if some is None else _with(entry, some))

        site, words = read_numbers(mine, read)
        texts.update(words)
        collector.found += mine.found
        if site is not None and site.name not in {one.name for one in tables}:
            tables.append(site)
    return without_columns(tables, texts)  # what is text at one site is told; that others have it is no difference


def _with(what: S, columns: list[str]) -> S:
    return msgspec.structs.replace(what, columns=columns)


def stop_if_unready(checked: CheckedFederation) -> tuple[FederationFile, Method, CheckedSites]:
    """Return what a run needs; raise one `InputError` with all faults where it is not ready."""
    checked.report.raise_errors()
    if (
        checked.plan is None or checked.method is None or checked.looked is None
    ):  # each has an error, so that this is not reached
        raise InputError("the federation file could not be read")
    return checked.plan, checked.method, checked.looked
