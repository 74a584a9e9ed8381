"""Figure 5 of the hulls paper: two classes on either side of a geodesic, three sweeps.

    python papers/hulls/synthetic.py                  # some ten minutes; writes results/synthetic.{json,md,png}
    python papers/hulls/synthetic.py --only margin    # some sweeps; the others in the results stay as they are
    python papers/hulls/synthetic.py --quick --json   # seconds: 2 trials of 2,000 points; writes nothing

Section 6.2 and Appendix I: N points uniform on the disc of radius R = 0.95, L = 10 sites, λ = 20,000, 90 % to
train, 10 trials. The sweeps are over the place of the geodesic (‖p‖ = μR with γ = 0.01, ε = 0.1), the margin γ
(‖p‖ = 0.76, ε = 0.1) and the bin size ε (‖p‖ = 0.76, γ = 1), each at four N with the best of three reference points.

Two more sweeps, of γ and of ε, have the geodesic elsewhere: N = μ · 100,000 for μ = .2, .4, .6 (Appendix I.1; μ = .8
is the column N = 80,000 of the first ones) and one reference point, from the closest pair (Section 3), as in the
authors' code for synthetic sets. The paper shows curves and no numbers; beside ours the JSON has, as "authors", means
of 5 trials of the authors' public code where we have them (N = 20,000).

The federated figures are those of the plain run. The first trial of every setting also goes through the secure
protocol, and the script requires the same hulls, groups and hyperplanes, bit for bit. Only where more hulls meet
in a bin than 63-bit labels can tell apart (the coarsest grids) this cannot be; "secure" then says so.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import fedgeom
from fedgeom.errors import FedgeomError
from fedgeom.geometry.hyperbolic.sampling import labelled_disc
from fedgeom.geometry.hyperbolic.svm import EuclideanSVC, PoincareSVC
from fedgeom.methods.hulls.core import fit_groups, points_of_groups

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from papers.common import Floats, Labels, figure, parser, percent, plus_minus, print_json, table
from papers.hulls.plain import PlainModel
from papers.hulls.runs import RESULTS, check_twin, plain_twin, require
from papers.hulls.synthetic_picture import METHODS, draw

RADIUS, N_SITES, C = 0.95, 10, 20_000.0
MOST_LABELS_MEET = 12  # h: with 20 hulls more would not fit into 63 bits
COARSE = 1.0  # from this ε on, more than the usual six hulls meet in a bin

Setting = tuple[float, float, float]  # μ, γ, ε
SWEEPS: dict[str, list[Setting]] = {
    "reference": [(mu, 0.01, 0.1) for mu in (0.2, 0.4, 0.6, 0.8)],
    "margin": [(0.8, gamma, 0.1) for gamma in (0.001, 0.01, 0.1, 0.3, 1.0)],
    "epsilon": [(0.8, 1.0, epsilon) for epsilon in (0.01, 0.1, 1.0, 2.0, 4.0, 8.0, 20.0)],
}
PLACES = (0.2, 0.4, 0.6)
TIED: dict[str, list[Setting]] = {
    "margin by place": [(mu, gamma, 0.1) for mu in PLACES for gamma in (0.001, 0.01, 0.1, 0.3, 1.0)],
    "epsilon by place": [(mu, 1.0, epsilon) for mu in PLACES for epsilon in (0.01, 0.1, 1.0, 2.0, 4.0, 8.0, 20.0)],
}
"""Sweeps in which N = μ · 100,000."""
TIED_TRIALS = 3
AUTHORS: dict[Setting, dict[str, float]] = {
    (0.2, 0.01, 0.1): {"CP": 100.00, "CE": 98.74, "FLP": 99.99, "FLE": 98.90},
    (0.8, 0.01, 0.1): {"CP": 99.99, "CE": 96.39, "FLP": 100.00, "FLE": 96.33},
    (0.8, 0.001, 0.1): {"CP": 99.99, "CE": 96.80, "FLP": 99.99, "FLE": 96.75},
    (0.8, 1.0, 4.0): {"FLP": 100.00, "FLE": 99.71},
    (0.8, 1.0, 8.0): {"FLP": 99.81, "FLE": 96.39},
    (0.8, 1.0, 20.0): {"FLP": 99.61, "FLE": 96.12},
}


@lru_cache(maxsize=64)
def draw_set(n: int, mu: float, gamma: float, trial: int) -> tuple[Floats, Labels, Floats, Labels]:
    """Draw a labelled set and cut a tenth off for testing."""
    rng = np.random.default_rng([trial, n])
    made = labelled_disc(n, RADIUS, gamma, rng, reference_norm=mu * RADIUS)
    order = rng.permutation(len(made.X))
    train, test = np.split(order, [round(0.9 * len(order))])
    return made.X[train], made.y[train], made.X[test], made.y[test]


@lru_cache(maxsize=4096)
def centralised(n: int, mu: float, gamma: float, trial: int, pairs: int) -> dict[str, float]:
    """Give CP and CE, which do not depend on ε."""
    X, y, X_test, y_test = draw_set(n, mu, gamma, trial)
    models = {"CP": PoincareSVC(C, pairs=pairs, as_published=True), "CE": EuclideanSVC(C)}
    return {name: percent(model.fit(X, y).predict(X_test), y_test) for name, model in models.items()}


@lru_cache(maxsize=4096)
def federated(n: int, setting: Setting, trial: int, pairs: int, secure: bool) -> tuple[dict[str, float], str]:
    """Give FLP and FLE, and what came of the secure run."""
    mu, gamma, epsilon = setting
    X, y, X_test, y_test = draw_set(n, mu, gamma, trial)
    sites = fedgeom.split(X, y, N_SITES, seed=trial)
    method = fedgeom.Hulls.published(
        C=C,
        radius=RADIUS,
        epsilon=epsilon,
        n_classes=2,
        h=MOST_LABELS_MEET if epsilon >= COARSE else None,
        n_pairs=pairs,
    )
    model = plain_twin(method, [(site.X, site.y.astype(str)) for site in sites], RADIUS, 2, trial)
    flat = fit_groups(points_of_groups(model.hulls, model.members, model.grid), EuclideanSVC(C))
    found = {
        "FLP": percent(model.predict(X_test), y_test),
        "FLE": percent(np.array(model.names)[flat.predict(X_test)], y_test),
    }
    return found, check_secure(method, sites, trial, model, X_test) if secure else ""


def check_secure(
    method: fedgeom.Hulls, sites: list[fedgeom.SiteData], seed: int, model: PlainModel, X_test: Floats
) -> str:
    """Run with masks and codes and require the twin's result, unless bins are too crowded to take apart."""
    crowd = most_meeting(model)
    if method.h is not None and crowd > method.h:
        return f"{crowd} hulls meet in a bin, more than h = {method.h} labels can be told apart"
    try:
        run = fedgeom.run(method, sites, seed=seed)
    except FedgeomError as error:
        raise AssertionError(f"the secure run failed where the plain one did not: {error}") from error
    check_twin(run, model)
    require(np.array_equal(run.model.predict(X_test), model.classifier.predict(X_test)), "predictions differ")
    return "equal"


def most_meeting(model: PlainModel) -> int:
    """Count the hulls in the fullest bin."""
    return int(np.unique(np.concatenate(model.hulls), return_counts=True)[1].max())


def measure(sizes: tuple[int, ...], trials: int, only: Sequence[str] = tuple(SWEEPS)) -> dict[str, Any]:
    """Run sweeps."""
    sweeps: dict[str, list[dict[str, Any]]] = {}
    for name in only:
        sweeps[name] = []
        for n, setting in settings_of(name, sizes):
            tied = name in TIED
            sweeps[name].append(_point(n, setting, min(trials, TIED_TRIALS) if tied else trials, 1 if tied else 3))
            print(_line(name, sweeps[name][-1]), flush=True)
    return {
        "experiment": "synthetic sets, Figure 5",
        "command": "python papers/hulls/synthetic.py",
        "radius": RADIUS,
        "sites": N_SITES,
        "C": C,
        "trials": trials,
        "seeds": f"0 … {trials - 1}",
        "sweeps": sweeps,
    }


def settings_of(sweep: str, sizes: tuple[int, ...]) -> list[tuple[int, Setting]]:
    """Give the settings of a sweep with the number of points: each of the sizes, or μ times 100,000 (Appendix I.1)."""
    if sweep in TIED:
        most = 5 * max(sizes) // 4  # of which 0.8 are the largest of the sizes
        return [(round(setting[0] * most), setting) for setting in TIED[sweep]]
    return [(n, setting) for n in sizes for setting in SWEEPS[sweep]]


def _point(n: int, setting: Setting, trials: int, pairs: int) -> dict[str, Any]:
    mu, gamma, epsilon = setting
    columns: dict[str, list[float]] = {name: [] for name in METHODS}
    secure = ""
    for trial in range(trials):
        found, said = federated(n, setting, trial, pairs, trial == 0)
        secure = secure or said
        for name, value in (centralised(n, mu, gamma, trial, pairs) | found).items():
            columns[name].append(value)
    point: dict[str, Any] = {"N": n, "norm_p": round(mu * RADIUS, 4), "gamma": gamma, "epsilon": epsilon}
    point |= {name: figure(values) for name, values in columns.items()}
    point["secure"] = secure
    if n == 20_000 and setting in AUTHORS:
        point["authors"] = AUTHORS[setting]
    return point


def _line(sweep: str, point: dict[str, Any]) -> str:
    values = "  ".join(f"{name} {point[name]['mean']:6.2f} ± {point[name]['ci95']:4.2f}" for name in METHODS)
    where = f"‖p‖={point['norm_p']:<5g} γ={point['gamma']:<6g} ε={point['epsilon']:<5g}"
    return f"{sweep:9} N={point['N']:<6} {where} {values}  secure: {point['secure']}"


def markdown(result: dict[str, Any]) -> str:
    """Lay the result out, with the authors' figures below ours where there are some."""
    lines = [
        "# Synthetic sets (Figure 5): accuracy in percent, mean ± half width of the 95 % interval",
        "",
        f"Made by `{result['command']}`; {result['trials']} trials, seeds {result['seeds']}; "
        f"R = {result['radius']}, L = {result['sites']}, λ = {result['C']:g}.",
        "The paper prints no numbers; the rows of the authors are means of 5 trials of their public code, on",
        "other random sets. The last column tells whether the first trial went through the secure protocol with",
        "the same result, bit for bit, or how many hulls meet in one bin where these are too many to tell apart.",
    ]
    if set(TIED) & set(result["sweeps"]):
        lines.append(
            f"Sweeps by place have {TIED_TRIALS} trials and one reference point, the others the best of three."
        )
    lines.append("")
    rows = []
    for sweep, points in result["sweeps"].items():
        for point in points:
            place = [f"{point['N']:,}", *(f"{point[key]:g}" for key in ("norm_p", "gamma", "epsilon"))]
            secure = point["secure"].split(" meet", 1)[0]
            rows.append([sweep, *place, *(plus_minus(point[name]) for name in METHODS), secure])
            if "authors" in point:
                theirs = [f"{point['authors'][name]:.2f}" if name in point["authors"] else "–" for name in METHODS]
                rows.append(["authors' code", *place, *theirs, "–"])
    return "\n".join([*lines, *table(["sweep", "N", "‖p‖", "γ", "ε", *METHODS, "secure"], rows), ""])


def main() -> None:
    """Parse, run, print, write."""
    options = parser(__doc__, SWEEPS | TIED).parse_args()
    sizes, trials = ((2_000,), 2) if options.quick else ((20_000, 40_000, 60_000, 80_000), 10)
    result = measure(sizes, trials, options.only)
    if not options.quick:
        sweeps = RESULTS.read("synthetic").get("sweeps", {}) | result["sweeps"]
        whole = result | {"sweeps": {name: sweeps[name] for name in SWEEPS | TIED if name in sweeps}}
        RESULTS.write("synthetic", whole, markdown)
        for kinds, file in ((SWEEPS, "synthetic"), (TIED, "synthetic-places")):
            shown = {name: points for name, points in whole["sweeps"].items() if name in kinds}
            if shown:
                draw(whole | {"sweeps": shown}, RESULTS.folder / f"{file}.png")
    print_json(options, result)


if __name__ == "__main__":
    main()
