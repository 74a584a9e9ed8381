"""The data and the hulls in pictures: Figures 4, 6 and 8 of the hulls paper.

    python papers/hulls/pictures.py                   # a minute; writes results/figure{4,6,8}.png and pictures.json
    python papers/hulls/pictures.py --only figure4    # some of them
    python papers/hulls/pictures.py --quick --json    # seconds; draws nothing, counts points and corners

Figure 4: synthetic sets of N = 20,000 and 60,000 points with p and the true geodesic. Figure 6: true hulls (dotted) and
quantised ones (solid) of two classes over four bin sizes; the paper shows UC-Stromal, which cannot be had, and here are
two of Olsson's cell types. Figure 8: the embeddings; of the paper's three only Olsson's can be had, and beside it are
Paul's cells and the two sets of images.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fedgeom.geometry.hyperbolic.grid import PolarGrid
from fedgeom.geometry.hyperbolic.hull import convex_hull
from fedgeom.geometry.hyperbolic.poincare import distance, exp_map, geodesic
from fedgeom.geometry.hyperbolic.sampling import labelled_disc

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import Floats, Labels, load_data, parser, print_json
from papers.hulls import published
from papers.hulls.plain import covering_radius
from papers.hulls.runs import RESULTS

RADIUS, MARGIN = 0.95, 0.3
SETS = {"a": (20_000, 0.2), "b": (60_000, 0.6)}
"""Figure 4: N and μ; N = μ · 100,000 (Appendix I.1)."""
EPSILONS = (0.1, 0.5, 1.0, 2.0)
PAIR = (1, 3)
"""The two classes of Figure 6."""
MOST_DRAWN = 6000
COLOURS = ("#0072B2", "#D55E00")


def synthetic() -> dict[str, Any]:
    """Draw the sets of Figure 4."""
    return {
        name: labelled_disc(n, RADIUS, MARGIN, np.random.default_rng([4, n]), reference_norm=mu * RADIUS)
        for name, (n, mu) in SETS.items()
    }


def figure4(path: Path | None) -> dict[str, Any]:
    """Two classes of points on either side of a geodesic."""
    made = synthetic()
    if path is not None:
        fig, axes = _discs(1, 2, 5.0)
        for ax, (name, one) in zip(axes.flat, made.items(), strict=True):
            for label, colour in zip((1, -1), COLOURS, strict=True):
                ax.scatter(*_some(one.X[one.y == label]).T, s=1.0, color=colour, alpha=0.5, linewidths=0)
            along = np.array([-one.normal[1], one.normal[0]])
            # Far beyond what is seen of it, yet not so far that tanh is 1.
            steps = (1 - one.reference @ one.reference) * np.linspace(-6, 6, 400)
            line = np.array([exp_map(one.reference, step * along) for step in steps])
            ax.plot(*line.T, color="black", lw=1.2)
            ax.plot(*one.reference, "o", color="red", ms=5)
            n, mu = SETS[name]
            ax.set_title(rf"({name}) N = {n:,}, $\|p\|$ = {mu * RADIUS:.2f}, $\gamma$ = {MARGIN:g}")
        _save(fig, path / "figure4.png", "Synthetic classes, reference point and true geodesic (Figure 4)")
    return {name: {"drawn": SETS[name][0], "kept": len(one.X)} for name, one in made.items()}


def figure6(path: Path | None) -> dict[str, Any]:
    """True and quantised hulls of two classes over several bin sizes."""
    X, y = published.olsson_points()
    radius = covering_radius([X])
    counts: dict[str, Any] = {}
    fig, axes = _discs(1, len(EPSILONS), 4.0) if path is not None else (None, None)
    for at, epsilon in enumerate(EPSILONS):
        grid, row = PolarGrid(epsilon, radius), {}
        for label, colour in zip(PAIR, COLOURS, strict=True):
            points = X[y == label]
            true = points[convex_hull(points)]
            moved = grid.quantize(true)
            sent = moved[convex_hull(moved)]
            far = float(np.max(np.min([distance(sent, one) for one in true], axis=0)))
            row[str(label)] = {"true": len(true), "sent": len(sent), "farthest": round(far, 3)}
            if axes is not None:
                ax = axes.flat[at]
                ax.scatter(*points.T, s=9, color=colour, alpha=0.5, linewidths=0)
                ax.plot(*outline(true).T, ":", color=colour, lw=1.5)
                ax.plot(*outline(sent).T, "-", color=colour, lw=1.5)
                ax.set_title(rf"$\varepsilon$ = {epsilon:g}")
        counts[f"{epsilon:g}"] = row
    if path is not None:
        names = " and ".join(f"{label}" for label in PAIR)
        _save(fig, path / "figure6.png", f"Hulls of Olsson's classes {names}: true (dotted), quantised (solid)")
    return counts


def embeddings() -> dict[str, tuple[Floats, Labels]]:
    """Give the sets of Figure 8 that can be had, and ours."""
    found: dict[str, tuple[Floats, Labels]] = {"Olsson": published.olsson_points()}
    with load_data("paul15.npz") as file:
        found["Paul"] = file["poincare"], file["y"]
    with load_data("poincare2d_cifar10_fmnist.npz") as file:
        for title, key in (("Fashion-MNIST", "fashion_mnist"), ("CIFAR-10", "cifar10")):
            found[title] = file[f"{key}_x_train"], file[f"{key}_y_train"]
    return found


def figure8(path: Path | None) -> dict[str, Any]:
    """The embeddings, coloured by class."""
    found = embeddings()
    if path is not None:
        fig, axes = _discs(1, len(found), 4.2)
        for ax, (title, (X, y)) in zip(axes.flat, found.items(), strict=True):
            chosen = np.random.default_rng(0).permutation(len(X))[:MOST_DRAWN]
            ax.scatter(*X[chosen].T, c=y[chosen], cmap="tab20", s=9 if len(X) < 1000 else 2, linewidths=0)
            ax.set_title(f"{title}: {len(X):,} points, {len(np.unique(y))} classes")
        _save(fig, path / "figure8.png", "Embeddings in the Poincaré disc (Figure 8)")
    return {title: {"points": len(X), "classes": len(np.unique(y))} for title, (X, y) in found.items()}


FIGURES: dict[str, Callable[[Path | None], dict[str, Any]]] = {
    "figure4": figure4,
    "figure6": figure6,
    "figure8": figure8,
}


def outline(corners: Floats) -> Floats:
    """Give a closed line of geodesics around corners in order."""
    t = np.linspace(0, 1, 24)
    return np.vstack([geodesic(a, b, t) for a, b in zip(corners, np.roll(corners, -1, axis=0), strict=True)])


def _some(points: Floats) -> Floats:
    return points[np.random.default_rng(0).permutation(len(points))[:MOST_DRAWN]]


def _discs(down: int, across: int, size: float) -> tuple[Any, Any]:
    """Make axes with a unit circle each."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(
        down, across, figsize=(size * across, size * down + 0.7), layout="constrained", squeeze=False
    )
    for ax in axes.flat:
        ax.add_patch(plt.Circle((0, 0), 1, fill=False, color="#888888", lw=0.8))
        ax.set(xlim=(-1.03, 1.03), ylim=(-1.03, 1.03), aspect="equal")
        ax.axis("off")
    return fig, axes


def _save(fig: Any, path: Path, title: str) -> None:
    fig.suptitle(title)
    fig.savefig(path, dpi=90)


def main() -> None:
    """Parse, draw, print, write."""
    options = parser(__doc__, FIGURES).parse_args()
    made = {name: FIGURES[name](None if options.quick else RESULTS.folder) for name in options.only}
    for name, counts in made.items():
        print(name, counts)
    if not options.quick:
        RESULTS.keep("pictures", made, FIGURES)
    print_json(options, made)


if __name__ == "__main__":
    main()
