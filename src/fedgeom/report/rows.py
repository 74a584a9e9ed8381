"""Rows to draw: some of each site's, where they are at hand, in a private file of the run's folder.

A coordinator has no rows. A simulated run has all sites', and a page with them is for those who may see them all:
``fedgeom report --no-rows`` leaves them out.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from fedgeom.arrays import Floats
from fedgeom.report.ellipses import has_ellipses, plane
from fedgeom.report.shapes import site_shapes
from fedgeom.storage import write_json

if TYPE_CHECKING:
    from fedgeom.federation.results import Run

ROWS = "rows.json"
MOST_OF_SITE, MOST = 250, 4000
"""So many rows are drawn of a site, and of all together."""


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
    else:
        return None
    return write_json(folder / ROWS, found, private=True)


def few_dots(points: Floats, groups: Any, sites: int) -> SiteDots:
    """Return some of a site's rows, drawn at random, as points of the picture."""
    at = np.sort(np.random.default_rng(0).permutation(len(points))[: min(MOST_OF_SITE, max(MOST // sites, 10))])
    return SiteDots(
        [(round(float(x), 4), round(float(y), 4)) for x, y in points[at]], np.asarray(groups)[at].tolist()
    )


def _of_hulls(run: Run) -> DrawnRows:
    shapes = site_shapes(run, run.train)
    sites = {one.name: few_dots(one.points, one.groups, len(shapes)) for one in shapes}
    return DrawnRows(sites, {one.name: one.block for one in shapes if one.block >= 0})


def _of_ellipses(run: Run) -> DrawnRows:
    from scipy.optimize import linear_sum_assignment  # slow to import

    model, a, sites = run.model, run.artifacts, {}
    directions, cost, blocks = plane(model.means, model.covariances), [], np.unique(a.get("owner_of_ellipse", []))
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
