"""The picture of a hulls run: what each site saw, what left it, and what all of them got."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats
from fedgeom.data.sites import SiteData
from fedgeom.report.naming import Naming, Truth, read_naming
from fedgeom.report.palette import FAINT, INK, colours, rgb
from fedgeom.report.shapes import in_disc, outline, regions, site_shapes

if TYPE_CHECKING:
    from fedgeom.federation.results import Run
    from fedgeom.report.shapes import Regions, SiteShapes


SIZES = (11.5, 10.0, 8.5)
"""Sizes of letters, in points, from the one that is wished for to the smallest that can be read."""


@dataclass(frozen=True)
class Title:
    """A title as it is drawn: one line or two."""

    text: str
    size: float

    @property
    def lines(self) -> int:
        """How many lines it has."""
        return self.text.count("\n") + 1


def width_of(text: str, size: float) -> float:
    """Return how wide a line is in points."""
    from matplotlib.textpath import TextPath  # slow to import

    return float(TextPath((0, 0), text, size=size).get_extents().width) if text.strip() else 0.0


def fit_title(text: str, width: float) -> Title:
    """Return a title that is at most so many points wide.

    >>> fit_title("Ulm", 100.0)
    Title(text='Ulm', size=11.5)
    """
    for size in SIZES:
        if width_of(text, size) <= width:
            return Title(text, size)
    size = SIZES[-1]
    letters = max(int(len(text) * width / width_of(text, size)), 1)
    lines = textwrap.wrap(text, letters) or [text]
    kept = [lines[0], " ".join(lines[1:])] if len(lines) > 1 else lines
    return Title("\n".join(_cut(line, size, width) for line in kept), size)


def _cut(line: str, size: float, width: float) -> str:
    """Leave letters out of the middle of a line until it fits: names often differ at their ends."""
    shown, left = line, len(line)
    while left > 2 and width_of(shown, size) > width:
        left -= 1
        shown = f"{line[: (left + 1) // 2].rstrip()}…{line[len(line) - left // 2 :].lstrip()}"
    return shown


MOST_SITES = 11
"""More discs than this are too small to read; the first ones stand for the rest."""
MOST_POINTS = 1200
WIDTH, POINTS = 13.0, 72.0
"""How wide the picture is in inches, and how many points an inch has."""


def draw_disc(
    run: Run,
    train_sites: Sequence[SiteData],
    path: str | Path,
    *,
    test_sites: Sequence[SiteData] | None = None,
    truth: Truth | None = None,
    dpi: int = 150,
) -> Path:
    """Draw a run to a file (.png, .svg or .pdf).

    Left, one small disc per site: its points, its hulls before quantisation (dashed) and as they left the
    site (solid), and one corner magnified. Right, the regions of the joint model with test points (training
    points if no ``test_sites`` are given). Colours and numbers are global classes.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # slow to import
    from matplotlib.figure import Figure

    shapes = site_shapes(run, train_sites)
    naming = read_naming(run.local, truth)
    palette = colours(run.model.classes)
    shown = shapes[:MOST_SITES]
    cells = len(shown) + 1  # and the magnifier
    across = max(2, math.ceil(math.sqrt(cells)))
    down = math.ceil(cells / across)
    figure = Figure(figsize=(WIDTH, 6.9), facecolor="white")
    FigureCanvasAgg(figure)
    outer = figure.add_gridspec(
        1, 2, left=0.01, right=0.99, top=0.90, bottom=0.155, wspace=0.03, width_ratios=(7, 5.6)
    )
    room = 0.94 * POINTS * WIDTH * outer[0].get_position(figure).width / across
    titles = [fit_title(one.name, room) for one in shown]
    inner = outer[0].subgridspec(
        down, across, wspace=0.04, hspace=0.16 if all(t.lines == 1 for t in titles) else 0.3
    )
    s = 1.0 / math.sqrt(run.model.curvature)
    lens = _find_corner(shown, s)
    for at, one in enumerate(shown):
        axes = figure.add_subplot(inner[at // across, at % across])
        _draw_site(axes, one, titles[at], palette, s)
        if lens is not None and lens[0] is one:
            _mark_lens(axes, lens)
    if lens is not None:
        axes = figure.add_subplot(inner[len(shown) // across, len(shown) % across])
        _draw_lens(axes, lens, room, palette, s)
    axes = figure.add_subplot(outer[1])
    _draw_regions(axes, regions(run.model), palette, s)
    _draw_tests(axes, run, train_sites, test_sites, palette)
    if len(shapes) > len(shown):
        said = f"{len(shown)} of {len(shapes)} sites are drawn: the first ones"
        figure.text(0.012, 0.115, said, fontsize=9, color="#6b7280", va="center")
    _heading(figure, 0.012, "What each site sees, and the shapes that leave it")
    _heading(figure, 0.566, "What all sites get: one classifier")
    _legend(figure, naming, palette)
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=dpi, metadata={"Software": None} if target.suffix == ".png" else None)
    return target


def _heading(figure: Any, left: float, text: str) -> None:
    figure.text(left, 0.965, text, fontsize=14.5, weight="bold", color=INK, va="center")


def _disc(axes: Any, s: float) -> None:
    from matplotlib.patches import Circle  # slow to import

    axes.add_patch(Circle((0, 0), s, facecolor="#fbfbfc", edgecolor=FAINT, linewidth=1.2, zorder=0))
    axes.set_xlim(-1.02 * s, 1.02 * s)
    axes.set_ylim(-1.02 * s, 1.02 * s)
    axes.set_aspect("equal")
    axes.axis("off")


def _thinned(n: int, most: int = MOST_POINTS) -> npt.NDArray[np.intp]:
    """Return at most ``most`` of n indices, the same ones each time."""
    return np.sort(np.random.default_rng(0).permutation(n)[:most])


def _draw_site(axes: Any, one: SiteShapes, title: Title, palette: list[str], s: float) -> None:
    _disc(axes, s)
    at = _thinned(len(one.points))
    few = len(at) < 400
    shades = [palette[g] if g >= 0 else FAINT for g in one.groups[at]]
    size, alpha = (6.0, 0.55) if few else (2.2, 0.28)
    axes.scatter(*one.points[at].T, s=size, c=shades, alpha=alpha, linewidths=0, zorder=1)
    _draw_hulls(axes, one, palette, s)
    axes.set_title(title.text, fontsize=title.size, color=INK, pad=2, linespacing=0.95)
    axes.text(
        0.98, 0.0, f"{len(one.points):,} rows", transform=axes.transAxes, fontsize=8.5, color="#6b7280", ha="right"
    )


def _draw_hulls(axes: Any, one: SiteShapes, palette: list[str], s: float, wide: float = 1.0) -> None:
    c = 1.0 / s**2
    for group, hulls in one.sent.items():
        for corners in hulls:
            line = outline(corners, c=c)
            axes.fill(*line.T, facecolor=palette[group], alpha=0.10, linewidth=0, zorder=2)
            axes.plot(*line.T, color=palette[group], linewidth=1.3 * wide, solid_joinstyle="round", zorder=3)
    for hulls in one.exact.values():
        for corners in hulls:
            axes.plot(*outline(corners, c=c).T, color=INK, linewidth=0.55 * wide, dashes=(3, 2.4), zorder=4)


Lens = tuple["SiteShapes", Floats, float]


def _find_corner(sites: Sequence[SiteShapes], s: float) -> Lens | None:
    """Choose what to magnify: the corner that quantisation moved farthest, as the eye measures."""
    best: tuple[float, SiteShapes, Floats] | None = None
    for one in sites:
        for group, hulls in one.sent.items():
            exact = np.vstack(one.exact.get(group, [np.empty((0, 2))]))
            corners = np.vstack(hulls)
            if len(exact) < 3 or len(corners) < 3:
                continue
            moved = np.linalg.norm(corners[:, None] - exact[None], axis=-1).min(axis=1)
            at = int(moved.argmax())
            if best is None or moved[at] > best[0]:
                best = (float(moved[at]), one, corners[at])
    if best is None:
        return None
    return best[1], best[2], max(5.0 * best[0], 1e-6 * s)


def _mark_lens(axes: Any, lens: Lens) -> None:
    axes.plot(
        *lens[1],
        marker="o",
        markersize=9,
        markerfacecolor="none",
        markeredgecolor=INK,
        markeredgewidth=1.1,
        zorder=6,
    )


def _draw_lens(axes: Any, lens: Lens, room: float, palette: list[str], s: float) -> None:
    from matplotlib.patches import Circle  # slow to import

    one, middle, half = lens
    axes.set_xlim(middle[0] - 1.02 * half, middle[0] + 1.02 * half)
    axes.set_ylim(middle[1] - 1.02 * half, middle[1] + 1.02 * half)
    axes.set_aspect("equal")
    axes.axis("off")
    glass = Circle(tuple(middle), half, facecolor="white", edgecolor=INK, linewidth=1.1, zorder=0)
    axes.add_patch(glass)
    before = len(axes.lines), len(axes.patches)
    axes.scatter(
        *one.points.T, s=9, c=[palette[g] for g in one.groups], alpha=0.55, linewidths=0, zorder=1, clip_path=glass
    )
    _draw_hulls(axes, one, palette, s, wide=1.5)
    for group, hulls in one.sent.items():
        axes.plot(*np.vstack(hulls).T, "s", color=palette[group], markersize=5.5, zorder=5)
    for hulls in one.exact.values():
        axes.plot(*np.vstack(hulls).T, "o", color=INK, markersize=3.2, zorder=6)
    for artist in [*axes.lines[before[0] :], *axes.patches[before[1] :]]:
        artist.set_clip_path(glass)
    title = fit_title(f"a corner at {one.name}, × {s / half:,.0f}", room)
    axes.set_title(title.text, fontsize=min(title.size, 10.5), color=INK, pad=2, style="italic", linespacing=0.95)


def _draw_regions(axes: Any, area: Regions, palette: list[str], s: float) -> None:
    from matplotlib.patches import Circle  # slow to import

    _disc(axes, s)
    tints = np.array([rgb(colour) for colour in palette])
    image = np.ones((*area.best.shape, 4))
    image[..., :3] = 1.0 - 0.42 * (1.0 - tints[area.best])
    image[..., 3] = area.best >= 0
    shown = axes.imshow(image, extent=(-s, s, -s, s), origin="lower", interpolation="nearest", zorder=1)
    shown.set_clip_path(Circle((0, 0), s, transform=axes.transData))
    for margin in area.margin:
        if np.nanmin(margin) < 0 < np.nanmax(margin):
            axes.contour(area.axis, area.axis, margin, levels=[0.0], colors="white", linewidths=1.6, zorder=2)
    for group, colour in enumerate(palette):
        place = area.centre(group)
        if place is not None:
            axes.text(
                *place,
                str(group),
                fontsize=11,
                weight="bold",
                color=INK,
                ha="center",
                va="center",
                zorder=6,
                bbox={"boxstyle": "circle,pad=0.22", "facecolor": "white", "edgecolor": colour, "linewidth": 1.8},
            )
    axes.add_patch(Circle((0, 0), s, facecolor="none", edgecolor=FAINT, linewidth=1.4, zorder=5))


def _draw_tests(
    axes: Any, run: Run, sites: Sequence[SiteData], tests: Sequence[SiteData] | None, palette: list[str]
) -> None:
    placed = [
        in_disc(run, site, test)
        for site, test in zip(sites, sites if tests is None else tests, strict=True)
        if "names" in run.local.get(site.name, {}) and len(test)
    ]
    if not placed:
        return
    points, groups = np.vstack([p for p, _ in placed]), np.concatenate([g for _, g in placed])
    at = _thinned(len(points), 2 * MOST_POINTS)
    shades = [palette[g] if g >= 0 else INK for g in groups[at]]
    axes.scatter(
        *points[at].T, s=7 if len(at) > 500 else 18, c=shades, edgecolors="white", linewidths=0.25, zorder=4
    )
    kind = "training points" if tests is None else "test points"
    axes.text(0.99, 0.0, f"{len(at):,} {kind}", transform=axes.transAxes, fontsize=9, color="#6b7280", ha="right")


def _legend(figure: Any, naming: Naming, palette: list[str]) -> None:
    from matplotlib.lines import Line2D  # slow to import
    from matplotlib.patches import Patch

    classes = [
        Patch(facecolor=palette[group], label=f"{group}  {name}")
        for group, name in zip(naming.classes, naming.names, strict=True)
    ]
    lines = [
        Line2D([], [], color=INK, linewidth=0.9, dashes=(3, 2.4), label="hull at the site"),
        Line2D([], [], color="#6b7280", linewidth=1.8, label="what leaves, quantised"),
    ]
    handles = [*lines, *classes]
    wordy = max(map(len, naming.names)) > 24
    figure.legend(
        handles=handles,
        loc="lower center",
        bbox_to_anchor=(0.5, 0.0),
        ncols=min(len(handles), 4 if wordy else 7 if len(handles) > 12 else 6),
        frameon=False,
        fontsize=8.5 if len(handles) > 12 else 9.5 if wordy else 10 if len(handles) > 8 else 11.5,
        handlelength=1.4,
        columnspacing=1.3,
        labelcolor=INK,
    )
