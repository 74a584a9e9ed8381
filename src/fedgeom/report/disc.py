"""Runs in the Poincaré disc: the shapes that sites sent, where the model decides, and the picture of both."""

from __future__ import annotations

import dataclasses
import io
import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from fedgeom.arrays import Floats, Indices
from fedgeom.data.sites import SiteData
from fedgeom.errors import InputError
from fedgeom.geometry.hyperbolic.hull import convex_hull, trimmed_hull
from fedgeom.geometry.hyperbolic.poincare import geodesic, pairwise_distance
from fedgeom.report.label_names import Naming, Truth, read_naming
from fedgeom.report.palette import FAINT, INK, colours, rgb
from fedgeom.storage import write_file

if TYPE_CHECKING:
    from fedgeom.deploy.preview import Preview
    from fedgeom.federation.results import Run

MOST_SITES = 11
"""More discs than this are too small to read; the first ones stand for the rest."""
MOST_POINTS = 1200
WIDTH = 13.0
"""How wide the picture is, in inches."""
POINTS = 72.0
"""How many points an inch has."""
SIZES = (11.5, 10.0, 8.5)
"""Sizes of letters, in points, from the one that is wished for to the smallest that can be read."""


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
    c = float(run.model.curvature)
    trim = _setting(run, "trim", "auto")
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
    a = run.artifacts
    own = np.vstack(parts)
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
    shown = line
    left = len(line)
    while left > 2 and width_of(shown, size) > width:
        left -= 1
        shown = f"{line[: (left + 1) // 2].rstrip()}…{line[len(line) - left // 2 :].lstrip()}"
    return shown


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
    points = np.vstack([p for p, _ in placed])
    groups = np.concatenate([g for _, g in placed])
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


def draw_preview(found: Preview, file: Path) -> Path:
    """Draw the site's rows and what the coordinator would learn of them, class by class."""
    from matplotlib.figure import Figure  # slow to import

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
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", bbox_inches="tight")
    return write_file(file, drawn.getvalue(), private=True)
