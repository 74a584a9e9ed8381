"""A site's SuperNode: started, followed, and started again when its connection ends."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from fedgeom.deploy.journal import Journal
from fedgeom.deploy.log_hints import ConnectionHints, describe, explain
from fedgeom.deploy.programs import write_launchers
from fedgeom.deploy.site_checks import check_site
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.engines.flower import commands
from fedgeom.engines.flower.processes import Say, ending_politely, free_port, running
from fedgeom.errors import printable
from fedgeom.federation.messages import VERSION
from fedgeom.storage import locked, make_private_folder


def run_site(folder: SiteFolder, say: Say, *, port: int | None = None, patience: float = 5.0) -> None:
    """Run a site until it is stopped; when the connection breaks it is built again."""
    commands.need_flower()
    check_site(folder, say)
    with locked(folder.path / "site.lock", f"the site in {folder.path} is running already"):
        folder.close_to_others()
        _run_site(folder, say, port, patience)


def _run_site(folder: SiteFolder, say: Say, port: int | None, patience: float) -> None:
    config, last = folder.config(), ""
    home = folder.path / "flower"
    make_private_folder(home)
    launchers = write_launchers(home)
    say(f"connecting to {config.coordinator}, protocol version {VERSION}; stop with Ctrl-C")
    while True:
        environment = commands.environment(home, launchers=launchers)
        command = commands.supernode(
            config.coordinator,
            port=port or free_port(),
            site=folder.path,
            certificate=None if config.insecure else folder.path / config.certificate,
            key=None if config.insecure else folder.node_key,
        )
        log = folder.path / "site.log"
        start = log.stat().st_size if log.exists() else 0
        with running(command, environment, log) as process:
            follow(folder, process, say, ConnectionHints(log, start, config.coordinator))
        reason = explain(folder, log, start)
        if reason != last:
            say(f"{reason}; trying again every {patience:g} s")
        last = reason
        time.sleep(patience)


def follow(
    folder: SiteFolder, process: subprocess.Popen[bytes], say: Say, hints: ConnectionHints | None = None
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
