"""Ratios for topology and training, each taken in one run: ours ÷ the bare computation inside it.

    python benchmarks/topology.py            # everything; writes results/topology.json
    python benchmarks/topology.py --quick    # small sizes; writes nothing
    python benchmarks/topology.py --json     # the last line is one JSON object
    python benchmarks/topology.py --only descriptor_over_rips

Times are CPU seconds of this process. The two sides of a ratio take turns, and the least time of each counts, so
that a busy machine disturbs both alike.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results" / "topology.json"


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

    from fedgeom.geometry.descriptors import descriptor
    from fedgeom.geometry.persistence import scale_to_unit_box

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


# A part is a function of `quick`; its name is its key in the results. Parts that are not run keep their old result.
PARTS: dict[str, Callable[[bool], Any]] = {"descriptor_over_rips": descriptor_over_rips}


def main() -> None:
    """Measure, print, and keep the full results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", choices=sorted(PARTS))
    options = parser.parse_args()
    result = {}
    for name, part in PARTS.items():
        if options.only in (None, name):
            result[name] = part(options.quick)
            if not options.json:
                print(f"{name}\n{json.dumps(result[name], indent=2)}")
    if not options.quick:
        kept = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps({**kept, **result}) + "\n", encoding="utf-8")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
