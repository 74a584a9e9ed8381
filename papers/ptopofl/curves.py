"""AUC over rounds: Figures 2 and 3 on Scenarios A and B, and Figure 4 B under attack.

    python papers/ptopofl/curves.py                  # 5 seeds, some minutes; writes results/curves.*
    python papers/ptopofl/curves.py --only attack    # one of the three parts
    python papers/ptopofl/curves.py --quick --json   # 1 seed, 4 of the rounds; writes nothing

Rows take five whole-batch steps of rate 0.5 in each of 15 rounds, so that rounds mean something; "pTopoFL, refitted"
is the published program, which refits each site to its optimum in every round, whatever it began with: it is computed
for one to three rounds, and stays as it is then. AUC is the mean over sites of each site's own model on its own test
rows. Figure 3 D's "round at which a method first reaches 95 % of its final AUC" is read off the mean curve. Attacked
(part B of Figure 4) 0, 2 or 4 of 8 hospitals, 0 to 50 %, turn all their labels around, and AUC is over the honest ones.
Averaging rows are plain runs, which equal the runs bit for bit; pTopoFL's are runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import fedgeom

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import parser, print_json, table
from papers.ptopofl.scenarios import Scenario, scenario_a, scenario_b
from papers.ptopofl.scoring import RESULTS, models, score

FIRST_SEED, SEEDS, QUICK_SEEDS = 1000, 5, 1
ROUNDS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15)
QUICK_ROUNDS = (1, 2, 4)
STEPS: dict[str, Any] = {"steps": 5, "batch_size": None, "learning_rate": 0.5}
ROWS: dict[str, Callable[[int], Any]] = {
    "pTopoFL": lambda t: fedgeom.PTopoFL.published(solver="sgd", n_rounds=t, **STEPS),
    "pTopoFL, refitted": lambda t: fedgeom.PTopoFL.published(n_rounds=min(t, 3)),
    "FedAvg": lambda t: fedgeom.FedAvg(n_rounds=t, **STEPS),
    "FedProx": lambda t: fedgeom.FedProx(mu=0.1, n_rounds=t, **STEPS),
    "SCAFFOLD": lambda t: fedgeom.Scaffold(n_rounds=t, **STEPS),
    "pFedMe": lambda t: fedgeom.PFedMe(lam=15.0, batch_size=None, n_rounds=t, local_rounds=5, inner_steps=3),
}
ATTACKED = {"pTopoFL": ROWS["pTopoFL"], "FedAvg": ROWS["FedAvg"]}
POISONED = (0, 2, 4)
PAPER = {"A": {"pFedMe": 5}, "B": {"pFedMe": 2}}
"""Table 1's round of convergence; 1 for all other rows."""
PARTS = ("A", "B", "attack")


def curve(
    make: Callable[[int], Any], draw: Callable[[int], Scenario], rounds: Sequence[int], seeds: int, what: str
) -> list[float]:
    """Return the mean AUC over seeds after each of these numbers of rounds."""
    drawn = {seed: draw(seed) for seed in range(FIRST_SEED, FIRST_SEED + seeds)}
    known: dict[Any, float] = {}
    for method in (make(t) for t in rounds):
        if method not in known:
            scores = [score(models(method, scenario, seed), scenario)[what] for seed, scenario in drawn.items()]
            known[method] = round(float(np.mean(scores)), 4)
    return [known[make(t)] for t in rounds]


def reached(rounds: Sequence[int], values: Sequence[float]) -> int:
    """Return the first round with 95 % of the last AUC."""
    return next(t for t, value in zip(rounds, values, strict=True) if value >= 0.95 * values[-1])


def measure(part: str, rounds: Sequence[int], seeds: int) -> dict[str, Any]:
    """Return one part."""
    found: dict[str, Any] = {"n_rounds": list(rounds), "seeds": seeds, "curves": {}}
    if part == "attack":
        for bad in POISONED:
            draw = partial(scenario_a, adversarial=bad, flip=1.0)
            for name, make in ATTACKED.items():
                found["curves"][f"{name}, {bad} of 8 poisoned"] = curve(make, draw, rounds, seeds, "honest")
        return found
    draw = {"A": scenario_a, "B": scenario_b}[part]
    for name, make in ROWS.items():
        found["curves"][name] = curve(make, draw, rounds, seeds, "auc")
    return found


def page(results: dict[str, Any]) -> str:
    """Return the tables as Markdown."""
    lines = ["# AUC over rounds", "", "Made by `python papers/ptopofl/curves.py`, whose head says how.", ""]
    titles = {
        "A": "Scenario A (Figure 2 A)",
        "B": "Scenario B (Figure 2 B)",
        "attack": "Under attack (Figure 4 B)",
    }
    for part, found in results.items():
        lines += [f"## {titles[part]}, {found['seeds']} seeds from {FIRST_SEED} on", ""]
        head = ["row", *(f"round {t}" for t in found["rounds"])]
        rows = [[name, *(f"{v:.3f}" for v in values)] for name, values in found["curves"].items()]
        if part != "attack":
            head += ["95 % in round", "the paper's"]
            rows = [
                [*row, reached(found["rounds"], found["curves"][row[0]]), PAPER[part].get(row[0].split(",")[0], 1)]
                for row in rows
            ]
        lines += [*table(head, rows), ""]
    return "\n".join(lines)


COLOURS = dict(zip(ROWS, ["#009E73", "#7fd0b5", "#555555", "#0072B2", "#D55E00", "#CC79A7"], strict=True))


def picture(results: dict[str, Any], path: Path) -> None:
    """Draw all parts: curves of A and B, final AUC and rounds, and curves under attack."""
    from matplotlib.figure import Figure  # only pictures need it

    drawing = Figure(figsize=(13, 7), layout="constrained")
    axes = drawing.subplots(2, 3)
    for axis, part in zip(axes[0], PARTS, strict=True):
        if part not in results:
            axis.axis("off")
            continue
        found = results[part]
        for name, values in found["curves"].items():
            row, _, bad = name.partition(", ")
            style = {"0": "-", "2": "--", "4": ":"}.get(bad[:1], "-") if part == "attack" else "-"
            colour = COLOURS[name if part != "attack" else row]
            axis.plot(found["rounds"], values, marker=".", ls=style, color=colour, label=name)
        axis.set(xlabel="round", ylabel="AUC, honest sites" if part == "attack" else "AUC")
        axis.set_title(f"Scenario {part}" if part != "attack" else "Scenario A, labels turned around")
        if part == "attack":
            axis.legend(fontsize=7.5, frameon=False)
    place = np.arange(len(ROWS))
    for at, (axis, title) in enumerate(
        ((axes[1][0], "AUC after 15 rounds (Figure 3 C)"), (axes[1][1], "first round with 95 % of it (3 D)"))
    ):
        for offset, part, alpha in ((-0.2, "A", 1.0), (0.2, "B", 0.5)):
            if part not in results:
                continue
            curves, rounds = results[part]["curves"], results[part]["rounds"]
            values = [reached(rounds, curves[n]) if at else curves[n][-1] for n in ROWS]
            axis.bar(place + offset, values, 0.38, alpha=alpha, color=[COLOURS[n] for n in ROWS])
        axis.set_xticks(place, [name.replace(", ", ",\n") for name in ROWS], fontsize=8)
        axis.set_title(f"{title}: A, pale B" if "B" in results else f"{title}: Scenario A")
        if at:
            axis.yaxis.get_major_locator().set_params(integer=True)
        else:
            axis.set_ylim(0.7, 0.95)
    axes[1][2].axis("off")
    drawn = next(axis for axis, part in zip(axes[0], PARTS, strict=True) if part in results)
    axes[1][2].legend(
        *drawn.get_legend_handles_labels(), loc="center left", frameon=False, title="Scenarios A and B"
    )
    drawing.savefig(path, dpi=110)


def main() -> None:
    """Measure, write and print."""
    options = parser(__doc__, PARTS).parse_args()
    rounds, seeds = (QUICK_ROUNDS, QUICK_SEEDS) if options.quick else (ROUNDS, SEEDS)
    found = {}
    for part in options.only:
        found[part] = measure(part, rounds, seeds)
        print(page({part: found[part]}), flush=True)
        if not options.quick:
            whole = RESULTS.keep("curves", {part: found[part]}, PARTS, page)
            picture(whole, RESULTS.folder / "curves.png")
    print_json(options, found)


if __name__ == "__main__":
    main()
