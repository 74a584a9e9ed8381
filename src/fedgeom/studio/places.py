"""What lies in the studio's folder, and names that lead nowhere else: all the studio knows is in files."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from fedgeom.data.readers import READERS
from fedgeom.errors import InputError
from fedgeom.evaluation.evaluation import COLUMNS, Evaluation, read_evaluation
from fedgeom.federation.record import read_status
from fedgeom.report.page import as_toml, changed_settings
from fedgeom.report.run_folder import read_run
from fedgeom.report.table import size
from fedgeom.storage import make_private_folder

NAME = re.compile(r"\w[\w. ()+,=@-]{0,119}")
"""Names of files, studies and runs, in any alphabet and as browsers number them, "cells (1).h5ad": no slash, and no dot
in front."""


@dataclass(frozen=True)
class Place:
    """The folder that the studio works in."""

    path: Path

    @property
    def shown(self) -> str:
        """Where it is, as people write it: from their own folder on."""
        with contextlib.suppress(ValueError, RuntimeError):  # it lies elsewhere, or nobody knows whose it is
            return str("~" / self.path.relative_to(Path.home()))
        return str(self.path)

    @property
    def is_site(self) -> bool:
        """Whether it is a site's folder."""
        return (self.path / "site.toml").is_file()

    @property
    def is_coordinator(self) -> bool:
        """Whether it is a coordinator's folder."""
        return (self.path / "coordinator.toml").is_file()

    @property
    def files(self) -> Path:
        """Where tables are kept that were dropped on the page."""
        return self.path / "files"

    @property
    def studies(self) -> Path:
        """Where federation files are kept that were made on the page."""
        return self.path / "studies"

    @property
    def runs(self) -> Path:
        """Where runs are recorded."""
        return self.path / "runs"

    @property
    def launches(self) -> Path:
        """What the studio knows of the processes that it started."""
        return self.path / "runs" / ".studio"

    def make(self, folder: Path) -> Path:
        """Make one of the folders, closed to others."""
        folder.parent.mkdir(parents=True, exist_ok=True)
        return make_private_folder(folder)

    def table(self, name: str) -> Path:
        """Return a kept table by its name."""
        return _in(self.files, name, "file")

    def study(self, name: str) -> Path:
        """Return a study's federation file by its name."""
        return _in(self.studies, f"{plain(name)}.toml", "study")

    def run(self, name: str) -> Path:
        """Return a run's folder by its name."""
        return _in(self.runs, name, "run")

    def table_names(self) -> list[str]:
        """Return the kept tables that can be read."""
        return [one.name for one in _listed(self.files) if one.is_file() and can_be_read(one.name)]

    def study_names(self) -> list[str]:
        """Return the studies, the newest first."""
        found = [one for one in _listed(self.studies) if one.suffix == ".toml"]
        return [one.stem for one in sorted(found, key=lambda one: -one.stat().st_mtime)]


def plain(name: str) -> str:
    """Return a name if it is one; refuse what leads elsewhere."""
    if not NAME.fullmatch(name):
        raise InputError(
            f"{name!r} given; wanted a name of letters, digits, dots, spaces, dashes and brackets, without a slash"
        )
    return name


def can_be_read(name: str) -> bool:
    """Say whether there is a reader for files of this name."""
    bare = name.lower().removesuffix(".gz")
    return any(bare.endswith(ending) for ending in READERS)


def _in(folder: Path, name: str, what: str) -> Path:
    found = folder / plain(name)
    if not found.exists():
        raise InputError(f"there is no {what} {name!r} here; it may have been removed or renamed")
    return found


def _listed(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted((one for one in folder.iterdir() if NAME.fullmatch(one.name)), key=lambda one: one.name.lower())


PAGE = 50
"""So many runs stand on one page."""


@dataclass(frozen=True)
class RunLine:
    """A run in a list."""

    name: str
    method: str
    state: str
    detail: str
    time: str
    sites: int
    accuracy: str


def run_names(folder: Path) -> list[str]:
    """Return the names of all runs, the newest first."""
    if not folder.is_dir():
        return []
    found = [
        (file.stat().st_mtime, one.name)
        for one in folder.iterdir()
        if NAME.fullmatch(one.name) and (file := one / "status.json").is_file()
    ]
    return [name for _, name in sorted(found, reverse=True)]


def run_line(folder: Path) -> RunLine:
    """Read a run's line; what is damaged or not yet written is left out."""
    status = read_status(folder)
    config = {}
    tested = None
    try:
        config = msgspec.json.decode((folder / "config.json").read_bytes())
        tested = read_evaluation(folder)
    except (OSError, ValueError):
        pass
    return RunLine(
        name=folder.name,
        method=str(config.get("method", "")),
        state=status.state,
        detail=status.detail.partition("\n")[0],
        time=status.time,
        sites=len(config.get("sites", ())),
        accuracy=_accuracy(tested),
    )


def _accuracy(tested: Evaluation | None) -> str:
    if tested is None or "own" not in tested or tested["own"].accuracy is None:
        return ""
    floor = "" if tested.beats_majority else ": no better than the majority class"
    return f"{tested['own'].accuracy}{floor}"


def side_by_side(folders: Sequence[Path]) -> tuple[list[str], list[list[str]]]:
    """Return a table with a column for each run: figures, cost, and the settings in which they differ."""
    runs = [read_run(folder, rows=False) for folder in folders]
    head = ["", *(run.path.name for run in runs)]
    rows: list[list[str]] = [
        ["method", *(run.method for run in runs)],
        ["state", *(str(run.status["state"]) for run in runs)],
        ["sites", *(str(len(run.sites)) for run in runs)],
        ["seed", *(str(run.config["seed"]) for run in runs)],
    ]
    for key, title in COLUMNS.items():
        figures = [_figure(run.evaluation, key) for run in runs]
        if any(figures):
            rows.append([title, *(one or "–" for one in figures)])
    rows.append(
        ["floor (majority class)", *(_figure(run.evaluation, "accuracy", "majority") or "–" for run in runs)]
    )
    rows.append(
        ["left each site", *(size(round(run.ledger.sent() / max(len(run.ledger.sites), 1))) for run in runs)]
    )
    rows.append(["seconds", *(str(run.metrics.get("seconds", "–")) for run in runs)])
    rows.append(["warnings", *(str(len(run.warnings)) for run in runs)])
    settings: list[dict[str, Any]] = [changed_settings(run) for run in runs]
    for key in sorted({key for one in settings for key in one}):
        values = [as_toml(one[key]) if key in one else "default" for one in settings]
        if len(set(values)) > 1 or len(runs) == 1:
            rows.append([key, *values])
    return head, rows


def _figure(tested: Evaluation | None, key: str, model: str = "own") -> str:
    found = getattr(tested[model], key) if tested is not None and model in tested else None
    return "" if found is None else str(found)
