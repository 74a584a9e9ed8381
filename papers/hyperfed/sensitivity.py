"""How HyperFed depends on s, m, E, K and d: the paper's own values (Figures 4 to 7, Table 3), as a cheap sweep.

    python papers/hyperfed/sensitivity.py                # compute what is missing; writes results/sensitivity.*
    python papers/hyperfed/sensitivity.py --only slope   # one of slope, margin, epochs, sites, dimension
    python papers/hyperfed/sensitivity.py --report       # only rebuild tables and the picture from finished cells
    python papers/hyperfed/sensitivity.py --quick --json # two values each, 1,000 images, 2 rounds; writes nothing

Fashion-MNIST, 6,000 images of 14 × 14 pixels, α = 0.5, an MLP, batch 128, rate 0.3, one seed: differences below a point
mean nothing. All runs see every image 100 times: with E epochs in a round there are 100/E rounds, so that E = 50 is two
rounds. At s = 1 prototypes lie on the edge, infinitely far from everything; Busemann functions stand for distances
there, the limit of d(x, s·w) − d(0, s·w), of which the triplet and the softmax have the differences they need. The
margin m is of the triplet alone.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import fedgeom
from fedgeom.methods.iterative import Poincare, Triplet

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import Results, parser, print_json, table
from papers.hyperfed import published, rows
from papers.hyperfed.lines import Lines
from papers.hyperfed.split import draw
from papers.hyperfed.table import figures

RESULTS = Results(Path(__file__).resolve().parent / "results")
EPOCHS, RATE, ALPHA = 100, 0.3, 0.5
VALUES: dict[str, tuple[float, ...]] = {
    "slope": (0.2, 0.5, 0.8, 0.9, 0.95, 1),
    "margin": (1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5),
    "dimension": (2, 5, 10, 20, 25, 50, 100),
    "sites": (5, 10, 20, 50, 100),
    "epochs": (5, 10, 20, 50),
}
SYMBOLS = {"slope": "s", "margin": "m", "dimension": "d", "sites": "K", "epochs": "E"}
USUAL: dict[str, float] = {"slope": 0.9, "margin": 3, "dimension": 20, "sites": 20, "epochs": 5}
ROWS = ("HyperFed", rows.CHANGED, "FedAvg")
BLIND = {rows.CHANGED: ("margin",), "FedAvg": ("slope", "margin", "dimension")}
"""What a row does not have."""
split = lru_cache(maxsize=2)(draw)


class Point(NamedTuple):
    """One run: a row, with one thing that differs from the usual."""

    row: str
    what: str
    value: float

    @property
    def key(self) -> str:
        """The name; the usual values are one run, whatever is looked at."""
        usual = self.value == USUAL[self.what]
        return f"{self.row} | usual" if usual else f"{self.row} | {self.what} | {self.value:g}"


def compute(point: Point, images: int = 6000, epochs: int = EPOCHS) -> dict[str, Any]:
    """Train once."""
    at = USUAL | {point.what: point.value}
    data = split("fashion-mnist", ALPHA, 0, coarse=True, rows=images, sites=int(at["sites"]))
    network = replace(rows.NETWORKS["mlp"], embedding_dim=int(at["dimension"]))
    each = int(at["epochs"])
    effort: dict[str, Any] = {
        "n_rounds": max(1, epochs // each),
        "epochs": each,
        "batch_size": rows.BATCH,
        "learning_rate": RATE,
    }
    if point.row != "FedAvg":
        effort["head"] = Poincare(slope=at["slope"])
    if point.row == "HyperFed":
        effort["loss"] = Triplet(margin=at["margin"])
    rule = rows.method(point.row, "mlp", data.shape, effort | {"network": network})
    began = time.process_time()
    facts: dict[str, Any] = dict(point._asdict())
    try:
        plain = rule.plain(data.sites, 0)
    except fedgeom.FedgeomError as error:  # training that went astray is a result, too
        return facts | {"error": str(error)[:120]}
    found = figures(plain.model, plain.local, data, test=True)
    return facts | found | {"seconds": round(time.process_time() - began, 1)}


def points(what: str) -> list[Point]:
    """Return all runs about one thing."""
    return [Point(row, what, value) for row in ROWS if what not in BLIND.get(row, ()) for value in VALUES[what]]


def summary(lines: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, dict[str, dict[str, float | None]]]]:
    """Return figures by what was varied, row and value."""
    found: dict[str, Any] = {}
    for what in VALUES:
        for point in points(what):
            line = lines.get(point.key)
            if line is not None:
                entry: dict[str, float | None] = {name: line.get(name) for name in ("global", "personal")}
                if what == "dimension" and point.row == "HyperFed":
                    entry |= {f"{n} of the paper": published.DIMENSION[n][int(point.value)] for n in entry.copy()}
                found.setdefault(what, {}).setdefault(point.row, {})[f"{point.value:g}"] = entry
    return found


def page(found: Mapping[str, Any]) -> str:
    """Write a table for each thing that was varied."""
    text = ["# What HyperFed depends on", "", " ".join((__doc__ or "").split("\n\n")[-1].split()), ""]
    text += ["![curves](sensitivity.png)", ""]
    for what, by_row in found.items():
        columns = [(row, column) for row in by_row for column in ("global", "personal")]
        body = []
        for value in (f"{one:g}" for one in VALUES[what]):
            entries = [by_row[row].get(value, {}) for row in by_row]
            cells = [_text(entry.get(c)) for entry in entries for c in ("global", "personal")]
            theirs = [_text(entries[0].get(f"{c} of the paper")) for c in ("global", "personal")]
            body.append([value, *cells, *(theirs if what == "dimension" else [])])
        short = {"global": "G-FL", "personal": "P-FL"}
        head = [SYMBOLS[what], *(f"{row}, {short[column]}" for row, column in columns)]
        head += ["paper, G-FL", "paper, P-FL"] if what == "dimension" else []
        text += [f"## {what}", "", *table(head, body), ""]
    return "\n".join(text)


def _text(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def picture(found: Mapping[str, Any], path: Path) -> None:
    """Plot accuracy over each thing that was varied."""
    import matplotlib as mpl  # slow to import

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    colors = dict(zip(ROWS, ("#0072B2", "#009E73", "#555555"), strict=True))
    fig, axes = plt.subplots(1, len(found), figsize=(2.6 * len(found), 2.9), layout="constrained", squeeze=False)
    for ax, (what, by_row) in zip(axes[0], found.items(), strict=True):
        for row, entries in by_row.items():
            for column, line in (("global", "-"), ("personal", ":")):
                xy = [(float(v), e[column]) for v, e in entries.items() if e[column] is not None]
                ax.plot(*zip(*xy, strict=True), line, color=colors[row], marker="o", ms=3, lw=1.3)
        if what in ("dimension", "sites", "epochs"):
            ax.set_xscale("log")
            ticks = [one for one in VALUES[what] if one != 25]  # it would lie on 20
            ax.set_xticks(ticks, [f"{one:g}" for one in ticks])
            ax.minorticks_off()
        ax.set_xlabel(f"{what} {SYMBOLS[what]}")
        ax.grid(alpha=0.25, lw=0.6)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_ylabel("accuracy (%)")
    handles = [plt.Line2D([], [], color=color, label=row) for row, color in colors.items()]
    handles += [plt.Line2D([], [], color="k", ls=ls, label=name) for ls, name in (("-", "G-FL"), (":", "P-FL"))]
    fig.legend(handles=handles, loc="outside lower center", ncols=5, frameon=False, fontsize=8)
    fig.savefig(path, dpi=110)
    plt.close(fig)


def main(arguments: Sequence[str] | None = None) -> None:
    """Compute what is missing, and write tables and picture."""
    made = parser(__doc__, VALUES)
    made.add_argument("--report", action="store_true", help="compute nothing")
    made.add_argument("--cells", type=Path, default=RESULTS.folder / "sensitivity.jsonl", help="the file of cells")
    options = made.parse_args(arguments)
    lines = Lines(None if options.quick else options.cells)
    wanted = [point for what in options.only for point in points(what)]
    if options.quick:
        wanted = [point for point in wanted if point.value in VALUES[point.what][:2] and point.row == "HyperFed"]
    size = {"images": 1000, "epochs": 10} if options.quick else {}
    if not options.report:
        lines.go_on({point.key: partial(compute, point, **size) for point in wanted})
    found = summary(lines.lines)
    if not options.quick:
        RESULTS.write("sensitivity", found, page)
        picture(found, RESULTS.folder / "sensitivity.png")
    print(page(found))
    print_json(options, found)


if __name__ == "__main__":
    main()
