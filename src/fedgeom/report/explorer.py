"""The picture of a run to look around in: classes, sites and layers can be switched on and off."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from fedgeom.arrays import Floats
from fedgeom.federation.preparation import Preparation
from fedgeom.geometry.hyperbolic.hull import convex_hull
from fedgeom.geometry.hyperbolic.poincare import geodesic
from fedgeom.preparation import PCA
from fedgeom.report import markup
from fedgeom.report.ellipses import outline as ellipse
from fedgeom.report.ellipses import plane
from fedgeom.report.markup import escape
from fedgeom.report.run_folder import RunFiles, is_map
from fedgeom.report.table import ReportTable, to_html

SIZE = 1000.0
"""How wide and high the picture is in its own units: paths have whole numbers, which are short."""
STEP = 14.0
"""Curves are drawn by lines of about this length."""
ASIDE = 42.0
"""The least distance between two numbers that say which class is where."""
MANY = 12
"""With more sites than this their switches are shown on demand."""
MOST_COLUMNS = 100
"""So many columns can colour landmarks: those that differ most between them."""
GRID = 150
"""So many places across are asked for their class, to find where classes meet."""


class Outline(NamedTuple):
    """One closed line of a site's, or of all sites together ("")."""

    group: int
    site: str
    path: str
    title: str
    spots: str = ""
    """Where its points are in the disc, finer than the path has it."""
    rows: int = 0
    """How many rows a landmark stands for."""


class Scene(NamedTuple):
    """A picture that can be switched on and off by site and by class."""

    title: str
    note: str
    disc: bool
    """Whether it is the Poincaré disc."""
    classes: dict[int, str]
    sites: list[str]
    shapes: list[Outline]
    regions: list[tuple[int, str]]
    """Where the model decides for each class."""
    labels: list[tuple[int, float, float]]
    dots: list[Outline]
    """Rows, where they are at hand."""
    tall: float = SIZE
    """How high the picture is."""
    reach: float = 1.0
    """Which share of the disc the first view shows, from its centre."""
    rows_called: str = "rows (they stayed)"
    columns: Mapping[str, Floats] = MappingProxyType({})
    """The landmarks' means in some columns, by name, in the order of ``shapes``."""


def scene_of(run: RunFiles) -> Scene | None:
    """Return the picture of a run; None where its method leaves no shapes."""
    if run.model is None:
        return None
    if "hull_points" in run.artifacts and getattr(run.model, "in_disc", False):
        return _hulls(run)
    if is_map(run.model):
        return _landmarks(run)
    gaussians = getattr(run.model, "covariances", None)
    if gaussians is not None and gaussians.shape[-1] and getattr(run.model, "curvature", None) is None:
        return _gaussians(run)
    return None


def _hulls(run: RunFiles) -> Scene:
    a = run.artifacts
    c = float(run.model.curvature)
    s = 1.0 / np.sqrt(c)

    def place(points: Floats) -> Floats:
        return np.column_stack([SIZE / 2 * (1 + points[:, 0] / s), SIZE / 2 * (1 - points[:, 1] / s)])

    owners = a.get("owner_of_hull")
    senders = _senders(run, [] if owners is None else np.unique(owners).tolist())
    names = run.class_names()
    shapes = []
    for hull, group in enumerate(a["group_of_hull"].tolist()):
        corners = a["hull_points"][a["hull_of_point"] == hull]
        site = "" if owners is None else senders[int(owners[hull])]
        called = names.get(group, f"class {group}")
        title = f"{site or 'all sites together'}: {called}, {len(corners)} corners"
        shapes.append(Outline(int(group), site, _path(place(_around(corners, c))), title))
    flat = dataclasses.replace(run.model, embedding=None, scales=None, names=())
    axis = np.linspace(-s, s, GRID)
    inside = np.hypot(*np.meshgrid(axis, axis)) < 0.9995 * s
    regions, labels = _regions(flat.predict_proba, axis, axis, inside, place)
    known = "whose they are only those can tell who have the rows" if run.rows.owners else "not whose"
    lines = (
        f"the hulls of {run.home}'s rows, before their corners are rounded; what left of them was masked"
        if run.home
        else f"what left the sites: {len(shapes)} quantised hulls ({known})"
    )
    note = (
        f"Solid lines are {lines}. The tinted areas are what all sites got: where the joint model decides for each "
        "class."
    )
    classes = _called(names, shapes, labels)
    dots = _dots(run, place)
    return Scene("The Poincaré disc", note, True, classes, list(senders.values()), shapes, regions, labels, dots)


def disc_place(points: Floats) -> Floats:
    """Return where points of the disc, (n, 2), are in the picture."""
    return np.column_stack([SIZE / 2 * (1 + points[:, 0]), SIZE / 2 * (1 - points[:, 1])])


def _landmarks(run: RunFiles) -> Scene:
    place = disc_place
    model = run.model.bare()
    names = run.class_names()
    widest = float(model.sizes.max())
    reach = _reach([model.landmarks, *(np.array(dots.points).reshape(-1, 2) for dots in run.rows.sites.values())])
    shapes = []
    for at, (x, y) in enumerate(place(model.landmarks).tolist()):
        counts = model.counts[at]
        group = int(counts.argmax()) if counts.any() else -1
        radius = round(reach * max(3.0, 16.0 * float(np.sqrt(model.sizes[at] / widest))), 2)
        half = f"a{radius:g} {radius:g} 0 1 0"
        known = ", ".join(f"{names[one]} {counts[one]}" for one in np.argsort(-counts).tolist() if counts[one])
        said = f"landmark {at + 1}: the mean of {model.sizes[at]:,} rows; near it {known or 'no class has enough rows'}"
        spot = ",".join(f"{value:.6f}" for value in model.landmarks[at].tolist())
        path = f"M{x - radius:.2f} {y:.2f}{half} {2 * radius:g} 0{half} -{2 * radius:g} 0z"
        shapes.append(Outline(group, "", path, said, spot, int(model.sizes[at])))
    flat = dataclasses.replace(model, centre=np.zeros(2))
    axis = np.linspace(-reach, reach, GRID)
    inside = np.hypot(*np.meshgrid(axis, axis)) < 0.9995
    regions, labels = _regions(flat.predict_proba, axis, axis, inside, place, fine=reach < 1)
    middle = f"rows of {model.root!r}" if model.root else "all rows"
    whose = f"{run.home}'s own rows" if run.home else "rows, which stayed at the sites"
    note = (
        f"Circles are landmarks, means of cells of rows of all sites: the larger, the more rows. Dots are {whose}. The "
        f"middle of {middle} is at the centre, and distances grow towards the rim without end. Tinted areas show which "
        "class is most frequent near."
    )
    if reach < 1:
        note += f" The view shows the disc up to {reach:.2f} of its radius; beyond is nothing."
    dots = _dots(run, place, fine=reach < 1)
    called = {group: name for group, name in _called(names, shapes, labels).items() if group >= 0}
    numbers = [
        (group, *spot) for (group, *_), spot in zip(labels, _apart(_spots(labels), reach).tolist(), strict=True)
    ]
    title = "The joint map, in the Poincaré disc"
    columns = _columns_of(run.model.preparation)
    return Scene(title, note, True, called, [], shapes, regions, numbers, dots, reach=reach, columns=columns)


def _reach(parts: Sequence[Floats]) -> float:
    """Return which share of the disc has all points, with a margin; all of it, where that is most of it."""
    farthest = 1.15 * max(float(np.linalg.norm(points, axis=1).max(initial=0.0)) for points in parts)
    return 1.0 if farthest > 0.7 else max(farthest, 0.02)


def _columns_of(preparation: Preparation) -> dict[str, Floats]:
    """Return the landmarks' means in the named columns that differ most between them, (landmarks,) each.

    They follow from the landmarks: means in components are means in the columns that these are made of, as far as the
    components tell.
    """
    at = len(preparation.steps) - 1
    means = preparation.fits[at].get("landmarks")
    if at and isinstance(preparation.steps[at - 1], PCA):
        at -= 1
        means = means @ preparation.fits[at].get("components")[:, : means.shape[1]].T
    names = preparation.grounds[at].columns.names[: means.shape[1]]
    chosen = np.argsort(-means.std(axis=0), kind="stable")[: MOST_COLUMNS if names else 0]
    return {names[column]: means[:, column] for column in sorted(chosen.tolist(), key=names.__getitem__)}


def _gaussians(run: RunFiles) -> Scene:
    model = run.model
    a = run.artifacts
    directions = plane(model.means, model.covariances)
    groups = getattr(model, "groups", np.arange(len(model.means))).tolist()
    sent = zip(a.get("ellipse_means", ()), a.get("ellipse_covariances", ()), strict=True)
    lines = [ellipse(mean, covariance, directions) for mean, covariance in sent]
    joint = [ellipse(m, v, directions) for m, v in zip(model.means, model.covariances, strict=True)]
    every = np.vstack([*lines, *joint])
    low = every.min(axis=0)
    high = every.max(axis=0)
    scale = 0.96 * SIZE / float((high - low).max() or 1.0)
    middle = (low + high) / 2
    tall = max(float(high[1] - low[1]) * scale + 0.04 * SIZE, 0.3 * SIZE)

    def place(points: Floats) -> Floats:
        moved = (points - middle) * scale
        return np.column_stack([SIZE / 2 + moved[:, 0], tall / 2 - moved[:, 1]])

    names = run.class_names()
    owners = a.get("owner_of_ellipse")
    senders = _senders(run, [] if owners is None else np.unique(owners).tolist())
    counts = a.get("ellipse_counts", np.zeros(len(lines)))
    shapes = []
    for at, line in enumerate(lines):
        group = int(a["group_of_ellipse"][at])
        site = "" if owners is None else senders[int(owners[at])]
        word = names.get(group, f"class {group}") if group >= 0 else "several classes"
        title = f"{site or 'all sites together'}: {word}, {counts[at]:.0f} rows"
        shapes.append(Outline(group, site, _path(place(line)), title))
    called = {group: names.get(group, f"class {group}") for group in sorted(set(groups))}
    shapes += [
        Outline(int(group), "", _path(place(line)), f"joint: {called[group]}")
        for line, group in zip(joint, groups, strict=True)
    ]
    labels = [
        (int(group), *spot)
        for group, spot in zip(groups, _apart(place(model.means @ directions)).tolist(), strict=True)
    ]
    whose = f"the Gaussians of {run.home}'s rows" if run.home else f"what left the sites: {len(lines)} Gaussians"
    said = f"Thin lines are {whose}, two deviations wide. " if lines else ""
    note = (
        f"{said}Thick lines are the joint classes, in the plane of the two directions in which they differ most; "
        "tinted areas show which is likeliest there, as far as this plane tells."
    )
    across = [np.linspace(low[at], high[at], GRID) for at in (0, 1)]
    everywhere = np.ones((GRID, GRID), bool)
    regions, _ = _regions(_in_plane(model, groups, directions), across[0], across[1], everywhere, place)
    dots = _dots(run, place)
    return Scene("The plane", note, False, called, list(senders.values()), shapes, regions, labels, dots, tall)


def _spots(labels: Sequence[tuple[int, float, float]]) -> Floats:
    return np.array([spot for _, *spot in labels], np.float64).reshape(-1, 2)


def _apart(spots: Floats, unit: float = 1.0, steps: int = 60) -> Floats:
    """Return places for numbers, (n, 2), moved as little as it takes that none covers another."""
    moved = spots.copy()
    for _ in range(steps):
        for one, other in itertools.combinations(range(len(moved)), 2):
            way = moved[other] - moved[one]
            far = float(np.hypot(*way))
            if far < unit * ASIDE:
                push = (unit * ASIDE - far) / 2 * (way / far if far > 1e-9 else np.array([1.0, 0.0]))
                moved[one] -= push
                moved[other] += push
    return moved


def _in_plane(model: Any, groups: Sequence[int], directions: Floats) -> Callable[[Floats], Floats]:
    """Return what the joint Gaussians make of points of the plane, where nothing but the plane is known."""
    weights = getattr(model, "log_weights", getattr(model, "log_priors", np.zeros(len(model.means))))
    means = model.means @ directions
    inverses = np.linalg.inv(directions.T @ model.covariances @ directions + 1e-12 * np.eye(2))

    def predict(points: Floats) -> Floats:
        found = np.full((len(points), max(groups) + 1), -np.inf)
        for mean, inverse, weight, group in zip(means, inverses, weights, groups, strict=True):
            away = points - mean
            log = weight + 0.5 * np.linalg.slogdet(inverse)[1] - 0.5 * ((away @ inverse) * away).sum(axis=1)
            found[:, group] = np.logaddexp(found[:, group], log)
        return np.asarray(np.exp(found - found.max(axis=1, keepdims=True)))

    return predict


def _called(names: dict[int, str], shapes: Sequence[Outline], labels: Sequence[Any]) -> dict[int, str]:
    groups = sorted({one.group for one in shapes} | {one[0] for one in labels})
    return {group: names.get(group, f"class {group}") for group in groups}


def _senders(run: RunFiles, blocks: Sequence[int]) -> dict[int, str]:
    """Return what the coordinator's nameless senders are called: by name where the rows are at hand."""
    known = {block: name for name, block in run.rows.owners.items()}
    return {block: known.get(block, f"sender {at}") for at, block in enumerate(blocks, start=1)}


def _around(corners: Floats, c: float) -> Floats:
    """Return the closed line around a hull, its long edges bent as geodesics are."""
    ring = corners[convex_hull(corners, c=c)]
    if len(ring) < 2:
        return ring
    parts = []
    for a, b in zip(ring, np.roll(ring, -1, axis=0), strict=True):
        steps = max(1, min(40, int(np.linalg.norm(a - b) * np.sqrt(c) * SIZE / 2 / STEP)))
        parts.append(geodesic(a, b, np.linspace(0, 1, steps, endpoint=False), c=c))
    return np.vstack([*parts, ring[:1]])


def _path(points: Floats, closed: bool = True, digits: int = 0) -> str:
    """Write a line as SVG does; a point is a short line with round ends."""
    words = [f"{x:.{digits}f} {y:.{digits}f}" for x, y in points.tolist()]
    kept = [word for at, word in enumerate(words) if at == 0 or word != words[at - 1]]
    return "M" + "L".join(kept) + ("z" if closed else "") if len(kept) > 1 else f"M{kept[0]}h.1"


def _dots(run: RunFiles, place: Callable[[Floats], Floats], *, fine: bool = False) -> list[Outline]:
    """Return the rows of each site and class as one path of points."""
    found = []
    for site, dots in run.rows.sites.items():
        groups = np.array(dots.groups)
        placed = place(np.array(dots.points).reshape(-1, 2))
        for group in np.unique(groups).tolist():
            mine = placed[groups == group]
            path = "".join(f"M{x:.{2 * fine}f} {y:.{2 * fine}f}h0" for x, y in mine.tolist())
            spots = " ".join(
                f"{x:g},{y:g}" for x, y in np.array(dots.points).reshape(-1, 2)[groups == group].tolist()
            )
            found.append(Outline(int(group), site, path, "", spots))
    return found


def _regions(
    predict: Callable[[Floats], Floats],
    x: Floats,
    y: Floats,
    inside: Any,
    place: Callable[[Floats], Floats],
    *,
    fine: bool = False,
) -> tuple[list[tuple[int, str]], list[tuple[int, float, float]]]:
    """Return for each class the area in which it wins, and a place inside for its number."""
    from contourpy import FillType, contour_generator  # slow to import; matplotlib brings it
    from scipy.ndimage import distance_transform_edt

    grid = np.stack(np.meshgrid(x, y), axis=-1)
    p = predict(grid[inside])
    ordered = np.sort(p, axis=1)
    areas = []
    labels = []
    for group in range(p.shape[1]):
        margin = np.full(inside.shape, -1.0)
        ahead = p[:, group] - np.where(p[:, group] == ordered[:, -1], ordered[:, -2], ordered[:, -1])
        margin[inside] = ahead
        if not (ahead > 0).any():
            continue
        lines = contour_generator(x, y, margin, fill_type=FillType.OuterOffset).filled(0.0, np.inf)
        rings = [
            ring[start:end]
            for ring, offsets in zip(*lines, strict=True)
            for start, end in itertools.pairwise(offsets)
        ]
        areas.append((group, "".join(_path(place(ring), digits=2 * fine) for ring in rings)))
        depth = distance_transform_edt(np.pad(margin > 0, 1))[1:-1, 1:-1]
        row, column = np.unravel_index(int(depth.argmax()), depth.shape)
        labels.append((group, *place(np.array([[x[column], y[row]]]))[0].tolist()))
    return areas, labels


FIND = (
    '<label class="find">find <input type="search" data-find placeholder="class or site" '
    'autocomplete="off"></label>'
)


def explorer(scene: Scene) -> str:
    """Return the picture with its switches; without a script all is shown, and a table says the same in words."""
    half = SIZE / 2
    circle = f'cx="{half:.0f}" cy="{half:.0f}" r="{half:.0f}"'
    areas = "".join(
        f'<path class="region c{group}" data-class="{group}" data-layer="areas" d="{path}"/>'
        for group, path in scene.regions
    )
    if scene.disc:  # areas are found on a grid, whose squares stick out over the rim
        areas = f'<g class="rim">{areas}</g><circle class="edge" {circle}/>'
    parts = [
        areas,
        "".join(
            f'<path class="dots {_kind(one.group)}" data-class="{one.group}" data-site="{escape(one.site)}" '
            f'data-layer="rows" data-spots="{one.spots}" d="{one.path}"/>'
            for one in scene.dots
        ),
        "".join(
            f'<path class="{_weight(scene, one.site)} {_kind(one.group)}" data-class="{one.group}" '
            f'data-site="{escape(one.site)}" data-layer="{"joint" if _joint(scene, one.site) else "sent"}" '
            f'{_landmark(one)}d="{one.path}"><title>{escape(one.title)}</title></path>'
            for one in scene.shapes
        ),
        "".join(
            f'<g class="number c{group}" data-class="{group}">'
            f'<circle cx="{x:.2f}" cy="{y:.2f}" r="{19 * scene.reach:.2f}"/>'
            f'<text x="{x:.2f}" y="{y:.2f}">{group}</text></g>'
            for group, x, y in scene.labels
        ),
    ]
    sent = sum(not _joint(scene, one.site) for one in scene.shapes)
    said = (
        f"{scene.title} with {sent} shapes of {len(scene.sites) or 'all'} sites and {len(scene.classes)} classes"
    )
    name = escape(f"{said}; the table below says the same")
    box = f"-4 -4 {SIZE + 8:.0f} {scene.tall + 8:.0f}"
    unit = ""
    if scene.reach < 1:
        wide = scene.reach * SIZE
        box = f"{half - wide / 2:.1f} {half - wide / 2:.1f} {wide:.1f} {wide:.1f}"
        unit = f' style="--u: {scene.reach:.3f}"'
    moves = " data-moves" if scene.disc else ""
    svg = f'<svg viewBox="{box}" role="img" aria-label="{name}"{moves}{unit}>{"".join(parts)}</svg>'
    return (
        markup.paragraph(scene.note, "dim")
        + f'<div class="explorer"><figure>{svg}<figcaption aria-live="polite" class="dim said">'
        "Point at a shape to read what it is.</figcaption></figure>"
        f'<div class="switches" hidden>{FIND}{_view(scene)}{_switches(scene)}</div></div>'
        + markup.details("The same as a table", _table(scene), twin=True)
    )


def _landmark(one: Outline) -> str:
    return f'data-spots="{one.spots}" data-rows="{one.rows}" ' if one.rows else ""


def _view(scene: Scene) -> str:
    """Return what moves the disc, and for a map what colours it."""
    if not scene.disc:
        return ""
    colours = {
        "class": "class",
        "site": "site",
        "rows": "rows of a landmark",
        "distance": "pseudotime: distance from the centre",
    }
    chosen = "".join(f'<option value="{key}">{said}</option>' for key, said in colours.items())
    if scene.columns:
        named = "".join(_column(name, values) for name, values in scene.columns.items())
        chosen += f'<optgroup label="mean of a column">{named}</optgroup>'
    colour = f"<label>colour by <select data-colour>{chosen}</select></label> "
    keys = {"in": "zoom in", "out": "zoom out", "back": "back", "svg": "save SVG", "png": "save PNG"}
    buttons = " ".join(f'<button type="button" data-view="{key}">{said}</button>' for key, said in keys.items())
    marked = any(one.rows for one in scene.shapes)
    said = "Drag to move the disc by an isometry; a double click takes a place to the centre. Areas do not move."
    inner = f"{colour if marked else ''}{buttons}{markup.paragraph(said, 'dim')}"
    return f"<fieldset><legend>View</legend>{inner}</fieldset>"


def _column(name: str, values: Floats) -> str:
    """Return the choice of a column as colour; of the landmarks' means it has how far up each is, in percent."""
    low, high = float(values.min()), float(values.max())
    shares = " ".join(f"{100 * share:.0f}" for share in (values - low) / ((high - low) or 1.0))
    range_of = f"{low:.3g} to {high:.3g}"
    return f'<option value="column" data-shares="{shares}" data-range="{range_of}">{escape(name)}</option>'


def _joint(scene: Scene, site: str) -> bool:
    """Say whether a shape is of all sites together beside shapes of single ones."""
    return site == "" and (bool(scene.sites) or not scene.disc)


def _weight(scene: Scene, site: str) -> str:
    return "shape joint" if site == "" and not scene.disc else "shape"


def _kind(group: int) -> str:
    return f"c{group}" if group >= 0 else "none"


def _switches(scene: Scene) -> str:
    classes = "".join(
        _switch("class", str(group), f'<i class="swatch c{group}"></i>{group} {escape(name)}')
        for group, name in scene.classes.items()
    )
    boxes = [_box("Classes", classes)]
    owners = sorted({one.site for one in [*scene.shapes, *scene.dots] if one.site})
    if owners:
        sites = "".join(_switch("site", name, f'<i class="swatch of-site"></i>{escape(name)}') for name in owners)
        inner = _box("Sites", sites)
        boxes.append(inner if len(owners) <= MANY else markup.details(f"{len(owners)} sites", inner))
    layers = {"sent": "what left the sites"} if any(not _joint(scene, one.site) for one in scene.shapes) else {}
    if any(_joint(scene, one.site) for one in scene.shapes):
        layers["joint"] = "joint classes"
    if scene.regions:
        layers["areas"] = "where the model decides" if scene.disc else "where classes meet"
    if scene.dots:
        layers["rows"] = scene.rows_called
    if len(layers) > 1:
        boxes.append(_box("Layers", "".join(_switch("layer", key, escape(name)) for key, name in layers.items())))
    return "".join(boxes)


def _box(title: str, inner: str) -> str:
    buttons = '<button type="button" data-all="1">all</button> <button type="button" data-all="">none</button>'
    return f'<fieldset><legend>{title}</legend><div class="list">{inner}</div>{buttons}</fieldset>'


def _switch(kind: str, value: str, label: str) -> str:
    return f'<label><input type="checkbox" checked data-{kind}-switch="{escape(value)}"> {label}</label>'


def _table(scene: Scene) -> str:
    rows = [
        [str(one.group) if one.group >= 0 else "–", scene.classes.get(one.group, "several"), one.title]
        for one in sorted(scene.shapes, key=lambda one: (one.group, one.site))
    ]
    return to_html(ReportTable("The shapes", ["class", "called", "shape"], rows, right=(0,)))
