"""Draw the idea of each method in three panels: `python docs/make_ideas.py`, into docs/images/idea-NAME.svg.

What is at a site, what travels, and what everybody gets. Schematic, in the colours of reports; readable in grey, as
classes differ in their marks too.
"""

from __future__ import annotations

import html
import itertools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from fedgeom.arrays import Floats
from fedgeom.geometry.hyperbolic.hull import convex_hull

IMAGES = Path(__file__).parent / "images"
SIDE, GAP, TOP = 220, 50, 30
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #22262b; text-anchor: middle } .dim { fill: #5b6472; font-size: 12px }
.head { font-weight: 600 } .box { fill: #f6f7f9; stroke: #c9ced6 }
.rim { fill: none; stroke: #8a93a0; stroke-width: 1.5 }
.a { fill: #0072b2; stroke: #0072b2 } .b { fill: #b07a00; stroke: #b07a00 } .u { fill: #8a93a0; stroke: #8a93a0 }
.line { fill: none; stroke-width: 2 } .b.line { stroke-dasharray: 6 3 } .area { fill-opacity: .16; stroke: none }
.thin { stroke-width: 1; stroke-opacity: .55 } .ink { stroke: #22262b; fill: none; stroke-width: 2 }
.tip { fill: #5b6472 } .go { stroke: #5b6472; stroke-width: 2 } .dot { stroke: none }
@media (prefers-color-scheme: dark) {
  text { fill: #e6e9ee } .dim { fill: #a3adba } .box { fill: #1d2127; stroke: #4a525d } .ink { stroke: #e6e9ee }
  .a { fill: #4da6dd; stroke: #4da6dd } .b { fill: #f0b93a; stroke: #f0b93a } .go { stroke: #a3adba }
  .tip { fill: #a3adba } }
"""
RNG = np.random.default_rng(5)
LEFT, RIGHT = np.array([70.0, 120.0]), np.array([150.0, 95.0])
Panel = str


def lump(centre: Sequence[float], n: int = 16, wide: float = 17.0) -> Floats:
    """Return points around a place."""
    return np.asarray(centre + wide * RNG.standard_normal((n, 2)).clip(-1.9, 1.9))


def dots(points: Floats, kind: str) -> str:
    """Draw rows: class a as circles, class b as squares, rows without a label as rings."""
    if kind == "b":
        return "".join(f'<path class="b dot" d="M{x - 3:.0f} {y - 3:.0f}h6v6h-6z"/>' for x, y in points.tolist())
    hollow = ' style="fill:none"' if kind == "u" else ""
    made = "dot" if kind == "a" else ""
    return "".join(
        f'<circle class="{kind} {made}" cx="{x:.0f}" cy="{y:.0f}" r="3"{hollow}/>' for x, y in points.tolist()
    )


def ring(points: Floats, kind: str, more: str = "") -> str:
    """Draw the hull of points."""
    corners = points[convex_hull((points - 110) / 400)]
    path = "M" + "L".join(f"{x:.0f} {y:.0f}" for x, y in corners.tolist()) + "z"
    return f'<path class="{kind} area" d="{path}"/><path class="{kind} line {more}" d="{path}"/>'


def ellipse(points: Floats, kind: str, more: str = "") -> str:
    """Draw the Gaussian of points, two deviations wide."""
    values, vectors = np.linalg.eigh(np.cov(points.T))
    angle = np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1]))
    x, y = points.mean(axis=0)
    size = f'rx="{2 * np.sqrt(values[1]):.0f}" ry="{2 * np.sqrt(values[0]):.0f}"'
    turn = f'transform="translate({x:.0f} {y:.0f}) rotate({angle:.0f})"'
    return f'<ellipse class="{kind} area" {size} {turn}/><ellipse class="{kind} line {more}" {size} {turn}/>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str = "ink") -> str:
    """Draw a straight line."""
    return f'<path class="{kind}" d="M{x1:.0f} {y1:.0f}L{x2:.0f} {y2:.0f}"/>'


def arrow(x1: float, y1: float, x2: float, y2: float, kind: str = "go") -> str:
    """Draw an arrow."""
    way = np.array([x2 - x1, y2 - y1]) / np.hypot(x2 - x1, y2 - y1)
    side = np.array([-way[1], way[0]])
    end = np.array([x2, y2])
    tip = [end, end - 9 * way + 4 * side, end - 9 * way - 4 * side]
    shape = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in tip) + "z"
    tipped = "tip" if kind == "go" else kind
    return (
        line(x1, y1, *(end - 7 * way), f"{kind} line" if kind != "go" else kind)
        + f'<path class="{tipped}" d="{shape}"/>'
    )


def words(x: float, y: float, text: str, kind: str = "") -> str:
    """Write a line of text."""
    return f'<text class="{kind}" x="{x:.0f}" y="{y:.0f}">{html.escape(text)}</text>'


def cells(x: float, y: float, n: int, seed: int, size: int = 12, kind: str = "a") -> str:
    """Draw a square of numbers."""
    shades = np.random.default_rng(seed).uniform(0.1, 0.9, (n, n))
    return "".join(
        f'<rect class="{kind} dot" fill-opacity="{shades[i, j]:.2f}" x="{x + j * size:.0f}" y="{y + i * size:.0f}" '
        f'width="{size - 1}" height="{size - 1}"/>'
        for i in range(n)
        for j in range(n)
    )


DISC = '<circle class="rim" cx="110" cy="110" r="98"/>'
A, B = lump(LEFT), lump(RIGHT)
A2, B2 = lump(LEFT + np.array([8, -14])), lump(RIGHT + np.array([-6, 20]))
SPLIT = line(104, 30, 118, 190)
HALVES = '<path class="a area" d="M12 12H108L118 208H12z"/><path class="b area" d="M108 12H208V208H118z"/>'


def hulls() -> list[tuple[str, str, Panel]]:
    """Corners, rounded to a grid."""

    def rounded(points: Floats) -> Floats:
        return np.round(points / 12) * 12

    grid = "".join(
        line(at, 14, at, 206, "rim thin") + line(14, at, 206, at, "rim thin") for at in range(24, 204, 24)
    )
    sent = "".join(
        ring(rounded(points), kind, "thin") for points, kind in ((A, "a"), (A2, "a"), (B, "b"), (B2, "b"))
    )
    halves = "".join(
        f'<path class="{kind} area" d="M104 12A98 98 0 {turn} 118 208z"/>'
        for kind, turn in (("a", "1 0"), ("b", "0 1"))
    )
    return [
        (
            "at each site",
            "a hull around each class",
            DISC + dots(A, "a") + dots(B, "b") + ring(A, "a") + ring(B, "b"),
        ),
        ("what travels, summed in secret", "corners on a grid, of nobody knows whom", grid + sent),
        ("everybody gets", "one boundary in the disc", DISC + halves + line(104, 12, 118, 208)),
    ]


def ellipses() -> list[tuple[str, str, Panel]]:
    """A Gaussian for each class of each site, matched."""
    own = dots(A, "a") + dots(B, "b") + ellipse(A, "u") + ellipse(B, "u")
    sent = (
        ellipse(A, "u")
        + ellipse(B, "u")
        + ellipse(A2, "u")
        + ellipse(B2, "u")
        + words(110, 30, "which are the same?")
    )
    joint = ellipse(np.vstack([A, A2]), "a") + ellipse(np.vstack([B, B2]), "b")
    return [
        ("at each site", "count, mean, covariance of its own words", own),
        ("what travels, summed in secret", "Gaussians without names", sent),
        ("everybody gets", "joint classes, and what each word means", HALVES + joint + SPLIT),
    ]


def moments() -> list[tuple[str, str, Panel]]:
    """Sums of each class."""
    sums = "".join(
        words(110, 62 + 34 * at, text)
        for at, text in enumerate(("Σ rows", "Σ x", "Σ x xᵀ", "of each class, all sites"))
    )
    joint = ellipse(np.vstack([A, A2]), "a") + ellipse(np.vstack([B, B2]), "b")
    return [
        ("at each site", "rows of classes with shared names", dots(A, "a") + dots(B, "b")),
        ("what travels, summed in secret", "one sum, the same for any partition", sums),
        ("everybody gets", "a Gaussian for each class", HALVES + joint + SPLIT),
    ]


def ridge() -> list[tuple[str, str, Panel]]:
    """Products of features, added up."""
    site = dots(A, "a") + dots(B, "b") + words(110, 196, "x → features φ(x)")
    sent = cells(24, 60, 5, 1) + words(100, 96, "+") + cells(116, 60, 5, 2) + words(192, 96, "+ …")
    sent += words(110, 160, "ΦᵀΦ and ΦᵀY")
    return [
        ("at each site", "features of its rows", site),
        ("what travels, summed in secret", "products of all pairs of features", sent),
        ("everybody gets", "the ridge of all rows, exactly", HALVES + dots(A2, "a") + dots(B2, "b") + SPLIT),
    ]


def _graph(points: Floats, near: float = 34.0) -> str:
    gaps = np.linalg.norm(points[:, None] - points[None], axis=-1)
    pairs = [(i, j) for i in range(len(points)) for j in range(i) if gaps[i, j] < near]
    return "".join(line(*points[i], *points[j], "rim thin") for i, j in pairs)


def xclp() -> list[tuple[str, str, Panel]]:
    """Labels spread over the rows of all sites."""
    every = np.vstack([A, A2, B, B2])
    few = dots(np.vstack([A[2:], B[2:]]), "u") + dots(A[:2], "a") + dots(B[:2], "b")
    edges = _graph(every) + dots(every, "u") + dots(A[:2], "a") + dots(B[:2], "b")
    return [
        ("at each site", "few rows have a label", few),
        ("what travels", "how alike rows are, or cluster centres", edges),
        (
            "each site gets",
            "labels of its own rows",
            _graph(every) + dots(A, "a") + dots(B, "b") + dots(A2, "a") + dots(B2, "b"),
        ),
    ]


def _network(x: float, y: float, kind: str = "u") -> str:
    layers = [
        [(x, y + 22 * i) for i in range(3)],
        [(x + 34, y - 8 + 20 * i) for i in range(4)],
        [(x + 68, y + 11 + 22 * i) for i in range(2)],
    ]
    lines = "".join(line(*p, *q, "rim thin") for one, two in itertools.pairwise(layers) for p in one for q in two)
    return lines + "".join(
        f'<circle class="{kind} dot" cx="{p[0]:.0f}" cy="{p[1]:.0f}" r="5"/>' for one in layers for p in one
    )


def semi() -> list[tuple[str, str, Panel]]:
    """Training on labels that were spread."""
    spread = _graph(np.vstack([A, B])) + dots(A, "a") + dots(B, "b")
    rounds = _network(70, 70, "a") + arrow(160, 150, 60, 150) + words(110, 175, "round after round", "dim")
    return [
        (
            "at each site",
            "the model's features; few labels",
            dots(A[2:], "u") + dots(B[2:], "u") + dots(A[:2], "a") + dots(B[:2], "b"),
        ),
        ("spread over all sites", "pseudo-labels, with confidences", spread),
        ("everybody gets", "a model trained on both", rounds),
    ]


def training() -> list[tuple[str, str, Panel]]:
    """Models, trained a little and averaged."""
    start = np.array([50.0, 160.0])
    ends = [np.array([150.0, 150.0]), np.array([110.0, 60.0]), np.array([165.0, 95.0])]
    away = "".join(arrow(*start, *end, "a") for end in ends)
    mean = np.mean(ends, axis=0)
    seen = (
        "".join(dots(end[None], "u") for end in ends)
        + arrow(*start, *mean, "b")
        + words(110, 200, "the mean change", "dim")
    )
    bowls = "".join(
        f'<ellipse class="rim thin" cx="160" cy="70" rx="{r}" ry="{0.7 * r:.0f}"/>' for r in (20, 42, 66)
    )
    path = [start, mean, np.array([155.0, 82.0])]
    steps = (
        bowls
        + "".join(arrow(*p, *q, "b") for p, q in itertools.pairwise(path))
        + words(80, 200, "and so on", "dim")
    )
    return [
        ("at each site", "some steps from the joint model", bowls + away + words(50, 182, "joint model", "dim")),
        ("what travels, summed in secret", "how each parameter changed", bowls + seen),
        ("everybody gets", "the next joint model", steps),
    ]


def shrunk() -> list[tuple[str, str, Panel]]:
    """Personal models around a joint one."""
    ways = [(60, 150), (100, 190), (165, 175)]
    own = "".join(arrow(30, 40, x, y, "u") for x, y in ways) + words(
        110, 205, "each alone: too wild, or not", "dim"
    )
    sums = (
        words(110, 80, "Σ gradients, Σ Hessians")
        + words(110, 120, "Σ held-out AUC")
        + words(110, 140, "of each strength λ")
    )
    joint = arrow(30, 40, 130, 160, "a")
    near = "".join(arrow(30, 40, 130 + 0.45 * (x - 130), 160 + 0.45 * (y - 160), "b") for x, y in ways)
    return [
        ("at each site", "a direction of its own", own),
        ("what travels, summed in secret", "Newton's sums, and how much to share", sums),
        ("each site gets", "its own model, near the joint one", joint + near),
    ]


def ptopofl() -> list[tuple[str, str, Panel]]:
    """Sites of like shape share a model."""
    angle = np.linspace(0, 2 * np.pi, 18, endpoint=False)
    circle = np.column_stack([65 + 34 * np.cos(angle), 70 + 34 * np.sin(angle)]) + RNG.normal(0, 2, (18, 2))
    bars = "".join(
        line(30, 50 + 12 * i, 30 + n, 50 + 12 * i, "a line") for i, n in enumerate((140, 60, 48, 40, 30, 22))
    )
    bars += "".join(line(60 + 9 * i, 150 + 12 * i, 150 - 12 * i, 150 + 12 * i, "b line") for i in range(2))
    two = dots(lump([65, 75], 5, 14), "a") + dots(lump([160, 150], 5, 14), "b")
    rims = '<circle class="rim" cx="65" cy="75" r="40"/><circle class="rim" cx="160" cy="150" r="40"/>'
    return [
        ("at each site", "the shape of its rows", dots(circle, "a") + dots(lump([155, 150], 14, 16), "b")),
        ("what travels", "48 numbers on holes and gaps", bars + words(110, 200, "how long they live", "dim")),
        (
            "everybody gets",
            "a model for like sites, leaning on the others",
            two + rims + arrow(95, 102, 128, 125) + arrow(128, 132, 95, 110),
        ),
    ]


def hyperfed() -> list[tuple[str, str, Panel]]:
    """Fixed prototypes in the ball, consistent updates."""
    angles = np.radians([90, 210, 330])
    stars = np.column_stack([110 + 84 * np.cos(angles), 110 - 84 * np.sin(angles)])
    fixed = "".join(
        f'<path class="ink" d="M{x - 6:.0f} {y:.0f}h12M{x:.0f} {y - 6:.0f}v12"/>' for x, y in stars.tolist()
    )
    near = [stars[at] + 0.5 * (110 - stars[at]) + RNG.normal(0, 10, (7, 2)) for at in range(3)]
    rows = dots(near[0], "a") + dots(near[1], "b")
    pull = "".join(
        arrow(*near[at][i], *(near[at][i] + 0.8 * (stars[at] - near[at][i])), "u") for at in (0, 1) for i in (0, 1)
    )
    start = np.array([50.0, 170.0])
    ways = arrow(*start, 70, 50, "a") + arrow(*start, 190, 150, "a") + arrow(*start, 115, 118, "b")
    third = "".join(line(110, 110, 110 + 98 * np.cos(t), 110 - 98 * np.sin(t)) for t in np.radians([150, 270, 30]))
    return [
        ("at each site", "rows pulled to fixed prototypes", DISC + fixed + rows + pull),
        (
            "what travels",
            "changes; the shortest mixture goes against none",
            ways + words(110, 200, "joint step", "dim"),
        ),
        ("everybody gets", "the nearest prototype is the class", DISC + third + fixed + rows + dots(near[2], "u")),
    ]


def maps() -> list[tuple[str, str, Panel]]:
    """Cells of rows, their means, and the disc."""
    rng = np.random.default_rng(7)
    along = np.linspace(0, 1, 15)[:, None]
    ends = {"a": np.array([[50.0, 50.0], [45.0, 160.0]]), "b": np.array([[180.0, 105.0]])}
    stem = np.array([105.0, 108.0])
    arms = {
        kind: np.vstack([stem + along * (end - stem) + 6 * rng.standard_normal((15, 2)) for end in some])
        for kind, some in ends.items()
    }
    cuts = line(108, 15, 108, 205, "thin ink") + line(15, 105, 108, 105, "thin ink")
    cuts += line(150, 15, 150, 205, "thin ink") + line(75, 15, 75, 205, "thin ink")
    own = "".join(dots(points, kind) for kind, points in arms.items()) + cuts
    means = "".join(
        words(110, 66 + 34 * at, text) for at, text in enumerate(("Σ rows", "Σ x", "of each cell", "n ≥ floor"))
    )
    disc = {kind: 110 + 1.1 * (points - 110) for kind, points in arms.items()}
    shown = "".join(dots(points[::2], kind) for kind, points in disc.items())
    marks = "".join(
        f'<path class="ink" d="M{x - 4:.0f} {y:.0f}h8m-4 -4v8"/>'
        for x, y in np.vstack([*disc.values()])[::5].tolist()
    )
    return [
        ("at each site", "cells of rows, cut at joint means", own),
        ("what travels, summed in secret", "sizes and sums of cells, never small", means),
        ("everybody gets", "landmarks in the disc, rows between", DISC + shown + marks),
    ]


DRAWN: dict[str, Callable[[], list[tuple[str, str, Panel]]]] = {
    one.__name__: one
    for one in (hulls, ellipses, moments, ridge, xclp, semi, training, shrunk, ptopofl, hyperfed, maps)
}


def idea(name: str) -> str:
    """Return the picture of a method's idea."""
    parts, wide = [], 3 * SIDE + 2 * GAP
    panels = DRAWN[name]()
    for at, (head, said, inner) in enumerate(panels):
        left = at * (SIDE + GAP)
        parts.append(
            words(left + SIDE / 2, 18, head, "head")
            + f'<svg x="{left}" y="{TOP}" width="{SIDE}" height="{SIDE}" viewBox="0 0 {SIDE} {SIDE}">'
            f'<rect class="box" x=".5" y=".5" width="{SIDE - 1}" height="{SIDE - 1}" rx="8"/>{inner}</svg>'
            + words(left + SIDE / 2, TOP + SIDE + 20, said, "dim")
        )
        if at < 2:
            parts.append(arrow(left + SIDE + 10, TOP + SIDE / 2, left + SIDE + GAP - 10, TOP + SIDE / 2))
    title = "; ".join(f"{head}: {said}" for head, said, _ in panels)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-20 0 {wide + 40} {TOP + SIDE + 34}" width="{wide + 40}" '
        f'role="img" '
        f'aria-label="{html.escape(title)}"><title>{html.escape(title)}</title><style>{STYLE}</style>'
        f"{''.join(parts)}</svg>\n"
    )


if __name__ == "__main__":
    for name in sys.argv[1:] or DRAWN:
        (IMAGES / f"idea-{name}.svg").write_text(idea(name), encoding="utf-8")
        print(f"docs/images/idea-{name}.svg")
