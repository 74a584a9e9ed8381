"""A run's folder: configuration, versions, seeds, metrics, ledger, model, pictures.

Everything is written as it happens, so that an interrupted run leaves a folder one can read.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import platform
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.errors import InputError
from fedgeom.federation.conversation import Event
from fedgeom.federation.ledger import Entry, Ledger

FORMAT = "fedgeom-run/1"
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

    def __init__(self, folder: str | Path, config: dict[str, Any], *, resume: bool = False):
        self.folder = Path(folder)
        if (self.folder / "config.json").exists() and not resume:
            raise InputError(f"{self.folder} already holds a run; choose another folder or remove it")
        self.folder.mkdir(parents=True, exist_ok=True)
        self._write("config.json", {"format": FORMAT, **config})
        self._write("versions.json", versions())
        self.status("running")
        # A resumed run replays its answers from the beginning, so the files are written anew.
        self._events = (self.folder / "events.jsonl").open("wb", buffering=0)
        self._ledger = (self.folder / "ledger.jsonl").open("wb", buffering=0)
        self._metrics = (self.folder / "metrics.jsonl").open("wb", buffering=0)

    def status(self, state: str, detail: str = "") -> None:
        """Say how the run stands: running, finished, failed or interrupted."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self._write("status.json", {"state": state, "detail": detail, "time": now})

    def enter(self, entry: Entry) -> None:
        """Append a ledger entry."""
        self._ledger.write(msgspec.json.encode(entry) + b"\n")

    def event(self, event: Event) -> None:
        """Append what happened, for those who watch the run from outside."""
        self._events.write(msgspec.json.encode(event) + b"\n")

    def metric(self, name: str, value: Any) -> None:
        """Append a metric."""
        self._metrics.write(msgspec.json.encode({"metric": name, "value": value}, enc_hook=as_plain) + b"\n")

    def model(self, data: bytes) -> None:
        """Keep the model file."""
        (self.folder / "model.safetensors").write_bytes(data)

    def keep(self, name: str, data: bytes) -> None:
        """Keep a model on the way to the last one."""
        file = self.folder / f"{name}.safetensors"
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_suffix(".part")
        draft.write_bytes(data)
        draft.replace(file)

    def artifacts(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Keep the coordinator's intermediate arrays, for pictures."""
        if arrays:
            np.savez_compressed(self.folder / "artifacts.npz", **arrays)  # type: ignore[arg-type]

    def sites(self, results: dict[str, dict[str, Any]]) -> None:
        """Keep each site's own view, in a file per site (in a deployment it stays at the site)."""
        inner = self.folder / "sites"
        inner.mkdir(exist_ok=True)
        for name, result in results.items():
            safe = "".join(char if char.isalnum() or char in "-_." else "_" for char in name)
            self._write(f"sites/{safe}.json", {"site": name, **result})

    def finish(self, state: str = "finished", detail: str = "") -> None:
        """Say how the run ended and close the files."""
        self.status(state, detail)
        for file in (self._ledger, self._metrics, self._events):
            file.close()

    def _write(self, name: str, content: Any) -> None:
        text = msgspec.json.format(msgspec.json.encode(content, enc_hook=as_plain, order="deterministic"))
        (self.folder / name).write_bytes(text + b"\n")


def as_plain(value: Any) -> Any:
    """Turn numpy scalars and arrays into what JSON knows."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return str(value)


def read_folder(folder: str | Path) -> dict[str, Any]:
    """Read a run's folder back: config, versions, status, metrics and ledger."""
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
        except msgspec.DecodeError:
            break  # the line that was being written when the run was cut off
        metrics[row["metric"]] = row["value"]
    content["metrics"] = metrics
    content["ledger"] = Ledger.load(path / "ledger.jsonl")
    return content
