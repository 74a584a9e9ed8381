"""Pictures of HyperFed: the splits (Figures 8 to 10), the ball (Figure 2), the features (Figure 3), learning curves.

    python papers/hyperfed/pictures.py                   # all; writes results/*.png; some minutes
    python papers/hyperfed/pictures.py --only splits     # one of them
    python papers/hyperfed/pictures.py --quick --json    # fewer images and rounds; writes nothing

The ball has HyperFed's joint model with two features after 20 rounds (Fashion-MNIST, α = 0.5, 6,000 images of 14 × 14
pixels, an MLP, rate 0.3): with the triplet of the paper, and with our changes. The features are those of four methods
with 20 features after the same training, brought into the plane by t-SNE (the paper takes UMAP); test images in both.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedgeom.geometry.hyperbolic import poincare
from fedgeom.methods.iterative import Poincare
from fedgeom.methods.iterative.learners.torch_module import built_learner
from fedgeom.methods.iterative.setup import scaled

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import Floats, Results, load_data, parser, percent, print_json
from papers.hyperfed import rows
from papers.hyperfed.split import Split, draw

RESULTS = Results(Path(__file__).resolve().parent / "results")
ALPHAS, RATE, ROUNDS, SHOWN = (0.1, 0.5, 5.0), 0.3, 20, 1500
COLORS = {
    "FedAvg": "#555555",
    "FedProx": "#999999",
    "SCAFFOLD": "#D55E00",
    "FedDyn": "#CC79A7",
    "SphereFed": "#E69F00",
    "FedAvgM": "#000000",
    "HyperFed": "#56B4E9",
    rows.CHANGED: "#0072B2",
    rows.MOMENTUM: "#009E73",
}


def _axes(count: int, size: tuple[float, float], **options: Any) -> tuple[Any, Any, Any]:
    """Return pyplot, a figure and its panels in a row."""
    import matplotlib as mpl  # slow to import

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, count, figsize=size, layout="constrained", squeeze=False, **options)
    return plt, fig, axes[0]


def _save(plt: Any, fig: Any, path: Path | None) -> None:
    """Write a picture, if it is to be kept."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        fig.savefig(path, dpi=110)
    plt.close(fig)


def curves(lines: Iterable[Mapping[str, Any]], path: Path | None) -> None:
    """Plot the accuracy of the joint model over rounds, tuned rates, one panel for each α, means over seeds."""
    plt, fig, axes = _axes(len(ALPHAS), (10.5, 3.6), sharey=True)
    cells = [line for line in lines if line["setting"] == "tuned" and line["set"] == "fashion-mnist"]
    for ax, alpha in zip(axes, ALPHAS, strict=True):
        for row, color in COLORS.items():
            own = [
                line for line in cells if line["row"] == row and line["alpha"] == alpha and line["kind"] == "mlp"
            ]
            found = [line["curve"] for line in own if line["curve"]]
            if found:
                mean = np.mean([one[: min(map(len, found))] for one in found], axis=0)
                ax.plot(np.arange(1, len(mean) + 1), mean, color=color, lw=1.4, label=row)
        ax.set_title(f"α = {alpha:g}")
        ax.set_ylim(bottom=40)
        ax.set_xlabel("round")
        ax.grid(alpha=0.25, lw=0.6)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("accuracy on test images (%)")
    handles = {label: handle for ax in axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    if handles:
        fig.legend(handles.values(), handles, loc="outside lower center", ncols=5, frameon=False, fontsize=8)
    _save(plt, fig, path)


def splits(path: Path | None, images: int = 6000) -> list[int]:
    """Plot how many images of each class each site has; return the sites' sizes at the first α."""
    plt, fig, axes = _axes(len(ALPHAS), (10.5, 3.4), sharey=True)
    sizes: list[int] = []
    for ax, alpha in zip(axes, ALPHAS, strict=True):
        data = draw("fashion-mnist", alpha, 0, coarse=True, rows=images)
        counts = np.array([np.bincount(site.y.astype(int), minlength=10) for site in data.sites])
        sizes = sizes or counts.sum(axis=1).tolist()
        where = np.argwhere(counts > 0)
        ax.scatter(where[:, 0], where[:, 1], s=0.6 * counts[counts > 0], color="#0072B2", alpha=0.8, lw=0)
        ax.set_title(f"α = {alpha:g}")
        ax.set_xlabel("site")
        ax.set_xticks(range(0, 20, 5))
        ax.set_yticks(range(10))
    axes[0].set_ylabel("class")
    _save(plt, fig, path)
    return sizes


def features(model: Any, X: Any) -> Floats:
    """Return what a model's network makes of rows, (rows, d)."""
    learner = built_learner(model.learner, dict(model.options))
    rows_ = scaled(X, model.centre, model.spread, learner.dtype)
    learner.bind(rows_.shape[1], len(model.names))
    return np.asarray(learner.features(model.parameters, rows_), np.float64)


def trained(row: str, data: Split, dimension: int, rounds: int) -> Any:
    """Return a row's joint model."""
    network = replace(rows.NETWORKS["mlp"], embedding_dim=dimension)
    effort = rows.effort("mlp", RATE, rounds) | {"network": network, "personal": "none"}
    return rows.method(row, "mlp", data.shape, effort).plain(data.sites, 0).model


def ball(path: Path | None, images: int = 6000, rounds: int = ROUNDS) -> dict[str, float]:
    """Plot where test images lie in the disc, beside the prototypes; return the accuracies."""
    names, found = ("HyperFed-Averaged", rows.CHANGED), {}
    titles = ("triplet of the paper", "softmax of distances")
    data, points = draw("fashion-mnist", 0.5, 0, coarse=True, rows=images), Poincare().points(2, 10)
    classes = load_data("fashion_mnist.npz")["class_names"].astype(str)
    plt, fig, axes = _axes(len(names), (8.6, 4.6))
    for ax, row, title in zip(axes, names, titles, strict=True):
        model = trained(row, data, 2, rounds)
        found[row] = round(percent(model.predict(data.X), data.y), 2)
        at = poincare.exp0(features(model, data.X[:SHOWN]))
        ax.add_patch(plt.Circle((0, 0), 1, fill=False, color="k", lw=1))
        for label in range(10):
            own = at[data.y[:SHOWN] == label]
            color = plt.cm.tab10(label)
            ax.scatter(own[:, 0], own[:, 1], s=5, color=color, alpha=0.6, lw=0, label=classes[label])
            ax.plot(*points[label], "*", ms=13, color=color, mec="k", mew=0.8)
        ax.set(xlim=(-1.05, 1.05), ylim=(-1.05, 1.05), aspect="equal", title=f"{title}: {found[row]:.1f} %")
        ax.axis("off")
    marks = axes[0].get_legend_handles_labels()
    fig.legend(*marks, loc="outside lower center", ncols=5, frameon=False, fontsize=8, markerscale=3)
    _save(plt, fig, path)
    return found


def flat(path: Path | None, images: int = 6000, rounds: int = ROUNDS) -> dict[str, float]:
    """Plot features of four methods in the plane; return the accuracies."""
    from sklearn.manifold import TSNE  # slow to import

    names, found = ("FedAvg", "FedBABU", "SphereFed", rows.CHANGED), {}
    data = draw("fashion-mnist", 0.5, 0, coarse=True, rows=images)
    plt, fig, axes = _axes(len(names), (11, 3.2))
    for ax, row in zip(axes, names, strict=True):
        model = trained(row, data, rows.EMBEDDING, rounds)
        found[row] = round(percent(model.predict(data.X), data.y), 2)
        shown = min(SHOWN, images)
        at = TSNE(random_state=0, init="pca").fit_transform(features(model, data.X[:shown]))
        ax.scatter(at[:, 0], at[:, 1], c=data.y[:shown], cmap="tab10", s=3, lw=0)
        ax.set(title=f"{row}: {found[row]:.1f} %", xticks=[], yticks=[])
    _save(plt, fig, path)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw what is asked for."""
    options = parser(__doc__, ("splits", "ball", "features", "curves")).parse_args(arguments)
    size: dict[str, Any] = {"images": 1000, "rounds": 2} if options.quick else {}
    paths = {name: None if options.quick else RESULTS.folder / f"{name}.png" for name in options.only}
    found: dict[str, Any] = {}
    if "splits" in paths:
        found["splits"] = splits(paths["splits"], size.get("images", 6000))
    if "ball" in paths:
        found["ball"] = ball(paths["ball"], **size)
    if "features" in paths:
        found["features"] = flat(paths["features"], **size)
    cells = RESULTS.folder / "table-cells.jsonl"
    if "curves" in paths and cells.exists():
        curves([json.loads(line) for line in cells.read_text(encoding="utf-8").splitlines()], paths["curves"])
    print_json(options, found)


if __name__ == "__main__":
    main()
