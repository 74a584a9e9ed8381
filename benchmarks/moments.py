"""What the moments of many rows cost, compared with bare NumPy doing the same statistics once.

    python benchmarks/moments.py            # a million rows of 50 columns over 5 sites; writes results/moments.json
    python benchmarks/moments.py --quick    # 200,000 rows, once; writes nothing
    python benchmarks/moments.py --json     # the last line is one JSON object

Bare NumPy has the rows of all sites in one array, with class numbers, and computes for each class the count, the sums
and the products of columns, and the Gaussians that follow. Ours is the whole secure run: checks of the tables, joining,
names, masked moments, the model checked and made at every site, how well the sites' rows fit it. Times are CPU seconds
of this process without the system's share, the least of each; both take turns. The system's share is said beside: it is
the clearing of fresh pages for bare NumPy's copies of the classes' rows, and was anything from 0.06 to 1.2 s for the
same copies, as memory happened to lie.
"""

from __future__ import annotations

import argparse
import json
import resource
from collections.abc import Callable
from pathlib import Path

import numpy as np

import fedgeom

RESULTS = Path(__file__).parent / "results" / "moments.json"
COLUMNS, SITES, NAMES = 50, 5, ("no", "yes")


def bare(X: np.ndarray, y: np.ndarray) -> None:
    """Compute the statistics and what follows from them, once."""
    for label in range(len(NAMES)):
        rows = X[y == label]
        mean = rows.sum(axis=0) / len(rows)
        np.linalg.cholesky(rows.T @ rows / len(rows) - np.outer(mean, mean))


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return the CPU seconds of this process, and those of the system for it."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    work()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime


def measure(rows: int, repeat: int) -> dict[str, float]:
    """Let both take turns."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, len(NAMES), rows)
    X = rng.standard_normal((rows, COLUMNS)) + 0.2 * y[:, None]
    owner = np.arange(rows) % SITES
    sites = [
        fedgeom.SiteData(f"site-{at}", X[owner == at], np.array(NAMES)[y[owner == at]]) for at in range(SITES)
    ]
    method, ours, once = fedgeom.Moments(space="euclidean"), [], []
    for _ in range(repeat):
        once.append(timed(lambda: bare(X, y)))
        ours.append(timed(lambda: fedgeom.run(method, sites)))
        once.append(timed(lambda: bare(X, y)))
    return {
        "moments_over_bare": min(ours)[0] / min(once)[0],
        "seconds": min(ours)[0],
        "bare_seconds": min(once)[0],
        "system_seconds": min(system for _, system in ours),
        "bare_system_seconds": min(system for _, system in once),
        "bare_system_seconds_most": max(system for _, system in once),
        "rows": rows,
    }


def main() -> None:
    """Measure, print, and keep the full results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = {
        name: round(value, 3) for name, value in measure(*((200_000, 1) if options.quick else (10**6, 6))).items()
    }
    if not options.quick:
        RESULTS.write_text(json.dumps(result) + "\n", encoding="utf-8")
    if not options.json:
        print(json.dumps(result, indent=2))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
