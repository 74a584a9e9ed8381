"""Everything that is wrong with a federation file and its sites' tables, found without stopping at the first fault."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from fedgeom.data.alignment import shared_columns
from fedgeom.data.findings import Collector, Finding, fault
from fedgeom.data.readiness import Report
from fedgeom.data.sites import SiteData
from fedgeom.deploy.federation_file import (
    FederationFile,
    build_method,
    build_policy,
    read_entry,
    read_federation,
    read_sites,
    site_names,
)
from fedgeom.engines.check import check_aligned
from fedgeom.errors import InputError
from fedgeom.federation.method import Method
from fedgeom.federation.policy import Policy

T = TypeVar("T")


@dataclass(frozen=True)
class CheckedFederation:
    """A federation file as far as it could be read, and what was found."""

    report: Report
    plan: FederationFile | None = None
    method: Method | None = None
    policy: Policy | None = None
    sites: tuple[SiteData, ...] = ()
    """The tables that could be read, labels as the method reads them, columns in one order where they are the same."""


def check_federation(path: str | Path, *, seed: int | None = None) -> CheckedFederation:
    """Read a federation file and all its sites, and look at everything that a run needs; nothing is raised."""
    collector = Collector()
    plan = _try(collector, lambda: read_federation(path))
    if plan is None:
        return CheckedFederation(Report.of("", (), collector.found))
    method = _try(collector, lambda: build_method(path, plan))
    policy = _try(collector, lambda: build_policy(path, plan))
    tables = read_all(path, plan, collector)
    if plan.shared_columns:
        tables = _try(collector, lambda: shared_columns(tables)) or tables
    if method is not None:
        tables = [method.normalise_labels(site) for site in tables]
    findings = list(collector.found)
    if not tables:
        return CheckedFederation(Report.of(plan.method, (), findings), plan, method, policy)
    report, data = check_aligned(method, tables, policy, seed=plan.seed if seed is None else seed)
    unread = bool(findings)
    # With a file missing, what follows from the number of sites would be false.
    found = [
        one for one in report.findings if not (unread and one.topic == "policy" and "given; sums" in one.what)
    ]
    whole = Report.of(plan.method, report.sites, [*findings, *found])
    return CheckedFederation(whole, plan, method, policy, tuple(data))


def read_all(path: str | Path, plan: FederationFile, collector: Collector) -> list[SiteData]:
    """Read every site's file; what cannot be read is told to the collector, and the others are read all the same."""
    if plan.sites_from or not plan.sites:  # one file is read or not, for all sites
        return _try(collector, lambda: read_sites(path, plan)) or []
    names, tables = site_names(plan), list[SiteData]()
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        what = f"{path}: site names must differ; given more than once: {', '.join(twice)}"
        collector.found.append(fault(what, 'give each [[sites]] block a name = "…" of its own', topic="file"))
    for name, entry in zip(names, plan.sites, strict=True):
        mine = Collector(name)
        site = _try(mine, lambda entry=entry: read_entry(path, plan, entry))  # type: ignore[misc]
        collector.found += mine.found
        if site is not None and site.name not in {one.name for one in tables}:
            tables.append(site)
    return tables


def _try(collector: Collector, make: Callable[[], T]) -> T | None:
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


def stop_if_unready(checked: CheckedFederation) -> tuple[FederationFile, Method, list[SiteData]]:
    """Return what a run needs; raise one `InputError` with all faults where it is not ready."""
    checked.report.raise_errors()
    if checked.plan is None or checked.method is None:  # each has an error, so that this is not reached
        raise InputError("the federation file could not be read")
    return checked.plan, checked.method, list(checked.sites)
