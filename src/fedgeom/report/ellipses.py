"""The picture of an ellipses run: the Gaussians that the coordinator saw, and what they make together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedgeom.arrays import Floats
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.report.label_names import Truth, read_naming
from fedgeom.report.palette import FAINT, INK, colours

if TYPE_CHECKING:
    from fedgeom.federation.results import Run

MOST_POINTS = 1500
WIDEST = 2.0
"""How many deviations from its mean a Gaussian's ellipse is drawn."""
STEPS = 72


def has_ellipses(run: Run) -> bool:
    """Say whether a run has Gaussians to draw."""
    return "ellipse_means" in run.artifacts


def plane(means: Floats, covariances: Floats) -> Floats:
    """Return two directions, (columns, 2), in which classes differ most beside their breadth; of two columns these.

    means (classes, columns), covariances (classes, columns, columns).
    """
    from scipy.linalg import eigh  # slow to import

    columns = means.shape[1]
    if columns <= 2:
        return np.eye(columns, 2)
    within = covariances.mean(axis=0)
    between = np.cov(means.T, bias=True)
    found = eigh(between, within + 1e-9 * np.trace(within) * np.eye(columns))[1][:, [-1, -2]]
    return np.asarray(found * np.sign(found[np.abs(found).argmax(axis=0), [0, 1]]))


def outline(mean: Floats, covariance: Floats, directions: Floats) -> Floats:
    """Return the ellipse of a Gaussian as a closed line in the plane of two directions, (points, 2)."""
    flat = directions.T @ covariance @ directions
    values, vectors = np.linalg.eigh(flat)
    angle = np.linspace(0, 2 * np.pi, STEPS + 1)
    circle = np.vstack([np.cos(angle), np.sin(angle)]) * np.sqrt(np.maximum(values, 0.0))[:, None]
    return np.asarray(mean @ directions + WIDEST * (vectors @ circle).T)


def draw_ellipses(
    run: Run, sites: Sequence[SiteData], path: str | Path, *, truth: Truth | None = None, dpi: int = 130
) -> Path:
    """Draw a run to a file (.png, .svg or .pdf).

    Left the Gaussians as they came out of the secure sum, one for each class of each site, coloured by joint class
    (grey: made of several); right what they make together, and rows of the sites that are at hand. Both in the plane of
    the two directions in which the joint classes differ most.
    """
    if not has_ellipses(run):
        raise InputError("this run has no Gaussians; the picture is for the method 'ellipses'")
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # slow to import
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    model = run.model
    a = run.artifacts
    directions = plane(model.means, model.covariances)
    palette = colours(model.classes)
    figure = Figure(figsize=(12, 6.4), facecolor="white")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    for mean, covariance, group in zip(
        a["ellipse_means"], a["ellipse_covariances"], a["group_of_ellipse"].tolist(), strict=True
    ):
        left.plot(
            *outline(mean, covariance, directions).T, color=palette[group] if group >= 0 else FAINT, linewidth=1
        )
    points = _rows(run, sites, directions)
    if len(points):
        right.scatter(*points.T, s=3, color=FAINT, linewidths=0, zorder=0)
    for mean, covariance, group in zip(model.means, model.covariances, model.groups.tolist(), strict=True):
        right.plot(*outline(mean, covariance, directions).T, color=palette[group], linewidth=2)
        right.text(*(mean @ directions), str(group), color=INK, fontsize=11, ha="center", va="center")
    count = len(a["ellipse_means"])
    for axes, title in ((left, f"What leaves: {count} Gaussians, not whose"), (right, "What all sites get")):
        axes.set_title(title, fontsize=13, weight="bold", color=INK, loc="left")
        axes.set_xticks([])
        axes.set_yticks([])
    naming = read_naming(run.local, truth)
    handles = [
        Patch(facecolor=palette[group], label=f"{group}  {name}")
        for group, name in zip(naming.classes, naming.names, strict=True)
    ]
    figure.legend(handles=handles, loc="lower center", ncols=min(len(handles), 5), frameon=False, fontsize=8.5)
    figure.subplots_adjust(left=0.02, right=0.98, top=0.93, bottom=0.1 + 0.03 * (len(handles) // 5), wspace=0.03)
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=dpi, metadata={"Software": None} if target.suffix == ".png" else None)
    return target


def _rows(run: Run, sites: Sequence[SiteData], directions: Floats) -> Any:
    """Return some rows of the sites in the plane, (rows, 2); none of tables that are prepared first."""
    if run.model.preparation is not None:
        return np.empty((0, 2))
    found = [
        run.model.for_site(run.local[s.name]).vectors(s.X) @ directions for s in sites if run.local.get(s.name)
    ]
    every = np.vstack(found) if found else np.empty((0, 2))
    return every[np.sort(np.random.default_rng(0).permutation(len(every))[:MOST_POINTS])]
