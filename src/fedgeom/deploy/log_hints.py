"""What Flower's log and a site's ledger mean, in plain words for the steward."""

from __future__ import annotations

import time
from pathlib import Path

from fedgeom.deploy.journal import LocalEntry
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.engines.flower import log_lines
from fedgeom.engines.flower.node_answers import DIED
from fedgeom.errors import printable

DIED_HINT = "the process that answered a question died (was memory short?); the site is asked again"

HINTS = {
    DIED: DIED_HINT,
    log_lines.FOREIGN_CERTIFICATE: "the coordinator's certificate is foreign: {certificate} did not sign it. Ask "
    "the coordinator for its current ca.pem",
    log_lines.UNKNOWN_NODE: "the coordinator does not know this site's node key: it was not admitted, or with "
    "another key (or the coordinator has only just started: then this passes). Send {name}.pub to the coordinator for: "
    "fedgeom coordinator admit {name}.pub",
    log_lines.NOBODY_LISTENS: "nothing listens at {coordinator}: is the coordinator running?",
}
"""What Flower's messages mean for a steward."""

STILL_COUNTED = (
    "the coordinator still counts an earlier process of this site as connected, which passes within a minute "
    "(or the site was removed meanwhile: ask the coordinator)"
)
"""What the refusal of a node means that was let in before."""


class ConnectionHints:
    """Reads off Flower's log whether a site is connected."""

    def __init__(self, log: Path, start: int, coordinator: str):
        self._log, self._at, self._coordinator = log, start, coordinator
        self._said = ""

    def new(self) -> str:
        """Return what changed since the last look, or nothing."""
        if not self._log.exists():
            return ""
        with self._log.open("rb") as file:
            file.seek(self._at)
            text = file.read().decode(errors="replace")
            self._at = file.tell()
        if DIED in text:
            return DIED_HINT
        up, down = text.rfind(log_lines.ACTIVATED), text.rfind(log_lines.RETRYING)
        if up < 0 and down < 0:
            return ""
        state = (
            f"connected to {self._coordinator}"
            if up > down
            else f"{self._coordinator} does not answer: is the coordinator running? Going on trying"
        )
        news, self._said = "" if state == self._said else state, state
        return news


def describe(entry: LocalEntry) -> str:
    """Write a line of the site's own ledger for people."""
    clock = time.strftime("%H:%M:%S", time.localtime(entry.time))
    asked = f"asked {entry.question} ({entry.received:,} B)"
    if entry.begun:
        return printable(f"{clock} run {entry.run[:8] or '?'} {asked}, not answered: the work on it never ended")
    line = f"{clock} run {entry.run[:8] or '?'} {asked}, answered {entry.answer} ({entry.sent:,} B)"
    return printable(f"{line}: {entry.note}" if entry.note else line)


def explain(folder: SiteFolder, log: Path, start: int) -> str:
    """Say in plain words why a site's connection ended."""
    config = folder.config()
    with log.open("rb") as file:
        before = log_lines.ACTIVATED.encode() in file.read(start)
        text = file.read().decode(errors="replace")
    if log_lines.UNKNOWN_NODE in text and before:
        return STILL_COUNTED
    for sign, meaning in HINTS.items():
        if sign in text:
            return meaning.format(name=config.name, certificate=config.certificate, coordinator=config.coordinator)
    return f"the connection to {config.coordinator} ended; details are in {log}"
