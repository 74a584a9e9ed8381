"""The paper's theorems, measured: clusters under noise (3), adversaries' weight (5), spread of gradients (6 and 11).

    python papers/ptopofl/theorems.py                     # 20 seeds, a minute; writes results/theorems.*
    python papers/ptopofl/theorems.py --only stability    # one of the three parts
    python papers/ptopofl/theorems.py --quick --json      # 2 seeds, seconds; writes nothing

- **stability**: four points on a line that meet Theorem 3's condition and change clusters under its noise; then random
  descriptors that meet it, and random ones that meet a condition that is enough: the largest distance within a cluster
  plus four times the noise below the smallest between two. Every merge within a cluster then comes before any between.
- **suppression**: Theorem 5's two bounds where they are tight, and on Scenario A with two adversaries of eight: how
  often its assumption holds, what weight adversaries have, and who is flagged at τ = 1.8 and 2.0 (Section 3.4).
- **variance**: Theorem 6's identity, and whether topology's weights lower the spread of the sites' gradients, as the
  theorem hopes and Proposition 11 says, on Scenarios A and B; at the first model (zero) and at FedAvg's.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from fedgeom.geometry.topology import clustering as topology
from fedgeom.geometry.topology.descriptors import descriptor

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import Floats, finish, parser, table
from papers.ptopofl.scenarios import Scenario, scenario_a, scenario_b
from papers.ptopofl.scoring import RESULTS
from papers.ptopofl.stability import stability

SEEDS, QUICK_SEEDS, DRAWS = 20, 2, 2000
THRESHOLDS = (1.8, 2.0)
FLIPS = (0.3, 0.5, 1.0)
TEMPERATURE = 1.0
"""λ of Theorem 5, for which the paper names no value; its trust weights have e^{-z} of z-scores."""


def described(scenario: Scenario, seed: int) -> Floats:
    """Return the sites' descriptors, (sites, 48)."""
    return np.array([descriptor(site.X, rng=np.random.default_rng([seed, 9])) for site in scenario.train])


def bounds(epsilon: float) -> dict[str, float]:
    """Return what adversaries that are just Δ farther away weigh, λΔ = log((1 − ε)/ε), and what Theorem 5 says."""
    suppressed = epsilon / (1 - epsilon)  # e^{-λΔ}
    weight = epsilon * suppressed / ((1 - epsilon) + epsilon * suppressed)
    return {"epsilon": epsilon, "weight": round(weight, 6), "said": round(epsilon**2, 6)}


def suppression(seeds: int) -> dict[str, Any]:
    """Return how Theorem 5 fares on Scenario A, for each share of flipped labels."""
    found: dict[str, Any] = {
        "tight": [bounds(epsilon) for epsilon in (0.1, 0.2, 0.25, 0.3, 0.4)],
        "scenario A": {},
    }
    for flip in FLIPS:
        weights, allowed, there = list[float](), list[float](), list[float]()
        flagged = {str(tau): [0, 0] for tau in THRESHOLDS}
        sites = [0, 0]
        for seed in range(seeds):
            scenario = scenario_a(seed, adversarial=2, flip=flip)
            delta = topology.mean_distances(topology.descriptor_distances(described(scenario, seed)))
            bad = np.isin(np.arange(len(delta)), scenario.adversarial)
            gap = float(delta[bad].min() - delta[~bad].mean())
            alpha = np.exp(-TEMPERATURE * delta) / np.exp(-TEMPERATURE * delta).sum()
            weights.append(float(alpha[bad].sum()))
            if gap > 0:
                share = bad.mean() * np.exp(-TEMPERATURE * gap)
                allowed.append(float(share / (1 - bad.mean() + share)))
                there.append(weights[-1])
            z = topology.z_scores(delta)
            sites[0] += int(bad.sum())
            sites[1] += int((~bad).sum())
            for tau in THRESHOLDS:
                flagged[str(tau)][0] += int((z[bad] > tau).sum())
                flagged[str(tau)][1] += int((z[~bad] > tau).sum())
        found["scenario A"][str(flip)] = {
            "assumption holds": f"{len(there)} of {seeds}",
            "weight of adversaries": round(float(np.mean(weights)), 4),
            "their share of sites": round(sites[0] / sum(sites), 4),
            "where it holds, weight and bound": f"{np.mean(there):.4f} ≤ {np.mean(allowed):.4f}" if there else "–",
            "flagged": {
                tau: f"{a} of {sites[0]} adversaries, {b} of {sites[1]} honest" for tau, (a, b) in flagged.items()
            },
        }
    return found


def gradients(scenario: Scenario, w: Floats | None = None) -> Floats:
    """Return each site's gradient of the logistic loss, (sites, columns + 1), at a model or at zero."""
    X = np.vstack([site.X for site in scenario.train])
    centre, spread = X.mean(axis=0), X.std(axis=0)
    rows = [np.column_stack([(site.X - centre) / spread, np.ones(len(site))]) for site in scenario.train]
    ys = [site.y.astype(float) for site in scenario.train]
    if w is None:
        joint = LogisticRegression(fit_intercept=False, max_iter=2000).fit(np.vstack(rows), np.concatenate(ys))
        w = joint.coef_[0]
    return np.array([A.T @ (1 / (1 + np.exp(-A @ w)) - y) / len(y) for A, y in zip(rows, ys, strict=True)])


def spread_of(g: Floats, alpha: Floats) -> float:
    """Return Σ α ‖g − Σ α g‖²."""
    return float(alpha @ ((g - alpha @ g) ** 2).sum(axis=1))


def variance(seeds: int) -> dict[str, Any]:
    """Return how far Theorem 6's identity is off, and the spread by topology's weights over that by equal ones."""
    found: dict[str, Any] = {"identity": 0.0, "scenarios": {}}
    for name, draw in (("A", scenario_a), ("B", scenario_b)):
        for at in ("zero", "FedAvg's optimum"):
            ratios: dict[str, list[float]] = {"closeness and trust": [], "rows, closeness and trust": []}
            for seed in range(seeds):
                scenario = draw(seed)
                g = gradients(scenario, np.zeros(scenario.train[0].X.shape[1] + 1) if at == "zero" else None)
                phi, one = described(scenario, seed), np.zeros(len(g), int)
                z = topology.z_scores(topology.mean_distances(topology.descriptor_distances(phi)))
                factors = {"closeness": topology.topology_closeness(phi, one), "trust": topology.trust(z)}
                even = np.full(len(g), 1 / len(g))
                sizes = {
                    "closeness and trust": np.ones(len(g)),
                    "rows, closeness and trust": [len(s) for s in scenario.train],
                }
                for how, n in sizes.items():
                    alpha = topology.cluster_weights(one, n, **factors)
                    mean = g.mean(axis=0)
                    right = alpha @ ((g - mean) ** 2).sum(axis=1) - ((alpha @ g - mean) ** 2).sum()
                    found["identity"] = max(found["identity"], abs(spread_of(g, alpha) - right) / right)
                    ratios[how].append(spread_of(g, alpha) / spread_of(g, even))
            for how, values in ratios.items():
                found["scenarios"][f"{name}, at {at}, by {how}"] = {
                    "ratios": [round(value, 4) for value in values],
                    "mean ratio": round(float(np.mean(values)), 4),
                    "lower": f"{sum(value <= 1 for value in values)} of {seeds}",
                }
    found["identity"] = float(f"{found['identity']:.2g}")
    return found


def page(found: dict[str, Any]) -> str:
    """Return what was found as Markdown."""
    lines = ["# The theorems, measured", "", "Made by `python papers/ptopofl/theorems.py`."]
    if part := found.get("stability"):
        lines += ["", "## Theorem 3: clusters under noise", ""]
        lines += [
            f"Descriptors {part['points']} with noise {part['noise']}: the clusters {part['clusters before']} are",
            f"{part['smallest distance between clusters']} apart, more than 2η = 0.2, and become",
            f"{part['clusters after']}: **the theorem does not hold as stated**. A condition that is enough: the",
            "largest distance within a cluster plus 4η is below the smallest between two, so that every merge",
            "within a cluster comes before any between two.",
            "Random descriptors of three clusters of four, by which condition they meet:",
            "",
        ]
        rows = [(name, one["met"], one["changed"]) for name, one in part["random"].items()]
        lines += table(["condition", "draws that meet it", "of which clusters change"], rows)
    if part := found.get("suppression"):
        lines += ["", "## Theorem 5: the weight of adversaries", ""]
        lines += [
            "Where honest sites are alike and λΔ = log((1 − ε)/ε), adversaries just Δ farther away weigh what the",
            "first bound allows, ε²/((1 − ε)² + ε²). That is more than ε²: **the second bound does not follow",
            "from the first**.",
            "",
        ]
        lines += table(
            ["ε", "weight", "ε²"], [(one["epsilon"], one["weight"], one["said"]) for one in part["tight"]]
        )
        lines += [
            "",
            "Scenario A, two adversaries of eight, weights e^{-δ} (λ = 1). Descriptors of rows know no labels:",
            "whether who flips them is farther away is chance.",
            "",
        ]
        head = [
            "labels flipped",
            "assumption holds (Δ > 0)",
            "weight",
            "share of sites",
            "where it holds: weight ≤ bound",
            *(f"flagged at τ = {t}" for t in THRESHOLDS),
        ]
        rows = [
            (
                flip,
                one["assumption holds"],
                one["weight of adversaries"],
                one["their share of sites"],
                one["where it holds, weight and bound"],
                *one["flagged"].values(),
            )
            for flip, one in part["scenario A"].items()
        ]
        lines += table(head, rows)
    if part := found.get("variance"):
        lines += ["", "## Theorem 6 and Proposition 11: the spread of gradients", ""]
        lines += [
            f"The identity of Theorem 6 holds (largest relative error {part['identity']:.1g}). Spread by topology's",
            "weights over that by equal weights, which Proposition 11 says is at most 1, always; it is not, where",
            "weights do not know the gradients. (By rows it is lower, since large sites' gradients are less noisy.)",
            "",
        ]
        rows = [(name, one["mean ratio"], one["lower"]) for name, one in part["scenarios"].items()]
        lines += table(["scenario", "mean ratio", "at most 1 in"], rows)
    return "\n".join(lines) + "\n"


def picture(found: dict[str, Any], path: Path) -> None:
    """Draw the example, the bounds, and the ratios."""
    from matplotlib.figure import Figure  # only pictures need it

    drawing = Figure(figsize=(12, 3.6), layout="constrained")
    line, curve, box = drawing.subplots(1, 3)
    part = found["stability"]
    for height, points, labels in (
        (1, part["points"], part["clusters before"]),
        (0, np.add(part["points"], part["noise"]), part["clusters after"]),
    ):
        line.scatter(
            points, [height] * 4, c=["#0072B2" if one == labels[0] else "#D55E00" for one in labels], s=90
        )
    line.set(yticks=[0, 1], yticklabels=["with noise 0.1", "as they are"], ylim=(-0.6, 1.6), xlabel="descriptor")
    line.set_title("Theorem 3: two clusters, 1.05 apart")
    epsilon = np.linspace(0.01, 0.49, 60)
    curve.plot(
        epsilon, epsilon**2 / ((1 - epsilon) ** 2 + epsilon**2), color="#D55E00", label="weight, first bound tight"
    )
    curve.plot(epsilon, epsilon**2, color="#0072B2", label="ε², as stated")
    curve.plot(epsilon, epsilon, color="#999999", ls=":", label="ε, equal weights")
    curve.set(xlabel="ε: share of adversaries", title="Theorem 5 at λΔ = log((1 − ε)/ε)")
    curve.legend(frameon=False)
    shown = found["variance"]["scenarios"]
    box.boxplot([one["ratios"] for one in shown.values()], orientation="horizontal")
    box.axvline(1, color="#D55E00", lw=1)
    box.set_yticks(range(1, len(shown) + 1), [name.replace(", by ", "\n") for name in shown], fontsize=7)
    box.set_title("Proposition 11: B²_α ÷ B²")
    drawing.savefig(path, dpi=110)


PARTS = ("stability", "suppression", "variance")


def main() -> None:
    """Measure, write and print."""
    options = parser(__doc__, PARTS).parse_args()
    seeds, draws = (QUICK_SEEDS, DRAWS // 10) if options.quick else (SEEDS, DRAWS)
    made: dict[str, Any] = {}
    if "stability" in options.only:
        made["stability"] = stability(draws)
    if "suppression" in options.only:
        made["suppression"] = suppression(seeds)
    if "variance" in options.only:
        made["variance"] = variance(seeds)
    finish(options, RESULTS, "theorems", made, PARTS, page, picture)


if __name__ == "__main__":
    main()
