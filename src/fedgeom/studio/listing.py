"""Runs in a list, and side by side: read from a few small files of each, so that five hundred take no time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from fedgeom.evaluation.figures import COLUMNS, Evaluation, read_evaluation
from fedgeom.federation.record import read_status
from fedgeom.report.reading import read_run
from fedgeom.report.repeating import as_toml, changed_settings
from fedgeom.report.tables import size
from fedgeom.studio.places import NAME

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
    status, config, tested = read_status(folder), {}, None
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
    return str(tested["own"].accuracy)


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
