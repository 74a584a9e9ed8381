"""A site whose questions NATS carries: the process that is connected, and the one that answers.

The connected process knows nothing of data and methods; it hands each question through a pipe to a program that stays,
which has it answered by a fork of itself (`fedgeom.engines.answerer`). What it knows of the connection is in
``link.json``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from pathlib import Path

import msgspec

from fedgeom.deploy.programs import import_ahead, leave_no_traces, limit_memory
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.engines.answerer import Answerer, AnswererGoneError, serve
from fedgeom.engines.nats.link import FOREIGN, NOT_ADMITTED
from fedgeom.engines.nats.site import LinkState, SiteLink, answer_with
from fedgeom.engines.processes import exit_with_parent, run_and_exit
from fedgeom.errors import InputError, printable
from fedgeom.storage import write_json

MODULE = "fedgeom.deploy.nats_site"
"""This module, by the name under which it is run as a program."""
LINK = "link.json"
DIED_HINT = "the process that answered a question died (was memory short?); the site is asked again"
LEAVING = 75
"""The exit code of the connected process when nothing can be answered any more."""


class LinkReport(msgspec.Struct, frozen=True, kw_only=True):
    """What the connected process writes down."""

    time: float
    since: float = 0.0
    """Since when it has been connected; 0: it is not."""
    trouble: str = ""
    """Why it is not."""
    waiting: int = 0
    last_question: float = 0.0
    deaths: int = 0


def link_command(folder: SiteFolder) -> list[str]:
    """Return the command that connects a site."""
    return [sys.executable, "-m", MODULE, "connect", str(folder.path)]


def read_link(folder: SiteFolder) -> LinkReport | None:
    """Return what the connected process last wrote down; None where it wrote nothing yet."""
    try:
        return msgspec.json.decode((folder.path / LINK).read_bytes(), type=LinkReport)
    except (OSError, ValueError):
        return None


class LinkHints:
    """Tells a steward how the connection stands, from what the connected process wrote down."""

    def __init__(self, folder: SiteFolder):
        self._folder = folder
        self._said = ""
        self._deaths = 0

    def new(self) -> str:
        """Return what changed since the last look, or nothing."""
        report = read_link(self._folder)
        if report is None:
            return ""
        if report.deaths > self._deaths:
            self._deaths = report.deaths
            return DIED_HINT
        state = self._in_words(report)
        news = "" if state == self._said else state
        self._said = state
        return news

    def _in_words(self, report: LinkReport) -> str:
        config = self._folder.config()
        if report.since:
            return f"connected to {config.coordinator}"
        if report.trouble.startswith(FOREIGN):
            return (
                f"the coordinator's certificate is foreign: {config.certificate} did not sign it. Ask the coordinator "
                "for its current ca.pem; going on trying"
            )
        if report.trouble == NOT_ADMITTED:
            return (
                "the coordinator does not know this site's key: it was not admitted, or with another key, or removed. "
                f"Send {config.name}.pub to the coordinator for: fedgeom coordinator admit {config.name}.pub; "
                "going on trying"
            )
        return f"{config.coordinator} does not answer: is the coordinator running? Going on trying"


def connect(folder: SiteFolder) -> None:
    """Stay connected to the coordinator, and have its questions answered by a program that is started once."""
    config = folder.config()
    since = 0.0

    def told(state: LinkState) -> None:
        nonlocal since
        since = 0.0 if state.trouble else since or time.time()
        report = LinkReport(
            time=time.time(),
            since=since,
            trouble=printable(state.trouble),
            waiting=state.waiting,
            last_question=state.last_question,
            deaths=state.deaths,
        )
        with contextlib.suppress(OSError):  # a full disk does not end the connection
            write_json(folder.path / LINK, report, private=True)

    ask = Answerer([sys.executable, "-m", MODULE, "answer", str(folder.path)])
    link = SiteLink(config.name, folder.endpoint(), ask, largest=config.policy.max_message_bytes, told=told)

    async def run() -> None:
        running = asyncio.ensure_future(link.run())
        for sign in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(sign, running.cancel)
        await running

    try:
        asyncio.run(run())
    except asyncio.CancelledError:
        pass
    except AnswererGoneError as error:
        print(f"fedgeom: {error}", file=sys.stderr)
        raise SystemExit(LEAVING) from error
    finally:
        (folder.path / LINK).unlink(missing_ok=True)


def answer(folder: SiteFolder, request: bytes) -> bytes:
    """Answer one question, within the memory that the site's policy allows."""
    from fedgeom.deploy import answers  # slow to import, and the connected process needs none of it

    limit_memory(folder.config().policy.max_memory_mb)
    return answers.answer(folder, request)


def files_state(folder: SiteFolder) -> tuple[tuple[int, int, int], ...]:
    """Return what changes when somebody edits site.toml or the table: then a new process answers, with new limits."""
    files = [folder.config_file]
    with contextlib.suppress(InputError, OSError):  # whoever answers says what is wrong with site.toml
        config = folder.config()
        files += [folder.path / table.file for table in (config, *config.tables.values())]
    found = []
    for file in files:
        try:
            now = file.stat()
        except OSError:  # likewise what is missing
            found.append((0, 0, 0))
        else:
            found.append((now.st_ino, now.st_mtime_ns, now.st_size))
    return tuple(found)


def main(what: str, path: str) -> None:
    """Be one of a site's two processes."""
    leave_no_traces()
    folder = SiteFolder(Path(path))
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    if what == "answer":
        import_ahead()
        serve(answer_with(lambda request: answer(folder, request)), lasts=lambda: files_state(folder))
    else:
        exit_with_parent(os.getppid())
        connect(folder)


if __name__ == "__main__":
    run_and_exit(lambda: main(sys.argv[1], sys.argv[2]))
