"""Whether a site's own table is ready, by itself or for a job: looked at by its steward, and told to nobody else."""

from __future__ import annotations

from pathlib import Path

from fedgeom.data.findings import Collector, fault, findings_of
from fedgeom.data.readiness import Report
from fedgeom.data.sites import SiteData
from fedgeom.deploy.answering import read_data
from fedgeom.deploy.budgets import BudgetStore
from fedgeom.deploy.federation_file import FederationFile, build_method, read_federation, site_names
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.deploy.tolerant_reading import read_numbers
from fedgeom.engines.check import check_own
from fedgeom.errors import FedgeomError, InputError
from fedgeom.federation.approval import JobTerms
from fedgeom.federation.method import METHODS, Method
from fedgeom.federation.privacy import DP, Spent
from fedgeom.methods.catalogue import method_class


def table_report(folder: SiteFolder) -> Report:
    """Look at a site's table without any job: gaps, constants, classes, what kind of numbers it holds."""
    return _report(folder, None, 1)


def file_report(folder: SiteFolder, federation: Path) -> Report:
    """Look at a site's table against a federation file, as the site does when it joins."""
    try:
        plan = read_federation(federation)
        method = build_method(federation, plan)
    except InputError as error:
        return Report.of("", (), findings_of(error, topic="file"))
    report = _report(folder, method, usual_number(folder, plan), plan.seed)
    refusals = [fault(why, site=folder.config().name, topic="policy") for why in file_refusals(folder, plan)]
    return Report.of(report.method, report.sites, [*refusals, *report.findings])


def terms_report(folder: SiteFolder, terms: JobTerms) -> Report:
    """Look at a site's table against the terms of a job that was announced."""
    try:
        method = method_class(terms.method).from_terms(terms.settings)
    except InputError as error:
        return Report.of(terms.method, (), findings_of(error, topic="file"))
    return _report(folder, method, len(terms.participants), terms.seed)


def leaves_with(terms: JobTerms) -> tuple[str, ...]:
    """Return what would leave a site with a job's terms, as its ledger will say it; of an unknown method, nothing."""
    if terms.method not in METHODS:
        return ()
    known = method_class(terms.method)
    try:
        return known.from_terms(terms.settings).would_leave()
    except InputError:  # a site refuses such terms; all that the method may ask for is said
        return known.leaves()


def own_report(folder: SiteFolder, method: Method, own: SiteData, sites: int, seed: int) -> Report:
    """Look at a table that was read already."""
    return check_own(method, own, folder.config().policy, sites=sites, seed=seed)


def _report(folder: SiteFolder, method: Method | None, sites: int, seed: int = 0) -> Report:
    config = folder.config()
    collector = Collector(config.name)
    text = method is not None and bool(method.preparing)
    own, _ = read_numbers(collector, lambda columns: read_data(folder, columns, text=text))
    if own is None:
        return Report.of("" if method is None else method.name, (), collector.found)
    report = check_own(method, own, config.policy, sites=sites, seed=seed)
    return Report.of(report.method, report.sites, [*collector.found, *report.findings])


def file_refusals(folder: SiteFolder, plan: FederationFile) -> list[str]:
    """Return why the site, as site.toml is now, would refuse to take part."""
    config = folder.config()
    reasons = []
    if config.policy.methods and plan.method not in config.policy.methods:
        reasons.append(f"its policy allows the methods {', '.join(config.policy.methods)}, not {plan.method}")
    if config.policy.runs_per_day < 1:
        reasons.append("its policy allows no runs (runs_per_day = 0)")
    named = site_names(plan)
    if named and config.name not in named:
        reasons.append(f"the federation file does not name it; it names {', '.join(named)}")
    privacy = plan.parameters.get("privacy")
    if privacy is None and config.policy.require_privacy:
        reasons.append("its policy says require_privacy = true, and the federation file has no privacy")
    if privacy is not None:
        try:
            spent = Spent.by(DP.read(privacy, "privacy"))
            BudgetStore(folder.path, folder.identity(), config.policy).check(b"", spent)
        except FedgeomError as error:
            reasons.append(str(error))
    return reasons


def usual_number(folder: SiteFolder, plan: FederationFile) -> int:
    """Guess how many sites there will be: those of the file, else those of the roster."""
    config = folder.config()
    pinned = len(folder.roster()) if (folder.path / config.roster).is_file() else 0
    return max(len(plan.sites) or pinned, config.policy.min_cohort, 2)
