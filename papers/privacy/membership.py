"""Whether a row was there: what two attacks make of it at each ε, beside the most that any attack could.

    python papers/privacy/membership.py                 # writes results/membership.{json,md,png}
    python papers/privacy/membership.py --quick --json  # one ε, few trials; writes nothing

**one row**: the strongest attacker there is. It knows all rows of all sites but whether one row is among them, and sees
the noisy sum of Moments; the row is the longest of the T cells. It decides by the likelihood of what it sees, in 4,000
trials, half of them with the row, each with new noise of all sites (the sites' own code, without masks, which cancel).

**loss**: an attacker that has the model alone. Rows whose label the model finds likelier than a threshold are said to
have been trained on; the threshold is chosen on half of the rows, and the advantage is that on the other half, trained
on or tested on, the T cells of the hospitals, through the secure sums.

The advantage is the rate of true positives less that of false ones; the bound is (e^ε - 1 + 2δ)/(e^ε + 1).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import fedgeom
from fedgeom.crypto.masks import NoiseStream
from fedgeom.methods.moments import core
from fedgeom.privacy.accounting import membership_bound, rho_for
from fedgeom.privacy.mechanism import SumNoise, honest_sites

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import Floats, Results, figure, parser, plus_minus, print_json, table
from papers.privacy.accuracy import DELTA, EPSILONS, METHODS, method_of
from papers.privacy.sets import Case, hospitals

RESULTS = Results(Path(__file__).parent / "results")
ATTACKS = ("one row", *(f"loss, {name}" for name in METHODS))


def one_row(case: Case, epsilon: float, trials: int) -> float:
    """Return the advantage of an attacker that knows everything but whether the longest row is there."""
    method: Any = method_of(case, "Moments", epsilon)
    clip = case.moments["clip"]
    X, y = np.vstack([site.X for site in case.train]), np.concatenate([site.y for site in case.train])
    longest = int(np.linalg.norm(X, axis=1).argmax())
    row = core.bounded_moments(X[[longest]], y[[longest]], case.classes, method, clip)
    bounds = core.bounds(method, len(case.classes), X.shape[1])
    sites = len(case.train)
    if not np.isfinite(epsilon):
        return 1.0  # the exact sum, less all other rows, is the row
    noise = SumNoise(rho=rho_for(epsilon, DELTA), honest=honest_sites(sites, 1), **bounds)
    direction = row / np.linalg.norm(row.astype(np.float64))
    seen = np.empty(trials)
    there = np.arange(trials) % 2 == 0
    blank = np.zeros_like(row)
    for trial in range(trials):
        # One site colludes: it tells its noise, which the attacker takes off; so it adds none here.
        total = sum(
            noise.add(row if there[trial] and not site else blank, NoiseStream(os.urandom(32)))
            for site in range(sites - 1)
        )
        seen[trial] = noise.read(np.asarray(total)) @ direction
    said = seen > np.linalg.norm(row.astype(np.float64)) / 2
    return float(said[there].mean() - said[~there].mean())


def by_loss(case: Case, name: str, epsilon: float, seed: int) -> float:
    """Return the advantage of an attacker that goes by how likely the model finds a row's label."""
    model = fedgeom.run(method_of(case, name, epsilon), case.train, seed=seed).model
    X, y = np.vstack([site.X for site in case.train]), np.concatenate([site.y for site in case.train])
    rng, tested = np.random.default_rng([seed, 9]), len(case.test[0])
    chosen, mixed = rng.permutation(len(X))[:tested], rng.permutation(tested)  # both halves are of all sites
    inside, outside = _likely(model, X[chosen], y[chosen]), _likely(model, *case.test)[mixed]
    half = len(inside) // 2
    levels = np.quantile(inside[:half], np.linspace(0.01, 0.99, 99))
    gains = [(inside[:half] > one).mean() - (outside[:half] > one).mean() for one in levels]
    level = levels[int(np.argmax(gains))]
    return float((inside[half:] > level).mean() - (outside[half:] > level).mean())


def _likely(model: Any, X: Floats, y: Any) -> Floats:
    place = {str(name): at for at, name in enumerate(model.classes_)}
    chances = model.predict_proba(X)
    found: Floats = chances[np.arange(len(X)), [place[str(name)] for name in y]]
    return found


def measure(epsilon: float, seeds: int, trials: int) -> dict[str, Any]:
    """Return the advantages of all attacks at one ε."""
    found: dict[str, list[float]] = {name: [] for name in ATTACKS}
    for seed in range(seeds):
        case = hospitals(seed)
        found["one row"].append(100 * one_row(case, epsilon, trials // seeds))
        for name in METHODS:
            found[f"loss, {name}"].append(100 * by_loss(case, name, epsilon, seed))
    bound = 100 * membership_bound(epsilon, DELTA)
    print(f"ε={epsilon:g}: bound {bound:.1f}, {found}", flush=True)
    return {"bound": round(bound, 2), "figures": {name: figure(values) for name, values in found.items()}}


def page(rows: Mapping[str, Any]) -> str:
    """Return the table in Markdown."""
    lines = ["# A membership attack's advantage, in percent", ""]
    names = [("∞" if e == "inf" else f"{float(e):g}") for e in rows]
    body = [["the most that any attack could", *(f"{entry['bound']:.1f}" for entry in rows.values())]]
    body += [[name, *(plus_minus(entry["figures"][name], 1) for entry in rows.values())] for name in ATTACKS]
    return "\n".join([*lines, *table(["ε", *names], body), ""])


def draw(rows: Mapping[str, Any], path: Path) -> None:
    """Draw the advantages against ε, and the bound."""
    import matplotlib.pyplot as plt

    some = {float(e): entry for e, entry in rows.items() if e != "inf"}
    shown, axis = plt.subplots(figsize=(5, 3.2))
    axis.plot(list(some), [entry["bound"] for entry in some.values()], "k--", label="bound for all attacks")
    for name, marker, color in zip(ATTACKS, "os^", ("#1b6ca8", "#b5521b", "#4b7a3a"), strict=True):
        figures = [entry["figures"][name] for entry in some.values()]
        values, errors = [f["mean"] for f in figures], [f["ci95"] for f in figures]
        axis.errorbar(list(some), values, errors, marker=marker, capsize=3, color=color, label=name)
    axis.set_xscale("log", base=2)
    axis.set_xticks([0.5, 1, 2, 4, 8], ["0.5", "1", "2", "4", "8"])
    axis.set_xlabel("ε")
    axis.set_ylabel("advantage, %")
    axis.legend(frameon=False, fontsize=8)
    shown.tight_layout()
    shown.savefig(path, dpi=110)
    plt.close(shown)


def main() -> None:
    """Compute, print and write."""
    made = parser(__doc__, [f"{e:g}" for e in EPSILONS])
    made.add_argument("--seeds", type=int, default=5)
    options = made.parse_args()
    if options.quick:
        content: dict[str, Any] = {"1.0": measure(1.0, 1, 200)}
        print(page(content))
        print_json(options, content)
        return
    chosen = [e for e in EPSILONS if f"{e:g}" in options.only]
    whole: dict[str, Any] = {}
    for epsilon in chosen:
        order = [str(e) for e in EPSILONS]
        whole = RESULTS.keep("membership", {str(epsilon): measure(epsilon, options.seeds, 4000)}, order, page)
    draw(whole, RESULTS.folder / "membership.png")
    print(page(whole))
    print_json(options, whole)


if __name__ == "__main__":
    main()
