"""What whole runs cost here ÷ in another checkout of fedgeom: CPU time, both taking turns, in processes of their own.

python benchmarks/against.py ../other-checkout            # three turns, the least time of each counts
python benchmarks/against.py ../other-checkout --json
python benchmarks/against.py                              # this checkout alone, in seconds
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]


def cases() -> dict[str, tuple[object, list[object]]]:
    """Return methods with sites to run them over, by name."""
    import numpy as np

    import fedgeom

    def sites(count: int, rows: int, columns: int, classes: int = 3, *, disc: bool = False) -> list[object]:
        rng = np.random.default_rng(0)
        y = np.arange(rows) % classes
        found = []
        for at in range(count):
            X = 0.15 * rng.normal(size=(rows, columns)) + 0.3 * (y[:, None] == np.arange(columns) % classes)
            if disc:
                X = X / np.maximum(1.0, 1.2 * np.linalg.norm(X, axis=1, keepdims=True))
            found.append(fedgeom.SiteData(f"s{at:03d}", X, np.array([f"class {one}" for one in y])))
        return found

    anchors = fedgeom.XCLP(graph="anchors", n_anchors=60)
    return {
        "Moments, 20 sites × 20 columns": (fedgeom.Moments(space="euclidean"), sites(20, 200, 20)),
        "Moments, 10 sites × 200 columns": (fedgeom.Moments(space="euclidean"), sites(10, 400, 200)),
        "Hulls, 10 sites × 1,000 rows": (fedgeom.Hulls(epsilon=0.02), sites(10, 1000, 2, disc=True)),
        "FedAvg, 20 sites, 15 secure rounds": (fedgeom.FedAvg(n_rounds=15, epochs=1), sites(20, 200, 10)),
        "XCLP through anchors, 5 sites × 300 rows": (anchors, sites(5, 300, 10)),
        "Shrunk, 8 sites × 200 rows": (fedgeom.Shrunk(), sites(8, 200, 8, 2)),
    }


def measure() -> dict[str, float]:
    """Return the CPU seconds of one run of each case, after one that is not counted."""
    import fedgeom

    found = {}
    for name, (method, sites) in cases().items():
        fedgeom.run(method, sites)  # type: ignore[arg-type]
        began = time.process_time()
        fedgeom.run(method, sites)  # type: ignore[arg-type]
        found[name] = time.process_time() - began
    return found


def elsewhere(checkout: Path) -> dict[str, float]:
    """Measure in a process that imports fedgeom from a checkout.

    The checkout's own script does it, since settings may have other names there.
    """
    one_core = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment = {**os.environ, **one_core, "PYTHONPATH": str(checkout / "src")}
    command = [sys.executable, str(checkout / "benchmarks" / "against.py"), "--measure"]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", nargs="?", type=Path, help="another checkout, such as a git worktree")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure()))
        return
    here: list[dict[str, float]] = []
    there: list[dict[str, float]] = []
    for _ in range(given.turns):
        here.append(elsewhere(HERE))
        if given.checkout is not None:
            there.append(elsewhere(given.checkout.resolve()))
    found = {}
    for name in here[0]:
        found[name] = {"seconds": round(min(one[name] for one in here), 4)}
        if there:
            found[name]["ratio"] = round(found[name]["seconds"] / min(one[name] for one in there), 3)
    for name, row in found.items():
        print(f"{name:<44}{row['seconds']:>9.3f} s" + (f"   ÷ {row['ratio']:.3f}" if "ratio" in row else ""))
    if given.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
