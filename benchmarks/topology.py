"""Ratios for topology and training, each taken in one run: ours ÷ the bare computation inside it.

    python benchmarks/topology.py            # everything; writes results/topology.json
    python benchmarks/topology.py --quick    # small sizes; writes nothing
    python benchmarks/topology.py --json     # the last line is one JSON object
    python benchmarks/topology.py --only descriptor_over_rips

Times are CPU seconds of this process. The two sides of a ratio take turns, and the least time of each counts, so
that a busy machine disturbs both alike.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.common import main


def ratio(ours: Callable[[], Any], bare: Callable[[], Any], repeat: int) -> float:
    """Return the least CPU time of ours ÷ the least of the bare computation, the two taking turns."""
    least = [float("inf"), float("inf")]
    for _ in range(repeat):
        for at, work in enumerate((ours, bare)):
            began = time.process_time()
            work()
            least[at] = min(least[at], time.process_time() - began)
    return least[0] / least[1]


def descriptor_over_rips(quick: bool) -> dict[str, float]:
    """Compare the 48 numbers, scaling and checks included, with gudhi's diagrams of the same scaled points in R^20."""
    from gudhi.sklearn import RipsPersistence

    from fedgeom.geometry.topology.descriptors import descriptor
    from fedgeom.geometry.topology.persistence import scale_to_unit_box

    found = {}
    for n, repeat in ((80, 300), (200, 60)) if quick else ((80, 1000), (200, 200), (1000, 9)):
        X = np.random.default_rng(n).normal(size=(n, 20))
        scaled = scale_to_unit_box(X)
        rips = RipsPersistence([0, 1], homology_coeff_field=2)
        descriptor(X[:20], points=None)  # imports are part of neither
        found[str(n)] = ratio(
            lambda X=X: descriptor(X, points=None),
            lambda rips=rips, scaled=scaled: rips.fit_transform([scaled]),
            repeat,
        )
    return found


def fedavg_round_over_learner(quick: bool, *, secure: bool = False) -> float:
    """Compare an open round of FedAvg (50 sites × 1,000 rows × 20 columns, 5 epochs, batches of 32) with bare fits.

    The round is all that happens from its first question to the next round's: messages, scaling, averaging. The
    learner makes the same steps on the same rows, scaled beforehand. Joining, which comes once a run, is left out.
    """
    import fedgeom
    from fedgeom.methods.iterative.site import generator

    rounds, repeat, rows = (2, 1, 10_000) if quick else (4, 4, 50_000)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 20))
    y = np.where(X @ rng.normal(size=20) + rng.normal(size=rows) > 0, "yes", "no")
    sites = fedgeom.split(X, y, n_sites=50)
    row = fedgeom.FedAvg(n_rounds=rounds + 1, secure=secure)
    learner, effort = row.build_learner(), row.effort()
    tables = [((s.X - X.mean(axis=0)) / X.std(axis=0), (s.y == "yes").astype(np.int64), s.name) for s in sites]

    def federated() -> float:
        starts: dict[int, float] = {}

        def watch(event: Any) -> None:
            if event.kind == ("train.masked" if secure else "train.open"):
                starts.setdefault(event.step, time.process_time())

        fedgeom.run(row, sites, watch=watch)
        times = list(starts.values())
        return min(later - earlier for earlier, later in itertools.pairwise(times))

    def bare() -> float:
        began = time.process_time()
        for table, labels, name in tables:
            start = learner.start(20, 2, rng)
            learner.fit(start, table, labels, effort=effort, rng=generator(0, 0, name))
        return time.process_time() - began

    ours, theirs = float("inf"), float("inf")
    for _ in range(repeat):
        theirs = min(theirs, bare(), bare())
        ours = min(ours, federated())
        theirs = min(theirs, bare(), bare())
    return ours / theirs


def fedavg_secure_round_over_learner(quick: bool) -> float:
    """Compare a round under secure sum likewise: every site has 49 mask keys to derive, whatever it learns."""
    return fedavg_round_over_learner(quick, secure=True)


def fedavg_secure_over_open(quick: bool) -> float:
    """Compare whole runs of 50 sites × 1,000 rows, secure and open: keys, masks, signatures beside the same steps.

    Both take turns; the least of each counts.
    """
    import fedgeom

    rounds, rows = (2, 10_000) if quick else (10, 50_000)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 20))
    y = np.where(X @ rng.normal(size=20) + rng.normal(size=rows) > 0, "yes", "no")
    sites = fedgeom.split(X, y, n_sites=50)
    fedgeom.run(fedgeom.FedAvg(n_rounds=1), [site.some(20) for site in sites[:3]])  # imports are no part of it
    seconds = {False: float("inf"), True: float("inf")}
    for secure in (1 if quick else 4) * (False, True):
        began = time.process_time()
        fedgeom.run(fedgeom.FedAvg(n_rounds=rounds, secure=secure), sites)
        seconds[secure] = min(seconds[secure], time.process_time() - began)
    return seconds[True] / seconds[False]


# A part is a function of `quick`; its name is its key in the results. Parts that are not run keep their old result.
PARTS: dict[str, Callable[[bool], Any]] = {
    "descriptor_over_rips": descriptor_over_rips,
    "fedavg_round_over_learner": fedavg_round_over_learner,
    "fedavg_secure_round_over_learner": fedavg_secure_round_over_learner,
    "fedavg_secure_over_open": fedavg_secure_over_open,
}


if __name__ == "__main__":
    main(__doc__, PARTS, "topology")
