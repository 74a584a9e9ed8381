"""A rehearsal at one site: what would leave it, message by message, before it takes part in anything.

The real method runs in this process, with the site's own rows and some *phantom* sites whose rows are the
site's own, a little shaken: so sizes are realistic. Nothing is sent and nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.data.sites import SiteData
from fedgeom.deploy.answering import read_data, reveals
from fedgeom.deploy.federation_file import FederationFile, build_method, read_federation
from fedgeom.deploy.site_folder import SiteFolder
from fedgeom.engines.embedded import EmbeddedEngine
from fedgeom.errors import FedgeomError, InputError
from fedgeom.federation.conversation import Lost, Sites
from fedgeom.federation.messages import decode, unpack

SHAKE = 0.05
"""Phantom rows differ from the site's own by about this share of each column's spread."""


@dataclass(frozen=True)
class Leaving:
    """One message that would leave the site."""

    question: str
    received: int
    answer: str
    bytes: int
    reveals: str


@dataclass(frozen=True)
class Corners:
    """How many rows of a class would be corners of its hull."""

    label: str
    rows: int
    corners: int
    points: npt.NDArray[np.float64] = field(repr=False)
    """All rows of the class in the disc."""
    sent: npt.NDArray[np.float64] = field(repr=False)
    """The corners, rounded to the grid: what the coordinator learns."""

    @property
    def share(self) -> float:
        """The share of the class's rows."""
        return self.corners / self.rows


@dataclass(frozen=True)
class Preview:
    """What a rehearsal showed."""

    site: str
    method: str
    phantoms: int
    messages: list[Leaving]
    corners: list[Corners]
    refusals: list[str]
    """Why the site would refuse."""
    broke_off: str = ""
    """Why the rehearsal ended early, if it did; nothing more would have left."""


def preview(folder: SiteFolder, federation: Path, *, sites: int | None = None, seed: int = 0) -> Preview:
    """Rehearse a federation file at a site; ``sites`` is how many sites are assumed in all."""
    config, plan = folder.config(), read_federation(federation)
    method, policy = build_method(federation, plan), config.policy.policy()
    refusals = _refusals(folder, plan)
    count = sites if sites is not None else _usual_number(folder, plan)
    if count < max(policy.smallest_cohort, 2):
        raise InputError(
            f"{count} sites were assumed, but the site's policy asks for at least {policy.smallest_cohort}; give "
            "--sites with a larger number"
        )
    own = read_data(folder)
    rng = np.random.default_rng(seed)
    phantoms = [shaken(own, rng, f"phantom-{i}") for i in range(1, count)]
    policy = msgspec.structs.replace(policy, methods=())  # show also what it would refuse
    engine = _Listening(EmbeddedEngine(method, [own, *phantoms], policy=policy), own.name)
    run = b"preview " * 4
    engine.inner.check(run, method.parameters())
    broke_off = ""
    try:
        method.conduct(Sites(engine, run=run, method=method.name, seed=plan.seed, roster=engine.inner.roster))
    except FedgeomError as error:
        broke_off = str(error)
    return Preview(
        site=own.name,
        method=method.name,
        phantoms=len(phantoms),
        messages=[_leaving(*pair) for pair in engine.heard],
        corners=_corners(own, engine.heard) if method.name == "hulls" else [],
        refusals=refusals,
        broke_off=broke_off,
    )


def _refusals(folder: SiteFolder, plan: FederationFile) -> list[str]:
    """Return why the site, as site.toml is now, would refuse to take part."""
    config = folder.config()
    reasons = []
    if config.policy.methods and plan.method not in config.policy.methods:
        reasons.append(f"its policy allows the methods {', '.join(config.policy.methods)}, not {plan.method}")
    if config.policy.runs_per_day < 1:
        reasons.append("its policy allows no runs (runs_per_day = 0)")
    named = [site.name or Path(site.file).stem for site in plan.sites]
    if named and config.name not in named:
        reasons.append(f"the federation file does not name it; it names {', '.join(named)}")
    return reasons


def _usual_number(folder: SiteFolder, plan: FederationFile) -> int:
    """Guess how many sites there will be: those of the file, else those of the roster."""
    config = folder.config()
    pinned = len(folder.roster()) if (folder.path / config.roster).is_file() else 0
    return max(len(plan.sites) or pinned, config.policy.smallest_cohort, 2)


def shaken(own: SiteData, rng: np.random.Generator, name: str) -> SiteData:
    """Return a phantom site: the site's own rows, moved a little, no farther out than its farthest."""
    X = own.X + SHAKE * own.X.std(axis=0) * rng.standard_normal(own.X.shape)
    norms, farthest = np.linalg.norm(X, axis=1), float(np.linalg.norm(own.X, axis=1).max(initial=0.0))
    X *= (np.minimum(norms, farthest) / np.where(norms > 0, norms, 1.0))[:, None]  # the disc has an edge
    return replace(own, name=name, X=X)


class _Listening:
    """An engine that notes what one site is asked and answers."""

    def __init__(self, inner: EmbeddedEngine, site: str):
        self.inner, self._site = inner, site
        self.heard: list[tuple[bytes, bytes]] = []

    @property
    def names(self) -> tuple[str, ...]:
        return self.inner.names

    def deliver(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, bytes | Lost]]:
        for name, reply in self.inner.deliver(requests):
            if name == self._site and isinstance(reply, bytes):
                self.heard.append((requests[name], reply))
            yield name, reply


def _leaving(request: bytes, reply: bytes) -> Leaving:
    asked, said = unpack(request), unpack(reply)
    return Leaving(asked.kind, len(request), said.kind, len(reply), reveals(asked.method, asked.kind, said.kind))


def _corners(own: SiteData, heard: list[tuple[bytes, bytes]]) -> list[Corners]:
    """Count the corners of the hulls in the masked answer, as the site makes them for it."""
    from fedgeom.methods.hulls import embedding as joint_map
    from fedgeom.methods.hulls.messages import EncodeHulls
    from fedgeom.methods.hulls.plain import local_hulls

    asks = [frame.body for frame in (unpack(request) for request, _ in heard) if frame.kind == EncodeHulls.kind]
    if not asks:
        return []
    ask = decode(asks[-1], EncodeHulls)
    grid, X = ask.plan.grid, own.X
    if ask.embedding is not None:
        X = joint_map.embed(X, ask.embedding.numpy(), joint_map.column_scales(X), c=ask.plan.curvature)
    labels = own.y.astype(str)
    found = []
    for label, bins in local_hulls(X, labels, grid, ask.trim).items():
        points = X[labels == label]
        found.append(Corners(label, len(points), len(bins), points, grid.center(bins)))
    return found


def draw(found: Preview, file: Path) -> Path:
    """Draw the site's rows and what the coordinator would learn of them, class by class."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 5), dpi=120)
    axes = figure.add_subplot()
    for at, one in enumerate(found.corners):
        colour = f"C{at % 10}"
        axes.scatter(one.points[:, 0], one.points[:, 1], s=6, color=colour, alpha=0.25, linewidths=0)
        axes.scatter(one.sent[:, 0], one.sent[:, 1], s=22, color=colour, marker="D", label=one.label)
    edge = np.linspace(0, 2 * np.pi, 200)
    axes.plot(np.cos(edge), np.sin(edge), color="0.7", linewidth=1)
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    axes.set_title("diamonds would leave (rounded, masked); dots stay", fontsize=9)
    figure.savefig(file, bbox_inches="tight")
    return file
