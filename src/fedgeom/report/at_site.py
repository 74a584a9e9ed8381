"""A run as one site has it: its own rows, names and figures, what it was asked, and what left it.

All of it lies in the site's folder: the result, the ledger, and the approval with the job's terms. What the coordinator
decoded of the others is not there, so the picture has the joint model and this site's own shapes, before rounding.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from fedgeom.arrays import Floats
from fedgeom.data.sites import SiteData
from fedgeom.deploy.answers import read_data
from fedgeom.deploy.approvals import ApprovalStore
from fedgeom.deploy.journal import CHARGED, Journal, LocalEntry
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.errors import FedgeomError, InputError
from fedgeom.evaluation.evaluation import read_evaluation
from fedgeom.federation.ledger import Ledger, LedgerEntry
from fedgeom.federation.messages import Refusal
from fedgeom.federation.policy import JobTerms
from fedgeom.federation.record import file_name, versions
from fedgeom.federation.results import RunWarning
from fedgeom.geometry.hyperbolic.hull import trimmed_hull
from fedgeom.methods.catalogue import read_model
from fedgeom.report.ellipses import plane
from fedgeom.report.label_names import read_naming
from fedgeom.report.run_folder import DrawnRows, EventLine, RunFiles, few_dots, is_map

RESULTS = "results"


class _Drawn(NamedTuple):
    """What there is to draw at a site."""

    rows: DrawnRows
    shapes: dict[str, Any]
    faults: list[RunWarning]


def is_site_result(folder: str | Path) -> bool:
    """Say whether a folder is what a deployed site has of a run: results/RUN in the site's folder."""
    path = Path(folder).resolve()
    return path.parent.name == RESULTS and (path.parent.parent / "site.toml").is_file()


def site_results(folder: Path) -> list[str]:
    """Return the runs of which a site has a result, the newest first."""
    inner = folder / RESULTS
    found = [one for one in inner.iterdir() if (one / "sites").is_dir()] if inner.is_dir() else []
    return [one.name for one in sorted(found, key=lambda one: -one.stat().st_mtime)]


def read_site_run(folder: str | Path, *, rows: bool = True) -> RunFiles:
    """Read what a site has of a run; ``rows`` says whether to draw its own."""
    path = Path(folder).resolve()
    if not is_site_result(path) or not path.is_dir():
        raise InputError(f"{folder} is no result of a site; wanted a folder in a site's {RESULTS}")
    site = SiteFolder(path.parent.parent)
    home = site.config().name
    entries = [
        one
        for one in Journal(site.path).entries()
        if one.run.startswith(path.name) and one.question != CHARGED and not one.begun and one.received
    ]
    job = _job(site.path, path.name)
    found = _found(path, home)
    model = _model(path)
    names = (home,) if job is None else job.participants
    method = entries[0].method if entries else "" if job is None else job.method
    drawn, shapes, faults = _Drawn(DrawnRows(), {}, [])
    if rows and model is not None:
        drawn, shapes, faults = _drawn(site, home, model, found, job)
    named = isinstance(found.get("names"), Mapping) and found.get("evidence")
    return RunFiles(
        path=path,
        config={
            "method": method,
            "seed": 0 if job is None else job.seed,
            "parameters": {} if job is None else job.settings,
            "sites": {name: {} for name in names},
        },
        status=_status(path, entries),
        versions=versions(),
        metrics={"seconds": round(entries[-1].time - entries[0].time, 1)} if len(entries) > 1 else {},
        ledger=_ledger(entries, home),
        warnings=[*_warnings(path), *faults],
        events=_events(entries, home),
        rounds=[],
        evaluation=read_evaluation(path),
        naming=read_naming({home: found}) if named else None,
        artifacts=shapes,
        model=model,
        rows=drawn,
        home=home,
    )


def _job(folder: Path, run: str) -> JobTerms | None:
    """Return the terms on which the site took part in a run, where they were short enough to be kept."""
    known = [one.job for one in ApprovalStore(folder).read().approvals if any(r.startswith(run) for r in one.used)]
    return known[-1] if known else None


def _found(path: Path, home: str) -> dict[str, Any]:
    file = path / "sites" / f"{file_name(home)}.json"
    try:
        return dict(msgspec.json.decode(file.read_bytes()))
    except (OSError, ValueError):
        return {}


def _model(path: Path) -> Any:
    file = path / "model.safetensors"
    try:
        return read_model(file.read_bytes()) if file.is_file() else None
    except (FedgeomError, ImportError):
        return None


def _status(path: Path, entries: Sequence[LocalEntry]) -> dict[str, str]:
    when = datetime.datetime.fromtimestamp(entries[-1].time if entries else path.stat().st_mtime, datetime.UTC)
    state = "finished" if (path / "model.safetensors").is_file() else "without a model"
    return {"state": state, "detail": "", "time": when.isoformat(timespec="seconds")}


def _warnings(path: Path) -> list[RunWarning]:
    file = path / "error.txt"
    return [RunWarning(what=file.read_text(encoding="utf-8").strip())] if file.is_file() else []


def _ledger(entries: Sequence[LocalEntry], home: str) -> Ledger:
    return Ledger(
        [
            LedgerEntry(
                step=at, site=home, kind=one.answer, bytes=one.sent, received=one.received, reveals=one.reveals
            )
            for at, one in enumerate(entries, start=1)
            if one.sent
        ]
    )


def _events(entries: Sequence[LocalEntry], home: str) -> list[EventLine]:
    found = []
    began = entries[0].time if entries else 0.0
    for at, one in enumerate(entries, start=1):
        refused = one.answer in (Refusal.kind, "none")
        since = round(one.time - began, 3)
        found.append(EventLine(at, one.question, home, "asked", "", since))
        found.append(EventLine(at, one.question, home, "lost" if refused else "answered", one.note, since))
    return found


def _drawn(site: SiteFolder, home: str, model: Any, found: Mapping[str, Any], job: JobTerms | None) -> _Drawn:
    """Return the site's rows as points of the picture, and its own shapes; a table that cannot be read is said."""
    disc = model.in_disc
    gaussians = getattr(model, "covariances", None)
    if not disc and (
        gaussians is None or not gaussians.shape[-1] or getattr(model, "curvature", None) is not None
    ):
        return _Drawn(DrawnRows(), {}, [])
    try:
        table = read_data(site, text=True, table="" if job is None else job.table)
        seen = table if model.preparation is None else model.preparation.transform(table)
        own = model.bare().for_site(found) if model.preparation is not None else model.for_site(found)
        groups = _groups(model, found, seen)
        points = np.asarray(own.to_disc(seen.X) if disc else _vectors(own, seen))
    except (FedgeomError, OSError, ValueError) as error:
        why = f"{type(error).__name__}: {error}" if not isinstance(error, FedgeomError) else str(error)
        said = "rows are not drawn: the site's table is no longer as it was in the run"
        return _Drawn(DrawnRows(), {}, [RunWarning(what=said, why=why)])
    if is_map(model):
        shapes = {}
        flat = points
    elif disc:
        trim = "auto" if job is None else job.settings.get("trim", "auto")
        shapes = _own_hulls(points, groups, float(model.curvature), trim)
        flat = points
    else:
        shapes = _own_gaussians(points, groups)
        flat = points @ plane(model.means, model.covariances)
    return _Drawn(DrawnRows({home: few_dots(flat, groups, 1)}, {home: 0}), shapes, [])


def _vectors(own: Any, seen: SiteData) -> Floats:
    return np.asarray(own.vectors(seen.X) if hasattr(own, "vectors") else seen.X)


def _groups(model: Any, found: Mapping[str, Any], seen: SiteData) -> Any:
    """Return the joint class of each of the site's rows; -1: a word that took no part."""
    words = found.get("names")
    if not isinstance(words, Mapping):
        words = {str(name): at for at, name in enumerate(getattr(model, "names", ()))}
    return np.array([words.get(word, -1) for word in seen.y.astype(str).tolist()], np.intp)


def _own_hulls(points: Floats, groups: Any, c: float, trim: Any) -> dict[str, Any]:
    corners: list[Floats] = []
    of_point: list[int] = []
    of_hull: list[int] = []
    for group in sorted(set(groups.tolist()) - {-1}):
        mine = points[groups == group]
        ring = mine[trimmed_hull(mine, trim=trim, c=c)]
        corners.append(ring)
        of_point += [len(of_hull)] * len(ring)
        of_hull.append(group)
    if not corners:
        return {}
    return {
        "hull_points": np.vstack(corners),
        "hull_of_point": np.array(of_point),
        "group_of_hull": np.array(of_hull),
        "owner_of_hull": np.zeros(len(of_hull), np.intp),
    }


def _own_gaussians(vectors: Floats, groups: Any) -> dict[str, Any]:
    there = [group for group in sorted(set(groups.tolist()) - {-1}) if (groups == group).sum() > 1]
    parts = [vectors[groups == group] for group in there]
    if not parts:
        return {}
    return {
        "ellipse_means": np.array([one.mean(axis=0) for one in parts]),
        "ellipse_covariances": np.array([np.cov(one.T, bias=True).reshape(one.shape[1], -1) for one in parts]),
        "ellipse_counts": np.array([len(one) for one in parts]),
        "group_of_ellipse": np.array(there),
        "owner_of_ellipse": np.zeros(len(there), np.intp),
    }
