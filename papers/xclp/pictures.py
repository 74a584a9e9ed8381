"""Pictures of what the other scripts found; the paper has tables only.

    python papers/xclp/pictures.py                  # seconds; from results/*.json, writes results/*.png
    python papers/xclp/pictures.py --only few       # one of them
    python papers/xclp/pictures.py --quick --json   # draws, and writes nothing

- **few**: accuracy over the share of labels (Tables 1, 3 and 6), from tables.json.
- **left-out**: FedAvg and XCLP where one site has no labels (Table 2), a point for every site and set.
- **features**: raw pixels and features that FedAvg has trained (Tables 1 and 6), from features.json.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import draw
from papers.xclp.tasks import RESULTS

COLOURS = {
    "FedAvg": "#555555",
    "per-client LP paper": "#56B4E9",
    "per-client LP ours": "#0072B2",
    "XCLP (labelled + unlabelled)": "#7fd0b5",
    "XCLP paper": "#7fd0b5",
    "XCLP code": "#E69F00",
    "XCLP ours": "#009E73",
}
TITLES = {
    "per-client LP paper": "per-client LP, Algorithm 1",
    "XCLP (labelled + unlabelled)": "XCLP, Algorithm 1",
    "XCLP paper": "XCLP, Algorithm 1",
}
SHOWN = {
    "digits iid 20 sites": "digits, 20 sites",
    "mnist by writer pixels": "MNIST by writer",
    "fashion pixels iid 10 sites": "Fashion-MNIST, 10 sites",
    "kang by donor": "Kang, eight donors",
    "lung by donor": "lung, six donors",
    "hipc by hospital": "T cells, five hospitals",
}


def few(drawing: Any) -> dict[str, Any]:
    """Draw accuracy over the share of rows that have labels."""
    found = RESULTS.read("tables")
    axes = drawing.subplots(2, 3, sharey=True)
    for axis, (name, title) in zip(axes.flat, SHOWN.items(), strict=True):
        rows = {
            float(key.removeprefix(name).removesuffix(" %")): row
            for key, row in found.items()
            if key.startswith(name) and key.removeprefix(name).removesuffix(" %").strip().isdigit()
        }
        for column, colour in COLOURS.items():
            shares = [share for share, row in rows.items() if column in row]
            if not shares:
                continue
            means = [rows[share][column]["mean"] for share in shares]
            deviations = [rows[share][column]["sd"] for share in shares]
            label = TITLES.get(column, column)
            axis.errorbar(
                shares, means, deviations, marker="o", ms=3, color=colour, label=label, capsize=2, lw=1.3
            )
        axis.set(xscale="log", ylim=(0, 100), title=title)
        axis.set_xticks(list(rows), [f"{share:g} %" for share in rows])
        axis.minorticks_off()
    for axis in axes[:, 0]:
        axis.set_ylabel("accuracy, %")
    for axis in axes[1]:
        axis.set_xlabel("training rows with labels")
    drawing.legend(
        *axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False, fontsize=9
    )
    return {"sets": list(SHOWN)}


def left_out(drawing: Any) -> dict[str, Any]:
    """Draw XCLP against FedAvg for every site that is left out, with plain and with balanced accuracy."""
    rows = {key: row for key, row in RESULTS.read("tables").items() if " without " in key}
    counts: dict[str, Any] = {}
    for axis, balanced in zip(drawing.subplots(1, 2), (False, True), strict=True):
        part = [row for key, row in rows.items() if key.endswith(", balanced") == balanced]
        fedavg = np.array([row["FedAvg"]["mean"] for row in part])
        for column, marker in (("XCLP (labelled + unlabelled)", "v"), ("XCLP code", "s"), ("XCLP ours", "o")):
            values = np.array([row[column]["mean"] for row in part])
            label = TITLES.get(column, column)
            axis.plot(fedavg, values, marker, color=COLOURS[column], ms=5, alpha=0.85, label=label)
            counts.setdefault("balanced" if balanced else "plain", {})[label] = int((values > fedavg).sum())
        axis.plot([15, 100], [15, 100], color="black", lw=0.8)
        axis.set(xlim=(50, 100), ylim=(15, 100), xlabel="FedAvg, %", ylabel="XCLP, % (above the line: ahead)")
        axis.set_title("balanced accuracy" if balanced else "accuracy")
        axis.legend(frameon=False, fontsize=9, loc="lower left")
        counts["rows"] = len(part)
    return counts


def features(drawing: Any) -> dict[str, Any]:
    """Draw every row of features.py, pixels beside trained features."""
    found = RESULTS.read("features")
    columns = ("FedAvg", "per-client LP paper", "per-client LP ours", "XCLP paper", "XCLP code", "XCLP ours")
    cells = sorted(
        {key.split(",")[0] for key in found}, key=lambda cell: (cell.split()[0], float(cell.split()[1]))
    )
    axes = drawing.subplots((len(cells) + 1) // 2, 2, sharey="row", squeeze=False).ravel()
    for axis, cell in zip(axes, cells, strict=False):
        kinds = [kind for kind in ("identity", "filters", "linear", "network") if f"{cell}, {kind}" in found]
        width = 0.84 / len(columns)
        for at, column in enumerate(columns):
            for place, kind in enumerate(kinds):
                if values := found[f"{cell}, {kind}"].get(column):
                    spread = np.std(values, ddof=1) if len(values) > 1 else 0
                    label = None if place != len(kinds) - 1 else TITLES.get(column, column)
                    x = place + (at - 2.5) * width
                    axis.bar(
                        x,
                        np.mean(values),
                        width,
                        yerr=spread,
                        color=COLOURS[column],
                        label=label,
                        error_kw={"lw": 1},
                    )
        axis.set_xticks(range(len(kinds)), kinds)
        axis.set_title(cell.replace("writers", "MNIST by writer,").replace("cifar", "CIFAR-10,") + " of labels")
        axis.set_ylim(0, 50 if "cifar" in cell else 100)
    for axis in axes[::2]:
        axis.set_ylabel("accuracy, %")
    drawing.legend(
        *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False, fontsize=9
    )
    return {"cells": cells}


PICTURES = {"few": (few, (12, 6.6)), "left-out": (left_out, (10, 4.4)), "features": (features, (12, 7))}


if __name__ == "__main__":
    draw(__doc__, RESULTS, PICTURES)
