"""Everything that a run's folder says, read once for a report: also of a run that was cut off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.errors import FedgeomError
from fedgeom.evaluation.evaluation import Evaluation, read_evaluation
from fedgeom.federation.ledger import Ledger
from fedgeom.federation.record import read_folder
from fedgeom.federation.results import ASIDE_ONLY, DESCRIBED, ESTIMATED, UNTESTED, RunWarning, lost_in, verdict_of
from fedgeom.methods import SUMMARIES
from fedgeom.methods.catalogue import load_model, method_class
from fedgeom.report.disc import site_shapes
from fedgeom.report.ellipses import has_ellipses, plane
from fedgeom.report.label_names import Naming, read_naming
from fedgeom.storage import check_archive, write_json

if TYPE_CHECKING:
    from fedgeom.federation.results import Run


ROWS = "rows.json"
"""The file with the rows that were kept to be drawn."""
NAMES = "names.json"
"""The file with the names side by side, where the truth is known."""
MOST_OF_SITE = 250
"""So many rows are drawn of a site."""
MOST = 4000
"""So many rows are drawn of all sites together."""


class SiteDots(msgspec.Struct, frozen=True):
    """Some rows of one site, as points of the picture."""

    points: list[tuple[float, float]]
    groups: list[int]
    """The joint class of each; -1: none."""


class DrawnRows(msgspec.Struct, frozen=True):
    """Rows of the sites, and whose the shapes are that the coordinator saw without names."""

    sites: dict[str, SiteDots] = {}
    owners: dict[str, int] = {}
    """Which of the coordinator's nameless senders a site is."""


def read_rows(folder: Path) -> DrawnRows:
    """Read the rows that were kept to be drawn; none where there are none."""
    file = folder / ROWS
    return msgspec.json.decode(file.read_bytes(), type=DrawnRows) if file.is_file() else DrawnRows()


def keep_rows(run: Run, folder: Path) -> Path | None:
    """Keep some rows of a simulated run for its picture; ``run`` has them as the method saw them."""
    if "hull_points" in run.artifacts and run.model.in_disc:
        found = _of_hulls(run)
    elif has_ellipses(run):
        found = _of_ellipses(run)
    elif is_map(run.model):
        found = _of_map(run)
    else:
        return None
    return write_json(folder / ROWS, found, private=True)


def is_map(model: Any) -> bool:
    """Return whether a model is a map of landmarks in the disc, and can be drawn."""
    return hasattr(model, "landmarks") and bool(model.in_disc)


def few_dots(points: Floats, groups: Any, sites: int) -> SiteDots:
    """Return some of a site's rows, drawn at random, as points of the picture."""
    at = np.sort(np.random.default_rng(0).permutation(len(points))[: min(MOST_OF_SITE, max(MOST // sites, 10))])
    return SiteDots(
        [(round(float(x), 4), round(float(y), 4)) for x, y in points[at]], np.asarray(groups)[at].tolist()
    )


def _of_map(run: Run) -> DrawnRows:
    numbers = {str(name): at for at, name in enumerate(run.model.names)}
    sites = {}
    for site in run.train:
        groups = np.array([numbers.get(word, -1) for word in site.y.astype(str).tolist()], np.intp)
        sites[site.name] = few_dots(run.model.to_disc(site.X), groups, len(run.train))
    return DrawnRows(sites)


def _of_hulls(run: Run) -> DrawnRows:
    shapes = site_shapes(run, run.train)
    sites = {one.name: few_dots(one.points, one.groups, len(shapes)) for one in shapes}
    return DrawnRows(sites, {one.name: one.block for one in shapes if one.block >= 0})


def _of_ellipses(run: Run) -> DrawnRows:
    from scipy.optimize import linear_sum_assignment  # slow to import

    model = run.model
    a = run.artifacts
    sites = {}
    directions = plane(model.means, model.covariances)
    cost = []
    blocks = np.unique(a.get("owner_of_ellipse", []))
    for site in run.train:
        names = run.local.get(site.name, {}).get("names")
        if names is None:
            continue
        vectors = np.asarray(model.for_site(run.local[site.name]).vectors(site.X))
        groups = np.array([names.get(word, -1) for word in site.y.astype(str).tolist()])
        sites[site.name] = few_dots(vectors @ directions, groups, len(run.train))
        own = np.array([vectors[site.y == label].mean(axis=0) for label in site.classes])
        gaps = np.linalg.norm(own[:, None] - a["ellipse_means"][None], axis=-1)
        cost.append([float(gaps[:, a["owner_of_ellipse"] == one].min(axis=1).sum()) for one in blocks.tolist()])
    if len(blocks) != len(sites):
        return DrawnRows(sites)
    owner = linear_sum_assignment(np.array(cost))[1]
    return DrawnRows(sites, {name: int(blocks[at]) for name, at in zip(sites, owner.tolist(), strict=True)})


class EventLine(msgspec.Struct, frozen=True):
    """One line of events.jsonl."""

    step: int
    kind: str
    site: str
    state: str
    detail: str = ""
    seconds: float | None = None
    """Since the run began; None in records of an earlier release."""


@dataclass(frozen=True)
class RunFiles:
    """A run as its folder tells it."""

    path: Path
    config: Mapping[str, Any]
    status: Mapping[str, Any]
    versions: Mapping[str, str]
    metrics: Mapping[str, Any]
    ledger: Ledger
    warnings: list[RunWarning]
    events: list[EventLine]
    rounds: list[dict[str, float]]
    """The figures of each round, where they were followed."""
    evaluation: Evaluation | None
    naming: Naming | None
    artifacts: Mapping[str, npt.NDArray[Any]]
    """What the coordinator decoded on the way."""
    model: Any = None
    """The joint model; None where the run left none, or this machine cannot read it."""
    rows: DrawnRows = field(default_factory=DrawnRows)
    """Rows to draw, where they are at hand: all sites' in a simulated run, none at a coordinator."""
    home: str = ""
    """The deployed site whose own page this is; empty at a coordinator and in a simulated run."""

    @property
    def method(self) -> str:
        """The method's name."""
        return str(self.config["method"])

    @property
    def sites(self) -> Mapping[str, Mapping[str, Any]]:
        """What is known of each site."""
        found: Mapping[str, Mapping[str, Any]] = self.config["sites"]
        return found

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The method's settings."""
        return dict(self.config.get("parameters", {}))

    @property
    def simulated(self) -> bool:
        """Whether all sites ran in one process."""
        return not self.home and all("rows" in site for site in self.sites.values())

    @property
    def verdict(self) -> str:
        """Whether the model is worth using, in a sentence or two, or why that cannot be said."""
        if self.evaluation is not None:
            return verdict_of(self.model, self.evaluation, aside=True)
        state = self.status["state"]
        if state in ("submitted", "running"):
            return "The run goes on: how well its model does is said at the end."
        if state != "finished":
            return "The run did not come to its end, so there is no model to test."
        if getattr(self.model, "conclusion", ""):
            return str(self.model.conclusion)
        if not self.predicts:
            return DESCRIBED
        if not self.takes_holdout:
            return ESTIMATED
        said = ASIDE_ONLY if self.parameters.get("holdout") else UNTESTED
        if hasattr(self.model, "landmarks"):
            drawn = f"{int(self.model.sizes.sum()):,} rows by {len(self.model.landmarks)} landmarks"
            return f"One map of {len(self.sites)} sites' rows: {drawn}. {said}"
        return said

    @property
    def predicts(self) -> bool:
        """Whether the run's method yields a model that predicts; a description does not."""
        try:
            return method_class(self.method).predicts
        except FedgeomError:
            return True

    @property
    def takes_holdout(self) -> bool:
        """Whether the run's method can keep rows aside for a test: they are counted by class."""
        try:
            by_class = method_class(self.method).takes_holdout
        except FedgeomError:
            return True
        return by_class and self.parameters.get("family", "binomial") == "binomial"

    @property
    def lost(self) -> dict[str, str]:
        """The sites that dropped out, and why."""
        return lost_in(self.warnings)

    def idea(self) -> str:
        """Return what the method does, in a sentence; nothing where it is not installed here."""
        if self.method in SUMMARIES:
            return SUMMARIES[self.method]
        try:
            return (method_class(self.method).__doc__ or "").strip().partition("\n")[0]
        except FedgeomError:
            return ""

    def class_names(self) -> dict[int, str]:
        """Return the joint classes by number, as they are called here."""
        if self.naming is not None and self.naming.classes:
            return dict(zip(self.naming.classes, self.naming.names, strict=True))
        names = getattr(self.model, "names", ()) or (self.evaluation.classes if self.evaluation else ())
        return {at: str(name) for at, name in enumerate(names)}


def read_run(folder: str | Path, *, rows: bool = True) -> RunFiles:
    """Read a run's folder; ``rows`` says whether to read those that were kept to be drawn."""
    path = Path(folder)
    content = read_folder(path)
    return RunFiles(
        path=path,
        **{name: content[name] for name in ("config", "status", "versions", "metrics", "ledger", "warnings")},
        events=_lines(path / "events.jsonl", EventLine),
        rounds=_lines(path / "rounds.jsonl", dict[str, float]),
        evaluation=read_evaluation(path),
        naming=_naming(path),
        artifacts=_arrays(path / "artifacts.npz"),
        model=_model(path),
        rows=read_rows(path) if rows else DrawnRows(),
    )


def _lines(file: Path, kind: Any) -> list[Any]:
    """Read a file of JSON lines as far as they are whole."""
    found: list[Any] = []
    for line in file.read_bytes().splitlines() if file.is_file() else ():
        try:
            found.append(msgspec.json.decode(line, type=kind))
        except ValueError:
            break
    return found


def _arrays(file: Path) -> dict[str, npt.NDArray[Any]]:
    if not file.is_file():
        return {}
    check_archive(file)
    with np.load(file) as arrays:
        return {name: arrays[name] for name in arrays.files}


def _model(path: Path) -> Any:
    """Read the model; a report of a run whose method is not installed here has all but the pictures."""
    try:
        return load_model(path)
    except (FedgeomError, ImportError):
        return None


def _naming(path: Path) -> Naming | None:
    """Return the names side by side: as they were kept, or from what the sites of a simulated run have."""
    if (path / NAMES).is_file():
        return msgspec.json.decode((path / NAMES).read_bytes(), type=Naming)
    local = {}
    for file in sorted((path / "sites").glob("*.json")):
        found = msgspec.json.decode(file.read_bytes())
        if isinstance(found, dict) and isinstance(found.get("names"), dict) and found.get("evidence"):
            local[str(found["site"])] = found
    return read_naming(local) if local else None
