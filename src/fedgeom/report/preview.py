"""The picture of a rehearsal: which rows of a site would leave it, and which stay."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from fedgeom.deploy.preview import Preview
from fedgeom.storage import write_file


def draw(found: Preview, file: Path) -> Path:
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
