"""How many points does a hull have? Theorem 5.2 and Definition 4, measured.

N points are drawn uniformly from the disc of radius R = 0.95. Theorem 5.2 is about the hull of the quantized points:
all are quantized with ε = a N^-c (Section 5.2), and the vertices of their minimal hull are counted. The theorem bounds
the expected count, for large N, by

    O(N^c) for c < 1/2,   O(N^(1-c)) for 1/2 ≤ c ≤ 2/3,   O(N^(1/3)) for c > 2/3.

"Large" depends on the constant a. The outer ring has about 244/ε bins and holds about εN/2 of the points; only
when every bin is taken is the count the number of bins, which grows like N^c. With a = 1 and c = 0.3 that takes
N ≈ 1e8, and below it the count may grow like N^(1-c); with a = 10 the theorem's regime is within reach. Both are
measured.

What a site sends is less (Definition 4): the hull is taken first, its corners are quantized, and the hull is taken
again. Both are counted on the same points; "sent" is Definition 4, and "share" the largest part of the N points that
it was.

    python papers/hulls/complexity.py                  # about a minute; writes results/complexity.{json,png}
    python papers/hulls/complexity.py --only 10        # one constant a; the other in the results stays as it is
    python papers/hulls/complexity.py --quick --json   # seconds; writes nothing unless --out is given
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from fedgeom.geometry.hyperbolic import PolarGrid, convex_hull, uniform_disc

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import Floats, Results, parser, print_json

RADIUS = 0.95
RATES: tuple[float | None, ...] = (0.3, 0.5, 0.6, 0.67, 0.8, None)  # c; None leaves the points as they are
CONSTANTS = {"1": 1.0, "10": 10.0}  # a
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
QUICK_SIZES = SIZES[:4]
SEEDS = 10
QUICK_SEEDS = 3
RESULTS = Results(Path(__file__).parent / "results")


def bound_exponent(rate: float | None) -> float:
    """Return the exponent of N in Theorem 5.2's bound."""
    if rate is None or rate > 2 / 3:
        return 1 / 3
    return rate if rate < 1 / 2 else 1 - rate


@lru_cache(maxsize=2)
def draw_points(n: int, seed: int) -> tuple[Floats, Floats]:
    """Draw the points of a trial, and the corners of their hull."""
    points = uniform_disc(n, RADIUS, np.random.default_rng([seed, n]))
    return points, points[convex_hull(points)]


def count_vertices(n: int, rate: float | None, constant: float, seed: int) -> tuple[int, int]:
    """Count the vertices of the quantized points' hull (Theorem 5.2), and of the quantized hull's (Definition 4)."""
    points, corners = draw_points(n, seed)
    if rate is None:
        return len(corners), len(corners)
    grid = PolarGrid(constant * n**-rate, RADIUS)
    return len(convex_hull(grid.quantize(points))), len(convex_hull(grid.quantize(corners)))


def fit_exponent(sizes: list[int], means: list[float]) -> float:
    """Return the least-squares slope of log count over log N, on the larger half of the sizes."""
    start = len(sizes) // 2
    return float(np.polyfit(np.log(sizes[start:]), np.log(means[start:]), 1)[0])


def measure(sizes: Sequence[int], seeds: int, only: Sequence[str] = tuple(CONSTANTS)) -> dict[str, Any]:
    """Run every setting and return the counts with their growth exponents."""
    settings = [(CONSTANTS[name], rate) for name in only for rate in RATES]
    counts = {  # points outside, so that they are drawn once
        (n, seed): [count_vertices(n, rate, constant, seed) for constant, rate in settings]
        for n in sizes
        for seed in range(seeds)
    }
    curves = []
    for at, (constant, rate) in enumerate(settings):
        every = np.array([[counts[n, seed][at] for seed in range(seeds)] for n in sizes])
        means, sent = every[..., 0].mean(axis=1), every[..., 1].mean(axis=1)
        curves.append(
            {
                "a": constant,
                "c": rate,
                "mean": means.round(2).tolist(),
                "standard_error": (every[..., 0].std(axis=1, ddof=1) / math.sqrt(seeds)).round(2).tolist(),
                "exponent": round(fit_exponent(list(sizes), means.tolist()), 3),
                "bound": round(bound_exponent(rate), 3),
                "sent": sent.round(2).tolist(),
                "sent_exponent": round(fit_exponent(list(sizes), sent.tolist()), 3),
                "share": [float(f"{m / n:.3g}") for m, n in zip(every[..., 1].max(axis=1), sizes, strict=True)],
            }
        )
    return {
        "experiment": "hull complexity, Theorem 5.2 and Definition 4",
        "radius": RADIUS,
        "seeds": seeds,
        "sizes": list(sizes),
        "fitted_on": list(sizes[len(sizes) // 2 :]),
        "curves": curves,
    }


def table(result: dict[str, Any]) -> str:
    """Lay the result out for reading."""
    lines = [f"{'a':>4} {'c':>5} " + " ".join(f"{n:>9,}" for n in result["sizes"]) + "  exponent  bound"]
    for curve in result["curves"]:
        rate = "none" if curve["c"] is None else f"{curve['c']:g}"
        means = " ".join(f"{m:>9.1f}" for m in curve["mean"])
        lines.append(f"{curve['a']:>4g} {rate:>5} {means}  {curve['exponent']:>8.3f}  {curve['bound']:>5.3f}")
        sent = " ".join(f"{m:>9.1f}" for m in curve["sent"])
        lines.append(f"{'sent':>10} {sent}  {curve['sent_exponent']:>8.3f}")
    return "\n".join(lines)


def draw(result: dict[str, Any], path: Path) -> None:
    """Plot counts over N, one panel per constant, with the fitted and the theorem's exponents."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    colours = dict(zip(RATES, ["#a6192e", "#e07b39", "#c9a227", "#3a9188", "#2f6db5", "#222222"], strict=True))
    markers = dict(zip(RATES, "osD^v.", strict=True))
    constants = sorted({curve["a"] for curve in result["curves"]})
    fig, (axes,) = plt.subplots(
        1, len(constants), figsize=(5.5 * len(constants), 4.8), sharey=True, layout="constrained", squeeze=False
    )
    sizes = np.array(result["sizes"], dtype=float)
    for ax, constant in zip(axes, constants, strict=True):
        for curve in (k for k in result["curves"] if k["a"] == constant):
            rate = curve["c"]
            name = "not quantized" if rate is None else f"c = {rate:g}"
            label = f"{name:<13} {curve['exponent']:.2f}   {curve['bound']:.2f}    {curve['sent_exponent']:.2f}"
            if rate is not None:
                ax.plot(sizes, curve["sent"], color=colours[rate], linestyle=":", linewidth=1.4)
            ax.plot(
                sizes,
                curve["mean"],
                color=colours[rate],
                marker=markers[rate],
                markersize=5,
                linestyle="--" if rate is None else "-",
                linewidth=1.4,
                label=label,
            )
        ax.set(xscale="log", yscale="log", xlabel="points drawn, N")
        ax.set_title(r"$\varepsilon = N^{-c}$" if constant == 1 else rf"$\varepsilon = {constant:g}\,N^{{-c}}$")
        ax.grid(alpha=0.25, which="major", lw=0.6)
        ax.spines[["top", "right"]].set_visible(False)
        legend = ax.legend(
            title=f"{'growth exponent':<18} fit   bound   sent",
            alignment="left",
            frameon=False,
            loc="upper left",
            prop={"family": "monospace", "size": 8.5},
        )
        legend.get_title().set(family="monospace", size=8.5)
    if constants[0] == 1:
        axes[0].annotate(
            "c = 0.3: the outer ring still has empty bins;\nthe bound's regime begins near N = $10^8$",
            (0.98, 0.06),
            xycoords="axes fraction",
            ha="right",
            fontsize=8.5,
            color=colours[0.3],
        )
    axes[0].set_ylabel("vertices (mean); dotted: of the hull as it is sent")
    axes[0].set_ylim(top=40_000)
    fig.suptitle(
        f"Hull complexity on the disc of radius {RADIUS} (Theorem 5.2; dotted Definition 4), {result['seeds']} seeds"
    )
    fig.savefig(path, dpi=150)
    plt.close(fig)


def main() -> None:
    """Parse, run, print, write."""
    made = parser(__doc__, CONSTANTS)
    made.add_argument("--out", type=Path, help="folder for complexity.json and complexity.png, also with --quick")
    options = made.parse_args()
    start = time.perf_counter()
    result = measure(*((QUICK_SIZES, QUICK_SEEDS) if options.quick else (SIZES, SEEDS)), options.only)
    result["seconds"] = round(time.perf_counter() - start, 1)
    print(table(result))
    if options.out or not options.quick:
        write(result, Results(options.out) if options.out else RESULTS)
    print_json(options, result)


def write(result: dict[str, Any], results: Results) -> None:
    """Write figures and picture; curves of the same sizes that were not made again stay as they are."""
    before = results.read("complexity")
    again = {curve["a"] for curve in result["curves"]}
    kept = before["curves"] if before.get("sizes") == result["sizes"] else []
    curves = [*(curve for curve in kept if curve["a"] not in again), *result["curves"]]
    whole = result | {"curves": sorted(curves, key=lambda curve: float(curve["a"]))}
    results.write("complexity", whole)
    draw(whole, results.folder / "complexity.png")
    print(f"written: {results.folder / 'complexity.json'}, {results.folder / 'complexity.png'}")


if __name__ == "__main__":
    main()
