"""Pictures of what the other scripts found: Figure 4 A, Figure 6 A to C, Figure 7, and of what the paper has as tables.

    python papers/ptopofl/pictures.py                   # seconds; from results/*.json, writes results/figure*.png
    python papers/ptopofl/pictures.py --only figure6    # one of them
    python papers/ptopofl/pictures.py --quick --json    # draws, and writes nothing

Figure 6's parts follow from the sizes of Scenario A's hospitals and Eqs. 10 and 11 alone, with the paper's assumed
α_c = 0.1, with none (α_c = 1), and for what is really sent, descriptor and model. Stars are the paper's figures.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import draw
from papers.ptopofl.scenarios import scenario_a
from papers.ptopofl.scoring import RESULTS
from papers.ptopofl.table1 import PAPER as PAPER1
from papers.ptopofl.table2 import PAPER as PAPER2
from papers.ptopofl.table2 import ROWS as ROWS2

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


def table1(drawing: Any) -> dict[str, Any]:
    """Draw Table 1: every row's AUC in both scenarios, with the deviation over seeds."""
    found = RESULTS.read("table1")
    axes = drawing.subplots(1, 2)
    for axis, name in zip(axes, ("A", "B"), strict=True):
        rows = dict(sorted(found[name]["rows"].items(), key=lambda row: row[1]["auc"]["mean"]))
        for at, (row, one) in enumerate(rows.items()):
            colour = GREEN if row.startswith("pTopoFL") else "#E69F00" if row.startswith("Shrunk") else GREY
            axis.errorbar(one["auc"]["mean"], at, xerr=one["auc"]["sd"], fmt="o", ms=4, color=colour, capsize=2)
            if row in PAPER1[name]:
                axis.plot(PAPER1[name][row][0], at, "*", color=RED, ms=9)
        axis.set_yticks(range(len(rows)), list(rows), fontsize=8)
        seeds = found[name]["seeds"]
        axis.set(xlabel=f"AUC, mean ± deviation over {seeds} seeds", title=f"Scenario {name}")
    drawing.suptitle("Table 1; stars: the paper's, one seed", fontsize=11)
    return {"rows": len(found["A"]["rows"])}


def table2(drawing: Any) -> dict[str, Any]:
    """Draw Table 2: accuracy with networks, and the paper's, of larger ones."""
    found = RESULTS.read("table2")
    titles = {"cifar 0.1": "CIFAR-10, α = 0.1", "cifar 0.5": "CIFAR-10, α = 0.5", "writers": "by writer"}
    axes = drawing.subplots(1, len(titles), sharey=True)
    for at, (axis, (name, title)) in enumerate(zip(axes, titles.items(), strict=True)):
        for place, row in enumerate(ROWS2):
            values = [seed[row] for seed in found[name].values() if row in seed]
            colour = GREEN if row.startswith(("pTopoFL", "TopoNN")) else GREY
            axis.barh(place, np.mean(values), xerr=np.std(values, ddof=1), color=colour, error_kw={"lw": 1})
            if row in PAPER2:
                axis.plot(PAPER2[row][at], place, "*", color=RED, ms=9)
        axis.set(xlim=(0, 100), xlabel="accuracy, %", title=title)
    axes[0].set_yticks(range(len(ROWS2)), list(ROWS2), fontsize=8)
    axes[0].invert_yaxis()
    drawing.suptitle("Table 2 at a small size; stars: the paper's, at its own", fontsize=11)
    return {"rows": len(ROWS2)}


def privacy(drawing: Any) -> dict[str, Any]:
    """Draw what attacks found: rows from a step, a cloud from its descriptor, members."""
    found = RESULTS.read("privacy")
    steps, cloud, members = drawing.subplots(1, 3, width_ratios=(1, 0.8, 1.1))
    sizes = [int(n) for n in found["rows_from_model"]]
    for key, colour, name in (("rebuilt", RED, "rebuilt"), ("chance", GREY, "drawn at random")):
        values = [one[key] for one in found["rows_from_model"].values()]
        steps.plot(sizes, values, "o-", color=colour, label=name)
    steps.set(
        xscale="log", xlabel="rows in the step", ylabel="cosine to the true rows", title="Rows from one step"
    )
    steps.set_xticks(sizes, [str(n) for n in sizes])
    steps.minorticks_off()
    steps.legend(frameon=False, fontsize=8)
    part = found["rows_from_descriptor"]
    values = [part["distance of a random cloud"], part["distance after the search"]]
    cloud.bar(["random", "same descriptor"], values, color=[GREY, RED], width=0.6)
    cloud.set(ylabel="distance to the true points", title="A cloud from its descriptor")
    told = found["members_in_models"] | found["members_in_descriptors"]
    members.barh(range(len(told)), list(told.values()), color=RED)
    members.axvline(0.5, color="black", lw=0.8, ls=":")
    members.set_yticks(range(len(told)), [name.replace(" (", "\n(") for name in told], fontsize=7.5)
    members.invert_yaxis()
    members.set(xlim=(0, 1), xlabel="success (dotted: guessing)", title="Who was in it")
    return {"steps": sizes}


def overhead(drawing: Any) -> dict[str, Any]:
    """Draw Section 4.8: bytes that a site sends and processor time, by model."""
    found = RESULTS.read("overhead")
    axes = drawing.subplots(2, len(found), sharey=True, squeeze=False)
    for column, (model, rows) in zip(axes.T, found.items(), strict=True):
        sent = [name for name in rows if "bytes" in rows[name]]
        places = range(len(sent))
        colours = [GREEN if name.startswith("pTopoFL") else GREY for name in sent]
        for axis, key, unit in zip(
            column, ("bytes", "CPU s"), ("kB sent by a site", "CPU s, all sites"), strict=True
        ):
            values = [rows[name][key] / (1000 if key == "bytes" else 1) for name in sent]
            axis.barh(places, values, color=colours)
            axis.set_yticks(places, sent, fontsize=8)
            axis.set(xlabel=unit)
        shapes = [rows[name]["bytes of shapes"] / 1000 for name in sent]
        column[0].barh(places, shapes, color=RED, label="of the bytes, those for shapes")
        column[0].set_title(f"{model}, 15 rounds")
        column[1].axvline(
            rows["describing rows alone"]["CPU s"],
            color=RED,
            lw=1,
            ls=":",
            label="of the time, that of describing rows",
        )
    axes[0][0].invert_yaxis()
    handles = [axis.get_legend_handles_labels()[0][0] for axis in axes[:, 0]]
    drawing.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return {"models": list(found)}


PICTURES = {
    "figure4": (figure4, (10, 4)),
    "figure6": (figure6, (12, 3.8)),
    "figure7": (figure7, (7.5, 3.8)),
    "table1": (table1, (12, 4.6)),
    "table2": (table2, (11, 3.8)),
    "privacy": (privacy, (12.5, 3.8)),
    "overhead": (overhead, (11, 5)),
}


if __name__ == "__main__":
    draw(__doc__, RESULTS, PICTURES)
