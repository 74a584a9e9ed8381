"""A site's process: checked before it connects, started, followed, and restarted."""

from __future__ import annotations

import os
import shlex
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

from fedgeom.data.sites import SiteData
from fedgeom.data.validation import Collector, Report, fault, findings_of
from fedgeom.deploy.answers import read_data
from fedgeom.deploy.approvals import ApprovalStore
from fedgeom.deploy.budgets import BudgetStore
from fedgeom.deploy.federation_check import read_numbers
from fedgeom.deploy.federation_file import FederationFile, build_method, read_federation, site_names
from fedgeom.deploy.journal import Journal, LocalEntry
from fedgeom.deploy.nats_site import LINK, LinkHints, link_command
from fedgeom.deploy.programs import memory_can_be_limited
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.engines.check import check_own
from fedgeom.engines.nats.link import Endpoint, need_nats
from fedgeom.engines.processes import Say, ending_politely, logged, running
from fedgeom.errors import FedgeomError, InputError, printable
from fedgeom.federation.messages import VERSION
from fedgeom.federation.method import METHODS, Method
from fedgeom.federation.policy import JobTerms
from fedgeom.federation.privacy import DP, Spent
from fedgeom.methods.catalogue import method_class
from fedgeom.protocols.plan import leaves
from fedgeom.storage import locked


def check_site(folder: SiteFolder, say: Say) -> None:
    """Look at everything that can be wrong at a site before it connects."""
    config = folder.config()
    folder.identity()
    data = read_data(folder, text=True)
    say(f"{config.name}: {len(data)} rows, {data.shape[1]} columns, {len(data.classes)} classes")
    for name in config.tables:
        other = read_data(folder, text=True, table=name)
        say(f"table {name}: {len(other)} rows, {other.shape[1]} columns, {len(other.classes)} classes")
    # Columns of text are a fault here, and none in a job that prepares the table: whether it does, the terms say.
    report = table_report(folder) if data.categories else check_own(None, data, config.policy)
    errors = len(report.errors)
    warnings = len(report.warnings)
    if errors or warnings:
        say(
            f"the table has {errors} fault{'' if errors == 1 else 's'} that no method takes unprepared, and {warnings} "
            f"odd thing{'' if warnings == 1 else 's'}: fedgeom site check --folder {shlex.quote(str(folder.path))}"
        )
    if config.policy.max_memory_mb and not memory_can_be_limited():
        say("max_memory_mb is not kept to on this system: memory is limited on Linux only")
    say(approval_line(folder))
    roster = folder.roster()
    if roster.get(config.name) != folder.identity().public:
        raise InputError(
            f"{folder.path / config.roster} does not hold {config.name!r} with this site's identity; send "
            f"{config.name}.pub to the coordinator and ask for the new roster.json"
        )
    if roster.classical:
        say(f"not post-quantum: {', '.join(roster.classical)} sign with Ed25519 alone, as the roster has them")
    if config.insecure:
        say("INSECURE: no TLS; on this machine only, for trying out")
        return
    certificate = folder.path / config.certificate
    if not certificate.is_file():
        raise InputError(f"{certificate} is missing; ask the coordinator for ca.pem")
    check_certificate(folder.endpoint())


def approval_line(folder: SiteFolder) -> str:
    """Say which jobs the site answers, and how many wait for its steward; a damaged file of approvals is named."""
    rule = folder.config().approve
    file = ApprovalStore(folder.path).read()
    if rule != "ask":
        return f'site.toml says approve = "{rule}": such jobs are answered without asking you'
    waiting = f"; {len(file.waiting)} wait (fedgeom site approvals)" if file.waiting else ""
    dropped = f"; {file.dropped_line()}" if file.dropped else ""
    return f"jobs are answered once you have approved them (fedgeom site approve FILE){waiting}{dropped}"


def check_certificate(endpoint: Endpoint) -> None:
    """Shake hands once, so that a foreign certificate is named as such; nobody there is no error."""
    for server in endpoint.servers:
        if endpoint.proxy(server.host):
            continue  # told when the site connects
        try:
            context = ssl.create_default_context(cafile=str(endpoint.certificate))
            with (
                socket.create_connection((server.host, server.port), 5) as raw,
                context.wrap_socket(raw, server_hostname=server.host),
            ):
                pass
        except ssl.SSLCertVerificationError as error:
            raise InputError(
                f"the certificate of {server} is foreign or not made out for this address: {error.verify_message} "
                f"(checked with {endpoint.certificate})"
            ) from error
        except (OSError, ValueError):
            continue


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
    report = _report(folder, method, usual_number(folder, plan), plan.seed, plan.table)
    refusals = [fault(why, site=folder.config().name, topic="policy") for why in file_refusals(folder, plan)]
    return Report.of(report.method, report.sites, [*refusals, *report.findings])


def terms_report(folder: SiteFolder, terms: JobTerms) -> Report:
    """Look at a site's table against the terms of a job that was announced."""
    try:
        method = method_class(terms.method).from_terms(terms.settings)
    except InputError as error:
        return Report.of(terms.method, (), findings_of(error, topic="file"))
    return _report(folder, method, len(terms.participants), terms.seed, terms.table)


def leaves_with(terms: JobTerms) -> tuple[str, ...]:
    """Return what would leave a site with a job's terms, as its ledger will say it; of an unknown method, nothing."""
    if terms.method not in METHODS:
        return ()
    try:
        return leaves(method_class(terms.method).from_terms(terms.settings))
    except InputError as error:
        return (f"nothing: the site refuses these settings ({error})",)


def own_report(folder: SiteFolder, method: Method, own: SiteData, sites: int, seed: int) -> Report:
    """Look at a table that was read already."""
    return check_own(method, own, folder.config().policy, sites=sites, seed=seed)


def _report(folder: SiteFolder, method: Method | None, sites: int, seed: int = 0, table: str = "") -> Report:
    config = folder.config()
    collector = Collector(config.name)
    text = method is not None and bool(method.preparing)
    own, _ = read_numbers(collector, lambda columns: read_data(folder, columns, text=text, table=table))
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
    if plan.table and plan.table not in config.tables:
        reasons.append(f"its site.toml has no [tables.{plan.table}]")
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


def describe(entry: LocalEntry) -> str:
    """Write a line of the site's own ledger for people."""
    clock = time.strftime("%H:%M:%S", time.localtime(entry.time))
    asked = f"asked {entry.question} ({entry.received:,} B)"
    if entry.begun:
        return printable(f"{clock} run {entry.run[:8] or '?'} {asked}, not answered: the work on it never ended")
    line = f"{clock} run {entry.run[:8] or '?'} {asked}, answered {entry.answer} ({entry.sent:,} B)"
    return printable(f"{line}: {entry.note}" if entry.note else line)


def run_site(folder: SiteFolder, say: Say, *, patience: float = 5.0) -> None:
    """Run a site until it is stopped; when the connection breaks it is built again."""
    folder.endpoint()
    need_nats()
    check_site(folder, say)
    with locked(folder.path / "site.lock", f"the site in {folder.path} is running already"):
        folder.close_to_others()
        _run_site(folder, logged(say, folder.path / "site.log"), patience)


def _run_site(folder: SiteFolder, say: Say, patience: float) -> None:
    last = ""
    log = folder.path / "site.log"
    say(f"connecting to {folder.config().coordinator}, protocol version {VERSION}; stop with Ctrl-C")
    while True:
        (folder.path / LINK).unlink(missing_ok=True)  # of a process that was killed
        with running(link_command(folder), dict(os.environ), log) as process:
            follow(folder, process, say, LinkHints(folder))
        reason = f"the process that is connected ended; {log} says why"
        if reason != last:
            say(f"{reason}; trying again every {patience:g} s")
        last = reason
        time.sleep(patience)


def follow(
    folder: SiteFolder,
    process: subprocess.Popen[bytes],
    say: Say,
    hints: LinkHints | None = None,
) -> None:
    """Tell the steward each question and answer while the site runs."""
    journal = Journal(folder.path)
    _, seen = journal.since(0)
    tidied = 0.0
    while process.poll() is None:
        if time.monotonic() > tidied + 3600 or not tidied:
            tidied = time.monotonic()
            journal.forget_old()
        time.sleep(0.5)
        news = hints.new() if hints else ""
        if news:
            say(news)
        entries, seen = journal.since(seen)
        for entry in entries:
            say(describe(entry))


def main_site(path: str) -> None:
    """Run a site from a bare process, for tests and service managers."""
    with ending_politely():
        run_site(SiteFolder(Path(path)), lambda text: print(printable(text, lines=True), flush=True))


if __name__ == "__main__":
    main_site(sys.argv[1])
