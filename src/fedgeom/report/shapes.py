"""The shapes of a run, as coordinates to draw: points, hulls before and after quantisation, regions."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from fedgeom.arrays import Floats, Indices
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.geometry.hyperbolic.hull import convex_hull, trimmed_hull
from fedgeom.geometry.hyperbolic.poincare import geodesic, pairwise_distance

if TYPE_CHECKING:
    from fedgeom.federation.results import Run


@dataclass(frozen=True)
class SiteShapes:
    """One site in the disc; everything goes by global class."""

    name: str
    points: Floats
    groups: Indices
    """The global class of each point; -1 for a label the site never trained with."""
    exact: dict[int, list[Floats]]
    """Corners of the hulls that the site computed."""
    sent: dict[int, list[Floats]]
    """Corners of the hulls that left it."""
    block: int = -1
    """Which of the coordinator's nameless senders it is; -1 where corners of all sites came together."""


def needs_disc(run: Run) -> None:
    """Refuse runs whose model does not live in the disc."""
    if not run.model.in_disc or "hull_points" not in run.artifacts:
        raise InputError("this run has no hulls in a disc; the picture is for the method 'hulls'")


def in_disc(run: Run, site: SiteData, rows: SiteData | None = None) -> tuple[Floats, Indices]:
    """Return rows of a site (its own unless given) as points of the disc, with their global classes."""
    names = run.local[site.name]["names"]
    chosen = site if rows is None else rows
    points = run.model.for_site(run.local[site.name]).to_disc(chosen.X)
    return points, np.array([names.get(word, -1) for word in chosen.y.astype(str).tolist()], np.intp)


def site_shapes(run: Run, sites: Sequence[SiteData]) -> list[SiteShapes]:
    """Return the shapes of every site that got a result.

    The coordinator decoded hulls by block, not by site. Here, where the sites' rows are at hand, each block is
    given to the site whose corners it lies on.
    """
    needs_disc(run)
    c, trim = float(run.model.curvature), _setting(run, "trim", "auto")
    found = []
    for site in sites:
        if "names" not in run.local.get(site.name, {}):
            continue
        points, groups = in_disc(run, site)
        exact: dict[int, list[Floats]] = {}
        for label in site.classes:
            members = np.flatnonzero(site.y == label)
            if groups[members[0]] < 0:  # a label that took no part
                continue
            corners = points[members[trimmed_hull(points[members], trim=trim, c=c)]]
            exact.setdefault(int(groups[members[0]]), []).append(corners)
        found.append(SiteShapes(site.name, points, groups, exact, {}))
    if "owner_of_hull" not in run.artifacts:  # with shared names nobody knows which corners are of one site
        for shapes in found:
            shapes.sent.update({group: [_nearest(run, group, parts, c)] for group, parts in shapes.exact.items()})
        return found
    return [
        dataclasses.replace(shapes, sent=_sent(run, block), block=block)
        for shapes, block in zip(found, _blocks(run, found, c), strict=True)
    ]


def _nearest(run: Run, group: int, parts: Sequence[Floats], c: float) -> Floats:
    """Return those of a class's corners, of all sites together, that a site's own were rounded to."""
    a, own = run.artifacts, np.vstack(parts)
    corners = a["hull_points"][a["group_of_hull"][a["hull_of_point"]] == group]
    distance = pairwise_distance(own, corners, c=c)
    near = distance.min(axis=1) <= float(_setting(run, "epsilon", 0.01))
    nearest = distance.argmin(axis=1)
    return np.asarray(corners[np.unique(nearest[near] if near.any() else nearest)])


def _setting(run: Run, name: str, otherwise: Any) -> Any:
    """Return a setting of the run from its folder if it has one, such as the share of outliers that sites left out."""
    file = None if run.folder is None else Path(run.folder) / "config.json"
    if file is None or not file.is_file():
        return otherwise
    return msgspec.json.decode(file.read_bytes()).get("parameters", {}).get(name, otherwise)


def _blocks(run: Run, sites: Sequence[SiteShapes], c: float) -> list[int]:
    from scipy.optimize import linear_sum_assignment  # slow to import

    points = run.artifacts["hull_points"]
    owners = run.artifacts["owner_of_hull"][run.artifacts["hull_of_point"]]
    blocks = np.unique(owners)
    cost = np.zeros((len(sites), len(blocks)))
    for i, shapes in enumerate(sites):
        corners = np.vstack([part for parts in shapes.exact.values() for part in parts])
        nearest = pairwise_distance(points, corners, c=c).min(axis=1)
        cost[i] = [nearest[owners == block].mean() for block in blocks]
    _, columns = linear_sum_assignment(cost)
    return [int(blocks[column]) for column in columns]


def _sent(run: Run, block: int) -> dict[int, list[Floats]]:
    a = run.artifacts
    sent: dict[int, list[Floats]] = {}
    for hull in np.flatnonzero(a["owner_of_hull"] == block).tolist():
        corners = a["hull_points"][a["hull_of_point"] == hull]
        sent.setdefault(int(a["group_of_hull"][hull]), []).append(corners)
    return sent


def outline(corners: Floats, *, c: float, steps: int = 24) -> Floats:
    """Return the closed line around a hull, its edges geodesics.

    corners (n, 2), f8; returns (points, 2), f8.
    """
    ring = corners[convex_hull(corners, c=c)]
    if len(ring) == 1:
        return ring
    t = np.linspace(0.0, 1.0, steps, endpoint=False)
    edges = [geodesic(a, b, t, c=c) for a, b in zip(ring, np.roll(ring, -1, axis=0), strict=True)]
    return np.vstack([*edges, ring[:1]])


@dataclass(frozen=True)
class Regions:
    """The global model's decision over a square raster of the disc."""

    axis: Floats
    margin: Floats
    """(classes, n, n): how much each class is ahead of the best other one; NaN outside the disc."""
    best: Indices
    """(n, n): the winning class, -1 outside the disc."""

    def centre(self, group: int) -> Floats | None:
        """Return the place in a class's region that is farthest from its boundary, where a number fits."""
        from scipy.ndimage import distance_transform_edt  # slow to import

        mine = np.pad(self.best == group, 1)
        if not mine.any():
            return None
        depth = distance_transform_edt(mine)[1:-1, 1:-1]
        row, column = np.unravel_index(int(depth.argmax()), depth.shape)
        return np.array([self.axis[column], self.axis[row]])


def regions(model: Any, n: int = 420) -> Regions:
    """Return where in the disc the model decides for which class."""
    s = 1.0 / np.sqrt(model.curvature)
    axis = np.linspace(-s, s, n)
    place = np.stack(np.meshgrid(axis, axis), axis=-1)
    inside = np.linalg.norm(place, axis=-1) < 0.9995 * s
    flat = dataclasses.replace(model, embedding=None, scales=None, names=())
    p = flat.predict_proba(place[inside])
    ordered = np.sort(p, axis=1)
    ahead = p - np.where(p == ordered[:, -1:], ordered[:, -2:-1], ordered[:, -1:])
    margin = np.full((p.shape[1], n, n), np.nan)
    margin[:, inside] = ahead.T
    best = np.full((n, n), -1, np.intp)
    best[inside] = p.argmax(axis=1)
    return Regions(axis, margin, best)
