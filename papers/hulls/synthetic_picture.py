"""The picture of synthetic.py: a row of panels for each sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

METHODS = ("CP", "CE", "FLP", "FLE")
AXES = {
    "reference": r"place of the geodesic $\|p\|$   ($\gamma$ = 0.01, $\varepsilon$ = 0.1)",
    "margin": r"margin $\gamma$   ($\|p\|$ = 0.76, $\varepsilon$ = 0.1)",
    "epsilon": r"bin size $\varepsilon$   ($\|p\|$ = 0.76, $\gamma$ = 1)",
    "margin by place": r"margin $\gamma$   ($\varepsilon$ = 0.1)",
    "epsilon by place": r"bin size $\varepsilon$   ($\gamma$ = 1)",
}

# Okabe and Ito's colours; federated curves are dashed with open markers, so that equal curves both show.
LOOKS: dict[str, dict[str, Any]] = {
    "CP": {"color": "#0072B2", "marker": "o", "linestyle": "-", "markersize": 3},
    "CE": {"color": "#D55E00", "marker": "s", "linestyle": "-", "markersize": 6, "linewidth": 2.4},
    "FLP": {"color": "#56B4E9", "marker": "o", "linestyle": "--", "mfc": "white", "markersize": 9},
    "FLE": {"color": "#E69F00", "marker": "s", "linestyle": "--", "mfc": "white", "markersize": 9},
}
LEGEND = {
    "CP": "CP: Poincaré SVM, pooled",
    "CE": "CE: Euclidean SVM, pooled",
    "FLP": "FLP: Poincaré SVM on federated hulls",
    "FLE": "FLE: Euclidean SVM on federated hulls",
}
FIELDS = {"reference": "norm_p", "margin": "gamma", "epsilon": "epsilon"}


def draw(result: dict[str, Any], path: Path) -> None:
    """Plot a row of panels for each sweep and a column for each N; sweeps by place have one ‖p‖ for each."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    sweeps = result["sweeps"]
    sizes = sorted({point["N"] for points in sweeps.values() for point in points})
    size = (1.5 + 3.3 * len(sizes), 0.5 + 2.9 * len(sweeps))
    fig, axes = plt.subplots(
        len(sweeps), len(sizes), figsize=size, sharey="row", layout="constrained", squeeze=False
    )
    for row, (sweep, points) in zip(axes, sweeps.items(), strict=True):
        for ax, n in zip(row, sizes, strict=True):
            _panel(ax, sweep, [point for point in points if point["N"] == n])
        row[0].set_ylabel("accuracy (%)")
    for ax, n in zip(axes[0], sizes, strict=True):
        places = {point["norm_p"] for points in sweeps.values() for point in points if point["N"] == n}
        ax.set_title(f"N = {n:,}" + (rf", $\|p\|$ = {places.pop():g}" if len(places) == 1 else ""))
    handles, labels = axes[0][0].get_legend_handles_labels()
    order = [labels.index(LEGEND[name]) for name in METHODS]
    fig.legend(
        [handles[i] for i in order],
        [labels[i] for i in order],
        loc="outside lower center",
        ncols=2,
        frameon=False,
    )
    trials = max(point["CP"]["n"] for points in sweeps.values() for point in points)
    fig.suptitle(f"Synthetic sets (Figure 5): mean of {trials} trials, shaded 95 % interval")
    fig.savefig(path, dpi=140)
    plt.close(fig)


def _panel(ax: Any, sweep: str, points: list[dict[str, Any]]) -> None:
    """Plot one sweep at one N."""
    x = [point[FIELDS[sweep.split(" ")[0]]] for point in points]
    for name in ("FLP", "FLE", "CE", "CP"):
        mean = np.array([point[name]["mean"] for point in points])
        half = np.array([point[name]["ci95"] for point in points])
        look: dict[str, Any] = {"linewidth": 1.4} | LOOKS[name]
        ax.plot(x, mean, label=LEGEND[name], **look)
        ax.fill_between(x, mean - half, np.minimum(mean + half, 100), color=look["color"], alpha=0.15, lw=0)
    if sweep == "reference":
        ax.set_xticks(x)
    else:
        ax.set_xscale("log")
    ax.set_xlabel(AXES[sweep])
    ax.grid(alpha=0.25, lw=0.6)
    ax.spines[["top", "right"]].set_visible(False)
