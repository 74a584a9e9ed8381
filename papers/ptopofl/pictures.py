"""Pictures of what the other scripts found: Figure 4 A, Figure 6 A to C, Figure 7.

    python papers/ptopofl/pictures.py                   # seconds; from results/*.json, writes results/figure*.png
    python papers/ptopofl/pictures.py --only figure6    # one of them
    python papers/ptopofl/pictures.py --quick --json    # draws, and writes nothing

Figure 6's parts follow from the sizes of Scenario A's hospitals and Eqs. 10 and 11 alone, with the paper's assumed
α_c = 0.1, with none (α_c = 1), and for what is really sent, descriptor and model.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import parser, print_json
from papers.ptopofl.scenarios import scenario_a
from papers.ptopofl.scoring import RESULTS

DESCRIPTOR, COMPRESSION = 48, 0.1
GREY, GREEN, PALE, RED = "#555555", "#009E73", "#7fd0b5", "#D55E00"


def figure4(drawing: Any) -> dict[str, Any]:
    """Draw AUC over the share of poisoned hospitals (part A; part B is in curves.png)."""
    found = RESULTS.read("robustness")
    shares = [100 * p / 8 for p in found["poisoned"]]
    shown = {
        "FedAvg": GREY,
        "pTopoFL, published": GREEN,
        "coordinate median": "#0072B2",
        "local only": "#CC79A7",
        "Shrunk (ours)": "#E69F00",
    }
    axes = drawing.subplots(1, len(found["auc_over_honest_sites"]), sharey=True)
    for axis, (flip, rows) in zip(axes, found["auc_over_honest_sites"].items(), strict=True):
        for name, colour in shown.items():
            axis.plot(shares, rows[name], marker="o", ms=4, color=colour, label=name)
        axis.set(xlabel="% of hospitals poisoned", title=f"they flip {float(flip):.0%} of their labels")
    axes[0].plot([50], [0.771], "*", color=GREEN, ms=12, label="the paper's pTopoFL at 50 %")
    axes[0].set_ylabel("AUC over honest hospitals")
    axes[0].legend(fontsize=8, frameon=False, loc="lower left")
    return {"seeds": found["seeds"]}


def figure6(drawing: Any) -> dict[str, Any]:
    """Draw reconstruction risk, the information proxy and numbers sent, by hospital of Scenario A."""
    sites = scenario_a(0, adversarial=0).train
    n = np.array(sorted(len(site) for site in sites))
    columns = sites[0].X.shape[1]
    model = columns + 1
    sent = {
        "model": (GREY, model, 1.0),
        "descriptor, α_c = 0.1 as assumed": (GREEN, DESCRIPTOR, COMPRESSION),
        "descriptor, α_c = 1": (PALE, DESCRIPTOR, 1.0),
        "descriptor and model, as sent": (RED, DESCRIPTOR + model, 1.0),
    }
    risk, proxy, numbers = drawing.subplots(1, 3)
    for name, (colour, dimension, share) in sent.items():
        risk.plot(n, dimension * share / (n * columns), marker="o", ms=4, color=colour, label=name)
    risk.set(
        xlabel="rows of the hospital",
        ylabel="ρ (Eqs. 10, 11)",
        title="A: reconstruction risk",
        yscale="log",
        ylim=(1e-3, 0.3),
    )
    risk.legend(fontsize=7.5, frameon=False)
    values = {name: float(np.log2(1 + dimension * share)) for name, (_, dimension, share) in sent.items()}
    places = np.arange(len(sent))
    colours = [one[0] for one in sent.values()]
    proxy.bar(places, list(values.values()), color=colours)
    proxy.set(title="B: log₂(1 + dim · α_c), bits")
    numbers.bar(places, [one[1] for one in sent.values()], color=colours)
    numbers.set(title="C: numbers sent, in the first round")
    for axis in (proxy, numbers):
        axis.set_xticks(places, ["model", "descr.,\nα_c = 0.1", "descr.,\nα_c = 1", "both,\nas sent"], fontsize=8)
    return {"proxy": {name: round(value, 3) for name, value in values.items()}}


def figure7(drawing: Any) -> dict[str, Any]:
    """Draw the ablation: how far behind all parts each setting is, with its interval, and the paper's."""
    found = RESULTS.read("ablation")
    paper = {"one cluster (M = 1)": 0.841 - 0.790, "no blending (β = 0)": 0.841 - 0.838}
    names = [name for name in found if name != "all parts"]
    axis = drawing.subplots()
    for at, name in enumerate(names):
        gap = found[name]["less than all parts"]
        low, high = gap["ci95"]
        axis.errorbar(
            gap["mean"], at, xerr=[[gap["mean"] - low], [high - gap["mean"]]], fmt="o", color=GREEN, capsize=3
        )
        if name in paper:
            axis.plot(paper[name], at, "*", color=RED, ms=12, label="the paper, one seed" if not at else None)
    axis.axvline(0, color="black", lw=0.8)
    axis.set_yticks(range(len(names)), names)
    axis.invert_yaxis()
    axis.set(xlabel="AUC, all parts − setting (20 seeds, 95 % interval)")
    axis.legend(frameon=False, loc="lower right")
    return {"settings": len(names)}


PICTURES = {"figure4": (figure4, (10, 4)), "figure6": (figure6, (12, 3.8)), "figure7": (figure7, (7.5, 3.8))}


def main() -> None:
    """Draw and write."""
    from matplotlib.figure import Figure  # only pictures need it

    options = parser(__doc__, PICTURES).parse_args()
    said: dict[str, Any] = {}
    for name in options.only:
        make, size = PICTURES[name]
        drawing = Figure(figsize=size, layout="constrained")
        said[name] = make(drawing)
        drawing.savefig(io.BytesIO() if options.quick else RESULTS.folder / f"{name}.png", dpi=110)
        print(f"{name}: {said[name]}")
    print_json(options, said)


if __name__ == "__main__":
    main()
