"""What `XCLP` over pairs costs: all sites in this process, CPU seconds and the largest memory of it.

python benchmarks/pairs.py            # 2,500 rows over 5 sites, and scikit-learn's digits; some minutes
python benchmarks/pairs.py --quick    # 250 rows
python benchmarks/pairs.py --only rows|rows_bfv|digits

``rows`` and ``digits`` take the default comparison, ``rows_bfv`` SEAL.
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.common import main

import fedgeom


def _held(X: np.ndarray[Any, Any], y: np.ndarray[Any, Any], **settings: Any) -> dict[str, Any]:
    """Hold a run of XCLP over five sites, a tenth of whose rows have labels."""
    rng = np.random.default_rng(0)
    known = np.where(rng.random(len(y)) < 0.1, y, "")
    sites = [fedgeom.SiteData(f"s{k}", X[k::5], known[k::5]) for k in range(5)]
    began = time.process_time()
    run = fedgeom.run(fedgeom.XCLP(**settings), sites)
    found = np.empty(len(y), y.dtype)
    for k in range(5):
        found[k::5] = run.local[f"s{k}"]["labels"]
    return {
        "rows": len(y),
        "cpu_s": time.process_time() - began,
        "peak_MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "sent_MB": run.ledger.sent() / 1e6,
        "largest_MB": max(max(entry.bytes, entry.received) for entry in run.ledger) / 1e6,
        "questions": max(entry.step for entry in run.ledger),
        "lost": sorted(run.lost),
        "accuracy": float(np.mean(found == y)),
    }


def rows(quick: bool, **settings: Any) -> dict[str, Any]:
    """Measure drawn rows of two classes in 20 columns, L = 4096."""
    rng, count = np.random.default_rng(1), 250 if quick else 2500
    kinds = rng.integers(0, 2, count)
    return _held(rng.normal(size=(count, 20)) + 2 * np.eye(20)[kinds], kinds.astype(str), **settings)


def rows_bfv(quick: bool) -> dict[str, Any]:
    """Measure the same rows, compared by SEAL."""
    return rows(quick, hamming="bfv")


def digits(quick: bool) -> dict[str, Any] | None:
    """Measure scikit-learn's digits: no site is lost."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return None if quick else _held(X, y.astype(str))


PARTS = {"rows": rows, "rows_bfv": rows_bfv, "digits": digits}


if __name__ == "__main__":
    main(__doc__, PARTS, "pairs")
