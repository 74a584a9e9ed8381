"""The picture of sites that lie: accuracy against their number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from papers.robust.liars import KINDS

LIARS = (1, 2, 3, 4)
GROUPS = {10: 3, 20: 6, 40: 9}
"""As many groups of at least three sites as there can be; with 40 sites nine, enough for four liars."""
HONEST = "nobody lies"
TITLES = {"fedavg": "FedAvg", "moments": "Moments"}
COLORS = {
    "plain mean": "#555555",
    "sum (plain mean)": "#555555",
    "plain mean, max_abs_change = 0.5": "#999999",
    "sum, max_abs_value = 1,000": "#999999",
    "median, open": "#E69F00",
    "trimmed mean, open": "#CC79A7",
    "Krum, open": "#D55E00",
    "GroupMedian": "#0072B2",
    'GroupMedian(rule="geometric")': "#56B4E9",
}
"""By row, in the order of the tables."""


def seeds_of(rows: dict[str, Any]) -> int:
    """Return over how many seeds most cells of a table are."""
    counts = [e["n"] for kinds in rows.values() for by_liars in kinds.values() for e in by_liars.values()]
    return max(set(counts), key=counts.count, default=0)


def picture(found: dict[str, Any], path: Path) -> None:
    """Draw accuracy against the number of liars: a row for each method and number of sites, a column for each kind."""
    from matplotlib.figure import Figure  # only pictures need it

    panels = [(method, sites) for method, by_sites in found.items() for sites in by_sites]
    drawing = Figure(figsize=(3.1 * len(KINDS), 2.3 * len(panels) + 0.8), layout="constrained")
    axes = drawing.subplots(len(panels), len(KINDS), sharex=True, sharey=True, squeeze=False)
    for down, (method, sites) in enumerate(panels):
        for across, kind in enumerate(KINDS):
            ax, rows = axes[down, across], found[method][sites]
            for way, kinds in rows.items():
                entries = [kinds.get(HONEST, {}).get("0"), *(kinds.get(kind, {}).get(str(n)) for n in LIARS)]
                there = [(at, e) for at, e in enumerate(entries) if e and e["mean"] is not None]
                points = [(at, e["mean"]) for at, e in there]
                least, most = [e["worst"] for _, e in there], [e["best"] for _, e in there]
                ax.vlines([at for at, _ in there], least, most, color=COLORS[way], lw=1, alpha=0.6)
                strong = way.startswith("GroupMedian")
                ax.plot(
                    *zip(*points, strict=True) if points else ([], []),
                    color=COLORS[way],
                    lw={"GroupMedian": 1.6, 'GroupMedian(rule="geometric")': 2.8}.get(way, 1.2),
                    ls="--" if "open" in way else ":" if "largest" in way else "-",
                    marker="o" if strong else ".",
                    ms=4,
                    label=way,
                    zorder=4 if way == "GroupMedian" else 3 if strong else 2,
                )
            most = (GROUPS[int(sites)] - 1) // 2
            ax.axvspan(-0.2, most + 0.5, color="#0072B2", alpha=0.07, lw=0)
            ax.set(ylim=(0, 1.02), xlim=(-0.2, 4.2), xticks=range(5))
            if not down:
                ax.set_title(kind, fontsize=10)
            if not across:
                ax.set_ylabel(
                    f"{TITLES[method]}\n{sites} sites, {GROUPS[int(sites)]} groups, n = {seeds_of(rows)}",
                    fontsize=9,
                )
            ax.grid(alpha=0.25)
    for ax in axes[-1]:
        ax.set_xlabel("sites that lie")
    marks: dict[str, Any] = {}
    for ax in axes[:, 0]:
        for line, label in zip(*ax.get_legend_handles_labels(), strict=True):
            marks.setdefault(label, line)
    drawing.legend(
        list(marks.values()), list(marks), loc="outside lower center", ncols=3, fontsize=8, frameon=False
    )
    drawing.suptitle(
        "Accuracy, with the least and largest of all seeds; shaded: more than twice as many groups as liars",
        fontsize=11,
    )
    drawing.savefig(path, dpi=110)
