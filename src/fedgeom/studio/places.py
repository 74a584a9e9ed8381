"""What lies in the studio's folder, and names that lead nowhere else: all the studio knows is in files."""

from __future__ import annotations

import contextlib
import datetime
import re
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from fedgeom.data.readers import READERS
from fedgeom.deploy.config import as_toml
from fedgeom.errors import InputError
from fedgeom.evaluation.evaluation import COLUMNS, Evaluation, read_evaluation
from fedgeom.evaluation.metrics import Figure
from fedgeom.federation.record import read_status
from fedgeom.report.markup import Interval, duration
from fedgeom.report.outcomes import KINDS as ROUND_KINDS
from fedgeom.report.outcomes import joint_curve
from fedgeom.report.page import changed_settings
from fedgeom.report.run_folder import read_run
from fedgeom.report.table import size
from fedgeom.storage import make_private_folder

NAME = re.compile(r"\w[\w. ()+,=@-]{0,119}")
"""Names of files, studies and runs, in any alphabet and as browsers number them, "cells (1).h5ad": no slash, and no dot
in front."""


Kind = Literal["files", "studies", "runs"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""What can be removed on the page, each the name of its folder."""


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

    @property
    def predictions(self) -> Path:
        """Where predictions are kept that were made on the page."""
        return self.path / "predictions"

    @property
    def bin(self) -> Path:
        """Where things are moved that are removed on the page: one folder for each time."""
        return self.path / ".bin"

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

    def file_of(self, kind: Kind, name: str) -> Path:
        """Return a table, a study's file or a run's folder by its name."""
        return {"files": self.table, "studies": self.study, "runs": self.run}[kind](name)

    def remove(self, kind: Kind, names: Sequence[str]) -> str:
        """Move things to the bin, and return the name under which they can be brought back together."""
        found = [self.file_of(kind, name) for name in names]
        if not found:
            raise InputError("nothing was marked: mark what is to be removed first")
        now = datetime.datetime.now(datetime.UTC)
        batch = f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
        target = self.make(self.make(self.bin) / batch) / kind
        make_private_folder(target)
        for one in found:
            one.rename(target / one.name)
        return batch

    def in_batch(self, batch: str) -> list[Path]:
        """Return what was removed together; nothing where that is no longer in the bin."""
        folder = self.bin / plain(batch)
        return sorted(one for kind in KINDS for one in _listed(folder / kind))

    def restore(self, batch: str) -> list[str]:
        """Bring back what was removed together, and return the names."""
        found = self.in_batch(batch)
        if not found:
            raise InputError("what was removed is no longer in the bin")
        for one in found:
            there = self.path / one.parent.name / one.name
            if there.exists():
                raise InputError(
                    f"there is another {one.name!r} in {one.parent.name} by now; rename or remove it, then try again"
                )
        for one in found:
            one.rename(self.make(self.path / one.parent.name) / one.name)
        shutil.rmtree(self.bin / batch)
        return [one.stem if one.suffix == ".toml" else one.name for one in found]

    def empty_bin(self) -> None:
        """Delete for good what was removed."""
        if self.bin.is_dir():
            shutil.rmtree(self.bin)

    def binned(self) -> int:
        """Return how many things are in the bin."""
        return sum(len(self.in_batch(one.name)) for one in _listed(self.bin))

    def rename(self, kind: Kind, name: str, new: str) -> str:
        """Give a study or a run another name; one that is taken is refused."""
        old = self.file_of(kind, name)
        target = old.with_name(plain(new.strip()) + (".toml" if kind == "studies" else ""))
        if target.exists():
            raise InputError(f"there is a {kind.removesuffix('s')} {new!r} already; choose another name")
        old.rename(target)
        return new.strip()

    def table_names(self) -> list[str]:
        """Return the kept tables that can be read."""
        return [one.name for one in _listed(self.files) if one.is_file() and can_be_read(one.name)]

    def prediction_names(self) -> list[str]:
        """Return the files of predictions, the newest first."""
        found = [one for one in _listed(self.predictions) if one.suffix == ".csv"]
        return [one.name for one in sorted(found, key=lambda one: -one.stat().st_mtime)]

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


def unsettled(lines: Sequence[RunLine]) -> list[RunLine]:
    """Return the runs that go on, and those that failed."""
    return [one for one in lines if one.state != "finished"]


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


@dataclass(frozen=True)
class RunComparison:
    """Several runs side by side."""

    names: list[str]
    charts: list[tuple[str, list[Interval]]]
    """For each figure its title, and each run's value; the best is marked."""
    curves: dict[str, dict[str, list[float]]]
    """For each kind of figure that was followed, each run's values by round."""
    rows: list[list[str]]
    """Cost, and the settings in which the runs differ: a title and a cell for each run."""
    same_rows: bool
    """Whether all were tested on equally many rows: otherwise their figures are of different tests."""


def side_by_side(folders: Sequence[Path]) -> RunComparison:
    """Return several runs side by side: figures, cost, and the settings in which they differ."""
    runs = [read_run(folder, rows=False) for folder in folders]
    charts = []
    for key, title in COLUMNS.items():
        found = {run.path.name: _figure(run.evaluation, key) for run in runs}
        known = {name: figure for name, figure in found.items() if figure is not None}
        if not known:
            continue
        best = max(figure.value for figure in known.values())
        lines = [
            Interval(
                name, figure.value, figure.low, figure.high, str(figure), figure.value == best and len(known) > 1
            )
            for name, figure in known.items()
        ]
        charts.append((title, lines))
    rows = [
        ["method", *(run.method for run in runs)],
        ["state", *(str(run.status["state"]) for run in runs)],
        ["sites", *(str(len(run.sites)) for run in runs)],
        ["seed", *(str(run.config["seed"]) for run in runs)],
        ["test rows", *(f"{run.evaluation.rows:,}" if run.evaluation else "–" for run in runs)],
        ["majority class", *(str(_figure(run.evaluation, "accuracy", "majority") or "–") for run in runs)],
        ["left each site", *(size(round(run.ledger.sent() / max(len(run.ledger.sites), 1))) for run in runs)],
        ["took", *(_took(run.metrics.get("seconds")) for run in runs)],
        ["warnings", *(str(len(run.warnings)) for run in runs)],
    ]
    settings: list[dict[str, Any]] = [changed_settings(run) for run in runs]
    for key in sorted({key for one in settings for key in one}):
        values = [_setting(run.parameters, one, key) for run, one in zip(runs, settings, strict=True)]
        if len(set(values)) > 1 or len(runs) == 1:
            rows.append([key, *values])
    curves: dict[str, dict[str, list[float]]] = {}
    for kind in ROUND_KINDS:
        followed = {run.path.name: joint_curve(run.rounds, kind) for run in runs}
        if any(followed.values()):
            curves[kind] = {name: values for name, values in followed.items() if values}
    tested = {run.evaluation.rows for run in runs if run.evaluation is not None}
    return RunComparison(
        [run.path.name for run in runs],
        charts,
        curves,
        rows,
        len(tested) < 2,
    )


def _setting(parameters: Mapping[str, Any], changed: Mapping[str, Any], key: str) -> str:
    """Return a run's setting as a file has it; a method without that setting has none."""
    if key in changed:
        return as_toml(changed[key])
    return "default" if key in parameters else "–"


def _took(seconds: Any) -> str:
    return duration(float(seconds)) if isinstance(seconds, int | float) else "–"


def _figure(tested: Evaluation | None, key: str, model: str = "own") -> Figure | None:
    found: Figure | None = getattr(tested[model], key) if tested is not None and model in tested else None
    return found
