"""Ratios for Ridge, each taken in one run: a whole secure run ÷ the bare features and their Gram matrix.

    python benchmarks/ridge.py                          # everything; writes results/ridge.json
    python benchmarks/ridge.py --quick                  # small sizes; writes nothing
    python benchmarks/ridge.py --json                   # the last line is one JSON object
    python benchmarks/ridge.py --only ridge_1000        # one of them; others in the results stay as they are

Times are CPU seconds of this process: five sites, 20,000 rows of 20 columns, Fourier features in double precision.
"ridge" is with λ given, "gcv" with λ chosen by generalised cross-validation, which solves the equations some eight
times. Bare features and runs take turns, 3, 2 and 1 by size, and the least of each counts. MB are what one site sends.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fedgeom
from fedgeom.methods.ridge.features import FeatureContext, Fourier

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.common import main

SITES = 5


def measure(features: int, rows: int, alpha: float | str, turns: int) -> dict[str, float]:
    """Return the ratio, and what a site sends."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, rows)
    X = rng.normal(size=(rows, 20)) + rng.normal(size=(5, 20))[y]
    sites = fedgeom.split(X, np.array(list("abcde"))[y], n_sites=SITES)
    ground = FeatureContext(20, 0, (), X.mean(axis=0), X.std(axis=0), np.ones(20))
    fedgeom.run(fedgeom.Ridge(features=Fourier(n_components=4)), sites)  # imports are part of neither

    def timed(work: Callable[[], Any]) -> tuple[float, Any]:
        began = time.process_time()
        done = work()
        return time.process_time() - began, done

    def bare() -> None:
        for at in range(0, rows, 2048):
            some = Fourier(n_components=features).transform(X[at : at + 2048], ground)
            some.T @ some

    def whole(alpha: float | str) -> tuple[float, Any]:  # seconds, and the run
        return timed(
            lambda: fedgeom.run(fedgeom.Ridge(features=Fourier(n_components=features), alpha=alpha), sites)
        )

    both = [(timed(bare)[0], *whole(alpha)) for _ in range(turns)]
    alone, seconds = min(one for one, _, _ in both), min(one for _, one, _ in both)
    return {
        "bare seconds": round(alone, 2),
        f"{'gcv' if alpha == 'gcv' else 'given'} over bare": round(seconds / alone, 2),
        "MB": round(sum(entry.bytes for entry in both[0][2].ledger) / SITES / 1e6, 1),
    }


PARTS: dict[str, Callable[[bool], Any]] = {
    f"{name}_{features}": lambda quick, features=features, alpha=alpha, turns=turns: measure(
        features // 10 if quick else features, 20_000, alpha, turns
    )
    for name, alpha in (("ridge", 1.0), ("gcv", "gcv"))
    for features, turns in ((1000, 3), (4000, 2), (8000, 1))
}


if __name__ == "__main__":
    main(__doc__, PARTS, "ridge")
