"""Other poisons than flipped labels (Section 3.4): poisoned features with labels, and poisoned models; who is flagged.

    python papers/ptopofl/attacks.py                    # 10 seeds, some minutes; writes results/attacks.*
    python papers/ptopofl/attacks.py --only models      # one of the attacks
    python papers/ptopofl/attacks.py --quick --json     # 1 seed; writes nothing

Scenario A, two of eight hospitals poisoned, by one of these:

- **labels**: all labels turned around, as in robustness.py; a descriptor of rows cannot see that;
- **features**: 40 % of the rows have their labels turned around and ten of their columns shifted by two deviations, so
  that topology has something to see (the authors' later public code poisons both; a shift of all rows of a hospital
  would be invisible, as descriptors know no place);
- **models**: the hospital sends its step with the opposite sign, eight times as long, so that a mean turns round.

The AUC over the honest hospitals, and how many poisoned and honest ones are flagged (Eq. 8) at the paper's τ, 1.8 in
its robustness experiment and 2.0 elsewhere. All rows are whole runs (`fedgeom.run`); pTopoFL as published looks at
single models.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import fedgeom

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import bold, confidence, finish, parser, table
from papers.ptopofl.scenarios import Scenario, flipped, scenario_a
from papers.ptopofl.scoring import RESULTS, own_models, score
from papers.robust.liars import lying

SEEDS, QUICK_SEEDS = 10, 1
POISONED = 2
SHIFT, SHIFTED, FLIPS = 2.0, 10, 0.4
TAUS = (1.8, 2.0)
SHORT: dict[str, Any] = {"n_rounds": 8, "steps": 10, "batch_size": None, "learning_rate": 0.5}
ROWS: dict[str, Callable[[], Any]] = {
    "FedAvg": lambda: fedgeom.FedAvg(**SHORT),
    "pTopoFL, published": lambda: fedgeom.PTopoFL.published(solver="sgd", **SHORT),
    "pTopoFL, trust by updates": lambda: fedgeom.PTopoFL(
        cluster_by="none", trust="updates", secure=False, **SHORT
    ),
    "coordinate median": lambda: fedgeom.FedAvg(aggregation="median", **SHORT),
    "local only": lambda: fedgeom.LocalOnly(solver="exact"),
}


def poisoned(attack: str, seed: int) -> Scenario:
    """Return Scenario A with two poisoned hospitals; where models are poisoned, their rows are as they were."""
    honest = scenario_a(seed, adversarial=0)
    rng = np.random.default_rng([seed, 31])
    chosen = tuple(sorted(rng.permutation(len(honest.train))[:POISONED].tolist()))
    train = list(honest.train)
    for at in chosen:
        if attack == "labels":
            train[at] = flipped(train[at], 1.0, rng)
        elif attack == "features":
            move = np.zeros(train[at].X.shape[1])
            move[rng.permutation(len(move))[:SHIFTED]] = SHIFT
            site, some = train[at], rng.random(len(train[at])) < FLIPS
            X = site.X + np.outer(some, move * site.X.std(axis=0))
            train[at] = replace(site, table=X, y=np.where(some, 1 - site.y, site.y))
    return replace(honest, train=tuple(train), adversarial=chosen)


def measure(attack: str, seeds: int) -> dict[str, Any]:
    """Return each row's AUC over honest hospitals, and who was flagged by pTopoFL's two kinds of trust."""
    auc: dict[str, list[float]] = {name: [] for name in ROWS}
    flags = {name: {str(tau): [0, 0] for tau in TAUS} for name in ROWS if name.startswith("pTopoFL")}
    trusts: dict[str, list[list[float]]] = {name: [[], []] for name in flags}
    for seed in range(seeds):
        scenario = poisoned(attack, seed)
        liars = [scenario.train[at].name for at in scenario.adversarial]
        for name, make in ROWS.items():
            bent = lying(liars, "sign flips", len(scenario.train)) if attack == "models" else nullcontext()
            with bent:
                run = fedgeom.run(make(), scenario.train, seed=seed)
            auc[name].append(score(own_models(run), scenario)["honest"])
            if name in flags:
                for site, trust in run.metrics["trust"].items():
                    bad = site in liars
                    trusts[name][not bad].append(trust)
                    for tau in TAUS:  # t = exp(−max(z − 1, 0)), and what is told is rounded to four digits
                        flags[name][str(tau)][not bad] += trust < np.exp(1 - tau) - 5e-5
    return {
        "auc": {name: [round(float(x), 4) for x in confidence(values)] for name, values in auc.items()},
        "flagged": {name: {tau: [int(n) for n in both] for tau, both in by.items()} for name, by in flags.items()},
        "trust": {name: [round(float(np.mean(t)), 3) for t in both] for name, both in trusts.items()},
        "seeds": seeds,
        "sites": [POISONED * seeds, (8 - POISONED) * seeds],
    }


ATTACKS = ("labels", "features", "models")


def page(results: dict[str, Any]) -> str:
    """Return the tables as Markdown."""
    lines = ["# Other poisons", "", "Made by `python papers/ptopofl/attacks.py`, whose head says how.", ""]
    shown = [name for name in ATTACKS if name in results]
    lines += ["## AUC over honest hospitals, two of eight poisoned, ± half of the 95 % interval", ""]
    best = {one: max(mean for mean, _ in results[one]["auc"].values()) for one in shown}
    cells = [
        [
            name,
            *(bold(f"{m:.3f} ± {h:.3f}", m == best[one]) for one in shown for m, h in [results[one]["auc"][name]]),
        ]
        for name in ROWS
    ]
    lines += table(["row", *(f"{one}, {results[one]['seeds']} seeds" for one in shown)], cells)
    lines += ["", "## Flagged: poisoned and honest hospitals, and their mean trust", ""]
    cells = []
    for one in shown:
        bad, good = results[one]["sites"]
        for name, by in results[one]["flagged"].items():
            said = [f"{by[str(tau)][0]} of {bad}, {by[str(tau)][1]} of {good}" for tau in TAUS]
            low, high = results[one]["trust"][name]
            cells.append([one, name, *said, f"{low:.2f}, {high:.2f}"])
    lines += table(["attack", "row", *(f"τ = {tau}" for tau in TAUS), "trust"], cells)
    return "\n".join(lines) + "\n"


def picture(results: dict[str, Any], path: Path) -> None:
    """Draw the AUC by attack, and the shares that are flagged."""
    from matplotlib.figure import Figure  # only pictures need it

    drawing = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = drawing.subplots(1, 2)
    shown = [name for name in ATTACKS if name in results]
    width = 0.8 / len(ROWS)
    colours = ["#555555", "#009E73", "#0072B2", "#E69F00", "#CC79A7"]
    for at, (name, colour) in enumerate(zip(ROWS, colours, strict=True)):
        means, halves = zip(*(results[one]["auc"][name] for one in shown), strict=True)
        place = np.arange(len(shown)) + (at - 2) * width
        left.bar(place, means, width, yerr=halves, color=colour, label=name, error_kw={"lw": 1})
    left.set(ylim=(0, 1), ylabel="AUC over honest hospitals", xticks=range(len(shown)))
    left.set_xticklabels(shown)
    left.axhline(0.5, color="black", lw=0.6, ls=":")
    left.legend(frameon=False, fontsize=7.5, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
    bars = [(one, name) for one in shown for name in results[one]["flagged"]]
    for offset, tau in ((-0.2, TAUS[0]), (0.2, TAUS[1])):
        for who, colour in ((0, "#D55E00"), (1, "#56B4E9")):
            share = [results[o]["flagged"][n][str(tau)][who] / results[o]["sites"][who] for o, n in bars]
            place = np.arange(len(bars)) + offset + (0.09 if who else -0.09)
            label = f"{('poisoned', 'honest')[who]}, τ = {tau}"
            right.barh(place, share, 0.17, color=colour, alpha=1 if tau == TAUS[0] else 0.5, label=label)
    right.set_yticks(range(len(bars)), [f"{one}:\n{name}" for one, name in bars], fontsize=7.5)
    right.invert_yaxis()
    right.set(xlim=(0, 0.5), xlabel="share that is flagged (Eq. 8); none where there is no bar")
    right.legend(frameon=False, fontsize=7.5, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    drawing.savefig(path, dpi=110)


def main() -> None:
    """Measure, write and print."""
    options = parser(__doc__, ATTACKS).parse_args()
    results = {name: measure(name, QUICK_SEEDS if options.quick else SEEDS) for name in options.only}
    finish(options, RESULTS, "attacks", results, ATTACKS, page, picture)


if __name__ == "__main__":
    main()
