"""A run's folder: configuration, versions, seeds, metrics, ledger, model, pictures.

Everything is written as it happens, so that an interrupted run leaves a folder one can read; one that only its owner
can read, as it may hold what sites themselves learnt.
"""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import io
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.errors import InputError, printable
from fedgeom.federation.coordinator import Event
from fedgeom.federation.ledger import Ledger, LedgerEntry
from fedgeom.federation.results import RunWarning
from fedgeom.federation.writers import Writers, check_writers
from fedgeom.storage import as_plain, make_private_folder, open_new, write_file, write_json

FORMAT = "fedgeom-run/1"
WARNINGS = "warnings.json"
LIBRARIES = ("fedgeom", "numpy", "scipy", "scikit-learn", "python-flint", "cryptography", "msgspec")


def versions() -> dict[str, str]:
    """Return the versions that produced a run."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "unknown"
    return found


class RunRecord:
    """Writes a run's folder."""

    def __init__(
        self, folder: str | Path, config: dict[str, Any], *, resume: bool = False, writers: Sequence[str] = ()
    ):
        check_writers(writers)
        self.folder = Path(folder)
        if (self.folder / "config.json").exists() and not resume:
            raise InputError(f"{self.folder} already holds a run; choose another folder or remove it")
        make_private_folder(self.folder)
        self._write("config.json", {"format": FORMAT, **config})
        self._write("versions.json", versions())
        self.warnings([])  # a resumed run has its own
        self.status("running")
        # A resumed run replays its answers from the beginning, so the files are written anew.
        self._events = open_new(self.folder / "events.jsonl")
        self._ledger = open_new(self.folder / "ledger.jsonl")
        self._metrics = open_new(self.folder / "metrics.jsonl")
        self._rounds: Any = None
        self._began = time.monotonic()
        (self.folder / "rounds.jsonl").unlink(missing_ok=True)
        self._writers = Writers(writers, self.folder, config)

    def status(self, state: str, detail: str = "") -> None:
        """Say how the run stands: running, finished, failed or interrupted."""
        write_status(self.folder, state, detail)

    def enter(self, entry: LedgerEntry) -> None:
        """Append a ledger entry."""
        self._ledger.write(msgspec.json.encode(entry) + b"\n")

    def event(self, event: Event) -> None:
        """Append what happened, for those who watch the run from outside."""
        line = msgspec.to_builtins(event) | {"seconds": round(time.monotonic() - self._began, 3)}
        self._events.write(msgspec.json.encode(line) + b"\n")

    def metric(self, name: str, value: Any) -> None:
        """Append a metric."""
        self._metrics.write(msgspec.json.encode({"metric": name, "value": value}, enc_hook=as_plain) + b"\n")
        self._writers.metric(name, value)

    def round(self, figures: Mapping[str, float]) -> None:
        """Append a round's figures, so that they can be followed while the run goes on."""
        if self._rounds is None:
            self._rounds = open_new(self.folder / "rounds.jsonl")
        self._rounds.write(msgspec.json.encode(figures) + b"\n")
        self._writers.round(figures)

    def model(self, data: bytes) -> None:
        """Keep the model file."""
        write_file(self.folder / "model.safetensors", data, private=True)

    def keep(self, name: str, data: bytes) -> None:
        """Keep a model on the way to the last one."""
        file = self.folder / f"{name}.safetensors"
        make_private_folder(file.parent)
        write_file(file, data, private=True)

    def artifacts(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Keep the coordinator's intermediate arrays, for pictures."""
        if arrays:
            packed = io.BytesIO()
            np.savez_compressed(packed, **arrays)  # type: ignore[arg-type]
            write_file(self.folder / "artifacts.npz", packed.getvalue(), private=True)

    def warnings(self, warnings: Sequence[RunWarning]) -> None:
        """Keep what a reader of the run must know, in the place of what was kept before."""
        self._write(WARNINGS, warnings)

    def evaluation(self, figures: Any) -> None:
        """Keep how well the model does on rows kept aside, where it was tested."""
        if figures is not None:
            self._write("evaluation.json", figures)
            self._writers.evaluation(
                [(one.model, name, found) for one in figures.scores for name, found in one.values().items()]
            )

    def sites(self, results: Mapping[str, SiteResult]) -> None:
        """Keep each site's own view (in a deployment it stays at the site)."""
        for result in results.values():
            write_site_result(self.folder, result)

    def finish(self, state: str = "finished", detail: str = "") -> None:
        """Say how the run ended and close the files."""
        self.status(state, detail)
        for file in (self._ledger, self._metrics, self._events, self._rounds):
            if file is not None:
                file.close()
        self._writers.close(state)

    def _write(self, name: str, content: Any) -> None:
        write_json(self.folder / name, content, private=True)


ENDS = ("finished", "failed", "interrupted")
"""The states in which a run is over."""


class Status(msgspec.Struct, frozen=True):
    """What status.json says of a run."""

    state: str = "submitted"
    """submitted, running, finished, failed or interrupted."""
    detail: str = ""
    time: str = ""


def write_status(folder: str | Path, state: str, detail: str = "") -> None:
    """Say how a run stands; also on behalf of a process that can no longer do so."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    make_private_folder(folder)
    write_json(Path(folder) / "status.json", Status(state, printable(detail, lines=True), now), private=True)


def read_status(folder: str | Path) -> Status:
    """Read how a run stands; where nothing was written yet, it was only submitted."""
    try:
        return msgspec.json.decode((Path(folder) / "status.json").read_bytes(), type=Status)
    except (OSError, ValueError):  # broken JSON, or broken UTF-8
        return Status()


@dataclass(frozen=True)
class SiteResult:
    """What one site itself has after a run: it stays at the site."""

    site: str
    found: dict[str, Any]
    """What the site learnt, by name (`Run.local`)."""
    model: bytes = b""
    """The site's own model file; empty where the method leaves none."""


BULKY = "rows"
"""The part of a site's result that is its own table again, where it is one and not a number: in memory only, and inside
the site's model file."""


def write_site_result(folder: str | Path, result: SiteResult) -> None:
    """Write sites/NAME.json and, where there is one, the site's own model, sites/NAME.safetensors."""
    inner = make_private_folder(Path(folder) / "sites")
    stem = file_name(result.site)
    shown = {key: value for key, value in result.found.items() if key != BULKY or np.ndim(value) == 0}
    write_json(inner / f"{stem}.json", {"site": result.site, **shown}, private=True)
    if result.model:
        write_file(inner / f"{stem}.safetensors", result.model, private=True)


def file_name(site: str) -> str:
    """Return a site's name as a file can have it."""
    plain = "".join(char if char.isalnum() or char in "-_." else "_" for char in site)
    # Two names that differ in other signs only must not share a file.
    return plain if plain == site else f"{plain}-{hashlib.sha256(site.encode()).hexdigest()[:8]}"


def read_folder(folder: str | Path) -> dict[str, Any]:
    """Read a run's folder back: config, versions, status, metrics, ledger and warnings."""
    path = Path(folder)
    if not (path / "config.json").exists():
        raise InputError(f"{path} is not a run folder (it has no config.json)")
    content: dict[str, Any] = {
        name: msgspec.json.decode((path / f"{name}.json").read_bytes())
        for name in ("config", "versions", "status")
    }
    metrics = {}
    for line in (path / "metrics.jsonl").read_bytes().splitlines():
        try:
            row = msgspec.json.decode(line)
        except ValueError:
            break  # the line that was being written when the run was cut off
        metrics[row["metric"]] = row["value"]
    content["metrics"] = metrics
    content["ledger"] = Ledger.load(path / "ledger.jsonl")
    content["warnings"] = read_warnings(path)
    return content


def read_warnings(folder: str | Path) -> list[RunWarning]:
    """Read what a run warned of; nothing where it was cut off, or is older than warnings."""
    try:
        return msgspec.json.decode((Path(folder) / WARNINGS).read_bytes(), type=list[RunWarning])
    except (OSError, ValueError):
        return []
