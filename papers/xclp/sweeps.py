"""How much the hash's length, k and α matter, and what choosing them by validation brings (Section 3.3, Appendix A).

    python papers/xclp/sweeps.py                  # two sets, 3 seeds, some minutes; writes results/sweeps.*
    python papers/xclp/sweeps.py --only bits      # one of the three parts
    python papers/xclp/sweeps.py --quick --json   # 1 seed, digits with 400 rows; writes nothing

- **bits**: exact cosines against hashes of 4,096, 1,024 and 256 bits, as Algorithm 1 and as ours.
- **neighbours**: k and α swept, at 1,024 bits.
- **validation**: L and k chosen by how well a fifth of the labels, hidden, is found again, beside the settings as they
  come; on the test rows. L makes for most of the cost, so that the shortest within a point of the best is taken.

scikit-learn's digits over 20 sites with 3 % of labels and MNIST by 12 writers with 10 %, as in tables.py; accuracy on
test rows in percent. All propagation is that of the plain runs, which tests hold equal to the secure conversation.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import MissingFile, figure, parser, percent, plus_minus, print_json, table
from papers.xclp.plain import per_client, plain
from papers.xclp.tasks import (
    RESULTS,
    SEEDS,
    Task,
    digits,
    mnist_writers,
    remember_distances,
    show_labels,
    spread,
)

SETS: dict[str, tuple[Callable[[int], Task], float]] = {
    "digits": (lambda seed: digits(seed, "iid", 20), 0.03),
    "mnist by writer": (lambda seed: mnist_writers(seed, "pixels", 12), 0.1),
}
BITS = (4096, 1024, 256)
NEIGHBOURS, ALPHAS = (5, 10, 20), (0.5, 0.95, 0.99)
VARIANTS = ("paper", "ours")


def accuracy(task: Task, shown: Any, seed: int, at: Any = None, **options: Any) -> float:
    """Return the accuracy on test rows, or those given; ``L=None`` takes exact cosines."""
    at, classes = task.test if at is None else at, task.classes
    exact = "L" in options and options["L"] is None
    if exact:
        del options["L"]

    def way(sites: Any) -> Any:
        if exact:  # as one site's rows, whose cosines are not hidden
            whole = np.vstack([X for X, _ in sites]), np.concatenate([y for _, y in sites])
            return per_client([whole], classes=classes, **options)
        return plain(sites, classes=classes, seed=seed, prior="none", **options).sites

    labels = spread(task, shown, task.all, way)
    return percent(labels[at], task.y[at])


def bits(task: Task, shown: Any, seed: int) -> dict[str, float]:
    """Return the accuracy by the length of hashes."""
    return {
        f"{variant}, {'exact' if L is None else L}": accuracy(task, shown, seed, variant=variant, L=L)
        for variant in VARIANTS
        for L in (None, *BITS)
    }


def neighbours(task: Task, shown: Any, seed: int) -> dict[str, float]:
    """Return the accuracy by k and α, at 1,024 bits."""
    return {
        f"{variant}, k = {k}, α = {alpha}": accuracy(task, shown, seed, variant=variant, k=k, alpha=alpha, L=1024)
        for variant in VARIANTS
        for k in NEIGHBOURS
        for alpha in ALPHAS
    }


def validation(task: Task, shown: Any, seed: int) -> dict[str, float]:
    """Return the accuracy with L and k chosen on a hidden fifth of the labels, and as they come."""
    rng = np.random.default_rng([seed, 23])
    hidden = shown & (rng.random(len(shown)) < 0.2)
    if not hidden.any():
        hidden[np.flatnonzero(shown)[0]] = True
    found: dict[str, float] = {}
    for variant in VARIANTS:
        tried = {
            (L, k): accuracy(task, shown & ~hidden, seed, hidden, variant=variant, L=L, k=k)
            for L in BITS
            for k in NEIGHBOURS
        }
        best = max(tried.values())
        L, k = min((one for one, value in tried.items() if value >= best - 1), key=lambda one: (one[0], one[1]))
        found[f"{variant}, as it comes"] = accuracy(task, shown, seed, variant=variant, L=4096)
        found[f"{variant}, chosen"] = accuracy(task, shown, seed, variant=variant, L=L, k=k)
        found[f"{variant}, chosen L"], found[f"{variant}, chosen k"] = L, k
    return found


PARTS = {"bits": bits, "neighbours": neighbours, "validation": validation}


def page(results: dict[str, Any]) -> str:
    """Return the tables as Markdown."""
    lines = ["# Hashes, neighbours, α", "", "Made by `python papers/xclp/sweeps.py`, whose head says how.", ""]

    def cell(found: dict[str, Any], key: str) -> str:
        return plus_minus(found[key], 1) if key in found else "–"

    if part := results.get("bits"):
        lines += ["## Exact cosines and hashes, mean ± deviation over seeds", ""]
        keys = ["exact", *map(str, BITS)]
        rows = [
            [name, v, *(cell(found, f"{v}, {key}") for key in keys)]
            for name, found in part.items()
            for v in VARIANTS
        ]
        lines += [*table(["set", "variant", *keys], rows), ""]
    if part := results.get("neighbours"):
        lines += ["## k and α", ""]
        rows = [
            [name, v, k, *(cell(found, f"{v}, k = {k}, α = {alpha}") for alpha in ALPHAS)]
            for name, found in part.items()
            for v in VARIANTS
            for k in NEIGHBOURS
        ]
        lines += [*table(["set", "variant", "k", *(f"α = {alpha}" for alpha in ALPHAS)], rows), ""]
    if part := results.get("validation"):
        lines += ["## L and k by validation", ""]
        keys = ["as it comes", "chosen", "chosen L", "chosen k"]
        rows = [
            [name, v, *(cell(found, f"{v}, {key}") for key in keys)]
            for name, found in part.items()
            for v in VARIANTS
        ]
        lines += [*table(["set", "variant", *keys], rows), ""]
    return "\n".join(lines)


def picture(results: dict[str, Any], path: Path) -> None:
    """Draw accuracy over the length of hashes, and over k for each α."""
    from matplotlib.figure import Figure  # only pictures need it

    drawing = Figure(figsize=(12, 4.2), layout="constrained")
    axes = drawing.subplots(1, 3)
    colours = {"digits": "#0072B2", "mnist by writer": "#D55E00"}
    for name, found in results["bits"].items():
        for variant, style in zip(VARIANTS, ("--", "-"), strict=True):
            values = [found[f"{variant}, {L}"]["mean"] for L in BITS]
            axes[0].plot(BITS, values, "o" + style, color=colours[name], label=f"{name}, {variant}")
            axes[0].axhline(found[f"{variant}, exact"]["mean"], color=colours[name], ls=":", lw=1)
    axes[0].set(xscale="log", xlabel="bits, L (dotted: exact cosines)", ylabel="accuracy, %", title="Hashes")
    axes[0].set_xticks(BITS, [f"{L:,}" for L in BITS])
    axes[0].minorticks_off()
    axes[0].legend(fontsize=7.5, frameon=False, loc="lower right")
    for axis, (name, found) in zip(axes[1:], results["neighbours"].items(), strict=False):
        for variant, style in zip(VARIANTS, ("--", "-"), strict=True):
            for alpha, colour in zip(ALPHAS, ("#999999", "#009E73", "#CC79A7"), strict=True):
                values = [found[f"{variant}, k = {k}, α = {alpha}"]["mean"] for k in NEIGHBOURS]
                axis.plot(NEIGHBOURS, values, "." + style, color=colour, label=f"{variant}, α = {alpha}")
        axis.set(xlabel="neighbours, k", title=name)
        axis.set_xticks(NEIGHBOURS)
    for axis in axes[1 + len(results["neighbours"]) :]:
        axis.axis("off")
    drawing.legend(
        *axes[1].get_legend_handles_labels(), loc="outside lower center", ncols=6, fontsize=8, frameon=False
    )
    drawing.savefig(path, dpi=110)


def measure(part: str, name: str, seeds: tuple[int, ...], quick: bool) -> dict[str, Any]:
    """Return one part of one set."""
    make, share = SETS[name]
    each: list[dict[str, float]] = []
    for seed in seeds:
        task = make(seed)
        if quick:
            task = Task(task.X[:400], task.y[:400], task.owner[:400], task.test[:400])
        each.append(PARTS[part](task, show_labels(task, 0.1 if quick else share, seed), seed))
    return {key: figure([one[key] for one in each], spread="sd") for key in each[0]}


def main() -> None:
    """Measure, write and print."""
    made = parser(__doc__, PARTS)
    made.add_argument("--set", choices=list(SETS), help="compute one set only")
    options = made.parse_args()
    remember_distances()
    found: dict[str, Any] = {}
    for part in options.only:
        for name in [options.set] if options.set else ["digits"] if options.quick else SETS:
            try:
                one = measure(part, name, SEEDS[:1] if options.quick else SEEDS, options.quick)
            except MissingFile as reason:
                print(f"{name} is left out: {reason}")
                continue
            found.setdefault(part, {})[name] = one
            print(part, name, {key: value["mean"] for key, value in one.items()}, flush=True)
            if not options.quick:
                before = RESULTS.read("sweeps")
                whole = before | {part: before.get(part, {}) | {name: one}}
                RESULTS.write("sweeps", {key: whole[key] for key in PARTS if key in whole}, page)
                if {"bits", "neighbours"} <= set(whole):
                    picture(whole, RESULTS.folder / "sweeps.png")
    print_json(options, found)


if __name__ == "__main__":
    main()
